import type uPlot from "uplot";
import type { Line, TimeChart } from "./data";

// Lines differ in colour and in dash.
const dashes: number[][] = [[], [7, 3], [2, 2.5], [11, 3, 2, 3], [4, 2], [1, 3]];

export interface Curve {
  name: string;
  unit: string;
  colour: string; // name of a style's colour
  dash: number[];
  values: (number | null)[];
  low?: (number | null)[] | undefined;
  high?: (number | null)[] | undefined;
  limit: number | null;
  fill: boolean;
  stepped: boolean;
}

export interface PlotSpec {
  id: string;
  title: string;
  unit: string;
  note?: string;
  times: number[];
  curves: Curve[];
  height: number;
  stacked?: boolean; // curves are parts of a whole, the first one uppermost
  bound?: { name: string; at: number };
  log?: { from: number; to: number };
  under?: (u: uPlot) => void; // draws below the curves
  readout?: (index: number | null) => string; // in place of the curves' values
}

// specOf turns a chart's lines into curves and its grid into moments: rates
// hold for their window and gauges until they are read again, which is drawn as
// steps; numbers stand at
// the end of theirs, samples in the middle. Arms keep their dash from chart to
// chart, and none is filled, for they lie over each other.
export function specOf(c: TimeChart, arms: boolean): PlotSpec {
  const lines = c.lines ?? [];
  const stepped = c.shape === "rate" || c.shape === "hold";
  const offset = stepped ? 0 : c.shape === "level" ? 1 : 0.5;
  const n = lines[0]?.mean.length ?? 0;
  const order = dashOrder(c, lines);
  // A step needs its end: the last value stands there once more.
  const ended = <T>(v: T[]): T[] => (stepped && v.length > 0 ? [...v, v[v.length - 1]!] : v);
  const filled = (i: number): boolean => {
    if (arms) return false;
    if (c.stacked) return true;
    if (c.shape === "stack") return i > 0;
    return lines.length === 1 || (c.id === "pods" && i === lines.length - 1);
  };
  const curve = (line: Line, i: number): Curve => ({
    name: line.name,
    unit: c.unit,
    colour: "c" + ((i % 6) + 1),
    dash: arms ? dashes[i % dashes.length]! : dashes[order[i]! % dashes.length]!,
    values: ended(line.mean),
    low: c.stacked ? undefined : line.low && ended(line.low), // extremes of parts do not add up
    high: c.stacked ? undefined : line.high && ended(line.high),
    limit: line.limit,
    fill: filled(i),
    stepped,
  });
  const spec: PlotSpec = {
    id: c.id,
    title: c.title,
    unit: c.unit,
    times: Array.from({ length: stepped && n > 0 ? n + 1 : n }, (_, i) => c.from + (i + offset) * c.width),
    curves: lines.map(curve),
    height: 190,
  };
  if (c.note) spec.note = c.note;
  if (c.bound) spec.bound = c.bound;
  if (c.stacked) spec.stacked = true;
  return spec;
}

// stack piles curves up: each is drawn at the sum of its own value and those of the
// curves below it that are shown. Where it has no value it is not drawn, and what is
// above it comes down by it.
export function stack(curves: Curve[], shown: (c: Curve) => boolean): (number | null)[][] {
  const sums: number[] = [];
  const upwards = [...curves].reverse().map((c) => {
    if (!shown(c)) return c.values;
    return c.values.map((v, i) => (v === null ? null : (sums[i] = (sums[i] ?? 0) + v)));
  });
  return upwards.reverse();
}

// whole is how much the shown parts of a stack come to at a moment; null where none has a value.
export function whole(curves: Curve[], shown: (c: Curve) => boolean, index: number): number | null {
  const parts = curves.filter(shown).flatMap((c) => c.values[index] ?? []);
  return parts.length === 0 ? null : parts.reduce((a, b) => a + b);
}

// dashOrder gives components their dashes by size, so that the line that
// matters most is the solid one; other lines have them in their order.
function dashOrder(c: TimeChart, lines: Line[]): number[] {
  const size = (l: Line) => Math.max(0, ...l.mean.map((v) => v ?? 0));
  const order = lines.map((_, i) => i);
  if (c.id !== "cpu" && c.id !== "memory") return order;
  const bySize = [...order].sort((a, b) => size(lines[b]!) - size(lines[a]!));
  return order.map((i) => bySize.indexOf(i));
}

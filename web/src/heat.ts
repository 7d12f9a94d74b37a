import type uPlot from "uplot";
import { bucketFrom, bucketTo, type Data, type HeatMap } from "./data";
import { el } from "./dom";
import { clock, number, seconds } from "./format";
import type { Link } from "./link";
import type { PlotSpec } from "./curves";
import { Plot } from "./plot";
import { colour } from "./theme";

// A column of the map: bucket and number of calls, ascending by bucket.
type Column = [number, number][];

interface Decoded {
  columns: Column[];
  least: number;
  most: number;
  densest: number;
}

function decode(map: HeatMap, n: number): Decoded {
  const out: Decoded = { columns: Array.from({ length: n }, () => []), least: Infinity, most: 0, densest: 1 };
  let column = 0;
  for (let i = 0; i + 2 < map.cells.length; i += 3) {
    column += map.cells[i]!;
    const bucket = map.cells[i + 1]!;
    const count = map.cells[i + 2]!;
    out.columns[column]?.push([bucket, count]);
    out.least = Math.min(out.least, bucket);
    out.most = Math.max(out.most, bucket);
    out.densest = Math.max(out.densest, count);
  }
  return out;
}

const total = (c: Column) => c.reduce((sum, [, n]) => sum + n, 0);

// quantile is the upper end of the bucket that holds it.
function quantile(c: Column, q: number, data: Data): number | null {
  let left = Math.ceil(q * total(c) - 1e-9);
  for (const [bucket, n] of c) {
    left -= n;
    if (left <= 0) return bucketTo(data.buckets, bucket);
  }
  return null;
}

// Heat draws the latency of calls over time as a map, with a choice of calls.
// There must be a map.
export class Heat {
  readonly plot: Plot;
  private readonly choice = el("select", { "aria-label": "Which calls" });
  private chose = false; // the reader did: else the first, which is all calls as soon as there are two kinds

  constructor(
    private data: Data,
    link: Link,
  ) {
    this.plot = new Plot(spec(data, data.heat.maps![0]!), data, link);
    this.list();
    this.choice.addEventListener("change", () => {
      this.chose = true;
      this.plot.replace(this.chosen(), this.data);
    });
    this.plot.figure.querySelector("figcaption h3")!.after(this.choice);
  }

  // update shows the calls that the reader chose, if they are still there.
  update(data: Data): void {
    const name = key(this.data.heat.maps![Number(this.choice.value)]!);
    this.data = data;
    this.list();
    const at = (data.heat.maps ?? []).findIndex((m) => this.chose && key(m) === name);
    this.choice.value = String(Math.max(at, 0));
    this.plot.replace(this.chosen(), data);
  }

  private chosen(): PlotSpec {
    return spec(this.data, this.data.heat.maps![Number(this.choice.value)]!);
  }

  private list(): void {
    let group: HTMLOptGroupElement | null = null;
    this.choice.replaceChildren();
    this.data.heat.maps!.forEach((m, i) => {
      if (group?.label !== m.source) {
        group = el("optgroup", { label: m.source });
        this.choice.append(group);
      }
      group!.append(el("option", { value: i }, `${m.name} – ${number(m.calls)}`));
    });
  }
}

function key(m: HeatMap): string {
  return m.source + " " + m.name;
}

function spec(data: Data, map: HeatMap): PlotSpec {
  const { from, width, n } = data.heat;
  const d = decode(map, n);
  const curve = (name: string, q: number, ink: string, dash: number[]) => ({
    name, unit: "seconds", colour: ink, dash, limit: null, fill: false, stepped: false,
    values: d.columns.map((c) => quantile(c, q, data)),
  });
  return {
    id: "heat",
    title: "Latency of calls",
    unit: "seconds",
    times: d.columns.map((_, i) => from + (i + 0.5) * width),
    curves: [curve("p50", 0.5, "line50", [2, 2.5]), curve("p99", 0.99, "line99", [])],
    height: 230,
    log: { from: Math.max(bucketFrom(data.buckets, d.least), data.buckets.least / 2) / 1.25, to: bucketTo(data.buckets, d.most) * 1.25 },
    under: (u) => paint(u, data, d),
    readout: (i) => readout(i, data, d),
  };
}

function paint(u: uPlot, data: Data, d: Decoded): void {
  const { ctx, bbox } = u;
  const { from, width } = data.heat;
  const shades = ramp();
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  d.columns.forEach((c, i) => {
    const x0 = Math.floor(u.valToPos(from + i * width, "x", true));
    const x1 = Math.ceil(u.valToPos(from + (i + 1) * width, "x", true));
    if (x1 < bbox.left || x0 > bbox.left + bbox.width) return;
    for (const [bucket, n] of c) {
      const y1 = Math.round(u.valToPos(Math.max(bucketFrom(data.buckets, bucket), data.buckets.least / 2), "y", true));
      const y0 = Math.round(u.valToPos(bucketTo(data.buckets, bucket), "y", true));
      ctx.fillStyle = shades[Math.round((Math.log1p(n) / Math.log1p(d.densest)) * (shades.length - 1))]!;
      ctx.fillRect(x0, y0, Math.max(x1 - x0 - (x1 - x0 > 4 ? 1 : 0), 1), Math.max(y1 - y0 - 1, 1));
    }
  });
  ctx.restore();
}

// ramp is the scale of few to many calls, by lightness so that it reads in grey.
function ramp(): string[] {
  const ends = ["heat0", "heat1", "heat2"].map((name) => {
    const hex = Number.parseInt(colour(name).slice(1), 16);
    return [hex >> 16, (hex >> 8) & 255, hex & 255];
  });
  return Array.from({ length: 32 }, (_, i) => {
    const at = (i / 31) * 2;
    const [a, b] = at < 1 ? [ends[0]!, ends[1]!] : [ends[1]!, ends[2]!];
    const share = at < 1 ? at : at - 1;
    return `rgb(${a.map((v, k) => Math.round(v + (b[k]! - v) * share)).join(" ")})`;
  });
}

function readout(index: number | null, data: Data, d: Decoded): string {
  if (index === null) return `darker is more, up to ${number(d.densest)} calls`;
  const c = d.columns[index] ?? [];
  const { from, width } = data.heat;
  const when = clock(from + index * width, width) + "–" + clock(from + (index + 1) * width, width);
  if (c.length === 0) return `at ${when} no call`;
  const [bucket] = c[c.length - 1]!;
  return `at ${when} ${number(total(c))} calls, slowest ${seconds(bucketFrom(data.buckets, bucket))}–${seconds(bucketTo(data.buckets, bucket))}`;
}

import uPlot from "uplot";
import type { Data, Line, Mark, Step, TimeChart } from "./data";
import { el, say } from "./dom";
import { clock, text } from "./format";
import type { Link } from "./link";
import { colour, onTheme } from "./theme";

// All plots leave the same room beside them, so that one moment stands at one
// place from top to bottom.
export const LEFT = 66;
export const RIGHT = 14;

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
  times: number[];
  curves: Curve[];
  height: number;
  log?: { from: number; to: number };
  under?: (u: uPlot) => void; // draws below the curves
  readout?: (index: number | null) => string; // in place of the curves' values
}

// curvesOf turns a chart's lines into curves and its grid into moments: rates
// hold for their window and are drawn as steps from its begin, numbers stand at
// the end of theirs, samples in the middle.
export function specOf(c: TimeChart): PlotSpec {
  const stepped = c.id === "pod-rate" || c.id === "load";
  const offset = stepped ? 0 : c.id === "pods" || c.id === "open" ? 1 : 0.5;
  const n = c.lines[0]?.mean.length ?? 0;
  const order = dashOrder(c);
  // A step needs its end: the last value stands there once more.
  const ended = <T>(v: T[]): T[] => (stepped && v.length > 0 ? [...v, v[v.length - 1]!] : v);
  const curve = (line: Line, i: number): Curve => ({
    name: line.name,
    unit: c.unit,
    colour: "c" + ((i % 6) + 1),
    dash: dashes[order[i]! % dashes.length]!,
    values: ended(line.mean),
    low: line.low && ended(line.low),
    high: line.high && ended(line.high),
    limit: line.limit,
    fill: c.lines.length === 1 || (c.id === "pods" && i === c.lines.length - 1),
    stepped,
  });
  return {
    id: c.id,
    title: c.title,
    unit: c.unit,
    times: Array.from({ length: stepped && n > 0 ? n + 1 : n }, (_, i) => c.from + (i + offset) * c.width),
    curves: c.lines.map(curve),
    height: 190,
  };
}

// dashOrder gives components their dashes by size, so that the line that
// matters most is the solid one; other lines have them in their order.
function dashOrder(c: TimeChart): number[] {
  const size = (l: Line) => Math.max(0, ...l.mean.map((v) => v ?? 0));
  const order = c.lines.map((_, i) => i);
  if (c.id !== "cpu" && c.id !== "memory") return order;
  const bySize = [...order].sort((a, b) => size(c.lines[b]!) - size(c.lines[a]!));
  return order.map((i) => bySize.indexOf(i));
}

const secondsSteps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const byteSteps = Array.from({ length: 44 }, (_, i) => 2 ** i);

// Plot is one chart over time with its legend.
export class Plot {
  readonly figure: HTMLElement;
  private readonly u: uPlot;
  private readonly values: HTMLElement[] = [];
  private readonly extra: HTMLElement;
  private index: number | null = null;

  constructor(
    private spec: PlotSpec,
    private readonly data: Data,
    private readonly link: Link,
  ) {
    const target = el("div", { class: "plot", tabindex: 0, role: "group", "aria-label": this.summary() });
    this.extra = el("span", { class: "readout" });
    this.figure = el("figure", { class: "time", id: "chart-" + spec.id }, this.caption(), target);
    this.u = new uPlot(this.options(), this.columns(), target);
    this.keys(target);
    link.onRange(() => this.u.setScale("x", { min: link.from, max: link.to }));
    link.onMoment((t, source) => this.follow(t, source));
    onTheme(() => this.u.redraw(false, true));
    this.legend();
  }

  // replace shows other curves of the same kind in the same place.
  replace(spec: PlotSpec): void {
    this.spec = spec;
    this.u.setData(this.columns(), false);
    this.u.redraw(true, true);
    this.figure.querySelector(".plot")!.setAttribute("aria-label", this.summary());
    this.legend();
  }

  resize(width: number): void {
    this.u.setSize({ width, height: this.spec.height });
  }

  get plot(): uPlot {
    return this.u;
  }

  private caption(): HTMLElement {
    const legend = el("span", { class: "legend" });
    this.spec.curves.forEach((c, i) => {
      const value = el("b");
      this.values.push(value);
      const key = el("button", { type: "button", class: "key", "aria-pressed": "true", title: "Show or hide" }, swatch(c), el("span", {}, c.name), value);
      key.addEventListener("click", () => {
        const shown = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", String(shown));
        this.seriesOf(i).forEach((s) => this.u.setSeries(s, { show: shown }));
      });
      legend.append(key);
    });
    return el("figcaption", {}, el("h3", {}, this.spec.title, " ", el("small", {}, this.spec.unit === "bytes" || this.spec.unit === "seconds" ? "" : this.spec.unit)), legend, this.extra);
  }

  // seriesOf are uPlot's series of a curve: its line, and its extremes.
  private seriesOf(curve: number): number[] {
    let s = 1;
    for (let i = 0; i < curve; i++) s += this.spec.curves[i]!.high ? 3 : 1;
    return this.spec.curves[curve]!.high ? [s, s + 1, s + 2] : [s];
  }

  private columns(): uPlot.AlignedData {
    const out: (number | null)[][] = [this.spec.times];
    for (const c of this.spec.curves) {
      out.push(c.values);
      if (c.high && c.low) out.push(c.high, c.low);
    }
    return out as uPlot.AlignedData;
  }

  private options(): uPlot.Options {
    const { spec, link } = this;
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    for (const c of spec.curves) {
      const paths = c.stepped ? uPlot.paths.stepped!({ align: 1 }) : uPlot.paths.linear!();
      series.push({
        stroke: () => colour(c.colour),
        width: 1.75,
        dash: c.dash,
        points: { show: false },
        paths,
        fill: c.fill ? () => colour(c.colour) + "22" : undefined,
      } as uPlot.Series);
      if (c.high) {
        const hidden = { stroke: "transparent", width: 0, points: { show: false }, paths };
        series.push({ ...hidden }, { ...hidden });
        bands.push({ series: [series.length - 2, series.length - 1], fill: () => colour(c.colour) + "38" } as uPlot.Band);
      }
    }
    return {
      width: 600,
      height: spec.height,
      padding: [8, RIGHT, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 7 }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => (link.all(), null) } },
      scales: { x: { time: false, min: link.from, max: link.to, auto: false }, y: this.yScale() },
      axes: this.axes(),
      series,
      bands,
      hooks: {
        drawClear: [(u) => shadeSteps(u, this.data.steps ?? [])],
        drawAxes: spec.under ? [spec.under] : [],
        draw: [(u) => this.limits(u), (u) => markLines(u, this.data.marks ?? [])],
        setSelect: [
          (u) => {
            if (u.select.width > 4) link.show(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [(u) => this.moved(u)],
      },
    };
  }

  private yScale(): uPlot.Scale {
    const { log, curves } = this.spec;
    if (log) return { distr: 3, range: () => [this.spec.log!.from, this.spec.log!.to] };
    return {
      range: (_u, _min, max) => {
        let top = Math.max(max ?? 0, 0);
        for (const c of curves) if (c.limit !== null && c.limit <= 2.5 * top) top = Math.max(top, c.limit);
        return [0, top > 0 ? top * 1.08 : 1];
      },
    };
  }

  private axes(): uPlot.Axis[] {
    const { spec } = this;
    const look = {
      stroke: () => colour("soft"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: () => colour("line"), width: 1 },
      ticks: { show: false },
    };
    const y: uPlot.Axis = { ...look, size: LEFT, gap: 6, space: 34, values: (_u, splits) => splits.map((v) => (v === null ? "" : axisText(v, spec.unit))) };
    if (spec.unit === "bytes") y.incrs = byteSteps;
    if (spec.log) {
      y.splits = (u) => decades(u.scales.y!.min!, u.scales.y!.max!);
      y.filter = (_u, splits) => splits;
    }
    const x: uPlot.Axis = { ...look, size: 26, gap: 4, space: 64, incrs: secondsSteps, values: (_u, splits, _i, _s, step) => splits.map((v) => clock(v, step)) };
    return [x, y];
  }

  // limits draws the limits that are near enough to be seen.
  private limits(u: uPlot): void {
    const max = u.scales.y!.max!;
    this.spec.curves.forEach((c) => {
      if (c.limit === null || c.limit > max) return;
      const y = Math.round(u.valToPos(c.limit, "y", true)) + 0.5;
      const { ctx, bbox } = u;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = colour(c.colour);
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
      line(ctx, bbox.left, y, bbox.left + bbox.width, y);
      ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.textAlign = "right";
      ctx.fillText(`${c.name}: limit ${text(c.limit, c.unit)}`, bbox.left + bbox.width - 4, y - 4 * devicePixelRatio);
      ctx.restore();
    });
  }

  private moved(u: uPlot): void {
    const index = u.cursor.idx ?? null;
    const inside = u.cursor.left !== undefined && u.cursor.left! >= 0;
    this.index = inside ? index : null;
    this.legend();
    if (!this.following) this.link.point(inside ? u.posToVal(u.cursor.left!, "x") : null, this);
  }

  private following = false;

  // follow puts the cursor where another chart's is.
  private follow(t: number | null, source: object): void {
    if (source === this) return;
    this.following = true;
    const left = t === null ? -10 : this.u.valToPos(t, "x");
    this.u.setCursor({ left, top: t === null ? -10 : 0 });
    this.following = false;
  }

  // legend shows the values at the cursor, or each curve's peak.
  private legend(): void {
    const { spec, index } = this;
    spec.curves.forEach((c, i) => {
      const at = index === null ? null : (c.high ?? c.values)[index];
      this.values[i]!.textContent = index === null ? peak(c) : legendText(at ?? null, c.unit);
    });
    this.figure.classList.toggle("hovered", index !== null);
    this.extra.textContent = spec.readout ? spec.readout(index) : index === null ? "" : "at " + this.when(index);
  }

  private when(index: number): string {
    const { times } = this.spec;
    return clock(times[index]!, (times[1] ?? 1) - (times[0] ?? 0) < 1 ? 0.1 : 1);
  }

  private summary(): string {
    const peaks = this.spec.curves.map((c) => `${c.name}: ${peak(c)}`).join("; ");
    return `${this.spec.title} over time. ${peaks}. Arrow keys move along it, plus and minus zoom, 0 shows all.`;
  }

  private keys(target: HTMLElement): void {
    target.addEventListener("keydown", (e) => {
      const { times, curves, readout } = this.spec;
      const first = Math.max(0, times.findIndex((t) => t >= this.link.from));
      const at = this.index ?? first;
      const move: Record<string, number> = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 20, PageDown: at + 20, Home: 0, End: times.length - 1 };
      const to = move[e.key];
      if (to !== undefined) {
        const i = Math.min(Math.max(to, 0), times.length - 1);
        this.u.setCursor({ left: this.u.valToPos(times[i]!, "x"), top: 0 });
        say(readout ? readout(i) : `${this.when(i)}: ` + curves.map((c) => `${c.name} ${text(c.values[i] ?? null, c.unit)}`).join(", "));
      } else if (e.key === "+" || e.key === "=") this.link.zoom(times[at]!, 0.5);
      else if (e.key === "-") this.link.zoom(times[at]!, 2);
      else if (e.key === "0" || e.key === "Escape") this.link.all();
      else return;
      e.preventDefault();
    });
  }
}

function peak(c: Curve): string {
  let top = Number.NEGATIVE_INFINITY;
  for (const v of c.high ?? c.values) if (v !== null && v > top) top = v;
  return Number.isFinite(top) ? "peak " + legendText(top, c.unit) : "–";
}

// swatch shows a curve's colour and dash.
function swatch(c: Curve): HTMLElement {
  const canvas = el("canvas", { width: 44, height: 16, "aria-hidden": "true" });
  const draw = () => {
    const ctx = canvas.getContext("2d")!;
    ctx.clearRect(0, 0, 44, 16);
    ctx.strokeStyle = colour(c.colour);
    ctx.lineWidth = 4;
    ctx.setLineDash(c.dash.map((d) => 2 * d));
    line(ctx, 0, 8, 44, 8);
  };
  draw();
  onTheme(draw);
  return canvas;
}

function line(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

// legendText leaves out the unit where the title has it.
function legendText(v: number | null, unit: string): string {
  return unit === "bytes" || unit === "seconds" ? text(v, unit) : text(v, "").trim();
}

// axisText leaves out what an axis' title says already.
function axisText(v: number, unit: string): string {
  return unit === "bytes" || unit === "seconds" ? text(v, unit) : text(v, "").trim();
}

function decades(from: number, to: number): number[] {
  const out: number[] = [];
  for (let e = Math.ceil(Math.log10(from) - 1e-9); 10 ** e <= to * 1.0001; e++) out.push(10 ** e);
  return out;
}

// shadeSteps sets every other step off against its neighbours.
function shadeSteps(u: uPlot, steps: Step[]): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  steps.forEach((s, i) => {
    const x0 = u.valToPos(s.from, "x", true);
    const x1 = u.valToPos(s.to, "x", true);
    ctx.fillStyle = colour(i % 2 ? "band2" : "band");
    ctx.fillRect(x0, bbox.top, Math.max(x1 - x0, 1), bbox.height);
  });
  ctx.restore();
}

// weighty are the marks that stand across all charts.
export function weighty(m: Mark): boolean {
  return m.kind === "death" || m.kind === "warning" || m.kind === "watch-gap" || m.kind === "run-end";
}

function markLines(u: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = u;
  ctx.save();
  for (const m of marks) {
    if (!weighty(m) || m.at < u.scales.x!.min! || m.at > u.scales.x!.max!) continue;
    const x = Math.round(u.valToPos(m.at, "x", true)) + 0.5;
    ctx.strokeStyle = colour(m.kind === "death" ? "fail" : m.kind === "run-end" ? "soft" : "unknown");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(m.kind === "death" ? [] : [3 * devicePixelRatio, 3 * devicePixelRatio]);
    line(ctx, x, bbox.top, x, bbox.top + bbox.height);
  }
  ctx.restore();
}

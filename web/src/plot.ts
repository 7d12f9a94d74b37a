import uPlot from "uplot";
import { type Curve, type PlotSpec, stack, whole } from "./curves";
import type { Data } from "./data";
import { el, say } from "./dom";
import { clock, text } from "./format";
import type { Link } from "./link";
import { level, line, markLines, shadeSteps } from "./marks";
import { colour, onTheme } from "./theme";
import { markText, weighty } from "./timeline";

// All plots leave the same room beside them, so that one moment stands at one
// place from top to bottom.
export const LEFT = 66;
export const RIGHT = 14;

const secondsSteps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const byteSteps = Array.from({ length: 44 }, (_, i) => 2 ** i);

// Plot is one chart over time with its legend.
export class Plot {
  readonly figure: HTMLElement;
  private readonly target: HTMLElement;
  private readonly keysOf = el("span", { class: "legend" });
  private readonly extra = el("span", { class: "readout" });
  private u: uPlot;
  private values: HTMLElement[] = [];
  private hidden = new Set<string>(); // curves that the reader has put away
  private index: number | null = null;
  private width = 600;
  private swatches: Swatch[] = [];
  private readonly forget: () => void;

  constructor(
    private spec: PlotSpec,
    private data: Data,
    private readonly link: Link,
  ) {
    this.target = el("div", { class: "plot", tabindex: 0, role: "group", "aria-label": this.summary() });
    const title = el("h3", {}, spec.title, " ", el("small", {}, [spec.unit === "bytes" || spec.unit === "seconds" ? "" : spec.unit, spec.note ?? ""].filter((s) => s).join(", ")));
    this.figure = el("figure", { class: "time", id: "chart-" + spec.id }, el("figcaption", {}, title, this.keysOf, this.extra), this.target);
    this.u = new uPlot(this.options(), this.columns(), this.target);
    this.caption();
    this.keys();
    link.onRange(() => this.range());
    link.onMoment((t, source) => this.follow(t, source));
    this.forget = onTheme(() => {
      this.u.redraw(false, true);
      this.swatches.forEach((s) => s.draw());
    });
    this.legend();
  }

  // replace shows other curves, or more of the same, in the same place and at
  // the same zoom.
  replace(spec: PlotSpec, data: Data): void {
    const same = signature(spec) === signature(this.spec);
    this.spec = spec;
    this.data = data;
    this.target.setAttribute("aria-label", this.summary());
    if (same) this.redraw();
    else {
      this.u.destroy();
      this.u = new uPlot(this.options(), this.columns(), this.target);
      this.caption();
    }
    this.legend();
  }

  // redraw draws the curves as they are now. uPlot's own redraw sets the x axis that it
  // drew last once more, and so undoes an axis that has been set and not yet drawn.
  private redraw(): void {
    this.u.setData(this.columns(), false);
    this.range();
  }

  private range(): void {
    this.u.setScale("x", { min: this.link.from, max: this.link.to });
  }

  resize(width: number): void {
    this.width = width;
    this.u.setSize({ width, height: this.spec.height });
  }

  destroy(): void {
    this.forget();
    this.u.destroy();
  }

  // caption makes the legend's keys, which show and hide curves.
  private caption(): void {
    this.keysOf.replaceChildren();
    this.swatches = this.spec.curves.map((c, i) => swatch(c, this.spec.stacked ? () => area(c, i) : undefined));
    this.values = this.spec.curves.map((c, i) => {
      const value = el("b");
      const key = el("button", { type: "button", class: "key", "aria-pressed": "true", title: "Show or hide" }, this.swatches[i]!.canvas, el("span", {}, c.name), value);
      const show = (on: boolean) => {
        key.setAttribute("aria-pressed", String(on));
        this.seriesOf(i).forEach((s) => this.u.setSeries(s, { show: on }));
        if (this.spec.stacked) this.redraw(); // what is above it comes down
      };
      if (this.hidden.has(c.name)) show(false);
      key.addEventListener("click", () => {
        const on = this.hidden.delete(c.name);
        if (!on) this.hidden.add(c.name);
        show(on);
      });
      this.keysOf.append(key);
      return value;
    });
  }

  // seriesOf are uPlot's series of a curve: its line, and its extremes.
  private seriesOf(curve: number): number[] {
    let s = 1;
    for (let i = 0; i < curve; i++) s += this.spec.curves[i]!.high ? 3 : 1;
    return this.spec.curves[curve]!.high ? [s, s + 1, s + 2] : [s];
  }

  private readonly shown = (c: Curve): boolean => !this.hidden.has(c.name);

  private columns(): uPlot.AlignedData {
    const out: (number | null)[][] = [this.spec.times];
    if (this.spec.stacked) return [...out, ...stack(this.spec.curves, this.shown)] as uPlot.AlignedData;
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
    for (const [i, c] of spec.curves.entries()) {
      const paths = c.stepped ? uPlot.paths.stepped!({ align: 1 }) : uPlot.paths.linear!();
      series.push({
        stroke: () => colour(c.colour),
        width: 1.75,
        dash: c.dash,
        points: { show: false, size: 4, filter: (u, s) => alone(u.data[s]!) },
        paths,
        fill: c.fill ? () => (spec.stacked ? area(c, i) : colour(c.colour) + "22") : undefined,
      } as uPlot.Series);
      if (c.high) {
        const unseen = { stroke: "transparent", width: 0, points: { show: false }, paths };
        series.push({ ...unseen }, { ...unseen });
        bands.push({ series: [series.length - 2, series.length - 1], fill: () => colour(c.colour) + "38" } as uPlot.Band);
      }
    }
    return {
      width: this.width,
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
        drawAxes: [(u) => this.spec.under?.(u)],
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
    if (this.spec.log) return { distr: 3, range: () => [this.spec.log!.from, this.spec.log!.to] };
    return {
      range: (_u, _min, max) => {
        let top = Math.max(max ?? 0, 0);
        const limits = [...this.spec.curves.map((c) => c.limit), this.spec.bound?.at ?? null];
        const near = limits.filter((l) => l !== null && l <= 2.5 * top) as number[];
        top = Math.max(top, ...near);
        return [0, top > 0 ? top * (near.includes(top) ? 1.16 : 1.08) : 1];
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
    const y: uPlot.Axis = { ...look, size: LEFT, gap: 6, space: 34, values: (_u, splits) => splits.map((v) => (v === null ? "" : shortText(v, spec.unit))) };
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
    for (const c of this.spec.curves) {
      if (c.limit !== null) level(u, c.limit, `${c.name}: limit ${text(c.limit, c.unit)}`, c.colour);
    }
    const { bound } = this.spec;
    if (bound) level(u, bound.at, `${bound.name}: ${text(bound.at, this.spec.unit)}`, "soft");
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
      if (!this.values[i]) return;
      const at = index === null ? null : (c.high ?? c.values)[index];
      this.values[i]!.textContent = index === null ? peak(c) : shortText(at ?? null, c.unit);
    });
    this.figure.classList.toggle("hovered", index !== null);
    this.extra.textContent = spec.readout ? spec.readout(index) : index === null ? "" : "at " + this.when(index) + this.together(index) + this.marksAt(spec.times[index]!);
  }

  // together says what a stack comes to at a moment.
  private together(index: number): string {
    const { spec } = this;
    return spec.stacked ? `, together ${text(whole(spec.curves, this.shown, index), spec.unit)}` : "";
  }

  private when(index: number): string {
    const { times } = this.spec;
    return clock(times[index]!, (times[1] ?? 1) - (times[0] ?? 0) < 1 ? 0.1 : 1);
  }

  // marksAt says what weighs at a moment, as near as an eye can tell.
  private marksAt(t: number): string {
    const near = (this.link.to - this.link.from) / 120;
    const texts = (this.data.marks ?? []).filter((m) => weighty(m) && Math.abs(m.at - t) <= near).map(markText);
    return texts.length === 0 ? "" : " – " + texts.slice(0, 2).join("; ");
  }

  private summary(): string {
    const peaks = this.spec.curves.map((c) => `${c.name}: ${peak(c)}`).join("; ");
    const stacked = this.spec.stacked ? " Areas on top of each other, the first one uppermost." : "";
    return `${this.spec.title} over time.${stacked} ${peaks}. Arrow keys move along it, plus and minus zoom, 0 shows all.`;
  }

  private keys(): void {
    this.target.addEventListener("keydown", (e) => {
      const { times, curves, readout } = this.spec;
      if (times.length === 0) return;
      const first = Math.max(0, times.findIndex((t) => t >= this.link.from));
      const at = Math.min(this.index ?? first, times.length - 1);
      const move: Record<string, number> = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 20, PageDown: at + 20, Home: 0, End: times.length - 1 };
      const to = move[e.key];
      if (to !== undefined) {
        const i = Math.min(Math.max(to, 0), times.length - 1);
        this.u.setCursor({ left: this.u.valToPos(times[i]!, "x"), top: 0 });
        say(readout ? readout(i) : `${this.when(i)}: ` + curves.map((c) => `${c.name} ${text(c.values[i] ?? null, c.unit)}`).join(", ") + this.together(i) + this.marksAt(times[i]!));
      } else if (e.key === "+" || e.key === "=") this.link.zoom(times[at]!, 0.5);
      else if (e.key === "-") this.link.zoom(times[at]!, 2);
      else if (e.key === "0" || e.key === "Escape") this.link.all();
      else return;
      e.preventDefault();
    });
  }
}

// alone are the places of values that no line leads to, which a dot shows.
function alone(values: ArrayLike<number | null | undefined>): number[] {
  const out: number[] = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] != null && values[i - 1] == null && values[i + 1] == null) out.push(i);
  }
  return out;
}

// signature is what uPlot cannot change of a plot that it has drawn.
function signature(s: PlotSpec): string {
  return JSON.stringify(s.curves.map((c) => [c.name, c.colour, c.dash, c.fill, c.stepped, c.high !== undefined]).concat([[s.stacked === true]]));
}

// area is what a part of a stack is filled with. It hides what is below: the areas of
// the curves above reach down to zero. The second curve of a colour is paler.
function area(c: Curve, i: number): string {
  return `color-mix(in srgb, ${colour(c.colour)} ${i < 6 ? 55 : 22}%, ${colour("bg")})`;
}

function peak(c: Curve): string {
  let top = Number.NEGATIVE_INFINITY;
  for (const v of c.high ?? c.values) if (v !== null && v > top) top = v;
  return Number.isFinite(top) ? "peak " + shortText(top, c.unit) : "–";
}

interface Swatch {
  canvas: HTMLElement;
  draw: () => void;
}

// swatch shows a curve's colour and dash, and what its area of a stack is filled with.
function swatch(c: Curve, filled: (() => string) | undefined): Swatch {
  const canvas = el("canvas", { width: 44, height: 16, "aria-hidden": "true" });
  const draw = () => {
    const ctx = canvas.getContext("2d")!;
    ctx.clearRect(0, 0, 44, 16);
    if (filled) {
      ctx.fillStyle = filled();
      ctx.fillRect(0, 0, 44, 16);
    }
    ctx.strokeStyle = colour(c.colour);
    ctx.lineWidth = 4;
    ctx.setLineDash(c.dash.map((d) => 2 * d));
    line(ctx, 0, 8, 44, 8);
  };
  draw();
  return { canvas, draw };
}

// shortText leaves out the unit where the title has it.
function shortText(v: number | null, unit: string): string {
  return unit === "bytes" || unit === "seconds" ? text(v, unit) : text(v, "").trim();
}

function decades(from: number, to: number): number[] {
  const out: number[] = [];
  for (let e = Math.ceil(Math.log10(from) - 1e-9); 10 ** e <= to * 1.0001; e++) out.push(10 ** e);
  return out;
}

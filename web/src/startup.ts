import { bucketFrom, bucketTo, type Data, type Spread } from "./data";
import { el, svg } from "./dom";
import { number, seconds } from "./format";

// Rows that are drawn for each phase; further groups are in the table.
const rowsPerPhase = 6;
const rowHeight = 44;
const top = 16;
const bottom = 24;

type View = "density" | "share";

// Ridges draws how long the phases of pods, or of other objects, took: one ridge for each phase and
// group on a common logarithmic scale.
export class Ridges {
  private data: Data | null = null;
  private spreads: Spread[] = [];
  private view: View = "density";
  private width = 600;
  private readonly canvas = el("div", { class: "ridges" });
  private readonly readout = el("p", { class: "readout" }, "");

  constructor(
    private readonly host: HTMLElement,
    private readonly noun: string,
  ) {
    const choices: [View, string][] = [["density", "How many took how long"], ["share", "What share took at most"]];
    const buttons = choices.map(([view, label]) => {
      const b = el("button", { type: "button", "aria-pressed": String(view === this.view) }, label);
      b.addEventListener("click", () => {
        this.view = view;
        buttons.forEach((o) => o.setAttribute("aria-pressed", String(o === b)));
        this.draw(this.width);
      });
      return b;
    });
    const figcaption = el("figcaption", {}, el("span", { class: "choice", role: "group", "aria-label": "What is drawn" }, ...buttons), this.readout);
    host.append(el("figure", { id: "chart-" + host.dataset.chart }, figcaption, this.canvas));
  }

  update(data: Data, spreads: Spread[]): void {
    this.data = data;
    this.spreads = shown(spreads);
    this.host.hidden = this.spreads.length === 0;
    this.draw(this.width);
  }

  draw(width: number): void {
    this.width = width;
    if (!this.data || this.spreads.length === 0) return;
    this.canvas.replaceChildren(ridges({ data: this.data, noun: this.noun }, this.spreads, this.view, width, (t) => (this.readout.textContent = t)));
  }
}

function shown(all: Spread[]): Spread[] {
  const seen = new Map<string, number>();
  return all.filter((s) => {
    const n = seen.get(s.phase) ?? 0;
    seen.set(s.phase, n + 1);
    return n < rowsPerPhase && (s.counts?.length ?? 0) > 0;
  });
}

interface Whole {
  data: Data;
  noun: string; // of what took so long
}

function ridges({ data, noun }: Whole, spreads: Spread[], view: View, width: number, tell: (t: string) => void): SVGElement {
  const first = Math.min(...spreads.map((s) => s.first));
  const last = Math.max(...spreads.map((s) => s.first + s.counts!.length));
  const from = Math.log10(Math.max(bucketFrom(data.buckets, first), data.buckets.least / 2)) - 0.06;
  const bound = noun === "pods" ? data.startupBound : null;
  const to = Math.max(Math.log10(bucketTo(data.buckets, last)), bound ? Math.log10(bound) + 0.12 : -9);
  const names = width < 640 ? 0 : 210;
  const x = (v: number) => names + ((Math.log10(v) - from) / (to - from)) * (width - names - 12);
  const row = names ? rowHeight : rowHeight + 18;
  const height = top + spreads.length * row + bottom;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spreads.map((s) => describe(s, noun)).join(". ") });

  for (let e = Math.ceil(from); e <= to; e++) {
    root.append(
      svg("line", { class: "grid", x1: x(10 ** e), x2: x(10 ** e), y1: top, y2: height - bottom }),
      svg("text", { class: "tick", x: x(10 ** e), y: height - 8, "text-anchor": "middle" }, seconds(10 ** e)),
    );
  }
  const judged = spreads.filter((s) => s.phase === "created to running").length;
  if (bound && judged > 0) {
    root.append(
      svg("line", { class: "limit", x1: x(bound), x2: x(bound), y1: top - 2, y2: top + judged * row }),
      svg("text", { class: "limit", x: x(bound), y: 10, "text-anchor": x(bound) > width - 60 ? "end" : "middle" }, "bound " + seconds(bound)),
    );
  }
  spreads.forEach((s, i) => root.append(ridge({ data, noun }, s, view, { x, base: top + (i + 1) * row - 2, height: rowHeight - 10, names, width, tone: tone(s, data.arms) })));
  const hair = svg("line", { class: "hair", y1: top, y2: height - bottom, visibility: "hidden" });
  root.append(hair);
  root.addEventListener("mousemove", (e) => {
    const at = 10 ** (from + ((e.offsetX - names) / (width - names - 12)) * (to - from));
    const i = Math.min(Math.max(Math.floor((e.offsetY - top) / row), 0), spreads.length - 1);
    hair.setAttribute("x1", String(e.offsetX));
    hair.setAttribute("x2", String(e.offsetX));
    hair.setAttribute("visibility", e.offsetX < names ? "hidden" : "visible");
    tell(e.offsetX < names ? "" : `${phase(spreads[i]!)}, ${whose(spreads[i]!)}: ${share(data, spreads[i]!, at)} took at most ${seconds(at)}`);
  });
  root.addEventListener("mouseleave", () => {
    hair.setAttribute("visibility", "hidden");
    tell("");
  });
  return root;
}

interface Place {
  x: (v: number) => number;
  base: number;
  height: number;
  names: number;
  width: number;
  tone: string;
}

function ridge({ data, noun }: Whole, s: Spread, view: View, p: Place): SVGElement {
  const g = svg("g", { class: "ridge " + p.tone });
  g.append(svg("line", { class: "base", x1: p.names, x2: p.width - 12, y1: p.base, y2: p.base }));
  g.append(svg("path", { class: "area", d: outline(data, s, view, p) }));
  for (const [name, v] of [["p50", s.p50], ["p90", s.p90], ["p99", s.p99]] as const) {
    if (v === null || v <= 0) continue;
    const at = p.x(v);
    g.append(svg("line", { class: "quantile " + name, x1: at, x2: at, y1: p.base - (name === "p99" ? p.height : p.height * 0.75), y2: p.base }));
    // p50 has its figure before the ridge, p99 behind its mark.
    if (p.names === 0 || name === "p90") continue;
    const label = quantile(s, name);
    const wide = 6.2 * label.length;
    const begin = p.x(Math.max(bucketFrom(data.buckets, s.first), data.buckets.least / 2));
    const left = name === "p50" || at + wide > p.width;
    const x = name === "p50" && begin - wide > p.names ? begin - 6 : left ? at - 5 : at + 5;
    g.append(svg("text", { class: "figure", x, y: name === "p50" ? p.base - 4 : p.base - p.height + 9, "text-anchor": left ? "end" : "start" }, label));
  }
  const group = short(whose(s), p.names ? 20 : Math.floor((p.width - 330) / 7));
  if (p.names) {
    g.append(
      svg("text", { class: "name", x: 0, y: p.base - 17 }, phase(s)),
      svg("text", { class: "sub", x: 0, y: p.base - 3 }, `${group}, ${number(s.n)} ${noun}`),
    );
  } else {
    g.append(
      svg("text", { class: "name", x: 0, y: p.base - rowHeight + 4 }, phase(s), svg("tspan", { class: "sub", dx: 6 }, group)),
      svg("text", { class: "sub", x: p.width - 12, y: p.base - rowHeight + 4, "text-anchor": "end" }, `${quantile(s, "p50")}, ${quantile(s, "p99")}`),
    );
  }
  return g;
}

// outline is the ridge itself: the buckets' heights, or the running share.
function outline(data: Data, s: Spread, view: View, p: Place): string {
  const counts = s.counts!;
  const most = Math.max(...counts);
  const floor = data.buckets.least / 2;
  let d = "";
  let sum = 0;
  counts.forEach((n, i) => {
    sum += n;
    const x0 = p.x(Math.max(bucketFrom(data.buckets, s.first + i), floor));
    const x1 = p.x(bucketTo(data.buckets, s.first + i));
    const high = view === "density" ? n / most : sum / s.n;
    // What is there is seen, were it one pod in a hundred thousand.
    const y = p.base - Math.max(high * (p.height - 2), n > 0 ? 1.5 : 0);
    d += `${i === 0 ? `M${x0.toFixed(1)} ${p.base}V${y.toFixed(1)}` : `V${y.toFixed(1)}`}H${x1.toFixed(1)}`;
  });
  return d + (view === "share" ? `H${(p.width - 12).toFixed(1)}` : "") + `V${p.base}Z`;
}

// tone tells phases apart; in a comparison, arms.
function tone(s: Spread, arms: string[] | undefined): string {
  if (arms) return "a" + ((arms.indexOf(s.arm ?? "") % 6) + 1);
  const { phase } = s;
  return { "created to running": "t1", "created to bound": "t2", "bound to running": "t3", "deleting to deleted": "t4" }[phase] ?? "t1";
}

// short cuts a name that has no room; the table has it in full.
function short(name: string, most: number): string {
  return name.length > most ? name.slice(0, Math.max(most - 1, 1)) + "…" : name;
}

function phase(s: Spread): string {
  return s.phase.replace(" to ", " → ");
}

// whose says which pods they are, and in a comparison of which arm.
function whose(s: Spread): string {
  const group = s.group || "no group";
  return s.arm ? `${s.arm}: ${group}` : group;
}

function describe(s: Spread, noun: string): string {
  return `${s.phase}, ${whose(s)}: ${s.n} ${noun}, ${quantile(s, "p50")}, ${quantile(s, "p90")}, ${quantile(s, "p99")}`;
}

// quantile writes one with its value, or with the bound that is known of it.
function quantile(s: Spread, name: "p50" | "p90" | "p99"): string {
  const bound = s.bounds?.[name];
  return `${name} ${bound ? bound + " " : ""}${seconds(s[name] ?? 0)}`;
}

function share(data: Data, s: Spread, at: number): string {
  let sum = 0;
  s.counts!.forEach((n, i) => {
    if (bucketTo(data.buckets, s.first + i) <= at) sum += n;
  });
  const percent = (100 * sum) / (s.n + s.open);
  return number(Math.floor(percent * 10) / 10) + " %";
}

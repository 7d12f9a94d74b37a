// The page of many runs (package site): trends of one series of runs, the list of its runs,
// and any two of one scenario side by side. Where the reader is stands behind the # of the
// address: s is the series, a and b are runs as SERIES.RUN.

import { el, say, svg } from "./dom";
import { number, text } from "./format";

export interface Site {
  series: Series[];
  measures: { key: string; title: string; unit: string; better: string }[];
  versions: Record<string, string>[];
}

interface Series {
  scenario: string;
  label: string;
  parameters: Record<string, string>;
  machine: string;
  text: string;
  sentence: string;
  names: string[];
  started: number[];
  verdicts: string;
  seeds: string[];
  versions: number[];
  reports?: string[];
  measures: number[];
  values: (number | null)[][];
  changes: Record<string, { at: number; before: number; after: number; state: string; sentence: string }[]>;
}

interface Place {
  series: number;
  run: number;
}

const verdicts: Record<string, [string, string, string]> = { p: ["pass", "✓", "Pass"], f: ["fail", "✕", "Fail"], u: ["unknown", "?", "Unknown"] };

// Of a series with many measures and runs, so many are shown until the reader asks for all.
const firstMeasures = 12;
const firstRuns = 20;

// chartWidth and chartHeight are the units of a chart's drawing.
const chartWidth = 400;
const chartHeight = 96;

export function showSite(site: Site): void {
  const host = document.getElementById("site");
  if (!host || site.series.length === 0) return;
  const shown = new SiteView(site, host);
  addEventListener("hashchange", () => shown.go());
  shown.go();
}

// first is the series that is shown before the reader chooses one: the newest that changed.
function first(all: Series[]): number {
  return Math.max(all.findIndex((s) => Object.keys(s.changes).length > 0), 0);
}

class SiteView {
  private series = -1;
  private a: Place | null = null;
  private b: Place | null = null;
  private readonly picker = el("select", { "aria-label": "Scenario" });
  private readonly trends = el("div", { class: "trends" });
  private readonly runs = el("div");
  private readonly pair = el("div");
  private readonly sentence = el("p", { class: "note" });

  constructor(
    private readonly site: Site,
    host: HTMLElement,
  ) {
    site.series.forEach((s, i) => this.picker.append(el("option", { value: i }, s.label ? `${s.scenario}: ${s.label}` : s.scenario)));
    this.picker.addEventListener("change", () => this.move(Number(this.picker.value), this.a, this.b));
    host.append(
      el("section", { id: "trends", "aria-labelledby": "h-trends" },
        el("h2", { id: "h-trends" }, "Trends"), el("p", { class: "picker" }, this.picker), this.sentence, this.trends),
      el("section", { id: "pair", "aria-labelledby": "h-pair" }, el("h2", { id: "h-pair" }, "Two runs side by side"), this.pair),
      el("section", { id: "site-runs", "aria-labelledby": "h-runs" }, el("h2", { id: "h-runs" }, "Runs"), this.runs),
    );
  }

  // go shows what the address says.
  go(): void {
    const at = new URLSearchParams(location.hash.slice(1));
    const was = this.series;
    this.series = this.index(at.get("s")) ?? (was < 0 ? first(this.site.series) : was);
    this.a = this.place(at.get("a"));
    this.b = this.place(at.get("b"));
    if (was !== this.series) this.showSeries();
    this.showRuns(false);
    this.showPair();
    if (at.get("s") !== null && at.get("a") === null && at.get("b") === null) document.getElementById("trends")!.scrollIntoView();
  }

  private move(series: number, a: Place | null, b: Place | null): void {
    const to = new URLSearchParams({ s: String(series) });
    if (a) to.set("a", `${a.series}.${a.run}`);
    if (b) to.set("b", `${b.series}.${b.run}`);
    history.replaceState(null, "", "#" + to);
    this.go();
  }

  private index(text: string | null): number | null {
    const i = Number(text ?? NaN);
    return Number.isInteger(i) && i >= 0 && i < this.site.series.length ? i : null;
  }

  private place(text: string | null): Place | null {
    const [series, run] = (text ?? "").split(".");
    const i = this.index(series || null);
    const n = Number(run || NaN);
    return i !== null && Number.isInteger(n) && n >= 0 && n < this.site.series[i]!.names.length ? { series: i, run: n } : null;
  }

  private showSeries(): void {
    const s = this.site.series[this.series]!;
    this.picker.value = String(this.series);
    this.sentence.textContent = s.sentence;
    this.showCharts(s, false);
  }

  private showCharts(s: Series, all: boolean): void {
    const order = s.measures.map((_, i) => i);
    const shown = all ? order : order.slice(0, Math.max(firstMeasures, Object.keys(s.changes).length));
    this.trends.replaceChildren(...shown.map((i) => this.chart(s, i)));
    if (shown.length < order.length) this.trends.append(more(`Show all ${order.length} measures`, () => this.showCharts(s, true)));
  }

  // chart draws one measure over the runs.
  private chart(s: Series, i: number): HTMLElement {
    const m = this.site.measures[s.measures[i]!]!;
    const values = s.values[i]!;
    const known = values.filter((v) => v !== null);
    const low = Math.min(...known);
    const high = Math.max(...known);
    const x = (run: number) => 4 + (values.length > 1 ? (run / (values.length - 1)) * (chartWidth - 8) : (chartWidth - 8) / 2);
    const y = (v: number) => 8 + (high > low ? (high - v) / (high - low) : 0.5) * (chartHeight - 16);
    const changes = s.changes[i] ?? [];
    const paths: Record<string, string> = { line: "" };
    let gap = true;
    values.forEach((v, run) => {
      if (v === null) {
        gap = true;
        return;
      }
      const at = x(run).toFixed(1) + " " + y(v).toFixed(1);
      paths["line"] += (gap ? "M" : "L") + at;
      gap = false;
      const dot = verdicts[s.verdicts[run]!]![0];
      paths[dot] = (paths[dot] ?? "") + "M" + at + "h0";
    });
    const hair = svg("path", { class: "hair" });
    const drawing = svg("svg", { viewBox: `0 0 ${chartWidth} ${chartHeight}`, preserveAspectRatio: "none", role: "img", tabindex: 0, "aria-label": `${m.title} over ${values.length} runs` },
      ...changes.map((c) => svg("path", { class: "change " + c.state, d: `M${(x(c.at) + x(c.at - 1)) / 2} 0V${chartHeight}` })),
      ...Object.entries(paths).map(([name, d]) => svg("path", { class: name, d })), hair);
    const readout = el("span", { class: "readout" });
    const rest = `${text(known.at(-1), m.unit)} in the newest run`;
    readout.textContent = rest;
    const show = (run: number | null) => {
      const v = run === null ? null : values[run];
      hair.setAttribute("d", run === null ? "" : `M${x(run)} 0V${chartHeight}`);
      readout.textContent = run === null ? rest : `${text(v, m.unit)} in ${s.names[run]}, ${day(s.started[run]!)}`;
    };
    let at = values.length - 1;
    drawing.addEventListener("pointermove", (e) => {
      const box = drawing.getBoundingClientRect();
      at = Math.round(Math.min(Math.max((((e.clientX - box.left) / box.width) * chartWidth - 4) / (chartWidth - 8), 0), 1) * (values.length - 1));
      show(at);
    });
    drawing.addEventListener("pointerleave", () => show(null));
    drawing.addEventListener("keydown", (e) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!step) return;
      e.preventDefault();
      show((at = Math.min(Math.max(at + step, 0), values.length - 1)));
      say(readout.textContent!);
    });
    const better = m.better ? ` ${m.better} is better` : "";
    return el("figure", { class: "trend" },
      el("figcaption", {}, el("h3", {}, m.title, el("small", {}, better)), readout), drawing,
      el("p", { class: "scale" }, `${text(low, m.unit)} to ${text(high, m.unit)}`),
      ...changes.map((c) => el("p", { class: "warn" }, c.sentence)));
  }

  // showRuns lists the runs of the series, newest first.
  private showRuns(all: boolean): void {
    const s = this.site.series[this.series]!;
    const varying = [...new Set(s.versions)].length > 1;
    const body = el("tbody");
    const least = all ? 0 : Math.max(s.names.length - firstRuns, 0);
    for (let run = s.names.length - 1; run >= least; run--) body.append(this.row(s, run, varying));
    const heads = ["A", "B", "Verdict", "Run", "Started", "Seed", ...(varying ? ["Versions"] : [])];
    this.runs.replaceChildren(
      el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Runs, a table" },
        el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h)))), body)));
    if (least > 0) this.runs.append(more(`Show all ${number(s.names.length)} runs`, () => this.showRuns(true)));
  }

  private row(s: Series, run: number, varying: boolean): HTMLElement {
    const [state, glyph, word] = verdicts[s.verdicts[run]!]!;
    const report = s.reports?.[run];
    const here = { series: this.series, run };
    const choice = (side: "a" | "b") => {
      const box = el("input", { type: "radio", name: side, "aria-label": `${side.toUpperCase()}: ${s.names[run]}` });
      box.checked = this[side]?.series === this.series && this[side]?.run === run;
      box.addEventListener("change", () => this.move(this.series, side === "a" ? here : this.a, side === "b" ? here : this.b));
      return el("td", {}, box);
    };
    return el("tr", { class: state }, choice("a"), choice("b"),
      el("td", {}, el("span", { class: "glyph", "aria-hidden": "true" }, glyph), " " + word),
      el("th", { scope: "row" }, report ? el("a", { href: report }, s.names[run]!) : s.names[run]!),
      el("td", {}, day(s.started[run]!)), el("td", {}, s.seeds[run]!),
      ...(varying ? [el("td", {}, versionsText(this.site.versions[s.versions[run]!]!))] : []));
  }

  // showPair shows two runs side by side. Two runs prove no difference, so that each change
  // stands beside how much consecutive runs differ anyway.
  private showPair(): void {
    const { a, b } = this;
    if (!a || !b) {
      this.pair.replaceChildren(el("p", { class: "note" }, "Choose a run as A and a run as B in the list below. They may have different parameters, versions or machines."));
      return;
    }
    const [s, t] = [this.site.series[a.series]!, this.site.series[b.series]!];
    if (s.scenario !== t.scenario) {
      this.pair.replaceChildren(el("p", { class: "note" }, `A is a run of ${s.scenario} and B is a run of ${t.scenario}: they cannot be compared.`));
      return;
    }
    const facts = this.facts(a, b);
    const rows = compareMeasures(this.site, a, b);
    this.pair.replaceChildren(
      el("p", {}, "A is ", el("b", {}, s.names[a.run]!), ", B is ", el("b", {}, t.names[b.run]!), "."),
      el("ul", { class: "pairs changes" }, ...facts.map(([fact, x, y]) => el("li", {}, el("span", {}, fact), el("b", {}, `${x} → ${y}`)))),
      el("p", { class: "note" }, "One run a side shows no difference beyond chance. The last column is how much consecutive runs of A’s series usually differ (median); changes of more than five times as much come first. With four runs a side, this command tells:"),
      el("pre", { class: "command" }, `windtunnel compare ${s.names[a.run]} -- ${t.names[b.run]}`),
      el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Measures, a table" },
        el("table", { class: "measured" },
          el("thead", {}, el("tr", {}, ...["Measure", "A", "B", "Change", "Usual difference"].map((h, i) => el("th", { scope: "col", class: i ? "n" : "" }, h)))),
          el("tbody", {}, ...rows.map((r) => el("tr", { class: r.state },
            el("th", { scope: "row" }, r.title), el("td", { class: "n" }, text(r.a, r.unit)), el("td", { class: "n" }, text(r.b, r.unit)),
            el("td", { class: "n value" }, percent(r.change)), el("td", { class: "n" }, r.usual === null ? "–" : "± " + percent(r.usual).replace("+", ""))))))));
  }

  // facts lists in what two runs differ.
  private facts(a: Place, b: Place): [string, string, string][] {
    const [s, t] = [this.site.series[a.series]!, this.site.series[b.series]!];
    const out: [string, string, string][] = [
      ["verdict", verdicts[s.verdicts[a.run]!]![0], verdicts[t.verdicts[b.run]!]![0]],
      ["started", day(s.started[a.run]!), day(t.started[b.run]!)],
      ["seed", s.seeds[a.run]!, t.seeds[b.run]!],
      ["machine", s.machine, t.machine],
      ["scenario text", s.text, t.text],
    ];
    const add = (kind: string, x: Record<string, string>, y: Record<string, string>) => {
      for (const name of [...new Set([...Object.keys(x), ...Object.keys(y)])].sort()) out.push([kind + " " + name, x[name] ?? "none", y[name] ?? "none"]);
    };
    add("parameter", s.parameters, t.parameters);
    add("version", this.site.versions[s.versions[a.run]!]!, this.site.versions[t.versions[b.run]!]!);
    return out.filter(([, x, y]) => x !== y);
  }
}

export interface PairRow {
  title: string;
  unit: string;
  a: number;
  b: number;
  change: number | null; // as a share; null: A is not above 0
  usual: number | null; // likewise; null: too few neighbours
  state: "pass" | "fail" | ""; // far beyond what is usual, for the better or the worse
}

// compareMeasures compares the measures that both runs have.
export function compareMeasures(site: Site, a: Place, b: Place): PairRow[] {
  const [s, t] = [site.series[a.series]!, site.series[b.series]!];
  const out: (PairRow & { weight: number })[] = [];
  s.measures.forEach((id, i) => {
    const j = t.measures.indexOf(id);
    const x = s.values[i]![a.run] ?? null;
    const y = j < 0 ? null : (t.values[j]![b.run] ?? null);
    if (x === null || y === null) return;
    const m = site.measures[id]!;
    const change = x > 0 ? y / x - 1 : null;
    const usual = usualDifference(s.values[i]!);
    const far = change !== null && usual !== null && Math.abs(change) > beyondUsual * usual;
    const state = !far ? "" : change > 0 === (m.better === "higher") ? "pass" : "fail";
    out.push({ title: m.title, unit: m.unit, a: x, b: y, change, usual, state, weight: far ? Math.abs(change) : -1 });
  });
  return out.sort((x, y) => y.weight - x.weight);
}

// beyondUsual is how many times the usual difference a change has to be to stand out: among
// normally distributed runs without a difference fewer than 1 of 1,000 measures does.
const beyondUsual = 5;

// leastNeighbours is how many pairs of runs say what is usual.
const leastNeighbours = 5;

// usualDifference is the median of by how much consecutive runs differ, as a share.
export function usualDifference(values: (number | null)[]): number | null {
  const all: number[] = [];
  let before: number | null = null;
  for (const v of values) {
    if (v !== null && before !== null && before > 0) all.push(Math.abs(v / before - 1));
    before = v ?? before;
  }
  if (all.length < leastNeighbours) return null;
  return all.sort((x, y) => x - y)[Math.floor(all.length / 2)]!;
}

function percent(share: number | null): string {
  if (share === null) return "–";
  return (share > 0 ? "+" : share < 0 ? "−" : "") + number(Number((100 * Math.abs(share)).toPrecision(2))) + " %";
}

function day(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
}

function versionsText(v: Record<string, string>): string {
  return ["windtunnel", "kubernetes"].filter((name) => v[name]).map((name) => `${name} ${v[name]}`).join(", ");
}

function more(words: string, f: () => void): HTMLElement {
  const button = el("button", { type: "button", class: "all" }, words);
  button.addEventListener("click", f);
  return el("p", { class: "note" }, button);
}

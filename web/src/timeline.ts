import type { Data, Mark, Step } from "./data";
import { el } from "./dom";
import { clock, seconds } from "./format";
import { lanes } from "./lanes";
import type { Link } from "./link";
import { LEFT, RIGHT } from "./plot";

// Lanes that are drawn, and how high one is; further ones lie over the last.
const mostLanes = 4;
const laneHeight = 24;
const leastStep = 3; // pixels, as the style sheet has it

// Timeline is the strip of steps and marks above the charts; a step shows its
// stretch in all of them.
export class Timeline {
  readonly strip: HTMLElement;
  private readonly track = el("div", { class: "strip" });
  private readonly all = el("button", { type: "button", class: "all", hidden: true }, "Show all");
  private readonly range = el("span", { class: "range" });
  private placed: { node: HTMLElement; from: number; to: number }[] = [];
  private drawn = "";

  constructor(
    data: Data,
    private readonly link: Link,
  ) {
    this.all.addEventListener("click", () => link.all());
    this.strip = el("div", { class: "timeline", role: "group", "aria-label": "Steps of the run", "data-chart": "timeline" }, this.track, el("p", {}, this.range, this.all));
    this.track.style.marginLeft = LEFT + "px";
    this.track.style.marginRight = RIGHT + "px";
    link.onRange(() => this.place());
    this.update(data);
  }

  // update draws steps and marks anew where there are other ones.
  update(data: Data): void {
    const text = JSON.stringify([data.steps, data.marks]);
    if (text !== this.drawn) {
      this.drawn = text;
      this.placed = [];
      this.track.replaceChildren();
      const steps = data.steps ?? [];
      const places = lanes(steps).map((l) => Math.min(l, mostLanes - 1));
      const height = laneHeight * (Math.max(0, ...places) + 1);
      this.track.style.height = height + 4 + "px";
      steps.forEach((s, i) => this.step(s, i, places[i]!));
      for (const m of (data.marks ?? []).filter((v) => weighty(v) || v.kind.endsWith("-ready"))) {
        const node = el("span", { class: "mark " + m.kind, title: `${clock(m.at, 0.1)} ${markText(m)}`, role: "img", "aria-label": markText(m) }, glyph(m));
        node.style.top = height - 7 + "px";
        this.add(node, m.at, m.at);
      }
    }
    this.place();
  }

  private step(s: Step, i: number, lane: number): void {
    const node = el(
      "button",
      { type: "button", class: i % 2 ? "step odd" : "step", title: `${s.name}: ${clock(s.from, 1)} to ${clock(s.to, 1)}, ${seconds(s.to - s.from)}${s.note ? " – " + s.note : ""}` },
      el("span", {}, (s.note || !s.ended ? "! " : "") + s.name),
    );
    const room = Math.max((s.to - s.from) * 0.04, 0.02);
    node.addEventListener("click", () => this.link.show(s.from - room, s.to + room));
    node.style.top = lane * laneHeight + "px";
    this.add(node, s.from, s.to);
  }

  private add(node: HTMLElement, from: number, to: number): void {
    this.track.append(node);
    this.placed.push({ node, from, to });
  }

  private place(): void {
    const { link } = this;
    const whole = link.to - link.from || 1;
    for (const { node, from, to } of this.placed) {
      const a = Math.max((from - link.from) / whole, 0);
      const b = Math.min((to - link.from) / whole, 1);
      node.hidden = b < 0 || a > 1;
      const step = node.classList.contains("step");
      // A step that took no time has no width of its own, and would be as wide as its
      // name: at the end of the run beyond the page.
      node.style.left = step ? `min(${100 * a}%, 100% - ${leastStep}px)` : `${100 * a}%`;
      if (step) node.style.width = `${100 * Math.max(b - a, 0)}%`;
    }
    this.range.textContent = link.zoomed ? `${clock(link.from, 0.1)} to ${clock(link.to, 0.1)}` : "Drag across a chart to zoom, double-click to see all; a step’s name zooms to the step.";
    this.all.hidden = !link.zoomed;
  }
}

// weighty are the marks that stand across all charts.
export function weighty(m: Mark): boolean {
  return ["death", "fault", "warning", "watch-gap", "run-end"].includes(m.kind);
}

function glyph(m: Mark): string {
  if (m.kind === "death") return "✕";
  if (m.kind === "fault") return "◆";
  return m.kind.endsWith("-ready") ? "▸" : m.kind === "run-end" ? "■" : "!";
}

export function markText(m: Mark): string {
  switch (m.kind) {
    case "death":
      return `${m.name ?? ""} died`;
    case "fault":
      return `${m.name ?? "fault"}: ${m.text ?? ""}`;
    case "plane-ready":
      return `plane ready after ${m.text ?? ""} s`;
    case "fleet-ready":
      return `${m.name ?? ""} nodes schedulable`;
    case "run-end":
      return `end of the run: ${m.text ?? ""}`;
    case "watch-gap":
      return `the watch of ${m.name ?? ""} was interrupted`;
    default:
      return m.text ?? m.kind;
  }
}

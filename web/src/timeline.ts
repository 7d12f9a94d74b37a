import type { Data, Mark } from "./data";
import { el } from "./dom";
import { clock, seconds } from "./format";
import type { Link } from "./link";
import { LEFT, RIGHT, weighty } from "./plot";

// timeline is the strip of steps and marks above the charts; a step shows its
// stretch in all of them.
export function timeline(data: Data, link: Link): HTMLElement {
  const track = el("div", { class: "strip" });
  const all = el("button", { type: "button", class: "all", hidden: true }, "Show all");
  all.addEventListener("click", () => link.all());
  const range = el("span", { class: "range" });
  const strip = el("div", { class: "timeline", role: "group", "aria-label": "Steps of the run" }, track, el("p", {}, range, all));
  track.style.marginLeft = LEFT + "px";
  track.style.marginRight = RIGHT + "px";

  const placed: { node: HTMLElement; from: number; to: number }[] = [];
  (data.steps ?? []).forEach((s, i) => {
    const node = el(
      "button",
      { type: "button", class: i % 2 ? "step odd" : "step", title: `${s.name}: ${clock(s.from, 1)} to ${clock(s.to, 1)}, ${seconds(s.to - s.from)}${s.note ? " – " + s.note : ""}` },
      el("span", {}, (s.note || !s.ended ? "! " : "") + s.name),
    );
    const room = Math.max((s.to - s.from) * 0.04, 0.02);
    node.addEventListener("click", () => link.show(s.from - room, s.to + room));
    track.append(node);
    placed.push({ node, from: s.from, to: s.to });
  });
  for (const m of (data.marks ?? []).filter((v) => weighty(v) || v.kind.endsWith("-ready"))) {
    const node = el("span", { class: "mark " + m.kind, title: `${clock(m.at, 0.1)} ${markText(m)}`, role: "img", "aria-label": markText(m) }, glyph(m));
    track.append(node);
    placed.push({ node, from: m.at, to: m.at });
  }

  const place = () => {
    const whole = link.to - link.from;
    for (const { node, from, to } of placed) {
      const a = Math.max((from - link.from) / whole, 0);
      const b = Math.min((to - link.from) / whole, 1);
      node.hidden = b < 0 || a > 1;
      node.style.left = `${100 * a}%`;
      if (to > from) node.style.width = `${100 * Math.max(b - a, 0)}%`;
    }
    range.textContent = link.zoomed ? `${clock(link.from, 0.1)} to ${clock(link.to, 0.1)}` : "Drag across a chart to zoom, double-click to see all; a step’s name zooms to the step.";
    all.hidden = !link.zoomed;
  };
  link.onRange(place);
  place();
  return strip;
}

function glyph(m: Mark): string {
  if (m.kind === "death") return "✕";
  return m.kind.endsWith("-ready") ? "▸" : m.kind === "run-end" ? "■" : "!";
}

function markText(m: Mark): string {
  switch (m.kind) {
    case "death":
      return `${m.name ?? ""} died`;
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

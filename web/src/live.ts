// The live page: the same page as report.html, with nothing embedded. Package
// dashboard serves it (report.Shell) at / and answers what it asks for. All of
// it is of one origin; the page's policy allows no other.
//
//   GET /api/runs
//       {"runs": [{"id", "scenario", "varied", "started", "state", "sentence", "seconds"}]},
//       newest first. varied are the parameters in which the runs of a scenario
//       differ, as --set has them; empty where they do not. id is opaque; in paths it is percent-encoded as one
//       segment. started is RFC 3339. state is pass, fail, unknown or running
//       (it is under way). sentence is the verdict in words, seconds how long
//       the run took so far.
//   GET /api/runs/<id>/page
//       a report.Page as JSON, with its main.
//   GET /api/runs/<id>/events
//       text/event-stream, for a run under way. Event "page": a whole
//       report.Page as JSON, at once and then as often as a hundredth of a core
//       allows, when there is something new. Event "status": a record.Status,
//       each second. Event "end" with data {}: the run has ended and been
//       judged, and the page before it was its last; the server closes. A
//       connection that breaks is made anew by the browser. Comments (": ...")
//       keep it alive. For a run that has ended: one "page", then "end".
//   POST /api/runs/<id>/stop, header X-Windtunnel: 1
//       ends the run as Ctrl-C does; 202, or 409 when it is not under way or
//       flown by another process that cannot be told. A request without the
//       header, or with an Origin that is not the server's own, is 403.
//   GET /api/compare?a=<id>&b=<id>
//       a report.Page of kind "comparison"; a and b may be given several times.
//       Runs that cannot be compared: 422, with the reason.
//   Errors: a status of 400 and above with {"error": "a sentence"}.
//   Tokens: where the server asks for one, GET /?token=T sets a cookie
//       (HttpOnly, SameSite=Strict) and redirects to /; without it every
//       answer is 401. The page itself never sees the token.
//
// Where the reader is stands behind the # of the address: #/ is the list of
// runs, #/run/<id> one of them, #/compare/<a>/<b> two.

import { comparison, follow, page, runs, stop, type Run, type Status } from "./api";
import type { Page } from "./data";
import { el, say } from "./dom";
import { seconds } from "./format";
import { View } from "./view";

// listEvery is how often the list of runs is asked for while it is shown.
const listEvery = 5000;

// leave ends what goes on for the place that is shown; visit counts places, so
// that an answer for one that was left meanwhile is dropped.
let leave: () => void = () => {};
let visit = 0;

export async function live(): Promise<void> {
  addEventListener("hashchange", () => void go());
  const nav = document.getElementById("nav")!;
  nav.hidden = false;
  nav.append(el("a", { href: "#/" }, "Runs"));
  await go();
}

async function go(): Promise<void> {
  visit++;
  leave();
  leave = () => {};
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [place, first, second] = parts;
  const main = document.getElementById("main")!;
  main.replaceChildren(el("p", { class: "note" }, "Loading …"));
  bar();
  try {
    if (place === "run" && first) await showRun(first);
    else if (place === "compare" && first && second) await showComparison(first, second);
    else await showList();
  } catch (fault) {
    leave();
    main.replaceChildren(failure(fault));
  }
}

function failure(fault: unknown): HTMLElement {
  return el("p", { class: "problem", role: "alert" }, fault instanceof Error ? fault.message : String(fault));
}

// bar puts a place's own controls beside the link to the list.
function bar(...controls: HTMLElement[]): void {
  const nav = document.getElementById("nav")!;
  nav.replaceChildren(nav.firstChild!, ...controls);
}

// showRun shows a run, and follows it while it is under way.
async function showRun(id: string): Promise<void> {
  const here = visit;
  const first = await page(id);
  if (here !== visit) return;
  const view = new View();
  document.getElementById("main")!.replaceChildren();
  view.show(first);
  if (first.state !== "running") {
    leave = () => view.close();
    return;
  }
  const status = el("span", { class: "status" }, "Following");
  let paused = false;
  let latest: Page = first;
  const pause = el("button", { type: "button", "aria-pressed": "false" }, "Pause");
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    status.textContent = paused ? "Paused" : "Following";
    if (!paused) view.show(latest);
  });
  const end = stopper(id);
  bar(status, pause, end);
  const unfollow = follow(
    id,
    (next) => {
      latest = next;
      if (!paused) view.show(next);
    },
    (now) => {
      if (!paused) status.textContent = standing(now);
    },
    () => {
      view.show(latest);
      bar();
      say("The run has ended: " + latest.title);
    },
    (lost) => {
      if (!paused) status.textContent = lost ? "Connection lost, trying again" : "Following";
    },
  );
  leave = () => {
    unfollow();
    view.close();
  };
}

// standing is where a run stands, in a line.
function standing(s: Status): string {
  const parts = [seconds(Math.round(s.elapsed)), `step ${s.index} of ${s.of}: ${s.step}`];
  if (s.for) parts.push(`waits for: ${s.for}`);
  if (s.total) parts.push(`${s.done ?? 0} of ${s.total}`);
  if (s.p99) parts.push(`p99 ${seconds(s.p99)}`);
  if (s.failed) parts.push(`${s.failed} failed`);
  if (s.late) parts.push(`${s.late} late`);
  if (s.left > 0) parts.push(`${seconds(Math.round(s.left))} left`);
  return parts.join(" · ");
}

// stopper is the button that ends a run; it asks once more before it does.
function stopper(id: string): HTMLElement {
  const button = el("button", { type: "button", class: "stop" }, "Stop the run");
  let sure = false;
  button.addEventListener("blur", () => {
    sure = false;
    if (!button.disabled) button.textContent = "Stop the run";
  });
  button.addEventListener("click", () => {
    if (!sure) {
      sure = true;
      button.textContent = "Really stop it?";
      return;
    }
    button.disabled = true;
    button.textContent = "Stopping …";
    stop(id).catch((fault: unknown) => {
      button.disabled = false;
      button.textContent = "Stop the run";
      button.after(failure(fault));
    });
  });
  return button;
}

async function showComparison(a: string, b: string): Promise<void> {
  const here = visit;
  const got = await comparison([a], [b]);
  if (here !== visit) return;
  const view = new View();
  document.getElementById("main")!.replaceChildren();
  view.show(got);
  leave = () => view.close();
}

// showList lists the runs, and looks for new ones while it is shown.
async function showList(): Promise<void> {
  document.title = "Runs – windtunnel";
  document.body.className = "list";
  document.querySelector(".run strong")!.textContent = "";
  document.querySelector(".run time")!.textContent = "";
  const here = visit;
  const list = new List();
  list.update(await runs());
  if (here !== visit) return;
  document.getElementById("main")!.replaceChildren(list.root);
  const timer = setInterval(() => {
    runs().then(
      (all) => list.update(all),
      () => undefined, // the next answer says more
    );
  }, listEvery);
  leave = () => clearInterval(timer);
}

const words = { pass: ["✓", "Pass"], fail: ["✕", "Fail"], unknown: ["?", "Unknown"], running: ["▸", "Under way"] } as const;

// List is the table of runs with the choice of two to compare.
class List {
  readonly root = el("section", { id: "runs", "aria-labelledby": "h-runs" });
  private readonly body = el("tbody");
  private readonly compare = el("button", { type: "button", disabled: true }, "Compare two");
  private readonly chosen: string[] = [];
  private shown = "";

  constructor() {
    const heads = ["Compare", "Verdict", "Scenario", "Started", "Took", "In one sentence"];
    this.compare.addEventListener("click", () => {
      const [a, b] = this.chosen;
      location.hash = `#/compare/${encodeURIComponent(a!)}/${encodeURIComponent(b!)}`;
    });
    this.root.append(
      el("div", { class: "headline" }, el("h1", { id: "h-runs" }, "Runs"), this.compare),
      el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Runs, a table" },
        el("table", { class: "runs" }, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col", class: h === "Took" ? "n" : "" }, h)))), this.body)),
    );
  }

  update(all: Run[]): void {
    const text = JSON.stringify(all);
    if (text === this.shown) return;
    this.shown = text;
    const focus = (document.activeElement as HTMLElement | null)?.dataset.id;
    this.body.replaceChildren(...all.map((r) => this.row(r)));
    if (all.length === 0) this.body.append(el("tr", {}, el("td", { colspan: 6 }, "No run yet. ", el("code", {}, "windtunnel run FILE"), " flies one.")));
    if (focus) this.body.querySelector<HTMLElement>(`[data-id="${CSS.escape(focus)}"]`)?.focus();
  }

  private row(r: Run): HTMLElement {
    const box = el("input", { type: "checkbox", "data-id": r.id, "aria-label": `Compare ${r.scenario} of ${r.started}`, disabled: r.state === "running" });
    box.checked = this.chosen.includes(r.id);
    box.addEventListener("change", () => this.choose(r.id, box.checked));
    const [sign, word] = words[r.state];
    const started = new Date(r.started);
    return el("tr", { class: r.state },
      el("td", {}, box),
      el("td", {}, el("span", { class: "verdict" }, el("span", { class: "glyph", "aria-hidden": "true" }, sign), word)),
      el("th", { scope: "row" }, el("a", { href: "#/run/" + encodeURIComponent(r.id) }, r.scenario), ...(r.varied ? [el("span", { class: "about varied" }, r.varied)] : [])),
      el("td", {}, el("time", { datetime: r.started }, started.toLocaleString())),
      el("td", { class: "n" }, seconds(r.seconds)),
      el("td", {}, r.sentence));
  }

  // choose keeps the two that were chosen last, the first of them as A.
  private choose(id: string, on: boolean): void {
    if (on) this.chosen.push(id);
    else this.chosen.splice(this.chosen.indexOf(id), 1);
    if (this.chosen.length > 2) {
      const out = this.chosen.shift()!;
      const box = this.body.querySelector<HTMLInputElement>(`[data-id="${CSS.escape(out)}"]`);
      if (box) box.checked = false;
    }
    this.compare.disabled = this.chosen.length !== 2;
  }
}

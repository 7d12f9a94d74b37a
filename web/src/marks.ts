import type uPlot from "uplot";
import type { Mark, Step } from "./data";
import { lanes } from "./lanes";
import { colour } from "./theme";
import { weighty } from "./timeline";

export function line(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

// shadeSteps sets every other step off against its neighbours; what is within
// another or beside it is not shaded.
export function shadeSteps(u: uPlot, steps: Step[]): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const places = lanes(steps);
  steps.filter((_, i) => places[i] === 0).forEach((s, i) => {
    const x0 = u.valToPos(s.from, "x", true);
    const x1 = u.valToPos(s.to, "x", true);
    ctx.fillStyle = colour(i % 2 ? "band2" : "band");
    ctx.fillRect(x0, bbox.top, Math.max(x1 - x0, 1), bbox.height);
  });
  ctx.restore();
}

// markLines draws what weighs across a chart: deaths and faults in full and
// last, the others dashed.
export function markLines(u: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = u;
  ctx.save();
  const solid = (m: Mark) => m.kind === "death" || m.kind === "fault";
  for (const m of [...marks.filter((v) => !solid(v)), ...marks.filter(solid)]) {
    if (!weighty(m) || m.at < u.scales.x!.min! || m.at > u.scales.x!.max!) continue;
    const x = Math.round(u.valToPos(m.at, "x", true)) + 0.5;
    ctx.strokeStyle = colour(m.kind === "death" ? "fail" : m.kind === "run-end" ? "soft" : m.kind === "fault" ? "fault" : "unknown");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(solid(m) ? [] : [3 * devicePixelRatio, 3 * devicePixelRatio]);
    line(ctx, x, bbox.top, x, bbox.top + bbox.height);
  }
  ctx.restore();
}

// level draws a limit that is near enough to be seen, with its name.
export function level(u: uPlot, at: number, name: string, ink: string): void {
  if (at > u.scales.y!.max!) return;
  const y = Math.round(u.valToPos(at, "y", true)) + 0.5;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour(ink);
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
  line(ctx, bbox.left, y, bbox.left + bbox.width, y);
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.fillText(name, bbox.left + bbox.width - 4, y - 4 * devicePixelRatio);
  ctx.restore();
}

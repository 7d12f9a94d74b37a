import "uplot/dist/uPlot.min.css";
import "./report.css";
import { readData } from "./data";
import { heatPlot } from "./heat";
import { Link } from "./link";
import { Plot, specOf } from "./plot";
import { startup } from "./startup";
import { sortable } from "./tables";
import { currentTheme, setTheme, startTheme } from "./theme";
import { timeline } from "./timeline";

// printed is how wide a sheet's charts are, in CSS pixels.
const printed = 690;

function start(): void {
  const data = readData();
  startTheme();
  sortable();
  const link = new Link(data.from, data.to);
  const plots: Plot[] = [];
  const host = document.querySelector<HTMLElement>("[data-chart=time]")!;
  for (const chart of data.time ?? []) {
    const plot = new Plot(specOf(chart), data, link);
    plots.push(plot);
    host.append(plot.figure);
    if (chart.id === "open") addHeat(); // latency beside what waits
  }
  if (!document.getElementById("chart-heat")) addHeat();
  document.querySelector("[data-chart=timeline]")!.replaceWith(timeline(data, link));

  function addHeat(): void {
    const heat = heatPlot(data, link);
    if (!heat) return;
    plots.push(heat.plot);
    host.append(heat.figure);
  }

  const ridgeHost = document.querySelector<HTMLElement>("[data-chart=startup]");
  const drawRidges = ridgeHost ? startup(data, ridgeHost) : () => {};
  let sheet = false;
  const fit = (width: number) => {
    if (width <= 0) return;
    drawRidges(width);
    plots.forEach((p) => p.resize(width));
  };
  new ResizeObserver(() => sheet || fit(host.clientWidth)).observe(host);
  fit(host.clientWidth);
  print((on) => {
    sheet = on;
    fit(on ? printed : host.clientWidth);
  });
  document.documentElement.dataset.charts = String(plots.length);
}

// print makes the page fit for paper: light, unfolded, of a sheet's width.
function print(fit: (on: boolean) => void): void {
  let chosen: string | undefined;
  let folded: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    chosen = document.documentElement.dataset.theme;
    if (currentTheme() === "dark") setTheme("light");
    folded = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
    folded.forEach((d) => (d.open = true));
    fit(true);
  });
  addEventListener("afterprint", () => {
    folded.forEach((d) => (d.open = false));
    setTheme(chosen);
    fit(false);
  });
}

start();

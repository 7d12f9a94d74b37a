import { specOf } from "./curves";
import type { Data, Page } from "./data";
import { Heat } from "./heat";
import { Link } from "./link";
import { Plot } from "./plot";
import { onPaper } from "./print";
import { merge } from "./sections";
import { Ridges } from "./startup";
import { sortable } from "./tables";
import { Timeline } from "./timeline";

// printed is how wide a sheet's charts are, in CSS pixels.
const printed = 690;

// View shows a page and, where the page is that of a run under way, what has
// become of it: shown again, charts keep their zoom and what is hidden, and
// tables their order.
export class View {
  private readonly main = document.getElementById("main")!;
  private link: Link | null = null;
  private readonly plots = new Map<string, Plot>();
  private heat: Heat | null = null;
  private timeline: Timeline | null = null;
  private readonly ridges = new Map<string, Ridges>(); // by the name of their place
  private observer: ResizeObserver | null = null;
  private sheet = false;
  private readonly forget: () => void;

  constructor() {
    this.forget = onPaper((on) => {
      this.sheet = on;
      this.fit();
    });
  }

  // show takes the words from the page, unless the document has them already,
  // and draws its charts.
  show(page: Page): void {
    if (page.main !== undefined) {
      merge(this.main, page.main);
      this.head(page);
    }
    sortable(this.main);
    const { data } = page;
    if (this.link) this.link.extend(data.from, data.to);
    else this.link = new Link(data.from, data.to);
    this.draw(data, this.link);
    this.fit();
    document.documentElement.dataset.charts = String(this.plots.size + (this.heat ? 1 : 0));
  }

  // close ends what goes on without the page's elements.
  close(): void {
    this.forget();
    this.observer?.disconnect();
    this.plots.forEach((p) => p.destroy());
    this.heat?.plot.destroy();
    delete document.documentElement.dataset.charts;
  }

  private head(page: Page): void {
    document.title = page.title;
    document.body.className = page.state;
    document.querySelector(".run strong")!.textContent = page.name;
    const time = document.querySelector<HTMLTimeElement>(".run time")!;
    time.textContent = page.when;
    time.dateTime = page.started;
  }

  private draw(data: Data, link: Link): void {
    const host = this.main.querySelector<HTMLElement>("[data-chart=time]");
    if (!host) return;
    for (const chart of data.time ?? []) {
      const spec = specOf(chart, data.arms !== undefined);
      const known = this.plots.get(chart.id);
      if (known) known.replace(spec, data);
      else {
        const plot = new Plot(spec, data, link);
        this.plots.set(chart.id, plot);
        host.append(plot.figure);
      }
    }
    this.drawHeat(data, link, host);
    if (this.timeline) this.timeline.update(data);
    else {
      this.timeline = new Timeline(data, link);
      this.main.querySelector("[data-chart=timeline]")?.replaceWith(this.timeline.strip);
    }
    [data.startup ?? [], ...(data.lifecycles ?? [])].forEach((spreads, i) => {
      const name = i === 0 ? "startup" : `lifecycle-${i}`;
      const place = this.main.querySelector<HTMLElement>(`[data-chart=${name}]`);
      if (place && !this.ridges.has(name)) this.ridges.set(name, new Ridges(place, i === 0 ? "pods" : "objects"));
      this.ridges.get(name)?.update(data, spreads);
    });
    if (!this.observer) {
      this.observer = new ResizeObserver(() => this.sheet || this.fit());
      this.observer.observe(host);
    }
  }

  // drawHeat puts latency beside the load that it belongs to.
  private drawHeat(data: Data, link: Link, host: HTMLElement): void {
    if ((data.heat.maps ?? []).length === 0) return;
    if (this.heat) {
      this.heat.update(data);
      return;
    }
    this.heat = new Heat(data, link);
    const load = this.plots.get("load");
    if (load) load.figure.after(this.heat.plot.figure);
    else host.append(this.heat.plot.figure);
  }

  private fit(): void {
    const host = this.main.querySelector<HTMLElement>("[data-chart=time]");
    const width = this.sheet ? printed : (host?.clientWidth ?? 0);
    if (width <= 0) return;
    this.ridges.forEach((r) => r.draw(width));
    this.heat?.plot.resize(width);
    this.plots.forEach((p) => p.resize(width));
  }
}

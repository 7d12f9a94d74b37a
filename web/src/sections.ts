import { reorder } from "./tables";

// What a section was rendered as, so that only what has changed is put in anew.
const rendered = new WeakMap<Element, string>();

// merge puts new markup into the page, section by section. Charts stay the
// elements that they are; what is unfolded, sorted, scrolled and focused stays so.
export function merge(main: HTMLElement, markup: string): void {
  const fresh = document.createElement("template");
  fresh.innerHTML = markup;
  const incoming = sections(fresh.content);
  const present = sections(main);
  const same = incoming.length > 0 && incoming.map((s) => s.id).join() === present.map((s) => s.id).join();
  if (!same) {
    const texts = incoming.map((s) => s.outerHTML);
    adopt(main, fresh.content);
    main.replaceChildren(fresh.content);
    incoming.forEach((s, i) => rendered.set(s, texts[i]!));
    return;
  }
  incoming.forEach((s, i) => {
    const text = s.outerHTML;
    const old = present[i]!;
    if (rendered.get(old) === text) return;
    const restore = state(old);
    adopt(old, s);
    old.replaceWith(s);
    rendered.set(s, text);
    restore(s);
  });
}

function sections(root: ParentNode): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>("section[id]")];
}

// adopt moves the charts of old markup to their places in the new.
function adopt(old: ParentNode, fresh: ParentNode): void {
  for (const host of old.querySelectorAll<HTMLElement>("[data-chart]")) {
    fresh.querySelector(`[data-chart=${host.dataset.chart}]`)?.replaceWith(host);
  }
}

// What a reader can have changed about a section.
const folds = "details";
const scrolled = ".wide, pre";
const focusable = "a, button, select, summary, [tabindex]";

// state takes down what a reader has done to a section, and returns what does
// it to another.
function state(section: HTMLElement): (fresh: HTMLElement) => void {
  const open = all(section, folds).map((d) => (d as HTMLDetailsElement).open);
  const left = all(section, scrolled).map((e) => e.scrollLeft);
  const focus = all(section, focusable).indexOf(document.activeElement as HTMLElement);
  const sort = reorder(section);
  return (fresh) => {
    all(fresh, folds).forEach((d, i) => i < open.length && ((d as HTMLDetailsElement).open = open[i]!));
    sort(fresh);
    all(fresh, scrolled).forEach((e, i) => (e.scrollLeft = left[i] ?? 0));
    if (focus >= 0) all(fresh, focusable)[focus]?.focus({ preventScroll: true });
  };
}

function all(root: ParentNode, what: string): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>(what)];
}

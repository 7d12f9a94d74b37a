// Elements are made with text, never with markup, so that a name from a
// scenario stays a name.

type Attributes = Record<string, string | number | boolean>;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

// svg makes an element of a drawing. The namespace is taken from the page's own
// drawing.
export function svg(tag: string, attributes: Attributes = {}, ...children: (Node | string)[]): SVGElement {
  const ns = document.querySelector("svg")!.namespaceURI;
  return fill(document.createElementNS(ns, tag) as SVGElement, attributes, children);
}

function fill<E extends Element>(e: E, attributes: Attributes, children: (Node | string)[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) e.setAttribute(name, "");
    else if (value !== false) e.setAttribute(name, String(value));
  }
  e.append(...children);
  return e;
}

// say tells readers of the screen what the eye sees.
export function say(text: string): void {
  document.getElementById("hover")!.textContent = text;
}

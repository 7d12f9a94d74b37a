// Tables sort by the column whose head is pressed, each group of rows in itself.

export function sortable(root: ParentNode): void {
  for (const table of root.querySelectorAll<HTMLTableElement>("table.sortable:not([data-sorts])")) {
    table.dataset.sorts = "";
    heads(table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => order(table, column, head.getAttribute("aria-sort") !== "descending"));
    });
  }
}

// reorder remembers how the tables of a part of the page are sorted, and
// returns what sorts those of another so.
export function reorder(root: ParentNode): (fresh: ParentNode) => void {
  const sorted = [...root.querySelectorAll<HTMLTableElement>("table.sortable")].map((t) => {
    const column = heads(t).findIndex((h) => h.hasAttribute("aria-sort"));
    return { column, down: heads(t)[column]?.getAttribute("aria-sort") === "descending" };
  });
  return (fresh) => {
    sortable(fresh);
    [...fresh.querySelectorAll<HTMLTableElement>("table.sortable")].forEach((t, i) => {
      const was = sorted[i];
      if (was && was.column >= 0) order(t, was.column, was.down);
    });
  };
}

function heads(table: HTMLTableElement): HTMLTableCellElement[] {
  return [...table.tHead!.rows[0]!.cells];
}

function order(table: HTMLTableElement, column: number, down: boolean): void {
  heads(table).forEach((h) => h.removeAttribute("aria-sort"));
  heads(table)[column]!.setAttribute("aria-sort", down ? "descending" : "ascending");
  for (const body of table.tBodies) sort(body, column, down ? -1 : 1);
}

function sort(body: HTMLTableSectionElement, column: number, sign: number): void {
  const rows = [...body.rows].filter((r) => !r.classList.contains("group"));
  const key = (r: HTMLTableRowElement) => r.cells[column]!;
  rows.sort((a, b) => {
    const x = key(a).dataset.v;
    const y = key(b).dataset.v;
    const order = x !== undefined && y !== undefined ? Number(x) - Number(y) : -key(a).textContent!.localeCompare(key(b).textContent!);
    return sign * order;
  });
  body.append(...rows);
}

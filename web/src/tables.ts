// Tables sort by the column whose head is pressed, each group of rows in itself.

export function sortable(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>("table.sortable")) {
    const heads = [...table.tHead!.rows[0]!.cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        for (const body of table.tBodies) sort(body, column, down ? -1 : 1);
      });
    });
  }
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

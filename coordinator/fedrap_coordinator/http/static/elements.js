// HTML made of nodes, never of strings: what operators and item files wrote stays text.

export function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (key === "width") node.style.width = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const quiet = (...words) => make("p", { class: "quiet" }, ...words);

// Words with what stands between backticks as code.
export const spoken = (words) =>
  words.split("`").map((part, place) => (place % 2 ? make("code", {}, part) : part));

export function facts(pairs) {
  const list = make("dl", { class: "facts" });
  for (const [name, value] of pairs) list.append(make("dt", {}, name), make("dd", {}, value));
  return list;
}

// columns: [{name, number}]; rows: [{cells, kind}].
export function table(caption, columns, rows) {
  const head = make("tr", {}, ...columns.map((column) =>
    make("th", { scope: "col", class: column.number ? "n" : null }, column.name)));
  const body = rows.map((row) => make("tr", { class: row.kind }, ...row.cells.map((cell, index) => {
    const column = columns[index];
    return make("td", { class: column.number ? "n" : column.long ? "long" : null }, cell);
  })));
  return make("table", {}, make("caption", { class: "unseen" }, caption),
    make("thead", {}, head), make("tbody", {}, ...body));
}

// Pixels that a chart in this card may be wide.
export const room = (id) => Math.max(240, document.querySelector(`#${id} .body`).clientWidth);

export const put = (id, ...nodes) =>
  document.querySelector(`#${id} .body`).replaceChildren(...nodes.filter(Boolean));

// Elements are made here and nowhere else: text goes in as text nodes, never as markup, so that a
// name is a name whatever characters it holds.

const kSvg = "http://www.w3.org/2000/svg";

function append(node, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function fill(node, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}

export function el(name, attributes, ...children) {
  return append(fill(document.createElement(name), attributes), children);
}

export function svg(name, attributes, ...children) {
  return append(fill(document.createElementNS(kSvg, name), attributes), children);
}

// A section with a heading that the contents list links to.
export function section(id, title, ...children) {
  return el("section", {id, "aria-labelledby": `${id}-title`},
    el("h2", {id: `${id}-title`}, title), ...children);
}

export function figure(caption, ...children) {
  return el("figure", {}, ...children, caption ? el("figcaption", {}, caption) : null);
}

// header: [{text, number}]; rows: lists of cells, each text or a node.
export function table(caption, header, rows, attributes) {
  const cell = (content, i) => i === 0
    ? el("th", {scope: "row", class: header[i].number ? "number" : null}, content)
    : el("td", {class: header[i].number ? "number" : null}, content);
  return el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption},
    el("table", attributes,
      el("caption", {class: "hidden"}, caption),
      el("thead", {}, el("tr", {},
        header.map((h) => el("th", {scope: "col", class: h.number ? "number" : null}, h.text)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell))))));
}

// "key=value,key=value" that may break behind its commas, and reads and copies as it is.
export function breakable(text) {
  return text.split(/(?<=,)/).flatMap((part) => [part, el("wbr")]);
}

export function legend(entries) {
  return el("ul", {class: "legend"}, entries.map(([style, text]) =>
    el("li", {}, el("span", {class: `swatch ${style}`}), text)));
}

// The same numbers as text, for those who cannot see the chart.
export function asTable(summary, content) {
  return el("details", {class: "as-table"}, el("summary", {}, summary), content);
}

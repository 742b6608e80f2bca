// Which rank sits where, and whom it talks to over which links.
import {el, figure, section, table} from "./dom.js";
import * as format from "./format.js";
import {dimensions} from "./terms.js";
import * as tip from "./tip.js";

const kColours = 8;

function cells(map) {
  return map.shown.flatMap((node) => Array.from({length: node.gpus}, (_, i) => ({
    node: node.node, rank: node.first_rank + i,
    at: Object.fromEntries(Object.entries(node.positions).map(([axis, list]) => [axis, list[i]])),
    group: Object.fromEntries(Object.entries(node.groups).map(([axis, list]) => [axis, list[i]])),
  })));
}

function describe(cell, map) {
  return [`rank ${cell.rank}`, `node ${cell.node}`,
    ...map.axes.map((axis) => `${axis.name} ${cell.at[axis.name]} of ${axis.size}`)];
}

class Grid {
  constructor(map) {
    this.map = map;
    this.cells = cells(map);
    this.axis = map.axes.some((a) => a.name === "pp") ? "pp" : map.axes[0]?.name;
    this.live = el("p", {class: "live", role: "status", "aria-live": "polite"});
    this.nodes = this.cells.map((cell, i) => this.cellNode(cell, i));
    const byNode = new Map(map.shown.map((node) => [node.node, []]));
    this.cells.forEach((cell, i) => byNode.get(cell.node).push(this.nodes[i]));
    this.root = el("div", {class: "nodes", role: "group", "aria-label": "GPUs by node; arrow keys move between them"},
      [...byNode].map(([node, gpus]) => el("div", {class: "node"},
        el("span", {class: "node-name"}, `node ${node}`), el("div", {class: "gpus"}, gpus))));
    this.paint();
  }

  cellNode(cell, i) {
    const node = el("button", {type: "button", class: "gpu", tabindex: i === 0 ? "0" : "-1", "data-rank": cell.rank,
      "aria-label": describe(cell, this.map).join(", ")});
    tip.attach(node, () => describe(cell, this.map));
    node.addEventListener("pointerenter", () => this.highlight(cell));
    node.addEventListener("pointerleave", () => this.highlight(null));
    node.addEventListener("focus", () => this.highlight(cell));
    node.addEventListener("blur", () => this.highlight(null));
    node.addEventListener("keydown", (event) => this.key(event, i));
    return node;
  }

  key(event, i) {
    const row = this.map.shown[0].gpus;
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row}[event.key];
    const target = step && this.nodes[i + step];
    if (!target) return;
    event.preventDefault();
    this.nodes[i].tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  }

  highlight(cell) {
    this.nodes.forEach((node, i) => {
      node.classList.toggle("same", cell !== null && cell.group[this.axis] === this.cells[i].group[this.axis]);
    });
    this.root.classList.toggle("choosing", cell !== null);
    this.live.textContent = cell === null ? "" : `${describe(cell, this.map).join(", ")}`;
  }

  paint() {
    this.nodes.forEach((node, i) => {
      const position = this.axis ? this.cells[i].at[this.axis] : 0;
      node.className = `gpu g${position % kColours}`;
      node.textContent = this.axis ? String(position) : "";
    });
  }
}

function levels(result) {
  const span = (level) => level.span === null ? "all" : format.thousands(level.span);
  const axesOf = (name) => result.placement.axes.filter((axis) => axis.level === name)
    .map((axis) => `${axis.name} (${axis.size})`).join(", ");
  return table("Link levels and what crosses them",
    [{text: "link level"}, {text: "kind"}, {text: "GPUs", number: true}, {text: "per GPU, one way", number: true},
      {text: "groups that reach so far"}],
    result.cluster.levels.map((level) => [level.name, level.kind, span(level),
      format.bandwidth(level.bandwidth_bytes_per_s), axesOf(level.name) || "–"]));
}

export function placement(result) {
  const map = result.placement;
  if (!map || map.axes.length === 0) return null;
  const grid = new Grid(map);
  const choice = el("select", {id: "axis"}, map.axes.map(({name, size}) =>
    el("option", {value: name, selected: name === grid.axis}, `${dimensions[name]} (${name} = ${size})`)));
  choice.addEventListener("change", () => {
    grid.axis = choice.value;
    grid.paint();
  });
  const caption = map.shown.length < map.nodes
    ? `${map.shown.length} of ${format.thousands(map.nodes)} nodes: those that rank 0 talks to.`
    : `All ${map.nodes === 1 ? "of the node's GPUs" : `${map.nodes} nodes`}.`;
  return section("placement", "Where the ranks sit",
    el("p", {class: "control"}, el("label", {for: "axis"}, "Number the GPUs by "), choice),
    figure(`${caption} Pointing at a GPU shows its group.`, grid.root, grid.live),
    levels(result));
}

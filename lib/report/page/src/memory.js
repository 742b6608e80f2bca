// Memory of every pipeline rank against what the device offers.
import {scaleLinear} from "d3-scale";
import {allocated} from "./allocated.js";
import {el, asTable, figure, legend, section, svg, table} from "./dom.js";
import * as format from "./format.js";
import {memoryTerms} from "./terms.js";
import * as tip from "./tip.js";

const kGib = 2 ** 30;
const kLeft = 64, kRight = 76, kTop = 22, kBottom = 26;

function rowHeight(ranks) {
  return ranks > 32 ? 14 : ranks > 12 ? 20 : 30;
}

function chart(plan, width) {
  const ranks = plan.memory.length;
  const each = rowHeight(ranks), height = kTop + ranks * each + kBottom;
  const most = Math.max(...plan.memory.map((m) => Math.max(m.peak_bytes, m.capacity_bytes)));
  const x = scaleLinear([0, most], [kLeft, width - kRight]);
  const node = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `Peak memory of ${ranks} pipeline ranks; the fullest, rank ${plan.fullest_stage}, takes ` +
      `${format.bytes(plan.memory[plan.fullest_stage].peak_bytes)} of ${format.bytes(plan.memory[0].capacity_bytes)}`});
  for (const gib of scaleLinear([0, most / kGib], [0, 1]).ticks(width > 600 ? 8 : 4)) {
    const at = x(gib * kGib);
    node.append(svg("line", {class: "grid", x1: at, x2: at, y1: kTop, y2: height - kBottom}),
      svg("text", {class: "tick", x: at, y: height - 9, "text-anchor": "middle"}, `${gib}`));
  }
  node.append(svg("text", {class: "tick", x: width - kRight + 6, y: height - 9}, "GiB"));
  plan.memory.forEach((m, rank) => {
    const y = kTop + rank * each, bar = each - (each > 16 ? 6 : 3);
    node.append(svg("text", {class: "label", x: kLeft - 8, y: y + bar / 2, dy: ".35em", "text-anchor": "end"},
      ranks > 1 ? `rank ${rank}` : "GPU"));
    let from = 0;
    for (const [key, label, style] of memoryTerms) {
      if (!(m[key] > 0)) continue;
      const part = svg("rect", {class: style, x: x(from), y, width: Math.max(0, x(from + m[key]) - x(from)), height: bar,
        "data-rank": rank, "data-key": key, "data-value": m[key]});
      tip.attach(part, () => [label, format.bytes(m[key]), `pipeline rank ${rank}, peak ${format.bytes(m.peak_bytes)}`]);
      node.append(part);
      from += m[key];
    }
    node.append(svg("text", {class: rank === plan.fullest_stage ? "label strong" : "label",
      x: x(m.peak_bytes) > width - kRight - 4 ? width - kRight + 8 : Math.max(x(m.peak_bytes), x(m.capacity_bytes)) + 8,
      y: y + bar / 2, dy: ".35em"}, format.bytes(m.peak_bytes)));
  });
  const limit = x(plan.memory[0].capacity_bytes);
  node.append(svg("line", {class: "limit", x1: limit, x2: limit, y1: kTop - 6, y2: height - kBottom}),
    svg("text", {class: "label", x: limit, y: 10, "text-anchor": "end"},
      `the device offers ${format.bytes(plan.memory[0].capacity_bytes)}`));
  return node;
}

function numbers(plan) {
  const header = [{text: "rank"}, ...["layers", "in flight"].map((text) => ({text, number: true})),
    ...memoryTerms.map(([, text]) => ({text, number: true})), {text: "peak", number: true}];
  return table("Memory per pipeline rank", header, plan.memory.map((m, rank) => [String(rank),
    format.thousands(plan.stages[rank].layers), format.thousands(plan.stages[rank].in_flight),
    ...memoryTerms.map(([key]) => format.bytes(m[key])), format.bytes(m.peak_bytes)]));
}

export function memory(result, plan, resized) {
  const holder = el("div", {class: "chart"});
  resized(holder, (width) => holder.replaceChildren(chart(plan, width)));
  const used = memoryTerms.filter(([key]) => plan.memory.some((m) => m[key] > 0));
  return section("memory", plan.memory.length > 1 ? "Memory per pipeline rank" : "Memory",
    figure("Peak of the fullest GPU of each pipeline rank.",
      legend(used.map(([, label, style]) => [style, label])), holder),
    asTable("The numbers", numbers(plan)), ...allocated(result, plan, resized));
}

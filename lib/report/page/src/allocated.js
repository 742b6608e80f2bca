// What the framework's allocator hands out over one step, on the fullest pipeline rank.
import {scaleLinear} from "d3-scale";
import {el, asTable, figure, svg, table} from "./dom.js";
import * as format from "./format.js";
import * as tip from "./tip.js";

const kGib = 2 ** 30;
const kLeft = 64, kRight = 24, kTop = 26, kBottom = 30, kHeight = 220;

function steps({times_us: times, bytes}, end) {
  return times.map((time, i) => ({start: time, end: times[i + 1] ?? end, bytes: bytes[i]}))
    .filter((s) => s.end > s.start);
}

function chart(all, end, fullest, rank, width) {
  const most = all.reduce((a, b) => (b.bytes > a.bytes ? b : a));
  const x = scaleLinear([0, end], [kLeft, width - kRight]);
  const y = scaleLinear([0, most.bytes], [kHeight - kBottom, kTop]);
  const node = svg("svg", {viewBox: `0 0 ${width} ${kHeight}`, width, height: kHeight, role: "img",
    "aria-label": `Allocated bytes of pipeline rank ${rank} over one step; the most, ` +
      `${format.bytes(most.bytes)}, when ${fullest}`});
  for (const gib of scaleLinear([0, most.bytes / kGib], [0, 1]).ticks(4)) {
    const at = y(gib * kGib);
    node.append(svg("line", {class: "grid", x1: kLeft, x2: width - kRight, y1: at, y2: at}),
      svg("text", {class: "tick", x: kLeft - 8, y: at, dy: ".35em", "text-anchor": "end"}, `${gib} GiB`));
  }
  const outline = all.flatMap((s) => [`${x(s.start)},${y(s.bytes)}`, `${x(s.end)},${y(s.bytes)}`]);
  node.append(svg("polygon", {class: "m-activations", "data-allocated": rank,
    points: [`${x(0)},${y(0)}`, ...outline, `${x(end)},${y(0)}`].join(" ")}));
  for (const share of [0, 0.5, 1]) {
    node.append(svg("text", {class: "tick", x: x(end * share), y: kHeight - 10,
      "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle"}, format.time(end * share / 1e6)));
  }
  const at = x(most.start), left = at > width / 2;
  const mark = svg("g", {class: "peak", "data-peak": most.bytes},
    svg("line", {class: "limit", x1: at, x2: at, y1: kTop - 6, y2: kHeight - kBottom}),
    svg("text", {class: "label strong", x: at + (left ? -6 : 6), y: kTop - 12, "text-anchor": left ? "end" : "start"},
      `${format.bytes(most.bytes)}: ${fullest}`));
  tip.attach(mark, () => ["the fullest moment", format.bytes(most.bytes), fullest]);
  node.append(mark);
  return node;
}

function entries(ledger, rank) {
  const here = ledger.ranks[rank];
  const rows = ledger.entries.map((e, i) => [e, here.bytes[i]]).filter(([, bytes]) => bytes > 0);
  return table("Memory ledger", [{text: "entry"}, {text: "bytes", number: true}, {text: "there"}, {text: "formula"},
    {text: "source"}], rows.map(([e, bytes]) => [e.name, format.bytes(bytes), e.lifetime, e.formula, e.source]));
}

// Nothing where the result has no timeline.
export function allocated(result, plan, resized) {
  const rank = plan.fullest_stage, ledger = plan.memory_ledger;
  if (!ledger) return [];
  const listed = asTable(`What rank ${rank} holds, entry by entry`, entries(ledger, rank));
  const series = result.timeline?.ranks[rank]?.allocated;
  if (!series) return [listed];
  const end = result.timeline.step_time_s * 1e6;
  const all = steps(series, end);
  if (!all.length) return [listed];
  const holder = el("div", {class: "chart"});
  resized(holder, (width) => holder.replaceChildren(chart(all, end, ledger.ranks[rank].fullest_moment, rank, width)));
  return [figure(`What the framework's allocator hands out over one step on pipeline rank ${rank}, the fullest.`, holder),
    listed];
}

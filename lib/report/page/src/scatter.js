// All evaluated plans: step time against memory.
import {extent} from "d3-array";
import {scaleLinear, scaleLog} from "d3-scale";
import {line, curveStepAfter} from "d3-shape";
import {el, asTable, figure, legend, section, svg, table} from "./dom.js";
import * as format from "./format.js";
import * as tip from "./tip.js";

const kLeft = 58, kRight = 18, kTop = 26, kBottom = 42, kGib = 2 ** 30;
// Plans far beyond the memory or the best time would squeeze those that matter: they are drawn at
// the edge.
const kMostMemory = 2.5, kMostTime = 40;

function load(all) {
  return all.step_times_s.map((step_time_s, i) => ({
    index: i, step_time_s, peak_bytes: all.peaks_bytes[i], fits: all.fits[i], pareto: all.pareto[i], rank: all.ranks[i],
    keys: Object.fromEntries(all.keys.map(({key, choices, values}) => [key, choices[values[i]]])),
  }));
}

function describe(plan) {
  const keys = Object.entries(plan.keys).map(([key, value]) => `${key}=${value}`).join(" ");
  const state = plan.rank > 0 ? `plan ${plan.rank} of the ranking` : !plan.fits ? "does not fit" : plan.pareto ? "fits, and no other one here is faster and smaller" : "fits";
  return [`${format.time(plan.step_time_s)}, ${format.bytes(plan.peak_bytes)}`, state, keys];
}

// Whole numbers of a unit, for log axes: 1, 2, 5, 10, ...
function timeTicks(scale, most) {
  const all = scale.ticks(most);
  const round = all.filter((t) => /^[125]$/.test(t.toExponential()[0]) && /^\d(\.0*)?e/.test(t.toExponential(0)));
  return round.length >= 2 ? round : all.slice(0, most);
}

class Scatter {
  constructor(all, proved) {
    this.plans = load(all);
    this.capacity = all.capacity_bytes;
    this.proved = proved;
    this.wanted = new Map();
    this.live = el("p", {class: "live", role: "status", "aria-live": "polite"});
    this.svg = svg("svg", {class: "scatter", role: "application", tabindex: "0",
      "aria-label": `${this.plans.length} evaluated plans, step time against memory. Left and right arrow: previous and next by step time.`});
    this.count = el("output", {});
    this.cursor = -1;
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("blur", () => tip.hide());
  }

  shown() {
    return this.plans.filter((plan) => [...this.wanted].every(([key, value]) => plan.keys[key] === value));
  }

  resize(width) {
    this.width = width;
    this.height = Math.round(Math.min(460, Math.max(300, width * 0.5)));
    const [least, most] = extent(this.plans, (p) => p.step_time_s);
    this.longest = Math.min(Math.max(most, least * 1.2) * 1.04, least * kMostTime);
    this.x = scaleLog([least * 0.94, this.longest], [kLeft, width - kRight]);
    const top = Math.min(Math.max(...this.plans.map((p) => p.peak_bytes)), kMostMemory * this.capacity);
    this.top = Math.max(top, this.capacity) * 1.05;
    this.y = scaleLinear([0, this.top / kGib], [this.height - kBottom, kTop]);
    this.draw();
  }

  place(plan) {
    return [this.x(Math.min(plan.step_time_s, this.longest)), this.y(Math.min(plan.peak_bytes, this.top) / kGib)];
  }

  draw() {
    const {svg: root, width, height} = this;
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    root.setAttribute("width", width);
    root.setAttribute("height", height);
    root.replaceChildren(...this.axes());
    const shown = this.shown();
    const front = this.proved ?? shown.filter((p) => p.pareto);
    if (front.length > 1) {
      root.append(svg("path", {class: "front", d: line().x((p) => this.place(p)[0]).y((p) => this.place(p)[1]).curve(curveStepAfter)(front)}));
    }
    // What matters is drawn last.
    const order = [...shown].sort((a, b) => a.fits - b.fits || a.pareto - b.pareto || (a.rank > 0) - (b.rank > 0));
    for (const plan of order) root.append(this.point(plan));
    for (const plan of this.proved ?? []) root.append(this.provedPoint(plan));
    this.count.textContent = `${shown.length} of ${this.plans.length} plans`;
  }

  provedPoint(plan) {
    const [cx, cy] = this.place(plan);
    const node = svg("circle", {class: "point pareto", cx, cy, r: 4.5, "data-proved": plan.step_time_s});
    tip.attach(node, () => [`${format.time(plan.step_time_s)}, ${format.bytes(plan.peak_bytes)}`, "on the front of the whole space",
      plan.strategy_text]);
    return node;
  }

  point(plan) {
    const [x, y] = this.place(plan);
    const data = {"data-index": plan.index, "data-time": plan.step_time_s, "data-bytes": plan.peak_bytes};
    const style = plan.rank > 0 ? "ranked" : !plan.fits ? "misfit" : plan.pareto && !this.proved ? "pareto" : "fit";
    const node = style === "misfit"
      ? svg("path", {class: "point misfit", ...data, d: `M${x - 3},${y - 3}l6,6m0,-6l-6,6`})
      : svg("circle", {class: `point ${style}`, ...data, cx: x, cy: y, r: style === "ranked" ? 6 : style === "pareto" ? 4.5 : 3.5});
    tip.attach(node, () => describe(plan));
    return node;
  }

  axes() {
    const {width, height, x, y} = this;
    const parts = [];
    for (const tick of y.ticks(6)) {
      parts.push(svg("line", {class: "grid", x1: kLeft, x2: width - kRight, y1: y(tick), y2: y(tick)}),
        svg("text", {class: "tick", x: kLeft - 8, y: y(tick), dy: ".35em", "text-anchor": "end"}, tick));
    }
    for (const tick of timeTicks(x, Math.max(3, Math.floor(width / 130)))) {
      parts.push(svg("line", {class: "grid", x1: x(tick), x2: x(tick), y1: kTop, y2: height - kBottom}),
        svg("text", {class: "tick", x: x(tick), y: height - kBottom + 16, "text-anchor": x(tick) > width - 2 * kRight ? "end" : "middle"},
          format.time(tick)));
    }
    const limit = y(this.capacity / kGib);
    parts.push(svg("line", {class: "limit", x1: kLeft, x2: width - kRight, y1: limit, y2: limit}),
      svg("text", {class: "label", x: width - kRight, y: limit - 6, "text-anchor": "end"}, "what a device offers"),
      svg("text", {class: "label", x: 0, y: 12}, "↑ memory, GiB"),
      svg("text", {class: "label", x: width - kRight, y: height - 6, "text-anchor": "end"}, "step time →"));
    return parts;
  }

  key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step) return;
    event.preventDefault();
    const shown = this.shown();
    if (shown.length === 0) return;
    const now = shown.findIndex((p) => p.index === this.cursor);
    const plan = shown[Math.min(shown.length - 1, Math.max(0, now + step))];
    this.cursor = plan.index;
    this.svg.querySelectorAll(".current").forEach((node) => node.classList.remove("current"));
    const node = this.svg.querySelector(`[data-index="${plan.index}"]`);
    node.classList.add("current");
    const box = node.getBoundingClientRect();
    tip.show(box.right, box.bottom, describe(plan));
    this.live.textContent = describe(plan).join(", ");
  }

  filters(keys) {
    const number = (text) => Number.isNaN(Number(text)) ? text : Number(text);
    const sorted = (choices) => [...choices].sort((a, b) => number(a) > number(b) ? 1 : -1);
    const selects = keys.map(({key, choices}) => {
      const select = el("select", {"data-key": key}, el("option", {value: ""}, "any"),
        sorted(choices).map((choice) => el("option", {value: choice}, choice)));
      select.addEventListener("change", () => {
        if (select.value === "") this.wanted.delete(key);
        else this.wanted.set(key, select.value);
        this.draw();
      });
      return el("label", {}, key, select);
    });
    const clear = el("button", {type: "button"}, "Clear");
    clear.addEventListener("click", () => {
      this.wanted.clear();
      for (const label of selects) label.querySelector("select").value = "";
      this.draw();
    });
    return el("div", {class: "filters", role: "group", "aria-label": "Show only plans with"}, selects, clear, this.count);
  }
}

function frontTable(scatter) {
  const front = scatter.plans.filter((p) => p.pareto);
  const keys = Object.keys(front[0]?.keys ?? {}).filter((key) => front.some((p) => p.keys[key] !== front[0].keys[key]));
  return table("Plans on the front", [{text: "step time"}, {text: "memory", number: true},
    ...keys.map((text) => ({text, number: true}))],
  front.map((p) => [format.time(p.step_time_s), format.bytes(p.peak_bytes), ...keys.map((key) => p.keys[key])]));
}

export function scatter(result, resized) {
  const all = result.evaluated_plans;
  if (!all) return null;
  const chart = new Scatter(all, result.pareto?.points);
  const holder = el("div", {class: "chart"}, chart.svg);
  resized(holder, (width) => chart.resize(width));
  return section("plans", "All evaluated plans",
    figure(`The ranked plans and a sample of the space, each costed in full. ${result.pareto ? "The line is the front of the "
      + "whole space" : "The front holds the plans here that no other beats in both time and memory"}; those at the upper and the right edge lie beyond it.`,
    legend([["p-ranked", "ranked"], ["p-pareto", "on the front"], ["p-fit", "fits"], ["p-misfit", "does not fit"]]),
    chart.filters(all.keys), holder, chart.live),
    result.pareto ? null : asTable("The front as a table", frontTable(chart)));
}

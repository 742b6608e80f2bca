// The pipeline schedule: what every rank does when. Drawn on a canvas, because a step has thousands
// of tasks; the keyboard walks over the same tasks and says them aloud.
import {scaleLinear} from "d3-scale";
import {select} from "d3-selection";
import {zoom, zoomIdentity} from "d3-zoom";
import {el, asTable, figure, legend, section, table} from "./dom.js";
import * as format from "./format.js";
import {at, load, visible} from "./timeline_data.js";
import * as tip from "./tip.js";

const kLeft = 60, kRight = 8, kAxis = 24;

function describe(bar) {
  const lines = [bar.name, `pipeline rank ${bar.rank}`];
  if (bar.microbatch !== undefined) {
    lines.push(`microbatch ${bar.microbatch}${bar.chunk === undefined ? "" : `, chunk ${bar.chunk}`}`);
  }
  lines.push(`${format.time(bar.start / 1e6)} to ${format.time(bar.end / 1e6)} (${format.time((bar.end - bar.start) / 1e6)})`);
  return lines;
}

class Drawing {
  constructor(timeline) {
    this.data = load(timeline);
    const ranks = this.data.ranks.length;
    this.each = ranks > 24 ? 14 : ranks > 12 ? 20 : ranks > 4 ? 28 : ranks > 1 ? 38 : 52;
    this.canvas = el("canvas", {class: "timeline", tabindex: "0", role: "application",
      "aria-label": `Pipeline schedule of ${ranks} ranks over ${format.time(timeline.step_time_s)}. ` +
        "Left and right arrow: previous and next task; up and down: other rank; plus and minus: zoom; zero: whole step."});
    this.live = el("p", {class: "live", role: "status", "aria-live": "polite"});
    this.transform = zoomIdentity;
    this.cursor = null;
  }

  resize(width) {
    this.width = width;
    this.height = this.data.ranks.length * this.each + kAxis;
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.base = scaleLinear([0, this.data.end], [kLeft, width - kRight]);
    this.setUpZoom();
    this.draw();
  }

  setUpZoom() {
    const inner = [[kLeft, 0], [this.width - kRight, this.height]];
    this.zoom = zoom().scaleExtent([1, 2000]).extent(inner).translateExtent(inner)
      // The wheel alone scrolls the page; dragging only makes sense once zoomed in.
      .filter((event) => event.type === "wheel" ? event.ctrlKey || event.metaKey
        : event.type.startsWith("touch") ? event.touches.length > 1 || this.transform.k > 1 : !event.button)
      .on("zoom", (event) => {
        this.transform = event.transform;
        tip.hide();
        this.draw();
      });
    select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
  }

  zoomBy(factor) {
    select(this.canvas).call(this.zoom.scaleBy, factor);
  }

  reset() {
    select(this.canvas).call(this.zoom.transform, zoomIdentity);
  }

  get scale() {
    return this.transform.rescaleX(this.base);
  }

  barAt(x, y) {
    const rank = this.data.ranks[Math.floor(y / this.each)];
    if (!rank || x < kLeft) return undefined;
    const scale = this.scale, time = scale.invert(x), slack = scale.invert(x + 1) - time;
    const inRow = y % this.each;
    const send = inRow > this.each - 7 ? at(rank.sends, time, 2 * slack) : undefined;
    return send ?? at(rank.bars, time, slack);
  }

  draw() {
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const c = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.font = `12px ${style.fontFamily}`;
    const scale = this.scale;
    this.data.ranks.forEach((rank, i) => this.drawRank(c, rank, i, scale, colour));
    this.drawOmitted(c, scale, colour);
    c.fillStyle = colour("surface");  // what was drawn under the labels
    c.fillRect(0, 0, kLeft, this.height);
    c.fillStyle = colour("ink-2");
    c.textBaseline = "middle";
    c.textAlign = "right";
    const every = Math.ceil(14 / this.each);
    this.data.ranks.forEach((_, i) => {
      if (i % every === 0) c.fillText(`rank ${i}`, kLeft - 8, (i + 0.5) * this.each);
    });
    this.drawAxis(c, scale, colour);
  }

  drawRank(c, rank, i, scale, colour) {
    const [from, to] = scale.domain(), y = i * this.each;
    const high = this.each - (this.each > 16 ? 9 : 5);
    c.fillStyle = colour("t-idle");
    c.fillRect(scale(0), y + 2, scale(this.data.end) - scale(0), high);
    const bars = visible(rank.bars, from, to);
    for (const bar of bars) {
      const x = scale(bar.start), wide = scale(bar.end) - x;
      c.fillStyle = colour(bar.style);
      c.fillRect(x, y + 2, Math.max(wide - (wide > 3 ? 1 : 0), 0.4), high);
      if (wide > 22 && high > 12 && bar.microbatch !== undefined) {
        c.fillStyle = colour(`${bar.style}-ink`);
        c.textAlign = "center";
        c.textBaseline = "middle";
        c.fillText(String(bar.microbatch), x + wide / 2, y + 2 + high / 2);
      }
    }
    c.fillStyle = colour("t-send");
    for (const send of visible(rank.sends, from, to)) {
      const x = scale(send.start);
      c.fillRect(x, y + high + 3, Math.max(scale(send.end) - x, 0.6), this.each > 16 ? 4 : 2);
    }
    if (this.cursor?.rank === i) {
      const x = scale(this.cursor.start);
      c.strokeStyle = colour("ink");
      c.lineWidth = 2;
      c.strokeRect(x, y + 2, Math.max(scale(this.cursor.end) - x, 2), high);
    }
  }

  drawOmitted(c, scale, colour) {
    const gap = this.data.omitted;
    if (!gap) return;
    const x = scale(gap.start_us), wide = scale(gap.end_us) - x, high = this.height - kAxis;
    c.save();
    c.beginPath();
    c.rect(x, 0, wide, high);
    c.clip();
    c.fillStyle = colour("surface");
    c.fillRect(x, 0, wide, high);
    c.strokeStyle = colour("line");
    c.lineWidth = 1;
    for (let at = x - high; at < x + wide; at += 8) {
      if (at + high < 0 || at > this.width) continue;
      c.beginPath();
      c.moveTo(at, high);
      c.lineTo(at + high, 0);
      c.stroke();
    }
    c.restore();
    const text = `${format.time((gap.end_us - gap.start_us) / 1e6)} of the same`;
    const middle = (Math.max(x, kLeft) + Math.min(x + wide, this.width)) / 2;
    const room = c.measureText(text).width + 16;
    if (wide < room) return;
    c.fillStyle = colour("surface");
    c.fillRect(middle - room / 2, high / 2 - 11, room, 22);
    c.fillStyle = colour("ink-2");
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillText(text, middle, high / 2);
  }

  drawAxis(c, scale, colour) {
    const y = this.height - kAxis;
    c.strokeStyle = colour("line");
    c.fillStyle = colour("ink-2");
    c.lineWidth = 1;
    c.textAlign = "center";
    c.textBaseline = "top";
    const seconds = scale.copy().domain(scale.domain().map((t) => t / 1e6));
    const ticks = seconds.ticks(Math.max(2, this.width / 110));
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
    const [unit, factor] = step >= 0.1 ? ["s", 1] : step >= 1e-4 ? ["ms", 1e3] : ["us", 1e6];
    const digits = Math.max(0, -Math.floor(Math.log10(step * factor) + 1e-9));
    for (const tick of ticks) {
      const x = seconds(tick);
      if (x < kLeft - 1 || x > this.width - 20) continue;
      c.beginPath();
      c.moveTo(x, y);
      c.lineTo(x, y + 5);
      c.stroke();
      c.fillText(`${(tick * factor).toFixed(digits)} ${unit}`, x, y + 8);
    }
  }

  // Moves the keyboard's cursor and keeps it in view.
  move(rankStep, taskStep) {
    const ranks = this.data.ranks;
    if (!this.cursor) {
      this.cursor = ranks[0].bars[0];
    } else if (rankStep !== 0) {
      const row = Math.min(ranks.length - 1, Math.max(0, this.cursor.rank + rankStep));
      const time = (this.cursor.start + this.cursor.end) / 2;
      this.cursor = ranks[row].bars.reduce((best, bar) =>
        Math.abs((bar.start + bar.end) / 2 - time) < Math.abs((best.start + best.end) / 2 - time) ? bar : best);
    } else {
      const {bars} = ranks[this.cursor.rank];
      this.cursor = bars[Math.min(bars.length - 1, Math.max(0, bars.indexOf(this.cursor) + taskStep))];
    }
    const middle = this.base((this.cursor.start + this.cursor.end) / 2);
    const x = this.transform.applyX(middle);
    if (x < kLeft || x > this.width - kRight) {
      select(this.canvas).call(this.zoom.translateTo, middle, 0);
    }
    this.live.textContent = describe(this.cursor).join(", ");
    this.draw();
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => {
      const place = this.canvas.getBoundingClientRect();
      const bar = this.barAt(event.clientX - place.left, event.clientY - place.top);
      if (bar) tip.show(event.clientX, event.clientY, describe(bar));
      else tip.hide();
    });
    this.canvas.addEventListener("pointerleave", tip.hide);
    const keys = {ArrowLeft: () => this.move(0, -1), ArrowRight: () => this.move(0, 1),
      ArrowUp: () => this.move(-1, 0), ArrowDown: () => this.move(1, 0),
      "+": () => this.zoomBy(2), "=": () => this.zoomBy(2), "-": () => this.zoomBy(0.5), 0: () => this.reset()};
    this.canvas.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    for (const event of ["beforeprint", "afterprint"]) addEventListener(event, () => this.draw());
  }
}

function stageTable(timeline, plan, model) {
  const number = (text) => ({text, number: true});
  const mixed = plan.stages.some(({kinds}) => kinds.length > 1);
  const header = [{text: "rank"}, number("layers"), mixed ? {text: "kinds"} : null, number("forward"), number("backward"), number("first task"),
    number("last task ends")].filter(Boolean);
  return table("Stages of the pipeline", header, timeline.ranks.map(({tasks}, rank) => {
    const stage = plan.stages[rank];
    return [String(rank), `${stage.layers}${stage.embedding && model?.encoder ? " + encoder" : ""}${stage.embedding ? " + embedding" : ""}${stage.head ? " + head" : ""}`,
      ...(mixed ? [stage.kinds.map(({kind, layers}) => `${layers} ${kind}`).join(", ")] : []),
      format.time(stage.forward_s), format.time(stage.backward_s), format.time(tasks.starts_us[0] / 1e6),
      format.time(tasks.ends_us[tasks.ends_us.length - 1] / 1e6)];
  }));
}

export function timeline(result, plan, resized) {
  const data = result.timeline;
  if (!data) return null;
  const drawing = new Drawing(data);
  const holder = el("div", {class: "chart"}, drawing.canvas);
  resized(holder, (width) => drawing.resize(width));
  drawing.listen();
  const button = (text, label, act) => el("button", {type: "button", "aria-label": label, onclick: act}, text);
  const split = data.ranks.some(({tasks}) => /[IW]/.test(tasks.kinds));
  const entries = [["t-forward", "forward"], ["t-backward", split ? "input gradient" : "backward"],
    split ? ["t-weight", "weight gradient"] : null, data.ranks.length > 1 ? ["t-send", "send"] : null,
    ["t-reduce", "reduction"], ["t-update", "optimizer"], ["t-idle", "bubble"]].filter(Boolean);
  return section("schedule", "The step over time",
    figure(`${data.schedule}, ${format.thousands(data.microbatches)} microbatches, ` +
      `${data.chunks} chunks on ${data.ranks.length} pipeline ranks. Hover for a task; drag to move, ` +
      "Ctrl and wheel or the buttons to zoom.",
    el("div", {class: "toolbar"}, legend(entries), el("span", {class: "buttons"},
      button("+", "Zoom in", () => drawing.zoomBy(2)), button("−", "Zoom out", () => drawing.zoomBy(0.5)),
      button("Whole step", "Show the whole step", () => drawing.reset()))),
    holder, drawing.live),
    asTable("The stages as a table", stageTable(data, plan, result.model)));
}

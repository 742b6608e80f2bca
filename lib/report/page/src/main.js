// Reads the result that the program embedded and lays the report out. Nothing is computed here that
// the program did not: numbers are shown as they are, or as lengths and shares of each other.
import {accuracy} from "./accuracy.js";
import {communication} from "./communication.js";
import {compare} from "./compare.js";
import {el} from "./dom.js";
import {memory} from "./memory.js";
import {placement} from "./placement.js";
import {scatter} from "./scatter.js";
import {searched, summary} from "./summary.js";
import {breakdown} from "./time.js";
import {fallback, goodput, pareto, sensitivity, sweep} from "./study.js";
import {timeline} from "./timeline.js";
import * as tip from "./tip.js";
import {validated} from "./validated.js";

// Calls draw(width) for the holder now and whenever its width changes.
const drawings = new Map();
const watcher = new ResizeObserver((entries) => {
  for (const {target, contentRect} of entries) redraw(target, Math.floor(contentRect.width));
});

function redraw(holder, width) {
  const drawing = drawings.get(holder);
  if (width <= 0 || drawing.width === width) return;
  drawing.width = width;
  drawing.draw(width);
}

function resized(holder, draw) {
  drawings.set(holder, {draw, width: 0});
  watcher.observe(holder);
}

function contents(sections) {
  return el("nav", {class: "contents", "aria-label": "Contents"}, sections.filter((s) => s.id).map((section) =>
    el("a", {href: `#${section.id}`}, section.querySelector("h2").textContent)));
}

// One part that cannot be drawn must not take the others with it.
function guarded(part) {
  try {
    return part();
  } catch (failure) {
    console.error(failure);
    return el("p", {class: "warning"}, el("strong", {}, "A part of this report could not be drawn: "), failure.message);
  }
}

// What `meshplan plan` or `estimate` found.
function planned(result) {
  const plan = (result.plans ?? (result.plan ? [result.plan] : []))[0];
  document.title = `${result.model.name} on ${result.cluster.name} · meshplan`;
  const [head, answer, why] = summary(result, plan);
  const parts = [() => breakdown(plan), () => memory(result, plan, resized), () => timeline(result, plan, resized),
    () => communication(plan), () => placement(result), () => scatter(result, resized), () => pareto(result),
    () => compare(result), () => validated(result, resized), () => sensitivity(result), () => sweep(result, resized), () => goodput(result),
    () => fallback(result)];
  const sections = [why, ...(plan ? parts.map(guarded) : []), guarded(() => searched(result))].filter(Boolean);
  document.getElementById("origin").textContent = `Written by ${result.tool.name} ${result.tool.version}. ` +
    "The numbers of this page are the JSON inside it.";
  return [head, answer, contents(sections), ...sections];
}

// What meshplan-accuracy compared.
function compared(result) {
  document.title = "Predicted against measured · meshplan";
  document.getElementById("origin").textContent = "Written by meshplan-accuracy. The numbers of this page are the JSON inside it.";
  return accuracy(result, resized);
}

function main() {
  const result = JSON.parse(document.getElementById("result").textContent);
  document.getElementById("report").replaceChildren(...(result.macro ? compared(result) : planned(result)));
  tip.install();
  const folded = () => document.querySelectorAll("main details");
  addEventListener("beforeprint", () => folded().forEach((d) => { d.open = true; }));
  document.documentElement.dataset.ready = "true";
}

main();

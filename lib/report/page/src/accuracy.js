// Published training runs, predicted against measured: what meshplan-accuracy writes.
import {agreement} from "./agreement.js";
import {el, asTable, figure, section, svg, table} from "./dom.js";
import * as format from "./format.js";

const kTolerance = 0.1;
const number = (text) => ({text, number: true});

// Colours spread by the golden angle: neighbouring sources differ.
const colour = (i) => `hsl(${Math.round(i * 180 * (3 - Math.sqrt(5))) % 360} 65% 45%)`;

const cell = (value, text) => value === null || value === undefined ? "" : text(value);
const errors = (stats) => [cell(stats?.bias, format.change), cell(stats?.median_abs, format.percent),
  cell(stats?.mean_abs, format.percent), cell(stats?.p90_abs, format.percent)];
const choice = (c) => [cell(c?.regret_mean, format.percent), cell(c?.kendall_tau, (tau) => tau.toFixed(2))];

function sourceTable(report, names) {
  const swatch = (i) => svg("svg", {width: 10, height: 10, "aria-hidden": "true"},
    svg("circle", {cx: 5, cy: 5, r: 5, fill: colour(i)}));
  const rows = names.map((name, i) => {
    const s = report.sources[name];
    return [el("span", {}, swatch(i), ` ${name}`), format.thousands(s.n), ...errors(s.step_time),
      cell(s.memory?.median_abs, format.percent), ...choice(s.choice)];
  });
  const {macro} = report;
  rows.push([`mean of ${macro.sources} sources`, "", ...errors(macro.step_time), cell(macro.memory?.median_abs, format.percent),
    ...choice(macro.choice)]);
  return table("Errors by source", [{text: "source"}, number("runs"), number("bias"), number("median"), number("mean"),
    number("90th percentile"), number("memory, median"), number("regret, mean"), number("Kendall tau")], rows);
}

function runTable(runs) {
  return table("Every run", [{text: "run"}, number("measured"), number("predicted"), number("error"), number("memory error")],
    runs.map((r) => [r.id, format.time(r.measured_s), format.time(r.predicted_s), format.change(r.error),
      cell(r.memory_error, format.change)]));
}

// While a source's row is pointed at or has the focus, the runs of the others fade.
function showOneByOne(rows, names, holder) {
  const show = (name) => holder.querySelectorAll("circle").forEach((node) =>
    node.classList.toggle("faded", name !== null && node.dataset.source !== name));
  names.forEach((name, i) => {
    const row = rows[i];
    row.tabIndex = 0;
    for (const event of ["pointerenter", "focus"]) row.addEventListener(event, () => show(name));
    for (const event of ["pointerleave", "blur"]) row.addEventListener(event, () => show(null));
  });
}

export function accuracy(report, resized) {
  const names = Object.keys(report.sources), holder = el("div", {class: "chart"});
  const points = report.runs.map((run) => ({...run,
    attributes: {class: "point source", r: 3, fill: colour(names.indexOf(run.source)), "data-source": run.source},
    describe: () => [run.id, `${format.change(run.error)}: predicted ${format.time(run.predicted_s)}, measured ${format.time(run.measured_s)}`,
      run.source]}));
  const what = `${format.thousands(points.length)} published training runs`;
  if (points.length > 0) resized(holder, (width) => holder.replaceChildren(agreement(points, {what, tolerance: kTolerance}, width)));
  const sources = sourceTable(report, names);
  showOneByOne([...sources.querySelectorAll("tbody tr")], names, holder);
  return [
    el("header", {class: "title"}, el("p", {class: "kicker"}, "meshplan-accuracy"), el("h1", {}, "Predicted against measured"),
      el("p", {class: "subject"}, `${what} of ${names.length} sources. Errors are predicted / measured - 1.`)),
    section("runs", "Step times", points.length === 0 ? null : figure("Each point is one run; on the line it took what was predicted, " +
      `in the band within ${format.percent(kTolerance)} of it. Point at a source in the table to see its runs alone.`, holder),
    asTable("Every run as a table", runTable(report.runs))),
    section("sources", "Sources", sources),
    report.skipped.length === 0 ? null : section("skipped", "Skipped", asTable(`${format.thousands(report.skipped.length)} runs, each for a stated reason`,
      table("Skipped runs", [{text: "run"}, {text: "source"}, {text: "reason"}], report.skipped.map((s) => [s.id, s.source, s.reason])))),
  ].filter(Boolean);
}

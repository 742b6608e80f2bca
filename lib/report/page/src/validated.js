// Predicted against measured, where `meshplan validate` ran: the step times of the plans, and every
// operation that was measured.
import {agreement} from "./agreement.js";
import {el, asTable, figure, legend, section, table} from "./dom.js";
import * as format from "./format.js";
import {dimensions} from "./terms.js";

const number = (text) => ({text, number: true});
const part = (key) => dimensions[key] ?? key;

// One point per operation and measurement, however many plans and how often a step has it.
function measured(plans) {
  const seen = new Map();
  for (const plan of plans) {
    for (const op of plan.operations) {
      if (!op.run) continue;
      const key = `${op.run.text} ${op.run.measured_s}`;
      const known = seen.get(key);
      if (known) known.names.add(`${part(op.part)}: ${op.name}`);
      else seen.set(key, {...op.run, part: op.part, fidelity: op.fidelity, names: new Set([`${part(op.part)}: ${op.name}`])});
    }
  }
  return [...seen.values()];
}

function describe(op) {
  return [op.text, `predicted ${format.time(op.predicted_s)}, measured ${format.time(op.measured_s)}`,
    `${format.change(op.ratio - 1)}, spread ${format.percent(op.spread)}`, ...op.names];
}

function chart(ops, tolerance, width) {
  const style = (op) => op.part === "compute" || op.part === "optimizer" ? "ranked" : "pareto";
  const points = ops.map((op) => ({...op, attributes: {class: `point ${style(op)}`, r: 4.5}, describe: () => describe(op)}));
  return agreement(points, {what: `${ops.length} operations`, tolerance}, width);
}

function machine(m) {
  const devices = [...new Set(m.ranks.map((rank) => rank.device))];
  return `${format.thousands(m.ranks.length)} ranks (${devices.slice(0, 3).join(", ")}) on ${format.thousands(m.nodes)} ` +
    `${m.nodes === 1 ? "node" : "nodes"}, ${m.backend}, ${m.date.slice(0, 10)}`;
}

function planTable(checks) {
  return table("Step times with measured operations in place of predicted ones",
    [{text: "plan"}, number("predicted"), number("with measurements"), number("deviation"), number("rank then"),
      number("measured"), number("on fewer ranks"), number("not measured")],
    checks.map((c) => [`${c.rank}`, format.time(c.predicted_step_time_s), format.time(c.step_time_s),
      el("span", {class: c.within_tolerance ? "good" : "off", "data-deviation": c.deviation},
        `${format.change(c.deviation)}${c.within_tolerance ? "" : " !"}`),
      `${c.new_rank}`, format.percent(c.coverage), format.percent(c.extrapolated), format.percent(c.unmeasured)]));
}

// Deviations of nothing that come from the host, not from predictions that hold.
function hostNotes(checks) {
  return checks.filter((c) => c.host?.bound).map((c) => el("p", {class: "note"},
    `Plan ${c.rank} is bound by the host: launching kernels takes ${format.time(c.host.launches_s)} of the predicted ` +
    `${format.time(c.predicted_step_time_s)}, and hides ${format.time(Math.abs(c.host.hidden_s))} by which operations were ` +
    `measured ${c.host.hidden_s > 0 ? "slower" : "faster"} than predicted.`));
}

function operationTable(ops) {
  const far = [...ops].sort((a, b) => Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio)));
  return table("Measured operations, the furthest off first",
    [{text: "operation"}, number("predicted"), number("measured"), number("difference"), number("spread")],
    far.map((op) => [op.text, format.time(op.predicted_s), format.time(op.measured_s), format.change(op.ratio - 1),
      format.percent(op.spread)]));
}

export function validated(result, resized) {
  const v = result.validation;
  if (!v) return null;
  const ops = measured(v.plans), holder = el("div", {class: "chart"});
  if (ops.length > 0) resized(holder, (width) => holder.replaceChildren(chart(ops, v.tolerance, width)));
  return section("validated", "Predicted against measured",
    el("p", {class: "note"}, `${format.thousands(v.samples)} operations of these plans were measured on ${machine(v.machine)}` +
      `${v.not_reached > 0 ? `; ${format.thousands(v.not_reached)} were not reached` : ""}. ` +
      `${v.within_tolerance ? "Every step time is" : "Not every step time is"} within ${format.percent(v.tolerance)} of its prediction.`),
    v.failures.map((text) => el("p", {class: "warning"}, el("strong", {}, "Failed: "), text)),
    planTable(v.plans),
    hostNotes(v.plans),
    ops.length === 0 ? null : figure("Each point is one operation that was measured; on the line it took what was predicted, " +
      `in the band within ${format.percent(v.tolerance)} of it.`,
    legend([["p-ranked", "kernels"], ["p-pareto", "communication"]]), holder),
    ops.length === 0 ? null : asTable("Measured operations as a table", operationTable(ops)));
}

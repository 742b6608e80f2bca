// Studies around the best plan, where the result holds them: other sizes of the cluster, the front
// of time and memory, what the answer depends on, what failures and lost nodes cost.
import {scaleLinear, scaleLog} from "d3-scale";
import {line} from "d3-shape";
import {breakable, el, figure, legend, section, svg, table} from "./dom.js";
import * as format from "./format.js";
import * as tip from "./tip.js";

const number = (text) => ({text, number: true});

function strip(parts) {
  return el("div", {class: "strip", role: "img", "aria-label": parts.map(([, label, value]) => `${label} ${format.percent(value)}`).join(", ")},
    parts.map(([style, label, value]) => {
      const part = el("span", {class: style, "data-value": value});
      part.style.flexGrow = value;
      tip.attach(part, () => [label, format.percent(value)]);
      return part;
    }));
}

export function goodput(result) {
  const study = result.goodput;
  if (!study || study.plans.length === 0) return null;
  const best = study.plans[0];
  const parts = [["update", "useful", best.useful_share], ["again", "writing checkpoints", best.checkpoint_share],
    ["talk", "lost to failures", best.lost_share]];
  return section("goodput", "What failures leave of it",
    figure(`With ${format.small(study.failures_per_gpu_hour)} failures per GPU and hour, one ends the job every ` +
      `${format.time(best.time_between_failures_s)} on average. A checkpoint (${format.bytes(best.checkpoint_bytes)}, ` +
      `${format.time(best.checkpoint_time_s)}) every ${format.thousands(best.steps_per_checkpoint)} steps, ` +
      `${format.time(best.daly_interval_s)}, loses the least: ${format.count(best.tokens_per_s)} tokens/s remain.`,
    strip(parts), legend(parts.map(([style, label, value]) => [style, `${label} ${format.percent(value)}`]))));
}

// Efficiency against the number of GPUs.
function sweepChart(sizes, knee, width) {
  const height = 260, left = 52, right = 20, top = 24, bottom = 40;
  const [least, most] = [Math.min(...sizes.map((s) => s.gpus)), Math.max(...sizes.map((s) => s.gpus))];
  const x = scaleLog([least, most === least ? least * 2 : most], [left + 10, width - right - 10]);
  const y = scaleLinear([0, Math.max(1, ...sizes.map((s) => s.efficiency))], [height - bottom, top]).nice();
  const node = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `Efficiency at ${sizes.length} sizes: ` +
      sizes.map((s) => `${format.thousands(s.gpus)} GPUs ${format.percent(s.efficiency)}`).join(", ")});
  for (const tick of y.ticks(5)) {
    node.append(svg("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
      svg("text", {class: "tick", x: left - 8, y: y(tick), dy: ".35em", "text-anchor": "end"}, `${Math.round(100 * tick)} %`));
  }
  node.append(svg("text", {class: "label", x: 0, y: 12}, "↑ efficiency"),
    svg("text", {class: "label", x: width - right, y: height - 4, "text-anchor": "end"}, "GPUs →"),
    svg("path", {class: "line", d: line((s) => x(s.gpus), (s) => y(s.efficiency))(sizes)}));
  let labelled = -Infinity;
  for (const size of sizes) {
    const at = x(size.gpus);
    if (at - labelled > 56) {
      labelled = at;
      node.append(svg("text", {class: "tick", x: at, y: height - bottom + 16, "text-anchor": "middle"}, format.thousands(size.gpus)));
    }
    const point = svg("circle", {class: `point ${size.gpus === knee ? "ranked" : "fit"}`, cx: at, cy: y(size.efficiency),
      r: size.gpus === knee ? 6 : 4.5, "data-gpus": size.gpus, "data-efficiency": size.efficiency});
    tip.attach(point, () => [`${format.thousands(size.gpus)} GPUs${size.gpus === knee ? ", the knee" : ""}`,
      `${format.time(size.plan.step_time_s)} a step, ${format.count(size.plan.tokens_per_s)} tokens/s`,
      `efficiency ${format.percent(size.efficiency)}`, size.plan.strategy_text]);
    node.append(point);
  }
  return node;
}

// What a column of utilisations holds; files of earlier versions have the full count alone.
function convention(plans) {
  return plans.some((p) => p?.mfu_causal !== undefined) ? "MFU (causal)" : "MFU (attention in full)";
}

export function sweep(result, resized) {
  const study = result.sweep;
  if (!study) return null;
  const fitting = study.sizes.filter((s) => s.plan);
  const holder = el("div", {class: "chart"});
  if (fitting.length > 0) resized(holder, (width) => holder.replaceChildren(sweepChart(fitting, study.knee_gpus, width)));
  const priced = fitting.some((s) => s.plan.usd_per_billion_tokens !== undefined);
  const rows = study.sizes.map((s) => [format.thousands(s.gpus), ...(s.plan
    ? [format.time(s.plan.step_time_s), format.count(s.plan.tokens_per_s), s.speedup.toFixed(2), format.percent(s.efficiency),
      format.percent(s.plan.mfu_causal ?? s.plan.mfu), format.bytes(s.plan.peak_bytes),
      priced ? format.money(s.plan.usd_per_billion_tokens ?? 0) : null]
    : ["does not fit", "", "", "", "", "", priced ? "" : null]).filter((cell) => cell !== null)]);
  return section("sweep", "Other sizes of the cluster",
    figure(`Efficiency is the throughput per GPU against that of ${format.thousands(study.base_gpus ?? 0)} GPUs.` +
      (study.knee_gpus ? ` At the knee, ${format.thousands(study.knee_gpus)} GPUs, efficiency over step time is largest; ` +
        `the plans of this report are for ${format.thousands(study.recommended_gpus ?? study.knee_gpus)} GPUs.` : ""), holder),
    table("The best plan of each size", [{text: "GPUs"}, number("step time"), number("tokens/s"), number("speed-up"),
      number("efficiency"), number(convention(study.sizes.map((s) => s.plan))), number("peak memory"), ...(priced ? [number("per billion tokens")] : [])], rows));
}

export function pareto(result) {
  const front = result.pareto;
  if (!front || front.points.length === 0) return null;
  const priced = front.points.some((p) => p.usd_per_step !== undefined);
  return section("pareto", "The front of time and memory",
    el("p", {class: "note"}, `${front.proof === "exact" ? "Proved: no plan" : "As far as was searched, no plan"} of the space is both ` +
      `faster and smaller than one of these, to ${format.bytes(front.resolution_bytes)} of memory.`),
    table("The front of time and memory", [{text: "step time"}, number("peak memory"), number("memory free"), number(convention(front.points)),
      ...(priced ? [number("cost of a step")] : []), {text: "strategy"}],
    front.points.map((p) => [format.time(p.step_time_s), format.bytes(p.peak_bytes), format.bytes(p.headroom_bytes),
      format.percent(p.mfu_causal ?? p.mfu), ...(priced ? [p.usd_per_step === undefined ? "" : format.money(p.usd_per_step)] : []),
      el("code", {}, breakable(p.strategy_text))])));
}

function changeCell(change, most, side) {
  const shown = change.kept ?? change.best;
  if (!shown) return el("td", {class: `swing ${side}`}, "nothing fits");
  const none = format.change(shown.change) === format.change(0);
  const bar = el("span", {class: `bar ${none ? "idle" : shown.change > 0 ? "talk" : "update"}`, "data-change": shown.change});
  bar.style.width = `${100 * Math.abs(shown.change) / most}%`;
  const text = format.change(shown.change);
  const note = !change.kept ? "the plan no longer runs" : !change.same_choice ? "another plan wins" : null;
  const cell = el("td", {class: `swing ${side}`}, el("span", {class: "swing-text"}, text, note ? el("small", {}, ` ${note}`) : null), bar);
  tip.attach(cell, () => [`times ${change.factor}: ${text}`, `${format.time(shown.step_time_s)} a step`,
    ...(note && change.best ? [`best then: ${change.best.strategy_text}`] : [])]);
  return cell;
}

export function sensitivity(result) {
  const study = result.sensitivity;
  if (!study || study.rows.length === 0) return null;
  const changes = study.rows.flatMap((row) => [row.less, row.more]).map((c) => Math.abs((c.kept ?? c.best)?.change ?? 0));
  const most = Math.max(1e-9, ...changes);
  return section("sensitivity", "What the answer depends on",
    el("p", {class: "note"}, "Change of the time per token when one assumption is off, with the best plan kept where it still runs."),
    el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Sensitivity"},
      el("table", {class: "bars tornado"},
        el("thead", {}, el("tr", {}, ["assumption", "less of it", "more of it"].map((text) => el("th", {scope: "col"}, text)))),
        el("tbody", {}, study.rows.map((row) => el("tr", {}, el("th", {scope: "row"}, row.name),
          changeCell(row.less, most, "left"), changeCell(row.more, most, "right")))))));
}

export function fallback(result) {
  const book = result.fallback;
  if (!book || book.entries.length === 0) return null;
  return section("fallback", "When nodes are lost",
    table("Fallback plans", [{text: "nodes lost"}, number("nodes used"), number("step time"), number("slower by"),
      {text: "checkpoint"}, {text: "strategy"}],
    book.entries.map((entry) => entry.plan
      ? [format.thousands(entry.nodes_lost), `${format.thousands(entry.nodes_used)} of ${format.thousands(entry.nodes_left)}`,
        format.time(entry.plan.step_time_s), format.percent(entry.slowdown - 1),
        el("span", {title: entry.reshard.source}, entry.reshard.how), el("code", {}, breakable(entry.plan.strategy_text))]
      : [format.thousands(entry.nodes_lost), "–", "–", "–", "no plan fits", ""])));
}

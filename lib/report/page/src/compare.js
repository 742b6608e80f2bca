// The best plans side by side.
import {el, section} from "./dom.js";
import * as format from "./format.js";
import {shortName, timeTerms} from "./terms.js";

const kMostPlans = 6;

function flat(strategy, prefix = "") {
  return Object.entries(strategy).flatMap(([key, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flat(value, `${prefix}${key}.`) : [[prefix + key, format.keyText(value)]]);
}

function row(label, cells, marked) {
  return el("tr", {class: marked ? "differs" : null}, el("th", {scope: "row"}, label),
    cells.map((cell) => el("td", {class: "number"}, cell)));
}

function heading(text, columns) {
  return el("tr", {class: "group"}, el("th", {scope: "colgroup", colspan: columns}, text));
}

// Files of earlier versions have the full count alone.
function utilisation(plans) {
  const full = row("MFU, attention counted in full", plans.map((p) => format.percent(p.mfu)));
  if (plans.some((p) => p.mfu_causal === undefined)) return [full];
  return [row("MFU, causal attention counted half", plans.map((p) => format.percent(p.mfu_causal))), full];
}

export function compare(result) {
  const plans = (result.plans ?? []).filter((p) => p.group === undefined || p.group === p.rank).slice(0, kMostPlans);
  if (plans.length < 2) return null;
  const fullest = (p) => p.memory[p.fullest_stage];
  const strategies = plans.map((p) => new Map(flat(p.strategy)));
  const differing = [...strategies[0].keys()].filter((key) =>
    strategies.some((s) => s.get(key) !== strategies[0].get(key)));
  const terms = timeTerms.filter(([key]) => plans.some((p) => p.time[key] > 0));
  const priced = plans.some((p) => p.usd_per_step !== undefined);
  const columns = plans.length + 1;
  return section("compare", "The best plans side by side",
    el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison of the best plans"},
      el("table", {class: "compare"},
        el("thead", {}, el("tr", {}, el("td", {}), plans.map((p) =>
          el("th", {scope: "col", class: "number"}, `${p.rank}`, el("small", {}, shortName(p.strategy)),
            p.against_best?.practically_tied ? el("small", {class: "tied"}, "tied with 1") : null)))),
        el("tbody", {},
          row("step time", plans.map((p) => format.time(p.step_time_s))),
          row("tokens/s per GPU", plans.map((p) => format.thousands(p.tokens_per_s_per_gpu))),
          ...utilisation(plans),
          row("peak memory", plans.map((p) => format.bytes(fullest(p).peak_bytes))),
          plans.every((p) => p.out_of_memory_probability !== undefined)
            ? row("out-of-memory risk", plans.map((p) => format.chance(p.out_of_memory_probability))) : null,
          plans.some((p) => p.against_best)
            ? row("chance that 1 is faster", plans.map((p) => p.against_best ? format.chance(p.against_best.best_is_faster_probability) : "–")) : null,
          priced ? row("cost of a step", plans.map((p) => p.usd_per_step === undefined ? "" : format.money(p.usd_per_step))) : null,
          heading("Time", columns),
          terms.map(([key, label]) => row(label, plans.map((p) => p.time[key] > 0 ? format.time(p.time[key]) : "–"))),
          heading("Strategy keys that differ", columns),
          differing.length === 0 ? row("none", plans.map(() => "")) : null,
          differing.map((key) => row(key, strategies.map((s) => s.get(key) ?? "–")))))),
    el("details", {}, el("summary", {}, "All keys of the best plan"),
      el("table", {class: "keys"}, el("tbody", {}, [...strategies[0]].map(([key, value]) =>
        el("tr", {}, el("th", {scope: "row"}, key), el("td", {}, value)))))));
}

// The answer first: what the best plan is, how fast, how sure, and why.
import {breakable, el, section} from "./dom.js";
import * as format from "./format.js";
import {shortName, timeTerms} from "./terms.js";

function fact(label, value, note) {
  return el("div", {class: "fact"}, el("dt", {}, label), el("dd", {}, value, note ? el("small", {}, note) : null));
}

function copyButton(text) {
  const button = el("button", {type: "button", class: "copy"}, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {  // no permission, as in files opened from a disk by some browsers
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

const timeNames = Object.fromEntries(timeTerms.map(([key, label]) => [key, label]));

function outOfMemory(plan) {
  const [low, high] = plan.memory_interval_bytes ?? [];
  return fact("out-of-memory risk", format.chance(plan.out_of_memory_probability),
    low === undefined ? null : `expected peak ${format.range(format.bytes(low), format.bytes(high))}`);
}

// Plans whose order the predictions cannot tell.
function ties(result) {
  const tied = (result.plans ?? []).filter((p) => p.against_best?.practically_tied && (p.group ?? p.rank) === p.rank);
  if (tied.length === 0) return null;
  const ranks = tied.map((p) => String(p.rank));
  const last = ranks.pop();
  const names = ranks.length === 0 ? ` ${last}` : `s ${ranks.join(", ")} and ${last}`;
  const {separating_term: term, measure} = tied[0].against_best;
  return el("p", {class: "ties"}, `Practically tied with plan${names}. The first of them differs most in `,
    `${(timeNames[term] ?? "nothing").replace("comm.", "communication")}`,
    measure ? `; to tell them apart, measure ${measure}.` : ".");
}

function facts(result, plan) {
  const fullest = plan.memory[plan.fullest_stage];
  const free = fullest.capacity_bytes - fullest.peak_bytes;
  const [low, high] = plan.step_time_interval_s;
  return el("dl", {class: "facts"},
    fact("expected step time", format.range(format.time(low), format.time(high)),
      `pipeline bubble ${format.percent(plan.bubble_fraction)}`),
    fact("throughput", `${format.count(plan.tokens_per_s)} tok/s`,
      `${format.thousands(plan.tokens_per_s_per_gpu)} per GPU`),
    plan.mfu_causal === undefined
      ? fact("utilisation", `${format.percent(plan.mfu)} MFU`,
        `attention in full: ${format.rate(plan.model_tflops_per_gpu)} per GPU, HFU ${format.percent(plan.hfu)}`)
      : fact("utilisation", `${format.percent(plan.mfu_causal)} MFU`,
        `causal attention counted half; in full: ${format.percent(plan.mfu)}, ${format.rate(plan.model_tflops_per_gpu)} per GPU, ` +
        `HFU ${format.percent(plan.hfu)}`),
    fact("memory free", format.bytes(free),
      `${format.bytes(fullest.peak_bytes)} of ${format.bytes(fullest.capacity_bytes)} on the fullest rank`),
    plan.out_of_memory_probability === undefined ? null : outOfMemory(plan),
    plan.usd_per_step === undefined ? null
      : fact("cost", `${format.money(plan.usd_per_step)} a step`,
        result.cluster.usd_per_gpu_hour === undefined ? null
          : `at ${format.money(result.cluster.usd_per_gpu_hour)} per GPU and hour`));
}

function workload(result) {
  const {global_batch, seq_len, tokens_per_step, gpus} = result.workload;
  return `${format.thousands(gpus)} GPUs (${result.cluster.device}), ${format.thousands(global_batch)} sequences of ` +
    `${format.thousands(seq_len)} tokens: ${format.count(tokens_per_step)} tokens a step`;
}

function title(result) {
  return el("header", {class: "title"},
    el("p", {class: "kicker"}, "meshplan report"),
    el("h1", {}, result.model.name, el("span", {class: "on"}, " on "), result.cluster.name),
    el("p", {class: "subject"}, `${format.count(result.model.parameters)} parameters, ${workload(result)}`));
}

function warnings(plan) {
  return plan.warnings.map((text) => el("p", {class: "warning"}, el("strong", {}, "Warning: "), text));
}

function strategyLine(strategy) {
  const text = `--strategy '${strategy}'`;
  return el("div", {class: "strategy-line"}, el("pre", {class: "strategy"}, el("code", {}, breakable(text))), copyButton(text));
}

// A plan named beside the best one: what it is, what it costs, how to ask for it.
function alternative(what, found, none) {
  if (!found) return null;
  if (!found.plan) return el("p", {class: "alternative"}, none);
  return el("div", {class: "alternative"},
    el("p", {}, el("strong", {}, what), `: ${format.time(found.plan.step_time_s)} a step, `, format.slower(found.slowdown), "."),
    strategyLine(found.plan.strategy_text));
}

// A faster plan that asks for more than the recommended one: what it is and what it would bring.
function faster(what, found, how) {
  if (!found) return null;
  if (!found.plan) return el("p", {class: "alternative"}, el("strong", {}, what), ": nothing faster.");
  const risk = `${format.chance(found.out_of_memory_probability)} likely to run out of memory`;
  const gain = found.slowdown === undefined ? "" : `, ${format.percent(1 - found.slowdown)} faster`;
  return el("div", {class: "alternative"},
    el("p", {}, el("strong", {}, what), `: ${format.time(found.plan.step_time_s)} a step${gain}, ${risk} (${how}).`),
    strategyLine(found.plan.strategy_text));
}

function alternatives({runnable, safer, fastest, unbuilt}) {
  const risk = safer && format.chance(safer.risk);
  return [
    faster("With more risk", fastest, "--memory-risk 1"),
    faster("What no framework has built yet", unbuilt, "--space full"),
    alternative(`The best plan of --space ${runnable?.space}`, runnable, `There is none of --space ${runnable?.space}.`),
    alternative(`The best that is at most ${risk} likely to run out of memory`, safer,
      `No plan was found that is at most ${risk} likely to run out of memory.`),
  ];
}

function noPlan(result) {
  const miss = result.closest_miss;
  const stopped = result.search?.proof === "bounded";
  return el("div", {class: "answer bad"},
    el("p", {class: "verdict"}, stopped ? "No plan was found in time."
      : result.fastest?.plan ? `No plan is at most ${format.chance(result.search.memory_risk)} likely to run out of memory.`
        : "No plan fits."),
    ...alternatives(result),
    !miss ? null : el("div", {},
      el("p", {}, "The closest miss: ", ...miss.messages.flatMap((m) => [m, ". "])),
      el("pre", {class: "strategy"}, el("code", {}, breakable(miss.strategy_text))),
      miss.remedies.length === 0 ? null : el("h3", {}, "What would make it fit, cheapest first"),
      el("ol", {}, miss.remedies.map((text) => el("li", {}, text)))));
}

export function summary(result, plan) {
  if (!plan) return [title(result), noPlan(result)];
  const why = result.explanation ?? [];
  return [
    title(result),
    el("div", {class: "answer"},
      el("p", {class: "verdict"}, shortName(plan.strategy), el("span", {class: "time"}, format.time(plan.step_time_s), " a step")),
      facts(result, plan),
      strategyLine(plan.strategy_text),
      ties(result), ...warnings(plan), ...alternatives(result)),
    why.length === 0 ? null : section("why", "Why this plan", el("ul", {class: "why"}, why.map((line) => el("li", {}, format.prose(line))))),
  ];
}

// What was searched and how far the answer is proved.
export function searched(result) {
  const s = result.search;
  if (!s) return null;
  const reasons = Object.entries(s.infeasible).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...reasons.map(([, n]) => n));
  return section("search", "What was searched",
    el("p", {}, s.statement, "."),
    el("p", {}, `${format.thousands(s.space_size)} strategies in ${format.time(s.wall_s)}: `,
      `${format.thousands(s.illegal)} illegal, ${format.thousands(s.pruned)} ruled out by a bound, `,
      `${format.thousands(s.evaluated)} evaluated, ${format.thousands(s.feasible)} of them fit.`),
    reasons.length === 0 ? null : el("details", {}, el("summary", {}, "Ruled out, by reason"),
      el("table", {class: "bars"}, el("tbody", {}, reasons.map(([reason, n]) => {
        const bar = el("span", {class: "bar idle"});
        bar.style.width = `${100 * n / most}%`;
        return el("tr", {}, el("th", {scope: "row"}, reason), el("td", {class: "number"}, format.thousands(n)),
          el("td", {class: "track"}, bar));
      })))));
}

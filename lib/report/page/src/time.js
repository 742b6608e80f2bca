// Where the time of a step goes, term by term.
import {el, figure, legend, section} from "./dom.js";
import * as format from "./format.js";
import {timeKinds, timeTerms} from "./terms.js";
import * as tip from "./tip.js";

export function breakdown(plan) {
  const terms = timeTerms.map(([key, label, style]) => ({key, label, style, value: plan.time[key]}))
    .filter((term) => term.value > 0);
  const most = Math.max(...terms.map((term) => term.value));
  const share = (value) => format.percent(value / plan.step_time_s);

  const strip = el("div", {class: "strip", role: "img",
    "aria-label": `Step time ${format.time(plan.step_time_s)}: ` +
      terms.map((t) => `${t.label} ${format.time(t.value)}`).join(", ")},
  terms.map((term) => {
    const part = el("span", {class: term.style, "data-key": term.key, "data-value": term.value});
    part.style.flexGrow = term.value;
    tip.attach(part, () => [term.label, format.time(term.value), `${share(term.value)} of the step`]);
    return part;
  }));
  const rows = terms.map((term) => {
    const bar = el("span", {class: `bar ${term.style}`});
    bar.style.width = `${100 * term.value / most}%`;
    return el("tr", {"data-key": term.key},
      el("th", {scope: "row"}, term.label),
      el("td", {class: "number"}, format.time(term.value)),
      el("td", {class: "number"}, share(term.value)),
      el("td", {class: "track"}, bar));
  });
  const used = new Set(terms.map((term) => term.style));
  return section("time", "Where the time goes",
    figure("One step as the pipeline rank that finishes last lives it; the terms add up to the step time.",
      strip, legend(timeKinds.filter(([style]) => used.has(style))),
      el("table", {class: "bars"},
        el("caption", {class: "hidden"}, "Terms of the step time"),
        el("thead", {class: "hidden"}, el("tr", {}, ["term", "time", "share of the step", ""].map((t) => el("th", {scope: "col"}, t)))),
        el("tbody", {}, rows))));
}

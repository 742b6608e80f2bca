// What is sent, over which links, and what of it nothing hides.
import {el, section} from "./dom.js";
import * as format from "./format.js";
import {dimensions} from "./terms.js";

export function communication(plan) {
  if (plan.communication.length === 0) {
    return section("communication", "Communication", el("p", {}, "Nothing is sent: one GPU holds the model."));
  }
  const most = Math.max(1e-30, ...plan.communication.map((row) => row.exposed_s));
  const header = ["dimension", "operation", "group", "link level", "bytes", "calls a step", "time each", "exposed a step", ""];
  const rows = plan.communication.map((row) => {
    const bar = el("span", {class: "bar talk"});
    bar.style.width = `${100 * row.exposed_s / most}%`;
    return el("tr", {},
      el("th", {scope: "row"}, dimensions[row.dimension] ?? row.dimension),
      el("td", {}, row.operation),
      el("td", {class: "number"}, format.thousands(row.group_size)),
      el("td", {}, row.level),
      el("td", {class: "number"}, format.bytes(row.bytes)),
      el("td", {class: "number"}, format.thousands(row.count_per_step)),
      el("td", {class: "number"}, format.time(row.time_each_s)),
      el("td", {class: "number"}, format.time(row.exposed_s)),
      el("td", {class: "track short"}, row.exposed_s > 0 ? bar : null));
  });
  return section("communication", "Communication",
    el("p", {class: "note"}, "Bytes of one call, as nccl-tests counts them. Exposed: what no computation hides."),
    el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Communication of one step"},
      el("table", {},
        el("thead", {}, el("tr", {}, header.map((text, i) =>
          el("th", {scope: "col", class: [2, 4, 5, 6, 7].includes(i) ? "number" : null}, text)))),
        el("tbody", {}, rows))));
}

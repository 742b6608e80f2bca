// Measured against predicted times on logarithmic axes: on the line they agree, in the band they are
// within a tolerance of each other.
import {extent} from "d3-array";
import {scaleLog} from "d3-scale";
import {svg} from "./dom.js";
import * as format from "./format.js";
import * as tip from "./tip.js";

const kLeft = 66, kRight = 18, kTop = 26, kBottom = 42;

// Powers of ten inside of a log axis; at least its ends.
function decades([low, high]) {
  const all = [];
  for (let e = Math.ceil(Math.log10(low)); 10 ** e <= high; ++e) all.push(10 ** e);
  return all.length > 1 ? all : [low, high];
}

// points: {predicted_s, measured_s, attributes, describe}: the attributes of its circle, and the lines
// of its tooltip.
export function agreement(points, {what, tolerance}, width) {
  const height = Math.round(Math.min(440, Math.max(280, width * 0.5)));
  const [least, most] = extent(points.flatMap((p) => [p.predicted_s, p.measured_s]));
  const domain = [least / 1.5, most * 1.5];
  const x = scaleLog(domain, [kLeft, width - kRight]), y = scaleLog(domain, [height - kBottom, kTop]);
  const node = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `Measured against predicted time of ${what}`});
  for (const tick of decades(domain)) {
    node.append(svg("line", {class: "grid", x1: kLeft, x2: width - kRight, y1: y(tick), y2: y(tick)}),
      svg("line", {class: "grid", x1: x(tick), x2: x(tick), y1: kTop, y2: height - kBottom}),
      svg("text", {class: "tick", x: kLeft - 8, y: y(tick), dy: ".35em", "text-anchor": "end"}, format.time(tick)),
      svg("text", {class: "tick", x: x(tick), y: height - kBottom + 16, "text-anchor": "middle"}, format.time(tick)));
  }
  const [low, high] = domain;
  const at = (a, b) => `${x(Math.min(Math.max(a, low), high))},${y(Math.min(Math.max(b, low), high))}`;
  const share = 1 + tolerance;
  node.append(
    svg("path", {class: "band", d: `M${at(low, low * share)}L${at(high / share, high)}L${at(high, high)}L${at(high, high / share)}L${at(low * share, low)}L${at(low, low)}Z`}),
    svg("path", {class: "even", d: `M${at(low, low)}L${at(high, high)}`}),
    svg("text", {class: "label", x: 0, y: 12}, "↑ measured"),
    svg("text", {class: "label", x: width - kRight, y: height - 4, "text-anchor": "end"}, "predicted →"));
  for (const p of points) {
    const point = svg("circle", {cx: x(p.predicted_s), cy: y(p.measured_s), "data-predicted": p.predicted_s,
      "data-measured": p.measured_s, ...p.attributes});
    tip.attach(point, p.describe);
    node.append(point);
  }
  return node;
}

// The timeline of a result as lists of bars, and the queries that the drawing asks.
import {bisector} from "d3-array";
import {taskKinds} from "./terms.js";

const firstEnding = bisector((bar) => bar.end).right;

function tasksOf({tasks}, rank) {
  return tasks.starts_us.map((start, i) => {
    const [name, style] = taskKinds[tasks.kinds[i]];
    return {rank, style, name, start, end: tasks.ends_us[i], chunk: tasks.chunks[i], microbatch: tasks.microbatches[i]};
  });
}

function sendsOf({sends}, rank) {
  return sends.starts_us.map((start, i) => ({rank, style: "t-send", start, end: sends.ends_us[i],
    name: `send of ${sends.backward[i] ? "gradients" : "activations"} to rank ${sends.to[i]}`,
    microbatch: sends.microbatches[i]}));
}

function endsOf(timeline, rank) {
  const own = timeline.ranks[rank].gradient_reduction;
  return [["gradient reduction that nothing hides", "t-reduce", own],
    ["first and last passes, beside no other microbatch's", "t-reduce", timeline.unpaired_passes],
    ["reduction of the tied embedding", "t-reduce", timeline.embedding_reduction],
    ["optimizer step", "t-update", timeline.optimizer],
    ["offloading", "t-reduce", timeline.offload]]
    .filter(([, , span]) => span)
    .map(([name, style, span]) => ({rank, name, style, start: span.start_us, end: span.end_us}));
}

export function load(timeline) {
  const ranks = timeline.ranks.map((data, rank) => ({
    bars: [...tasksOf(data, rank), ...endsOf(timeline, rank)].sort((a, b) => a.start - b.start),
    sends: sendsOf(data, rank),
  }));
  return {ranks, end: timeline.step_time_s * 1e6, omitted: timeline.omitted};
}

// Bars of a sorted list that touch [from, to].
export function visible(bars, from, to) {
  const first = firstEnding(bars, from);
  let last = first;
  while (last < bars.length && bars[last].start < to) ++last;
  return bars.slice(first, last);
}

export function at(bars, time, slack) {
  return visible(bars, time - slack, time + slack).find((bar) => bar.start - slack <= time && time <= bar.end + slack);
}

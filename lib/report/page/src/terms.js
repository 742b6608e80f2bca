// What the keys of a result mean, in the order in which they are shown. `style` is a class of
// style.css that sets the colour.

export const timeTerms = [
  ["compute_s", "compute", "work"],
  ["recompute_s", "recomputation", "again"],
  ["tp_comm_exposed_s", "tensor-parallel comm.", "talk"],
  ["cp_comm_exposed_s", "context-parallel comm.", "talk"],
  ["ep_comm_exposed_s", "expert-parallel comm.", "talk"],
  ["pp_comm_exposed_s", "pipeline comm.", "talk"],
  ["pp_bubble_s", "pipeline bubble", "idle"],
  ["dp_comm_exposed_s", "data-parallel comm.", "talk"],
  ["optimizer_s", "optimizer step", "update"],
  ["uneven_documents_s", "uneven documents", "idle"],
  ["other_s", "launch and offload", "rest"],
];

export const timeKinds = [
  ["work", "computation"],
  ["again", "recomputation"],
  ["talk", "communication that nothing hides"],
  ["idle", "waiting for other ranks"],
  ["update", "optimizer"],
  ["rest", "launch and offload"],
];

export const memoryTerms = [
  ["weights_bytes", "weights", "m-weights"],
  ["gradients_bytes", "gradients", "m-gradients"],
  ["optimizer_bytes", "optimizer", "m-optimizer"],
  ["activations_bytes", "activations", "m-activations"],
  ["buffers_bytes", "buffers", "m-buffers"],
  ["communicators_bytes", "communicators", "m-communicators"],
  ["context_bytes", "driver context", "m-context"],
  ["fragmentation_bytes", "fragmentation", "m-fragmentation"],
];

export const dimensions = {
  tp: "tensor parallel",
  cp: "context parallel",
  ep: "expert parallel",
  pp: "pipeline",
  dp: "data parallel",
  embedding: "tied embedding",
  loss: "loss",
};

export const taskKinds = {
  F: ["forward", "t-forward"],
  B: ["backward", "t-backward"],
  I: ["input gradient", "t-backward"],
  W: ["weight gradient", "t-weight"],
};

// The handful of sizes that tell plans apart.
export function shortName(strategy) {
  const sizes = ["tp", "pp", "vp", "cp", "ep", "dp"]
    .filter((key) => strategy[key] > 1 || key === "tp" || key === "pp")
    .map((key) => `${key}${strategy[key]}`);
  return [...sizes, `mbs${strategy.micro_batch}`, `zero${strategy.zero}`].join(" ");
}

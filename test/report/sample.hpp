#pragma once
// A plan whose terms are round numbers, so that what is derived from them can be checked by hand.
#include "cost/plan_cost.hpp"
#include "frameworks/preset.hpp"
#include "search/search.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

// 12 layers of 1,024; the parameters are counted by hand in json_test.cpp.
inline ModelSpec sample_model() {
  ModelSpec m;
  m.name = "tiny";
  m.num_layers = 12;
  m.hidden_size = 1024;
  m.num_attention_heads = m.num_query_groups = 16;
  m.head_dim = 64;
  m.ffn_hidden_size = 4096;
  m.norm = Norm::kRmsNorm;
  m.vocab_size = 32000;
  m.tied_embeddings = true;
  m.max_seq_length = 2048;
  return m;
}

// Two nodes of four devices.
inline ClusterSpec sample_cluster() {
  ClusterSpec c;
  c.name = "pair";
  c.device.name = "device-80";
  c.device.memory = Bytes{80 * kGiB};
  c.nodes = 2;
  c.gpus_per_node = 4;
  c.levels = {{"inside", 4, BytesPerSecond{100e9}, Seconds{3e-6}, LinkKind::kNvswitch, 1.0},
              {"between", 0, BytesPerSecond{25e9}, Seconds{8e-6}, LinkKind::kInfiniband, 1.0}};
  return c;
}

inline MemoryBreakdown sample_memory(std::int64_t activations_gib) {
  MemoryBreakdown m;
  m.weights = Bytes{4 * kGiB};
  m.gradients = Bytes{8 * kGiB};
  m.optimizer = Bytes{12 * kGiB};
  m.activations = Bytes{activations_gib * kGiB};
  m.buffers = Bytes{2 * kGiB};
  m.communicators = Bytes{1 * kGiB};
  m.context = Bytes{kGiB / 2};
  m.fragmentation = Bytes{kGiB / 2};
  m.reserved = Bytes{2 * kGiB};
  m.peak = Bytes{(28 + activations_gib) * kGiB};
  m.capacity = Bytes{80 * kGiB};
  return m;
}

inline Strategy sample_strategy() {
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = 2;
  s.pp = 2;
  s.dp = 2;
  s.global_batch = 16;
  s.seq_len = 2048;
  s.stage_layers = {6, 6};
  s.recompute_layers = {0, 0};
  return s;
}

// A step of exactly four seconds on eight devices.
inline PlanCost sample_plan() {
  PlanCost p;
  p.strategy = sample_strategy();
  p.time.compute = Seconds{2};
  p.time.recompute = Seconds{0.25};
  p.time.tp_comm_exposed = Seconds{0.25};
  p.time.pp_bubble = Seconds{0.5};
  p.time.dp_comm_exposed = Seconds{0.5};
  p.time.optimizer = Seconds{0.25};
  p.time.other = Seconds{0.25};
  p.step_time = Seconds{4};
  StageCost first;
  first.layers = 6;
  first.embedding = true;
  first.forward = Seconds{0.1};
  first.backward = Seconds{0.2};
  first.in_flight = 2;
  first.memory = sample_memory(32);
  first.parameters = 1'500'000'000;
  StageCost last = first;
  last.embedding = false;
  last.head = true;
  last.in_flight = 1;
  last.memory = sample_memory(16);
  p.stages = {first, last};
  p.communication = {{CommDimension::kTp, Collective::kAllReduce, 2, 0, Bytes{32 * kMiB}, 192,
                      Seconds{0.00125}, Seconds{0.25}},
                     {CommDimension::kDp, Collective::kReduceScatter, 2, 1, Bytes{3 * kGiB}, 1,
                      Seconds{0.5}, Seconds{0.5}}};
  p.bubble_fraction = 0.125;
  p.tokens_per_step = 1'000'000;
  p.model_flops = Flops{8e15};
  p.hardware_flops = Flops{9.6e15};
  p.mfu = 0.5;
  p.mfu_causal = 0.45;
  p.hfu = 0.6;
  p.warnings = {"a warning that the report repeats"};
  return p;
}

inline SearchResult sample_result() {
  SearchResult r;
  r.plans = {sample_plan(), sample_plan()};
  r.plans.back().time.compute = Seconds{3};
  r.plans.back().step_time = Seconds{5};
  r.statistics = {1200, 900,          100, 200, 50, {{"illegal", 900}, {"model_states", 150}},
                  0,    Seconds{0.25}};
  r.proof = {true, 0, "no strategy of the space is faster"};
  return r;
}

inline Verdict sample_miss() {
  Verdict v;
  Infeasible i;
  i.reason = InfeasibleReason::kActivations;
  i.messages = {"pipeline rank 0 needs 90.0 GiB of 80.0 GiB"};
  i.shortfall = Bytes{10 * kGiB};
  i.remedies = {"recompute=full: fits", "twice the pp: fits"};
  v.state = i;
  StageCost stage;
  stage.memory = sample_memory(62);
  v.stages = {stage};
  return v;
}

}  // namespace meshplan

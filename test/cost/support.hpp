#pragma once
// Small hand-made inputs for the cost tests: sizes whose costs can be written down.
#include <string_view>

#include "cost/ledger.hpp"
#include "frameworks/preset.hpp"
#include "model/operations.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan::test {

// GPT-style layer of Korthikanti et al. 2205.05198: 4 h feed-forward, GELU, biases, dropout.
inline ModelSpec plain_gpt(std::int64_t layers = 8, std::int64_t hidden = 4096,
                           std::int64_t heads = 32) {
  ModelSpec m;
  m.name = "plain-gpt";
  m.num_layers = layers;
  m.hidden_size = hidden;
  m.num_attention_heads = m.num_query_groups = heads;
  m.head_dim = hidden / heads;
  m.ffn_hidden_size = 4 * hidden;
  m.activation = Activation::kGelu;
  m.norm = Norm::kLayerNorm;
  m.position_embedding = PositionEmbedding::kLearned;
  m.vocab_size = 51200;
  m.tied_embeddings = true;
  m.linear_bias = true;
  m.dropout = 0.1;
  m.max_seq_length = 2048;
  m.source = "test";
  return m;
}

inline Bytes bytes_named(const Ledger& ledger, std::string_view name) {
  Bytes sum;
  for (const LedgerEntry& e : ledger.entries) {
    if (e.name == name) sum += e.bytes;
  }
  return sum;
}

inline DeviceSpec plain_device() {
  DeviceSpec d;
  d.name = "plain";
  d.architecture = Architecture::kAmpere;
  d.memory = Bytes{80 * kGiB};
  d.context = Bytes{1 * kGiB};
  d.memory_bandwidth = BytesPerSecond{2e12};
  d.l2_cache = Bytes{40 * kMiB};
  d.multiprocessors = 108;
  d.peak = {FlopsPerSecond{19.5e12}, FlopsPerSecond{156e12}, FlopsPerSecond{312e12},
            FlopsPerSecond{312e12}, FlopsPerSecond{}};
  d.gemm.sustained = {0.9, 0.8, 0.8, 0.8, 0};
  d.gemm.k_half = 128;
  d.attention = {0.6, 0.5, 500};
  d.memory_efficiency = 0.85;
  d.kernel_overhead = Seconds{3e-6};
  d.launch_gap = Seconds{5e-6};
  d.host_link = BytesPerSecond{25e9};
  d.tdp_watts = 400;
  d.overlap_slowdown = 1.0;
  d.sources["all"] = "test";
  return d;
}

inline ClusterSpec plain_cluster(std::int64_t gpus) {
  ClusterSpec c;
  c.name = "plain";
  c.device = plain_device();
  c.gpus_per_node = 8;
  c.nodes = ceil_div(gpus, 8);
  c.levels = {{"nvlink", 8, BytesPerSecond{300e9}, Seconds{3e-6}, LinkKind::kNvswitch, 1.0},
              {"ib", 0, BytesPerSecond{25e9}, Seconds{8e-6}, LinkKind::kInfiniband, 1.0}};
  c.source = "test";
  return with_gpus(c, gpus);
}

// fp16 without flash attention, as the paper's code.
inline Strategy plain_strategy(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = tp;
  s.pp = pp;
  s.dp = dp;
  s.etp = 1;
  s.micro_batch = 1;
  s.global_batch = 8 * dp;
  s.seq_len = 2048;
  s.precision = Precision::kFp16;
  s.flash_attention = false;
  return s;
}

// Time and number of the kernels of one name in one pass.
struct Sum {
  Seconds time;
  double flops = 0, launches = 0;
  double added = 0;  // bytes an element of what products add to
  int kernels = 0;
};
inline Sum sum(const BlockOps& ops, std::string_view name, Pass pass) {
  Sum total;
  for (const KernelOp& op : ops.kernels) {
    if (op.name != name || op.pass != pass) continue;
    total.time += op.time;
    total.flops += op.flops;
    total.launches += op.launches;
    if (op.gemm) total.added += op.gemm->accumulate_bytes;
    ++total.kernels;
  }
  return total;
}

}  // namespace meshplan::test

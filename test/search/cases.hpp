#pragma once
// Small models and clusters, random but the same in every run, on which everything can be tried.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/preset.hpp"
#include "io/limits.hpp"
#include "search/search.hpp"

namespace meshplan::search_test {

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    // std::uniform_int_distribution differs between standard libraries.
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool once_in(std::int64_t n) { return between(1, n) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + between(0, static_cast<std::int64_t>(values.size()) - 1));
  }

 private:
  std::mt19937_64 engine_;
};

inline DeviceSpec small_device(Bytes memory) {
  DeviceSpec d;
  d.name = "test-device";
  d.architecture = Architecture::kAmpere;
  d.memory = memory;
  d.context = Bytes{200 * kMiB};
  d.memory_bandwidth = BytesPerSecond{1.5e12};
  d.l2_cache = Bytes{40 * kMiB};
  d.multiprocessors = 108;
  for (const Precision p :
       {Precision::kFp32, Precision::kTf32, Precision::kFp16, Precision::kBf16}) {
    d.peak[static_cast<std::size_t>(p)] = FlopsPerSecond{p == Precision::kFp32 ? 20e12 : 300e12};
    d.gemm.sustained[static_cast<std::size_t>(p)] = 0.8;
  }
  d.gemm.k_half = 150;
  d.attention = {0.5, 0.4, 600};
  d.memory_efficiency = 0.85;
  d.kernel_overhead = Seconds{2e-6};
  d.launch_gap = Seconds{2e-6};
  d.host_link = BytesPerSecond{20e9};
  d.tdp_watts = 400;
  d.overlap_slowdown = 1.05;
  return d;
}

inline ClusterSpec small_cluster(std::int64_t nodes, std::int64_t gpus_per_node, Bytes memory) {
  ClusterSpec c;
  c.name = "test-cluster";
  c.device = small_device(memory);
  c.nodes = nodes;
  c.gpus_per_node = gpus_per_node;
  c.levels = {
      {"inside", gpus_per_node, BytesPerSecond{250e9}, Seconds{3e-6}, LinkKind::kNvswitch, 1},
      {"network", 0, BytesPerSecond{20e9}, Seconds{8e-6}, LinkKind::kInfiniband, 1}};
  return c;
}

inline ModelSpec small_model(std::int64_t layers, std::int64_t hidden) {
  ModelSpec m;
  m.name = "test-model";
  m.num_layers = layers;
  m.hidden_size = hidden;
  m.num_attention_heads = 8;
  m.num_query_groups = 4;
  m.attention = AttentionKind::kGqa;
  m.head_dim = hidden / 8;
  m.ffn_hidden_size = 4 * hidden;
  m.gated_mlp = true;
  m.activation = Activation::kSilu;
  m.norm = Norm::kRmsNorm;
  m.vocab_size = 32'000;
  m.max_seq_length = 1 << 20;
  return m;
}

inline void add_experts(ModelSpec& m, std::int64_t experts, std::int64_t first_dense,
                        std::int64_t every) {
  MoeSpec moe;
  moe.num_experts = experts;
  moe.top_k = 2;
  moe.expert_ffn_hidden_size = m.hidden_size;
  moe.first_dense = first_dense;
  moe.every = every;
  m.moe = moe;
}

// Every list of modules of selective recomputation but the empty one.
inline std::vector<RecomputeModules> every_list() {
  std::vector<RecomputeModules> all;
  constexpr auto& rows = NameTable<RecomputeModule>::rows;
  for (std::uint32_t bits = 1; bits < (1U << rows.size()); ++bits) {
    RecomputeModules modules;
    for (const auto& row : rows) {
      if ((bits >> static_cast<unsigned>(row.value) & 1U) != 0) modules.add(row.value);
    }
    all.push_back(modules);
  }
  return all;
}

struct Case {
  ModelSpec model;
  ClusterSpec cluster;
  SearchRequest request;
};

// Layers of any order of kinds, some of them a mixer or a feed-forward alone.
inline void make_hybrid(Dice& dice, ModelSpec& m) {
  const Mamba2Spec mamba{
      .num_heads = m.hidden_size / 32, .head_dim = 64, .state_size = 128, .num_groups = 8};
  const GatedDeltaNetSpec delta{
      .num_key_heads = 8, .num_value_heads = 16, .key_head_dim = 64, .value_head_dim = 64};
  const LayerSpec flat = layer_spec(m, LayerKind::kDense, m.window > 0);
  std::vector<LayerSpec> kinds{{mamba, NoneSpec{}},
                               {NoneSpec{}, flat.feed_forward},
                               {flat.mixer, NoneSpec{}},
                               {delta, flat.feed_forward},
                               flat};
  if (m.moe) {
    m.moe->first_dense = 0, m.moe->every = 1;
    kinds.push_back({NoneSpec{}, *m.moe});
    kinds.push_back({delta, *m.moe});
  }
  m.window = 0, m.window_every = 1;
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    const auto last = static_cast<std::int64_t>(kinds.size()) - 1;
    // Experts come first, so that a model with any has a layer with some.
    const std::int64_t kind = i == 0 && m.moe ? last : dice.between(0, last);
    m.layers.push_back({1, kinds[static_cast<std::size_t>(kind)]});
  }
}

// Two to six layers, dense or not, all alike or not, hybrids among them, tied or not, on one or two
// nodes.
inline ModelSpec random_model(Dice& dice) {
  ModelSpec m = small_model(dice.between(2, 6), 1024 * dice.between(1, 4));
  m.tied_embeddings = dice.once_in(4);
  m.vocab_size = dice.one_of<std::int64_t>({1'000, 32'000, 128'000});
  if (dice.once_in(5)) m.window = 512, m.window_every = 2;
  if (dice.once_in(3)) {
    const std::int64_t experts = dice.one_of<std::int64_t>({4, 6});
    const std::int64_t dense = dice.between(0, 1);
    add_experts(m, experts, dense, m.num_layers > 2 ? dice.between(1, 2) : 1);
  }
  if (dice.once_in(6)) m.mtp_layers = 1;
  if (dice.once_in(3)) make_hybrid(dice, m);
  return m;
}

// The same with another number of layers; a hybrid's are drawn anew.
inline void set_layers(Dice& dice, ModelSpec& m, std::int64_t layers) {
  m.num_layers = layers;
  if (m.layers.empty()) return;
  m.layers.clear();
  make_hybrid(dice, m);
}

inline ClusterSpec random_cluster(Dice& dice) {
  const auto [nodes, each] = dice.one_of<std::pair<std::int64_t, std::int64_t>>(
      {{1, 2}, {1, 4}, {2, 2}, {1, 3}, {1, 6}, {2, 3}, {3, 2}, {1, 8}, {2, 4}, {1, 5}});
  ClusterSpec c = small_cluster(nodes, each, Bytes{dice.between(4, 40) * kGiB});
  if (dice.once_in(3)) c.host_memory = Bytes{dice.between(4, 64) * kGiB};
  return c;
}

// "key=a|b", as a person would write it.
inline Limit only(const std::string& key, const std::vector<std::string>& values) {
  std::string text = key + "=";
  for (const std::string& value : values) text += (text.back() == '=' ? "" : "|") + value;
  return parse_limits(text, "--fix").value().front();
}
inline Limit any(std::string key) { return {std::move(key), LimitOp::kFree, {}}; }
inline Limit at_most(std::string key, KeyValue bound) {
  return {std::move(key), LimitOp::kAtMost, {std::move(bound)}};
}

// Limits that leave few enough strategies to try them all.
inline std::vector<Limit> random_limits(Dice& dice) {
  std::vector<Limit> limits;
  limits.push_back(at_most("micro_batch", std::int64_t{2}));
  if (dice.once_in(2)) {
    limits.push_back(only(
        "schedule",
        {dice.one_of<std::string>({"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe"}), "1f1b"}));
  } else {
    limits.push_back(only("zero", {dice.one_of<std::string>({"0", "1", "2", "3"}), "1"}));
  }
  if (dice.once_in(2)) limits.push_back(only("offload.optimizer", {"false"}));
  if (dice.once_in(6)) limits.push_back(any("zero_group"));
  if (dice.once_in(2)) {
    limits.push_back(only("order", {"tp-cp-ep-dp-pp"}));
  } else if (dice.once_in(3)) {
    limits.push_back(any("order"));
  }
  if (dice.once_in(3)) limits.push_back(only("recompute", {"none", "full"}));
  if (dice.once_in(3)) limits.push_back(only("cp", {"1"}));
  if (dice.once_in(4)) limits.push_back({"pp", LimitOp::kAtLeast, {std::int64_t{2}}});
  return limits;
}

inline Case random_case(unsigned seed) {
  Dice dice(seed);
  Case c;
  c.model = random_model(dice);
  c.cluster = random_cluster(dice);
  if (seed % 4 == 1) {  // a network on which both dispatchers of tokens are searched
    c.cluster.levels.back().kind = LinkKind::kEfa;
    c.cluster.levels.back().token_message = Seconds{1e-7 * static_cast<double>(seed % 16)};
  }
  SearchRequest& r = c.request;
  r.base = framework_preset(dice.one_of({Framework::kMegatron, Framework::kTorchtitan}));
  r.base.global_batch = num_gpus(c.cluster) * dice.one_of<std::int64_t>({1, 2, 4});
  r.base.seq_len = dice.one_of<std::int64_t>({1024, 2048, 8192});
  r.limits = random_limits(dice);
  r.threads = 1;
  if (seed >= 16 && seed % 8 == 2) {  // some of the layers in bf16, the others in fp8
    constexpr auto kFp8 = static_cast<std::size_t>(Precision::kFp8);
    c.cluster.device.peak[kFp8] = FlopsPerSecond{600e12};
    c.cluster.device.gemm.sustained[kFp8] = 0.8;
    r.base.precision = Precision::kFp8;
    r.base.runtime.num_layers_at_start_in_bf16 = seed / 8 % 2;
    r.base.runtime.num_layers_at_end_in_bf16 = c.model.num_layers > 2 ? 1 + seed / 16 % 2 : 1;
  }
  return c;
}

}  // namespace meshplan::search_test

// Random plans, legal and not, as argument lists of Megatron-LM with our verdict on each: the test
// of Megatron-LM's own checks (frameworks/megatron_test.py) compares the two.
//
// usage: launch_cases FOLDER COUNT SEED
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "launch/targets.hpp"
#include "model/rules.hpp"
#include "spec/findings.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(engine_);
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  std::int64_t of(std::initializer_list<std::int64_t> values) {
    return values.begin()[below(static_cast<std::int64_t>(values.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

ModelSpec random_model(Dice& d) {
  ModelSpec m;
  m.name = "random";
  m.num_layers = d.of({2, 4, 6, 8, 12, 16, 24, 30, 32});
  m.num_attention_heads = d.of({6, 8, 12, 16, 24, 32});
  m.num_query_groups = d.one_in(2) ? m.num_attention_heads : m.num_attention_heads / d.of({2, 1});
  m.head_dim = 64;
  m.hidden_size = 64 * m.num_attention_heads;
  m.ffn_hidden_size = d.of({1024, 1536, 2000, 2736, 4096});
  m.gated_mlp = true;
  m.activation = Activation::kSilu;
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kRope;
  m.vocab_size = d.of({32000, 50257});
  m.tied_embeddings = d.one_in(4);
  m.max_seq_length = 16384;
  m.attention = AttentionKind::kGqa;
  m.linear_bias = d.one_in(8);
  if (m.linear_bias) m.qkv_bias = m.attention_out_bias = false;
  if (d.one_in(3)) {
    MoeSpec e{.num_experts = d.of({4, 6, 8, 16}),
              .top_k = 2,
              .expert_ffn_hidden_size = d.of({512, 768, 1000})};
    if (d.one_in(3)) e.first_dense = 1;
    if (d.one_in(3)) e.shared_expert_ffn_hidden_size = 1024;
    e.router_bias = m.linear_bias;
    if (d.one_in(4)) e.router_num_groups = 2, e.router_group_top_k = 1;
    m.moe = e;
  }
  if (d.one_in(8)) m.mtp_layers = 1;
  return m;
}

// Layers per pipeline rank that add up: even, with odd ends, or any.
std::vector<std::int64_t> random_layers(Dice& d, const ModelSpec& m, const Strategy& s) {
  if (s.pp > m.num_layers) return {};
  Strategy plain = s;
  plain.stage_layers.clear();
  plain.vp = 1;
  std::vector<std::int64_t> layers = stage_layers(plain, m);
  for (std::int64_t moves = d.one_in(2) ? 0 : d.below(4); moves > 0 && s.pp > 1; --moves) {
    auto& from = layers[static_cast<std::size_t>(d.below(s.pp))];
    if (from < 2) continue;
    --from;
    ++layers[static_cast<std::size_t>(d.below(s.pp))];
  }
  return layers;
}

Strategy random_strategy(Dice& d, const ModelSpec& m, std::int64_t gpus) {
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = d.of({1, 1, 2, 4, 8, 3});
  s.pp = d.of({1, 1, 2, 4, 8});
  s.cp = d.of({1, 1, 1, 2, 4});
  s.dp = std::max<std::int64_t>(gpus / (s.tp * s.pp * s.cp), 1);
  s.cp_kind = static_cast<CpKind>(d.below(3));
  s.sequence_parallel = d.one_in(2);
  if (m.moe) s.ep = d.of({1, 2, 4, 8, 3}), s.etp = d.of({1, 1, s.tp, 2});
  if (!m.moe && d.one_in(20)) s.ep = 2;
  if (s.pp > 1 && d.one_in(2)) s.schedule = Schedule::kInterleaved, s.vp = d.of({2, 3, 4});
  s.overlap.pp = !d.one_in(4);
  s.overlap.grad_reduce = !d.one_in(4);
  s.overlap.param_gather = !d.one_in(3);
  s.overlap.tp = d.one_in(2);
  s.micro_batch = d.of({1, 1, 2});
  s.global_batch = s.dp * s.micro_batch * d.of({1, 2, 4, 8, 12, 16}) + (d.one_in(10) ? 1 : 0);
  s.seq_len = d.of({2048, 4096, 4096, 4104, 4100, 4098});
  s.zero = static_cast<int>(d.of({0, 1, 1, 1, 2, 3}));
  if (s.zero > 0 && d.one_in(6)) s.zero_group = d.of({2, 4, 8});
  if (d.one_in(3)) s.recompute = d.one_in(2) ? Recompute::kSelective : Recompute::kFull;
  if (s.recompute == Recompute::kSelective && d.one_in(2)) {
    for (const auto& row : NameTable<RecomputeModule>::rows) {
      if (d.one_in(3)) s.recompute_modules.add(row.value);
    }
  }
  if (d.one_in(12)) s.offload.optimizer = true;
  if (s.offload.optimizer && d.one_in(2)) s.offload.optimizer_fraction = 0.5;
  if (s.offload.optimizer && d.one_in(2)) s.offload.overlap_copies = true;
  if (s.offload.optimizer && d.one_in(4)) s.offload.master_weights = false;
  if (d.one_in(12)) s.offload.activations = true;
  if (s.offload.activations && d.one_in(2)) s.offload.activation_layers = 1;
  if (d.one_in(12)) s.optimizer_dtype = Dtype::kBf16;
  if (d.one_in(6)) s.grad_dtype = Dtype::kBf16;
  if (d.one_in(8)) s.precision = d.one_in(2) ? Precision::kFp16 : Precision::kFp8;
  if (is_quantised(s.precision) && d.one_in(3)) {
    s.runtime.num_layers_at_start_in_bf16 = d.of({0, 1, 2});
    s.runtime.num_layers_at_end_in_bf16 = d.of({0, 1, 4});
  }
  if (d.one_in(8)) s.order = kPipelineInsideOrder;
  s.stage_layers = random_layers(d, m, s);
  return s;
}

ClusterSpec cluster_of(std::int64_t gpus) {
  ClusterSpec c;
  c.name = "random";
  c.nodes = gpus / 8, c.gpus_per_node = 8;
  c.device.name = "h100";
  c.device.architecture = Architecture::kHopper;
  c.device.peak.fill(FlopsPerSecond{1e15});
  return c;
}

int run(const std::filesystem::path& folder, std::int64_t count, std::uint64_t seed) {
  Dice d(seed);
  std::ofstream verdicts(folder / "verdicts.jsonl");
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t gpus = d.of({8, 16, 32, 64, 48});
    LaunchPlan p{random_model(d), cluster_of(gpus), {}};
    if (has_errors(validate(p.model))) continue;
    p.strategy = random_strategy(d, p.model, gpus);
    // Not a plan at all: there would be nothing to write.
    if (p.strategy.stage_layers.empty()) continue;
    if (p.strategy.dp * p.strategy.cp % shard_group(p.strategy) != 0) continue;
    if (p.strategy.recompute_layers.empty()) p.strategy = complete(p.strategy, p.model, p.cluster);
    Findings all = findings(p.strategy, p.model, p.cluster);
    nlohmann::json broken = nlohmann::json::array();
    for (const Finding& f : all.all()) {
      if (f.diagnostic.severity == Severity::kError) broken.push_back(f.keys);
    }
    const Findings told = target_findings(Target::kMegatron, p.strategy, p.model, p.cluster);
    for (const Finding& f : told.all()) broken.push_back(f.keys);
    const std::string name = "case" + std::to_string(i) + ".args";
    std::string text = arguments_text(p, pretrain_command(p));
    const std::string world = "WORLD_SIZE=" + std::to_string(num_gpus(p.strategy)) + "\n";
    text.replace(text.find(world), world.size(), "WORLD_SIZE=" + std::to_string(gpus) + "\n");
    std::ofstream(folder / name) << text;
    verdicts << nlohmann::json{{"file", name},
                               {"broken", broken},
                               {"strategy", to_text(p.strategy)}}
                    .dump()
             << "\n";
    ++i;
  }
  return verdicts ? 0 : 1;
}

}  // namespace
}  // namespace meshplan

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: launch_cases FOLDER COUNT SEED\n", stderr);
    return 2;
  }
  return meshplan::run(argv[1], std::atoll(argv[2]), std::strtoull(argv[3], nullptr, 10));
}

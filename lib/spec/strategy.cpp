#include "spec/strategy.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/units.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {
namespace {

// `total` in `parts` parts that differ by at most one. The last part gives way first, then the
// first (they hold the output head and the embedding); of the rest, the later ones take more,
// because earlier pipeline ranks keep more microbatches in flight.
std::vector<std::int64_t> even_parts(std::int64_t total, std::int64_t parts) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(parts), total / parts);
  std::int64_t rest = total % parts;
  for (std::int64_t i = parts - 2; i > 0 && rest > 0; --i, --rest) {
    ++result[static_cast<std::size_t>(i)];
  }
  if (rest > 0) ++result.front();
  return result;
}

}  // namespace

std::int64_t num_gpus(const Strategy& s) { return product({s.tp, s.pp, s.cp, s.dp}); }

std::int64_t num_microbatches(const Strategy& s) {
  PLAN_CHECK(s.micro_batch > 0 && s.dp > 0);
  return s.global_batch / product({s.micro_batch, s.dp});
}

std::int64_t shard_group(const Strategy& s) {
  return s.zero_group > 0 ? s.zero_group : product({s.dp, s.cp});
}

bool regathers_input(const Strategy& s, LoraTarget layer) {
  const bool eligible = layer == LoraTarget::kQkv || layer == LoraTarget::kFc1;
  if (!s.lora.input_regather || !eligible || !s.lora.targets.contains(layer)) return false;
  if (!has_adapters(s) || s.tp == 1 || !s.sequence_parallel || s.lora.all_to_all) return false;
  if (s.runtime.cuda_graph != CudaGraph::kNone) return false;
  const bool repeats_mlp =
      s.recompute == Recompute::kSelective && s.recompute_modules.has(RecomputeModule::kMlp);
  return layer == LoraTarget::kQkv || !repeats_mlp;
}

std::int64_t expert_dp(const Strategy& s) {
  PLAN_CHECK(s.etp > 0 && s.ep > 0);
  return product({s.tp, s.cp, s.dp}) / product({s.etp, s.ep});
}

namespace {

// [F-STAGE-1] nanotron fills pipeline ranks in order until a rank's share of the matrix elements,
// output head included, is exceeded (src/nanotron/models/base.py build_model and
// models/llama.py get_block_compute_costs). A head that does not fit its rank's share leaves the
// ranks after it with the loss alone; here it is kept on the last rank and the ranks before stay
// empty.
std::vector<std::int64_t> nanotron_layers(const Strategy& s, const ModelSpec& m) {
  const auto h = static_cast<double>(m.hidden_size);
  const double layer = 4.0 * static_cast<double>(m.num_attention_heads * m.head_dim) * h +
                       3.0 * static_cast<double>(m.ffn_hidden_size) * h;
  const double head = static_cast<double>(m.vocab_size) * h;
  const double share =
      (layer * static_cast<double>(m.num_layers) + head) / static_cast<double>(s.pp);
  std::vector<std::int64_t> layers(static_cast<std::size_t>(s.pp), 0);
  std::size_t rank = 0;
  double sum = 0;
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    ++layers[rank];
    sum += layer;
    if (sum > share * static_cast<double>(rank + 1) && rank + 1 < layers.size()) ++rank;
  }
  return layers;
}

// Ranks of equal size, of which the last, the first and then the ones next to them give one layer
// way for the output head and the embedding.
std::vector<std::int64_t> lighter_ends(std::int64_t layers, std::int64_t ranks) {
  const std::int64_t most = ceil_div(layers, ranks);
  std::vector<std::int64_t> parts(static_cast<std::size_t>(ranks), most);
  std::int64_t missing = most * ranks - layers;
  for (std::size_t i = 0; missing > 0; ++i, --missing) {
    const std::size_t from_end = i / 2;
    --parts[i % 2 == 0 ? parts.size() - 1 - from_end : from_end];
  }
  return parts;
}

}  // namespace

std::vector<std::int64_t> stage_layers(const Strategy& s, const ModelSpec& m) {
  if (!s.stage_layers.empty()) return s.stage_layers;
  // Ranks take chunks in turn.
  if (!s.chunk_layers.empty() &&
      static_cast<std::int64_t>(s.chunk_layers.size()) == product({s.pp, s.vp})) {
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(s.pp));
    for (std::size_t i = 0; i < s.chunk_layers.size(); ++i) {
      ranks[i % ranks.size()] += s.chunk_layers[i];
    }
    return ranks;
  }
  const bool by_elements = s.runtime.stage_split == StageSplit::kElements;
  if (by_elements && s.vp == 1 && s.pp > 1) return nanotron_layers(s, m);
  PLAN_CHECK(s.pp > 0 && s.vp > 0);
  if (m.num_layers % s.vp != 0) return lighter_ends(m.num_layers, s.pp);
  std::vector<std::int64_t> layers = even_parts(m.num_layers / s.vp, s.pp);
  for (std::int64_t& n : layers) n *= s.vp;
  return layers;
}

Strategy with_derived_dp(Strategy s, std::int64_t gpus) {
  PLAN_CHECK(s.tp > 0 && s.pp > 0 && s.cp > 0);
  if (s.dp == 0) s.dp = std::max<std::int64_t>(gpus / product({s.tp, s.pp, s.cp}), 1);
  return s;
}

}  // namespace meshplan

#include "spec/strategy.hpp"

#include <algorithm>

#include "base/check.hpp"

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

std::int64_t num_gpus(const Strategy& s) { return s.tp * s.pp * s.cp * s.dp; }

std::int64_t num_microbatches(const Strategy& s) {
  PLAN_CHECK(s.micro_batch > 0 && s.dp > 0);
  return s.global_batch / (s.micro_batch * s.dp);
}

std::int64_t shard_group(const Strategy& s) {
  return s.zero_group > 0 ? s.zero_group : s.dp * s.cp;
}

std::int64_t expert_dp(const Strategy& s) {
  PLAN_CHECK(s.etp > 0 && s.ep > 0);
  return s.tp * s.cp * s.dp / (s.etp * s.ep);
}

std::vector<std::int64_t> stage_layers(const Strategy& s, const ModelSpec& m) {
  if (!s.stage_layers.empty()) return s.stage_layers;
  PLAN_CHECK(s.pp > 0 && s.vp > 0);
  std::vector<std::int64_t> layers = even_parts(m.num_layers / s.vp, s.pp);
  for (std::int64_t& n : layers) n *= s.vp;
  return layers;
}

Strategy with_derived_dp(Strategy s, std::int64_t gpus) {
  PLAN_CHECK(s.tp > 0 && s.pp > 0 && s.cp > 0);
  if (s.dp == 0) s.dp = std::max<std::int64_t>(gpus / (s.tp * s.pp * s.cp), 1);
  return s;
}

}  // namespace meshplan

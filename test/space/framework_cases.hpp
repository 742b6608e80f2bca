#pragma once
// Small cases for the space of one framework, and what its exporter accepts.
#include <optional>
#include <vector>

#include "frameworks/preset.hpp"
#include "frameworks/target.hpp"
#include "search/cases.hpp"
#include "space/space.hpp"
#include "space/target.hpp"

namespace meshplan::search_test {

// As random_case(), started from the framework's own preset; every second model has no experts,
// which most frameworks split less freely. torchtitan runs only the models that it ships.
inline Case framework_case(unsigned seed, Space space) {
  Case c = random_case(seed);
  const Strategy workload = c.request.base;
  c.request.base = framework_preset(*framework_of(space));
  c.request.base.global_batch = workload.global_batch;
  c.request.base.seq_len = workload.seq_len;
  if (space != Space::kMegatron) c.model.mtp_layers = 0;
  if (seed % 2 == 0) c.model.moe.reset();
  if (space == Space::kTorchtitan) {
    c.model = torchtitan_model(torchtitan_flavors()[seed % torchtitan_flavors().size()]);
  }
  c.request.space = space;
  c.request.base = as_configured(space, c.request.base, c.model, c.cluster);
  return c;
}

// Whether the exporter accepts the strategy: target_findings() is all that it asks.
inline bool is_accepted(const Case& c, const Strategy& s) {
  const Target target = carrier_of(*target_of(c.request.space), s, c.model);
  return !target_findings(target, s, c.model, c.cluster).has_errors();
}

// The strategy as the exporter accepts it: itself, or, where nothing is held twice, with another
// number for the sharding that there is not.
inline std::optional<Strategy> accepted(const Case& c, Strategy s) {
  if (is_accepted(c, s)) return s;
  if (!has_one_replica(s, c.model)) return std::nullopt;
  for (s.zero = 0; s.zero <= 3; ++s.zero) {
    const auto& limits = c.request.limits;
    const bool kept = std::all_of(limits.begin(), limits.end(), [&](const Limit& limit) {
      return limit.key != "zero" || satisfies(s, limit);
    });
    if (kept && is_accepted(c, s)) return s;
  }
  return std::nullopt;
}

}  // namespace meshplan::search_test

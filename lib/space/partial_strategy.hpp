#pragma once
// What one candidate of the search has decided, in a form small enough to keep many of them.
#include <cstdint>
#include <vector>

#include "spec/division_rules.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct PartialStrategy {
  std::int64_t tp = 1, pp = 1, vp = 1, cp = 1, ep = 1, etp = 1, dp = 1;
  std::int64_t micro_batch = 1;
  std::int64_t zero_group = 0;
  CpKind cp_kind = CpKind::kRing;
  Schedule schedule = kPlainSchedule;
  int zero = 0;
  bool sequence_parallel = false;
  RankOrder order = kDefaultOrder;
  std::size_t base = 0;  // which of SearchSpace::bases()

  bool operator==(const PartialStrategy&) const = default;
};

// `base` with everything that `choice` decides, and no partition, recomputation or offloading.
[[nodiscard]] Strategy with_partial(Strategy base, const PartialStrategy& choice);

// What trades time for memory. Choices that differ in nothing else share a rank in the result.
struct MemoryOption {
  Recompute recompute = Recompute::kNone;
  CountRule counts = CountRule::kNone;
  bool offload_optimizer = false;
  bool offload_activations = false;
  std::vector<std::int64_t> given;  // kGiven
  RecomputeModules modules{};       // kSelective; empty: the framework's default

  bool operator==(const MemoryOption&) const = default;

  [[nodiscard]] bool is_plain() const {
    return recompute == Recompute::kNone && counts == CountRule::kNone && !offload_optimizer &&
           !offload_activations;
  }
};
// `s` with it; how many layers are recomputed is left out.
[[nodiscard]] Strategy with_option(Strategy s, const MemoryOption& option);

// Whether nothing is held twice on the mesh, so that there is nothing to shard. Copies of experts
// may be on tensor ranks as well.
[[nodiscard]] bool has_one_replica(const Strategy& mesh, const ModelSpec& m);

}  // namespace meshplan

#pragma once
// One job on two kinds of machines: replicas of one plan on each, and more microbatches where the
// devices are faster.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "search/search.hpp"

namespace meshplan {

// One kind of machine as it is at hand: `cluster` has as many devices as the job takes of it.
using MixedClusters = std::array<ClusterSpec, 2>;

struct MixedGroup {
  std::int64_t gpus = 0;
  std::int64_t replicas = 0;
  std::int64_t sequences = 0;     // of a step, each replica
  std::int64_t microbatches = 0;  // of a step, each replica
  PlanCost plan;  // as if all devices were of this kind and worked like this: its times and memory
};

// What both groups run, and how fast. The groups' strategies differ in global_batch alone, which
// says sequences times all replicas.
struct MixedPlan {
  std::array<MixedGroup, 2> groups;
  Seconds step_time;  // of the slower group: the other waits for it
};

struct Mixed {
  MixedClusters clusters;         // each with all devices, joined by the slower network
  std::optional<MixedPlan> best;  // nothing: no plan fits both; where not exact, none was found
  std::optional<MixedPlan> even;  // the best with as many sequences for each replica
  std::array<std::optional<PlanCost>, 2> alone;  // the whole batch on one kind
  std::array<bool, 2> alone_open{};              // no plan was found there, but not all were tried
  bool exact = true;
  double gap = 0;  // (best - proved lower bound) / best where not exact
  std::int64_t searches = 0;
  Seconds wall;
};

// [F-MIX-1] Every replica (tp x pp x cp devices of one kind, the pipeline's ranks next to each
// other: order tp-cp-ep-pp-dp) runs the same plan; group g of dp_g replicas takes b_g sequences for
// each, dp_1 b_1 + dp_2 b_2 = global batch, and the step takes
//   max over g of T_g(plan, b_g (dp_1 + dp_2)),
// T_g of lib/cost with all devices of kind g and the slower of the two outermost networks: as many
// ranks reduce gradients and share optimizer states as in the job, and whoever is early waits.
// (Uneven microbatches of data-parallel workers: Metis, ATC 2024; Sailor, 2504.17096.) Groups of
// expert parallelism hold replicas of one kind.
//
// For each size of a replica and each split of the batch both kinds are searched for themselves;
// the slower one's optimum bounds the step. Where the two optima differ in a key, the space is cut
// there, until both agree or the bound exceeds the best plan known. A difference in the division of
// layers alone is not cut: it stays as a gap.
//
// Fails if the request is invalid, a kind has no whole nodes or no network between them. The
// objective must be the step time.
[[nodiscard]] Result<Mixed> mixed(const ModelSpec& m, const MixedClusters& clusters,
                                  const SearchRequest& request, const Progress& progress = {});

}  // namespace meshplan

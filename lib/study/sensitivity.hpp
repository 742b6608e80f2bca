#pragma once
// How the best plan's time, and the choice itself, change with the machine and the batch.
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "search/search.hpp"

namespace meshplan {

enum class Lever {
  kBandwidth,        // of one link level, measured curves included
  kLatency,          // likewise
  kMemory,           // capacity of the device
  kMemoryBandwidth,  // of the device
  kFlops,            // peak rate of every precision
  kHostLink,         // device to host memory
  kHostTime,         // launches: host time per kernel, start and drain of kernels
  kBatch,            // sequences per step
};

struct Scenario {
  Lever lever = Lever::kFlops;
  std::size_t level = 0;  // index into the cluster's levels, for the first two
  double factor = 1;      // the batch: the nearest that the best plan can run, or half, or twice

  bool operator==(const Scenario&) const = default;
};

// The machine and the request under a scenario.
[[nodiscard]] ClusterSpec changed(ClusterSpec c, const Scenario& s);

struct Change {
  Scenario scenario;
  std::optional<PlanCost> kept;  // the best plan as it is; none if it does not fit any more,
  bool kept_is_legal = true;     // or does not divide the batch
  std::optional<PlanCost> best;  // the best plan then; none if nothing fits
  bool same_choice = true;       // both are the same strategy
};

struct SensitivityRow {
  std::string name;  // "bandwidth of nvlink"
  Change less, more;
};

struct Sensitivity {
  PlanCost base;
  double share = 0;  // 0.2: changes by a fifth
  std::vector<SensitivityRow> rows;
};

// [F-SENS-1] Change of the time per token against the base: (t' / n') / (t / n) - 1.
// t step time, n tokens of a step; so that another batch compares too. Definition.
[[nodiscard]] double relative_change(const PlanCost& then, const PlanCost& base);

// `base`: the best plan of the request. Searches again for every change.
[[nodiscard]] Result<Sensitivity> sensitivity(const ModelSpec& m, const ClusterSpec& c,
                                              const SearchRequest& request, const PlanCost& base,
                                              double share, const Progress& progress = {});

}  // namespace meshplan

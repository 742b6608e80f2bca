#pragma once
// The best plan at several sizes of the cluster: how the step time scales, and where it stops
// paying.
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "search/search.hpp"
#include "study/goodput.hpp"

namespace meshplan {

// The sizes of a cluster that are of interest where nobody says how many devices there are:
// doublings within a node, then of nodes, then all of it. Increasing.
[[nodiscard]] std::vector<std::int64_t> every_size(const ClusterSpec& c);

struct SweepPoint {
  std::int64_t gpus = 0;
  SearchResult result;
  // The rest only where a plan fits.
  double speedup = 0;     // over the smallest size that fits
  double efficiency = 0;  // speedup per device, of that size's
  std::optional<Goodput> goodput;

  [[nodiscard]] bool fits() const { return !result.plans.empty(); }
  // Time of a step, with what failures cost where they are counted.
  [[nodiscard]] Seconds step_time() const;
};

struct Sweep {
  std::vector<SweepPoint> points;   // sizes as asked for
  std::optional<std::size_t> base;  // the size that efficiency refers to
  // None where nothing fits.
  std::optional<std::size_t> knee;
  std::optional<std::size_t> cheapest;     // fewest devices x step time; of equal ones the smallest
  std::optional<std::size_t> recommended;  // the knee, or where the cost is the objective, that one
};

// [F-SWEEP-1] Speedup S = T(n0) / T(n), efficiency E = S n0 / n: the same work on n0 and n devices.
// T step time in s. Definition (strong scaling).
//
// [F-SWEEP-2] Knee: the size of the largest E(n) / T(n), benefit per unit of cost.
// Eager, Zahorjan and Lazowska 1989 (IEEE Trans. Comput. 38(3), 408-423).
void fill_scaling(Sweep& sweep);

// Fails if a size is no cluster, or the request is invalid. Sizes must increase. A time limit is
// for all sizes: each has its share of what those before it leave. After an interrupt the other
// sizes are left out.
[[nodiscard]] Result<Sweep> sweep(const ModelSpec& m, const ClusterSpec& c,
                                  const SearchRequest& request,
                                  const std::vector<std::int64_t>& sizes,
                                  const std::optional<FailureModel>& failures,
                                  const Progress& progress = {});

}  // namespace meshplan

#pragma once
// What documents of uneven length cost a plan: padding, waiting, and how its steps differ.
#include <optional>
#include <vector>

#include "cost/plan_cost.hpp"
#include "cost/step_parts.hpp"
#include "model/packing.hpp"
#include "model/uneven.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

struct LengthSpread {
  RowStatistics row;
  double cut = 0;  // share of the documents' tokens beyond seq_len
  Unevenness uneven;
  // Of steps, which differ in how long the documents of their heaviest rank are.
  Seconds step_median, step_p99;
  // Of the fullest device: of a step's longest microbatch. They differ only where rows are padded
  // to the longest document of their microbatch; a plan must hold the longest there is.
  Bytes peak_median, peak_p99;
};

// The same batch of documents otherwise packed. A step of rows that hold several documents has more
// of them: compare tokens a second.
struct PackingChoice {
  Packing packing = Packing::kPack;
  double tokens_per_s = 0;  // of documents
  double padding = 0;       // share of the computed tokens
  Bytes peak;
};

// None where the documents' lengths are not known.
[[nodiscard]] std::optional<LengthSpread> length_spread(const ModelSpec& m, const ClusterSpec& c,
                                                        const PlanCost& plan);
// Each packing, the plan's own included, with the plan's other keys.
[[nodiscard]] std::vector<PackingChoice> packing_choices(const ModelSpec& m, const ClusterSpec& c,
                                                         const PlanCost& plan);

}  // namespace meshplan

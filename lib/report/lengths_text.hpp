#pragma once
// Documents of uneven length, for people.
#include <string>

#include "cost/plan_cost.hpp"
#include "report/table.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

// "64 packed rows of 4,096 tokens, 251 k tokens of documents", or of full sequences.
[[nodiscard]] std::string workload_text(const ModelSpec& m, const Strategy& s);

// How long they are, what packing leaves of padding, how long ranks wait for the one with the
// longest, and what other packings would give; empty where lengths are not known.
[[nodiscard]] std::string lengths_text(const ModelSpec& m, const ClusterSpec& c, const PlanCost& p,
                                       const TextOptions& options);

}  // namespace meshplan

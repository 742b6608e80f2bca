#pragma once
// Why one strategy is not the best plan, for people.
#include <string>
#include <vector>

#include "report/table.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "study/difference.hpp"

namespace meshplan {

// What decides, one fact per sentence: whether it fits, the terms that weigh most, the keys that
// help most. For tables and JSON alike.
[[nodiscard]] std::vector<std::string> difference_sentences(const Difference& d);

// Both plans, the terms of time and memory side by side, and the keys one group at a time.
[[nodiscard]] std::string difference_report(const ModelSpec& m, const ClusterSpec& c,
                                            const Difference& d, const TextOptions& options);

}  // namespace meshplan

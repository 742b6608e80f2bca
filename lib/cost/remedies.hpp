#pragma once
// What would make a plan fit that does not, cheapest first.
#include <string>
#include <vector>

#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Tries single changes of a legal strategy that runs out of memory and returns those that fit, each
// as a sentence with the step time it costs; if no single change is enough, the pairs that are; if
// none, what the smallest number of devices is at which full sharding fits.
[[nodiscard]] std::vector<std::string> memory_remedies(const ModelSpec& m, const ClusterSpec& c,
                                                       const Strategy& s);

}  // namespace meshplan

// Why the best plan wins, from the terms of the plans and of a few neighbours of the best one.
#include "base/text.hpp"
#include "search/search.hpp"

namespace meshplan {

std::vector<std::string> explain(const ModelSpec& m, const ClusterSpec& c,
                                 const SearchResult& result) {
  std::vector<std::string> sentences;
  if (result.plans.empty()) return sentences;
  const PlanCost& best = result.plans.front();
  const MemoryBreakdown& memory = best.memory();
  sentences.push_back(m.name + " on " + with_thousands(num_gpus(c)) +
                      " GPUs: the fullest stage uses " +
                      human_percent(memory.peak.si() / memory.capacity.si()) + " of " +
                      human_bytes(memory.capacity));
  sentences.push_back("the pipeline bubble takes " + human_percent(best.bubble_fraction) +
                      " of a step");
  return sentences;
}

}  // namespace meshplan

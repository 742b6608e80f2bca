#pragma once
// Which shares of layers a stage may take within a step time, by the chains of tasks that run
// through it.
#include <vector>

#include "partition/division_bound.hpp"

namespace meshplan {

// [F-SEARCH-9] Of one stage's share alone, whatever the others take: the chains of [F-SEARCH-4]
// through it with its recomputation, and those that end with its last task, with what it must have
// reduced [F-SEARCH-16]. A share that leaves no time is in no division that keeps the limit. All
// that is given must live as long.
class StageChains {
 public:
  // `most`: seconds that a pipeline may take; `ends`: none where there is nothing to reduce. Not of
  // pipelines whose stages are two ranks.
  StageChains(const DivisionBound& bound, double most, const LeastEnds* ends)
      : bound_(bound), most_(most), ends_(ends) {}

  // Seconds that the share leaves for recomputation in all microbatches, beyond what the bound
  // knows of; negative where its chains take longer without any. `chunks`: is overwritten.
  [[nodiscard]] double left(const StageLayout& layout, int stage, const StageAssignment& share,
                            std::vector<LayerRange>& chunks) const;

 private:
  const DivisionBound& bound_;
  double most_;
  const LeastEnds* ends_;
};

}  // namespace meshplan

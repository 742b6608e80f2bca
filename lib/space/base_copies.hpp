#pragma once
// Bases of a space that differ from the stated ones in keys which the request leaves open and no
// list holds.
#include <vector>

#include "space/request.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// What a base differs in from a stated one, which it is a copy of.
struct BaseCopy {
  bool of_dispatch = false;  // tokens travel otherwise (space/dispatch_ways.hpp)
  bool of_inputs = false;    // adapters keep less (space/adapter_ways.hpp)
};

// Appends the copies of `bases` to them. Of each base, first of those that were there.
[[nodiscard]] std::vector<BaseCopy> add_copies(const SpaceRequest& request, const ModelSpec& m,
                                               const ClusterSpec& c, std::vector<Strategy>& bases);

}  // namespace meshplan

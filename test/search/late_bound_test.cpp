// What the last buckets of reductions add to a step, where that is plain to see.
#include "search/late_bound.hpp"

#include "support/catch.hpp"

using namespace meshplan;

namespace {

// Layers of one kind on two ranks, with reductions of dense parameters alone.
double alike(double late, double bucket) {
  BlockCosts blocks(4);
  BlockCounts counts(4);
  blocks[kFirstLayerBlock].forward.compute = Seconds{1};
  blocks[kFirstLayerBlock].parameters.dense = 1;
  counts[kFirstLayerBlock] = 8;
  WholeReductions all;
  all.dense = {0, late, bucket, 8};
  return late_bound(blocks, counts, 3, 2, all);
}

}  // namespace

TEST_CASE("[F-SEARCH-21] where layers are alike it is the even division's own time") {
  // Four layers on each rank work for 12 seconds; half of the parameters are half of what is late.
  CHECK(alike(16, 1) == Approx(12 + 8));
  CHECK(alike(16, 0.5) == Approx(12 + 8));
  CHECK(alike(16, 0.25) == Approx(12 + 4));
  CHECK(alike(16, 0) == Approx(12));
}

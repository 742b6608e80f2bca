#pragma once
// Ends of the step of pipeline ranks (cost/data_parallel.hpp), the last ones kept: neither the
// micro-batch nor the schedule changes them. One per thread.
#include <cstdint>
#include <vector>

#include "cost/data_parallel.hpp"
#include "search/shared_memo.hpp"

namespace meshplan {

class EndCache {
 public:
  EndCache(const ModelSpec& m, const ClusterSpec& c) : model_(m), cluster_(c) {}

  // rank_end() of the rank with these parameters; good until the next call. `groups`:
  // step_end_groups() of the same strategy.
  const RankEnd& of(const Strategy& s, const StepEndGroups& groups, const BlockParameters& p);

 private:
  // What the layout does not say and a search seldom changes.
  struct Settings {
    Precision precision{};
    Dtype gradients{}, moments{};
    bool master_weights = false;
    Kernels kernels;
    bool operator==(const Settings&) const = default;
  };
  using Key = IntegerKey<11>;
  struct Known {
    Key key{};
    RankEnd end;
  };

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  Settings settings_;
  std::vector<Known> known_;  // each at the place of its hash; tp 0: none yet
};

}  // namespace meshplan

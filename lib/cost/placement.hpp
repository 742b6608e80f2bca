#pragma once
// Where a strategy's ranks sit, and what follows from that whatever their schedule and micro-batch:
// worked out once for all the strategies that differ in nothing else.
#include <cstdint>

#include "cost/data_parallel.hpp"
#include "layout/groups.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Depends on tp to dp, ep, etp, order, zero, zero_group, precision, the types of gradients and
// optimizer states, master_weights and kernels.
class Placement {
 public:
  Placement(const ModelSpec& m, const ClusterSpec& c, const Strategy& s);
  // `communicators`: communicator_bytes() of `s`, where they are known already.
  Placement(const ModelSpec& m, const ClusterSpec& c, const Strategy& s, Bytes communicators);

  // Tells placements apart for memos.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] const GroupShape& neighbours() const { return neighbours_; }  // pipeline ranks
  [[nodiscard]] const GroupShape& tensor() const { return tensor_; }
  [[nodiscard]] Bytes communicators() const { return communicators_; }  // [F-NCCL-MEM-1]
  [[nodiscard]] Seconds tied() const { return tied_; }                  // [F-EMB-2]
  // What a rank that holds these parameters does at the end of a step.
  [[nodiscard]] RankEnd end_of(const ModelSpec& m, const ClusterSpec& c,
                               const BlockParameters& p) const {
    return rank_end(m, c, strategy_, groups_, p);
  }

 private:
  std::uint64_t number_;
  Strategy strategy_;  // its keys above
  StepEndGroups groups_;
  GroupShape neighbours_, tensor_;
  Bytes communicators_;
  Seconds tied_;
};

}  // namespace meshplan

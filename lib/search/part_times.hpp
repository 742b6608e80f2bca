#pragma once
// Times of the parts of a layer, before block costs are made of them: experts vary with far more
// keys than everything else, so each part is computed once for the keys that it depends on.
#include <cstdint>

#include "base/shared_memo.hpp"
#include "cost/block.hpp"
#include "model/kinds.hpp"
#include "partition/stages.hpp"
#include "search/shape_ids.hpp"

namespace meshplan {

// Seconds of one microbatch over some blocks; never more than their block costs.
struct PartTime {
  double chain = 0;  // forward and input gradients, which follow each other layer by layer
  double all = 0;    // with weight gradients
  friend PartTime operator+(const PartTime& a, const PartTime& b) {
    return {a.chain + b.chain, a.all + b.all};
  }
};

class PartTimes {
 public:
  PartTimes(const ModelSpec& m, const ClusterSpec& c, ShapeIds& shapes)
      : model_(m), cluster_(c), shapes_(shapes) {}

  // Everything but routed experts' layers: attention of all layers, dense MLPs, embedding and head.
  // `prefix`: of `s`.
  [[nodiscard]] PartTime without_experts(const Strategy& s, std::size_t base,
                                         const LayerPrefix& prefix);
  // Routing, experts and shared experts of all layers that have them.
  [[nodiscard]] PartTime experts(const Strategy& s, std::size_t base, const LayerPrefix& prefix);

 private:
  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  ShapeIds& shapes_;
  SharedMemo<8, PartTime> without_experts_;
  SharedMemo<10, PartTime> experts_;
};

}  // namespace meshplan

#include "search/late_bound.hpp"

#include <algorithm>
#include <array>

namespace meshplan {
namespace {

constexpr std::size_t kSets = 4;  // of two kinds of parameters

// Blocks of one kind: seconds of a step on the rank that has one of them.
struct Lasting {
  double number = 0;
  double work = 0;               // with what is always seen
  std::array<double, 2> late{};  // of dense and experts' parameters, as long as they are no bucket
  std::array<double, kSets> left{};  // by set of those that are
};

double share_of(std::int64_t parameters, const LateReductions& late) {
  return late.parameters > 0 ? static_cast<double>(parameters) / late.parameters : 0;
}

}  // namespace

double late_bound(const BlockCosts& blocks, const BlockCounts& counts, double microbatches,
                  double ranks, const WholeReductions& all) {
  if (all.dense.always + all.dense.late + all.experts.always + all.experts.late <= 0) return 0;
  PerBlock<Lasting> loads(counts.size());
  std::size_t kinds = 0, layers = 0;  // those of layers first
  const auto add = [&](std::size_t k, bool reduces) {
    if (counts[k] == 0) return;
    const BlockCost& b = blocks[k];
    Lasting& load = loads[kinds++];
    load.number = static_cast<double>(counts[k]);
    load.work = microbatches *
                (b.forward.total() + b.backward_input.total() + b.backward_weight.total()).si();
    if (reduces) {
      const double dense = share_of(b.parameters.dense, all.dense);
      const double experts = share_of(b.parameters.experts, all.experts);
      load.work += dense * all.dense.always + experts * all.experts.always;
      load.late = {dense * all.dense.late, experts * all.experts.late};
    }
    for (std::size_t s = 0; s < kSets; ++s) {
      load.left[s] = load.work;
      for (std::size_t g = 0; g < 2; ++g) load.left[s] += (s >> g & 1) == 0 ? load.late[g] : 0;
    }
  };
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(counts.size()); ++k) add(k, true);
  layers = kinds;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (k < kFirstLayerBlock || k >= mtp_block(counts.size())) add(k, false);
  }
  const std::array<double, 2> buckets{all.dense.bucket * all.dense.late,
                                      all.experts.bucket * all.experts.late};
  double best = 0;
  for (std::size_t prices = 0; prices < kSets; ++prices) {
    std::array<double, kSets> dearest{};  // price per second that a rank has
    for (std::size_t s = 0; s < kSets; ++s) {
      for (std::size_t i = 0; i < layers; ++i) {
        if (loads[i].left[s] <= 0) return 0;
        dearest[s] = std::max(dearest[s], loads[i].left[prices] / loads[i].left[s]);
      }
    }
    const double least = *std::min_element(dearest.begin(), dearest.end());
    double paid = 0;
    for (std::size_t i = 0; i < kinds; ++i) {
      paid += loads[i].number * (i < layers ? loads[i].left[prices] : least * loads[i].work);
    }
    double time = 1e300;
    for (std::size_t s = 0; s < kSets; ++s) {
      double seen = paid / (ranks * dearest[s]);
      for (std::size_t g = 0; g < 2; ++g) seen += (s >> g & 1) == 0 ? 0 : buckets[g];
      time = std::min(time, seen);
    }
    best = std::max(best, time);
  }
  return best;
}

}  // namespace meshplan

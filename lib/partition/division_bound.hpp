#pragma once
// How fast a pipeline can be at best, over all divisions of the layers at once, or over all that
// begin alike.
#include <cstdint>
#include <vector>

#include "cost/block.hpp"
#include "partition/stages.hpp"
#include "schedule/divided.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan {

class LeastEnds;  // partition/least_ends.hpp

// What the engine says of one block alone, recomputed as its rank may at best choose.
[[nodiscard]] TaskTimes least_times(std::size_t block, const BlockCosts& blocks, Recompute mode,
                                    bool layer);

// [F-SEARCH-4] The least T for which some division keeps, for every rank r of p, the chains of
// tasks that wait for each other (m microbatches, F, B, W a rank's forward, input and weight
// gradient, X = F + B + W; k_r forwards before the first backward):
//   until its first task, all its work, and back:  sum of X before r + m X_r
//     (zero bubble: sum of F before r + m X_r; interleaved: of the first chunks)
//   through the whole pipeline to its first backward, and back:
//     1F1B          sum of X + m X_r - (B + W)_r - k_r F_r
//     interleaved   the same with the chunks before and after r's
//     ZB-H1         sum of F + sum of B behind r + m X_r - k_r F_r
//     ZB-V          sum of F + sum of B of second chunks before r + m X_r - forwards before the
//                   first backward; and back: - W after the last backward + sum of B of first
//                   chunks before r
//     any V         sum of F + sum of B + (m - 1) times the larger of half F_r and half B_r
//   GPipe: sum of X + (m - 1) X_r.
//   1F1B, to the last rank and back for as many microbatches as r holds:
//                   sum of X before r + ceil(m / (p - r)) (sum of X from r on and both ways'
//                   messages) + ((m - 1) mod (p - r)) F_r
// To each of them come its messages: one transfer per boundary that it crosses, and per microbatch
// what the rank stands still for sending and receiving.
// The largest first part of the layers that ranks 0 .. r can take grows with T and with what ranks
// 0 .. r - 1 took, so taking as much as possible from the front decides whether a T is possible;
// bisection finds it to 1 part in 2000 from below. Times in seconds, not rounded down.
class DivisionBound {
 public:
  // `recompute`: how every layer is recomputed at least. `send`: no message takes less.
  DivisionBound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                const LayerPrefix& prefix, Recompute recompute = Recompute::kNone,
                const SendTime& send = {});

  // Infinite where it exceeds the limit by more than 1 part in 1000.
  [[nodiscard]] double least(double limit) const;

  // Whether the ranks from `rank` on may take the layers from `begin` on within the limit. May say
  // yes where they cannot. `ends`: what each rank must also have reduced by then.
  [[nodiscard]] bool possible(double limit, std::int64_t rank = 0, std::int64_t begin = 0,
                              const LeastEnds* ends = nullptr) const;
  // Chains through rank r with layers begin .. end - 1, in the order in which ranks take them.
  struct RankChains {
    double step = 0;        // the longest
    double until_last = 0;  // the longest that ends with the rank's last task
    TaskTimes own;          // of the rank, in one microbatch
  };
  [[nodiscard]] RankChains chains(std::int64_t r, std::int64_t begin, std::int64_t end) const;
  // Whether chunks count as even shares of their rank's layers above, and as what they hold below.
  [[nodiscard]] bool knows_chunks() const { return p_.even; }
  // The same of a rank whose chunks hold these layers, the first of them behind the first chunks of
  // the ranks before it. `in_rounds`: and the last one before the last chunks of those behind it.
  // Where it knows chunks.
  [[nodiscard]] RankChains chains(std::int64_t r, std::int64_t begin, std::int64_t end,
                                  const std::vector<LayerRange>& chunks, bool in_rounds) const;
  // The one or the other, of a stage that is one rank. `chunks`: is overwritten.
  [[nodiscard]] RankChains chains(const StageLayout& layout, int stage,
                                  const StageAssignment& share,
                                  std::vector<LayerRange>& chunks) const;
  // Of a chain that passes rank r once for as many microbatches as it holds; 0: none is known.
  [[nodiscard]] double loop(std::int64_t r, std::int64_t begin, std::int64_t end) const;
  // What one second more of one microbatch's backward pass on a rank adds to the chains through
  // later ranks at least.
  [[nodiscard]] double carried() const { return traits_.is_plain() ? 1 : 0; }
  // Whether the chains end at the first rank's last task.
  [[nodiscard]] bool comes_back() const { return !traits_.splits_backward; }

  // Everything that one microbatch passes.
  [[nodiscard]] ChunkTime whole() const {
    return {Seconds{p_.whole.forward}, Seconds{p_.whole.input}, Seconds{p_.whole.weight}};
  }

 private:
  // Of the layers alone, where it knows chunks.
  [[nodiscard]] TaskTimes times_of(std::int64_t begin, std::int64_t end) const {
    return until_[static_cast<std::size_t>(end)] - until_[static_cast<std::size_t>(begin)];
  }
  [[nodiscard]] RankChains chains_of(const DividedRank& rank) const;
  [[nodiscard]] bool keeps(double limit, const DividedRank& rank, const LeastEnds* ends) const;
  void add_layers(const std::vector<TaskTimes>& layers);
  void add_chunks(const std::vector<TaskTimes>& layers, const LayerPrefix& prefix);
  void add_messages(const Strategy& s, const SendTime& send);

  const ScheduleTraits& traits_;
  DividedPipeline p_;
  std::vector<TaskTimes> until_;  // of the layers before; where it knows chunks
  std::int64_t layers_;
};

[[nodiscard]] double division_bound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                                    const LayerPrefix& prefix, double limit);

}  // namespace meshplan

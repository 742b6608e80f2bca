#pragma once
// Layers of an interleaved pipeline by rounds of its chunks: the first chunks of all ranks, then
// the second ones, and so on.
#include <cstdint>
#include <vector>

#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Layers of each round. Which layers a chunk holds depends on what all rounds before its own hold,
// so where layers differ a division is looked for among those with the same totals.
using RoundTotals = std::vector<std::int64_t>;

// By how many layers two rounds of a pipeline with so many chunks per rank may differ at most,
// where the layers differ: more chunks leave more ways for the totals to differ.
[[nodiscard]] std::int64_t most_uneven(std::int64_t vp);

// All totals of divisions that keep most_uneven(), the most even ones first.
[[nodiscard]] std::vector<RoundTotals> all_round_totals(std::int64_t layers, std::int64_t pp,
                                                        std::int64_t vp);
// The totals of a division with so many layers per pipeline rank.
[[nodiscard]] RoundTotals round_totals(const std::vector<std::int64_t>& stage_layers,
                                       std::int64_t vp);

// [F-SEARCH-12] How far each round has got when all ranks before a stage have taken their layers,
// given the totals. A rank's chunks differ by one layer at most (cost/chunks.hpp, chunk_layers), so
// all rounds have got about as far as the last one: what the others are ahead of it has few values,
// the leads, numbered from 0 (none).
class Rounds {
 public:
  Rounds(const RoundTotals& totals, std::int64_t pp);

  [[nodiscard]] int num_leads() const { return static_cast<int>(leads_.size()); }
  // The lead after a stage that takes so many layers, or -1: none of a division with the totals.
  [[nodiscard]] int lead_after(int stage, int lead, int layers) const;
  // Whether no round has got farther than its total when so many layers are taken.
  [[nodiscard]] bool keeps_totals(int taken, int lead) const {
    return last_round(taken, lead) <= last_;
  }
  [[nodiscard]] bool is_whole(int taken, int lead) const {
    return lead == whole_ && taken == layers_;
  }
  // The next layer of round c.
  [[nodiscard]] std::int64_t next_layer(int taken, int lead, int round) const {
    const auto c = static_cast<std::size_t>(round);
    return begin_[c] + last_round(taken, lead) + leads_[static_cast<std::size_t>(lead)][c];
  }
  [[nodiscard]] std::int64_t begin(int round) const {
    return begin_[static_cast<std::size_t>(round)];
  }

 private:
  using Lead = std::vector<std::int64_t>;  // of each round over the last
  // Layers of the last round.
  [[nodiscard]] std::int64_t last_round(int taken, int lead) const {
    return (taken - sums_[static_cast<std::size_t>(lead)]) / vp_;
  }
  int number_of(const Lead& lead);

  int vp_ = 1, layers_ = 0, whole_ = 0;
  std::int64_t last_ = 0;            // the last round's total
  std::vector<std::int64_t> begin_;  // first layer of each round
  std::vector<Lead> leads_;
  std::vector<std::int64_t> sums_;  // of each lead
  std::vector<int> first_, later_;  // lead after the first stage by layers mod vp; after others,
                                    // by lead and that
};

// Of each of all_round_totals(). Worked out once per thread, as a search asks for the same few over
// and over; stays where it is.
[[nodiscard]] const std::vector<Rounds>& all_rounds(std::int64_t layers, std::int64_t pp,
                                                    std::int64_t vp);

}  // namespace meshplan

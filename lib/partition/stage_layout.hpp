#pragma once
// Which layers a pipeline rank gets when the ranks before it have taken theirs.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cost/chunks.hpp"
#include "model/layer_prefix.hpp"
#include "partition/rounds.hpp"
#include "schedule/traits.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// What has been taken when a stage's turn comes. Layers from the front, or of the first round of
// chunks; where the second round comes back, as in ZB-V and DualPipe, also from the back.
struct LayerCursor {
  int taken = 0;
  int front = 0;
  int back = 0;
  int lead = 0;  // Rounds': how far each round has got
};

// What a stage takes: layers of its rank (DualPipe: of the rank nearer to the front, and of the
// other rank with the same two chunks).
struct StageAssignment {
  LayerCursor place;
  int first = 0;
  int second = 0;
};

struct LayerRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class StageLayout {
 public:
  // `rounds`: of the divisions that are looked at, where needs_rounds(); nothing: the most even.
  StageLayout(const ModelSpec& m, const Strategy& s, const LayerPrefix& prefix,
              const Rounds* rounds = nullptr);

  // Whether which layers a chunk holds depends on the totals of the rounds: chunks in rounds, of a
  // model whose layers differ.
  [[nodiscard]] static bool needs_rounds(const Strategy& s, const LayerPrefix& prefix);

  // Layers taken from the two ends differ by no more at any rank.
  static constexpr int kMostLead = 3;

  [[nodiscard]] int num_stages() const { return stages_; }  // DualPipe: pairs of ranks
  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int leading() const { return leading_; }
  [[nodiscard]] bool is_bidirectional() const { return kind_ == Kind::kBidirectional; }
  // Whether the ranks of a stage hold both the embedding and the head.
  [[nodiscard]] bool shares_both_ends() const { return shares_both_ends_; }
  // Whether every rank has one chunk, of layers that follow each other.
  [[nodiscard]] bool follow_each_other() const { return kind_ == Kind::kContiguous; }
  // Whether a rank's layers follow each other, or are alike, so that a part of what fits fits as
  // well.
  [[nodiscard]] bool is_contiguous() const { return kind_ == Kind::kContiguous || leading_ == 0; }
  // Whether a rank that begins behind the leading layers holds layers that are alike.
  [[nodiscard]] bool is_uniform() const {
    return kind_ != Kind::kRounds && kind_ != Kind::kSharedEnds;
  }
  // Whether a rank's layers are spread over its chunks, the leading ones over the first round.
  [[nodiscard]] bool spreads() const { return kind_ == Kind::kSpread; }
  // Whether every rank, or pair of ranks, takes layers from both ends.
  [[nodiscard]] bool takes_from_back() const {
    return kind_ == Kind::kSharedEnds || kind_ == Kind::kBidirectional;
  }
  // Of chunks in rounds whose layers differ; else nothing.
  [[nodiscard]] const Rounds* rounds() const { return kind_ == Kind::kRounds ? rounds_ : nullptr; }

  // States of partition.hpp, one per place.
  [[nodiscard]] int num_states() const;
  [[nodiscard]] int start() const { return is_bidirectional() ? kMostLead : 0; }
  [[nodiscard]] bool is_goal(int state) const;
  [[nodiscard]] LayerCursor place(int state) const;
  [[nodiscard]] LayerCursor after(int stage, const StageAssignment& share) const;
  // Whether a division of the space may have the share, as far as its rounds go.
  [[nodiscard]] bool allows(int stage, const StageAssignment& share) const;
  [[nodiscard]] int state(const LayerCursor& place) const;

  // Fewest layers of the rank (DualPipe: of each of the two), and of all later stages.
  [[nodiscard]] int fewest(int stage) const;
  [[nodiscard]] int fewest_later(int stage) const;

  // Layers of each chunk, by depth.
  void ranges(int stage, const StageAssignment& share, std::vector<LayerRange>& result) const;

  // Shares with the same slot hold the same kinds of layers in the same order.
  [[nodiscard]] std::size_t num_slots() const;
  [[nodiscard]] std::size_t slot(int stage, const StageAssignment& share) const;
  // Whether the two ranks of the share may differ as much as they do.
  [[nodiscard]] static bool has_slot(const StageAssignment& share) {
    return std::abs(share.second - share.first) <= 2 * kMostLead;
  }

  // Layers of one chunk of a rank that holds so many.
  [[nodiscard]] int spread_chunk(int stage, int layers, int chunk) const {
    const bool last = stage == (shares_both_ends_ ? 0 : stages_ - 1);
    return static_cast<int>(chunk_layers(layers, vp_, chunk, stage == 0, last));
  }

 private:
  [[nodiscard]] std::size_t key_of_followings(int stage, const StageAssignment& share) const;

  enum class Kind {
    kContiguous,     // one chunk per rank
    kSpread,         // several, as even as the rank's layers go, which are alike but for a few
    kSharedEnds,     // two, the second from the back
    kRounds,         // several, of rounds with given totals
    kBidirectional,  // DualPipe
  };

  Kind kind_ = Kind::kContiguous;
  int stages_ = 1, layers_ = 1, vp_ = 1, leading_ = 0;
  const Rounds* rounds_ = nullptr;
  bool by_followings_ = false;  // slots are told apart by which kinds of layers chunks begin with
  bool shares_both_ends_ = false;
  const LayerPrefix* prefix_;
  bool few_leading_ = false;  // the back half holds none of the leading layers
};

}  // namespace meshplan

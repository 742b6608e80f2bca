#include "partition/stage_layout.hpp"

#include <algorithm>

namespace meshplan {
namespace {

constexpr int kLeads = 2 * StageLayout::kMostLead + 1;        // of the front over the back
constexpr int kDifferences = 4 * StageLayout::kMostLead + 1;  // between the two ranks of a stage

}  // namespace

StageLayout::StageLayout(const ModelSpec& m, const Strategy& s, const LayerPrefix& prefix)
    : chunk_layout_(traits_of(s.schedule).layout),
      vp_(static_cast<int>(s.vp)),
      leading_(prefix.leading),
      layers_(m.num_layers) {
  const auto pp = static_cast<int>(s.pp);
  stages_ = pp;
  if (chunk_layout_ == ChunkLayout::kBidirectional) {
    kind_ = Kind::kBidirectional;
    stages_ = pp / 2;
  } else if (vp_ > 1) {
    kind_ = prefix.has_free_chunks() ? Kind::kSpread : Kind::kRows;
  }
  unit_layers_ = kind_ == Kind::kRows ? s.vp : 1;
  units_ = static_cast<int>(m.num_layers / unit_layers_);
  shares_both_ends_ = traits_of(s.schedule).shares_both_ends();
  few_leading_ = prefix.has_free_chunks() && units_ > 2 * leading_ + kMostLead;
}

int StageLayout::num_states() const {
  switch (kind_) {
    case Kind::kContiguous:
    case Kind::kRows:
      return units_ + 1;
    case Kind::kSpread:
      return (units_ + 1) * (leading_ + 1);
    case Kind::kBidirectional:
      return kLeads * (units_ / 2 + kMostLead + 2);
  }
  return 0;
}

bool StageLayout::is_goal(int state) const {
  const LayerCursor p = place(state);
  return p.taken == units_ && (kind_ != Kind::kSpread || p.front == leading_);
}

LayerCursor StageLayout::place(int state) const {
  switch (kind_) {
    case Kind::kContiguous:
    case Kind::kRows:
      return {state, state, 0};
    case Kind::kSpread:
      return {state / (leading_ + 1), state % (leading_ + 1), 0};
    case Kind::kBidirectional: {
      const int front = state / kLeads, back = front + state % kLeads - kMostLead;
      return {front + back, front, back};
    }
  }
  return {};
}

int StageLayout::state(const LayerCursor& p) const {
  switch (kind_) {
    case Kind::kContiguous:
    case Kind::kRows:
      return p.taken;
    case Kind::kSpread:
      return p.taken * (leading_ + 1) + p.front;
    case Kind::kBidirectional:
      return kLeads * p.front + p.back - p.front + kMostLead;
  }
  return 0;
}

// Megatron-LM's explicit layouts: a chunk without layers holds the embedding or the head, on the
// first or the last rank.
int StageLayout::fewest(int stage) const {
  if (kind_ == Kind::kRows || vp_ == 1) return 1;
  const bool end = stage == 0 || (!is_bidirectional() && stage == stages_ - 1);
  return end ? vp_ - 1 : vp_;
}

int StageLayout::fewest_later(int stage) const {
  const int left = stages_ - stage - 1;
  if (left == 0) return 0;
  if (is_bidirectional()) return left * 2 * vp_;
  return (left - 1) * fewest(1 < stages_ - 1 ? 1 : 0) + fewest(stages_ - 1);
}

void StageLayout::ranges(int stage, const StageAssignment& share,
                         std::vector<LayerRange>& result) const {
  result.clear();
  const LayerCursor& p = share.place;
  const std::int64_t n = share.first;
  switch (kind_) {
    case Kind::kContiguous:
      result.push_back({p.front, p.front + n});
      return;
    case Kind::kRows:
      if (chunk_layout_ == ChunkLayout::kV) {
        result.push_back({p.front, p.front + n});
        result.push_back({layers_ - p.front - n, layers_ - p.front});
        return;
      }
      for (std::int64_t c = 0; c < vp_; ++c) {
        result.push_back({c * units_ + p.front, c * units_ + p.front + n});
      }
      return;
    case Kind::kSpread:
      result.push_back({p.front, p.front + spread_chunk(stage, share.first, 0)});
      for (int c = 1; c < vp_; ++c) {  // of layers that are alike, wherever they are
        result.push_back({layers_ - spread_chunk(stage, share.first, c), layers_});
      }
      return;
    case Kind::kBidirectional:
      result.push_back({p.front, p.front + n});
      result.push_back({layers_ - p.back - share.second, layers_ - p.back});
      return;
  }
}

std::size_t StageLayout::num_slots() const {
  const auto n = static_cast<std::size_t>(units_ + 1), s = static_cast<std::size_t>(stages_);
  const auto fronts = static_cast<std::size_t>(leading_ + 1);
  switch (kind_) {
    case Kind::kContiguous:
    case Kind::kSpread:
      return s * fronts * n;
    case Kind::kRows:
      return s * n * n;
    case Kind::kBidirectional:
      return few_leading_ ? s * fronts * n * kDifferences : s * n * n * kLeads * kDifferences;
  }
  return 0;
}

std::size_t StageLayout::slot(int stage, const StageAssignment& share) const {
  const auto n = static_cast<std::size_t>(units_ + 1), s = static_cast<std::size_t>(stage);
  const auto first = static_cast<std::size_t>(share.first);
  const auto front = static_cast<std::size_t>(share.place.front);
  const auto capped = static_cast<std::size_t>(std::min(share.place.front, leading_));
  const auto fronts = static_cast<std::size_t>(leading_ + 1);
  switch (kind_) {
    case Kind::kContiguous:
    case Kind::kSpread:
      return (s * fronts + capped) * n + first;
    case Kind::kRows:
      return (s * n + front) * n + first;
    case Kind::kBidirectional: {
      const auto difference = static_cast<std::size_t>(share.second - share.first + 2 * kMostLead);
      if (few_leading_) return ((s * fronts + capped) * n + first) * kDifferences + difference;
      const auto lead = static_cast<std::size_t>(share.place.back - share.place.front + kMostLead);
      return (((s * n + front) * n + first) * kLeads + lead) * kDifferences + difference;
    }
  }
  return 0;
}

}  // namespace meshplan

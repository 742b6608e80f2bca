#include "partition/stage_layout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshplan {
namespace {

constexpr int kLeads = 2 * StageLayout::kMostLead + 1;        // of the front over the back
constexpr int kDifferences = 4 * StageLayout::kMostLead + 1;  // between the two ranks of a stage

constexpr std::size_t kMany = std::numeric_limits<std::size_t>::max();  // most are never asked for

}  // namespace

bool StageLayout::needs_rounds(const Strategy& s, const LayerPrefix& prefix) {
  return s.vp > 1 && traits_of(s.schedule).layout == ChunkLayout::kRounds &&
         !prefix.has_uniform_tail();
}

StageLayout::StageLayout(const ModelSpec& m, const Strategy& s, const LayerPrefix& prefix,
                         const Rounds* rounds)
    : stages_(static_cast<int>(s.pp)),
      layers_(static_cast<int>(m.num_layers)),
      vp_(static_cast<int>(s.vp)),
      leading_(prefix.leading),
      shares_both_ends_(traits_of(s.schedule).shares_both_ends()),
      prefix_(&prefix),
      few_leading_(prefix.has_uniform_tail() && layers_ > 2 * leading_ + kMostLead) {
  if (traits_of(s.schedule).layout == ChunkLayout::kBidirectional) {
    kind_ = Kind::kBidirectional;
    stages_ /= 2;
  } else if (vp_ > 1) {
    kind_ = prefix.has_uniform_tail() ? Kind::kSpread
            : needs_rounds(s, prefix) ? Kind::kRounds
                                      : Kind::kSharedEnds;
  }
  // Enough numbers for a key of every chunk's first layer.
  const double keys = std::pow(static_cast<double>(prefix.num_followings() + 1), vp_) *
                      static_cast<double>(stages_) * (layers_ + 1.0);
  by_followings_ = keys < 1e18;
  if (kind_ != Kind::kRounds) return;
  rounds_ = rounds != nullptr ? rounds : &all_rounds(layers_, s.pp, vp_).front();
}

int StageLayout::num_states() const {
  switch (kind_) {
    case Kind::kContiguous:
      return layers_ + 1;
    case Kind::kSpread:
      return (layers_ + 1) * (leading_ + 1);
    case Kind::kSharedEnds:
      return (layers_ + 1) * (kMostLead + 1);
    case Kind::kRounds:
      return (layers_ + 1) * rounds_->num_leads();
    case Kind::kBidirectional:
      return kLeads * (layers_ / 2 + kMostLead + 2);
  }
  return 0;
}

bool StageLayout::is_goal(int state) const {
  const LayerCursor p = place(state);
  if (kind_ == Kind::kRounds) return rounds_->is_whole(p.taken, p.lead);
  return p.taken == layers_ && (kind_ != Kind::kSpread || p.front == leading_);
}

LayerCursor StageLayout::place(int state) const {
  switch (kind_) {
    case Kind::kContiguous:
      return {state, state, 0, 0};
    case Kind::kSpread:
      return {state / (leading_ + 1), state % (leading_ + 1), 0, 0};
    case Kind::kSharedEnds: {
      const int taken = state / (kMostLead + 1), lead = state % (kMostLead + 1);
      return {taken, (taken + lead) / 2, (taken - lead) / 2, 0};
    }
    case Kind::kRounds: {
      const int taken = state / rounds_->num_leads(), lead = state % rounds_->num_leads();
      return {taken, 0, 0, lead};
    }
    case Kind::kBidirectional: {
      const int front = state / kLeads, back = front + state % kLeads - kMostLead;
      return {front + back, front, back, 0};
    }
  }
  return {};
}

int StageLayout::state(const LayerCursor& p) const {
  switch (kind_) {
    case Kind::kContiguous:
      return p.taken;
    case Kind::kSpread:
      return p.taken * (leading_ + 1) + p.front;
    case Kind::kSharedEnds:
      return p.taken * (kMostLead + 1) + p.front - p.back;
    case Kind::kRounds:
      return p.taken * rounds_->num_leads() + p.lead;
    case Kind::kBidirectional:
      return kLeads * p.front + p.back - p.front + kMostLead;
  }
  return 0;
}

LayerCursor StageLayout::after(int stage, const StageAssignment& share) const {
  LayerCursor p = share.place;
  p.taken += share.first + share.second;
  switch (kind_) {
    case Kind::kContiguous:
      p.front += share.first;
      break;
    case Kind::kSpread:
      if (p.front < leading_) {
        p.front = std::min(leading_, p.front + spread_chunk(stage, share.first, 0));
      }
      break;
    case Kind::kSharedEnds:
      p.front += spread_chunk(stage, share.first, 0);
      p.back += spread_chunk(stage, share.first, 1);
      break;
    case Kind::kRounds:
      p.lead = rounds_->lead_after(stage, p.lead, share.first);
      break;
    case Kind::kBidirectional:
      p.front += share.first;
      p.back += share.second;
      break;
  }
  return p;
}

bool StageLayout::allows(int stage, const StageAssignment& share) const {
  if (kind_ == Kind::kSharedEnds) {
    const LayerCursor next = after(stage, share);
    return next.front - next.back <= kMostLead;
  }
  if (kind_ != Kind::kRounds) return true;
  const int lead = rounds_->lead_after(stage, share.place.lead, share.first);
  return lead >= 0 && rounds_->keeps_totals(share.place.taken + share.first, lead);
}

// Megatron-LM's explicit layouts: a chunk without layers holds the embedding or the head, on the
// first or the last rank.
int StageLayout::fewest(int stage) const {
  if (vp_ == 1) return 1;
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
    case Kind::kSpread:
      result.push_back({p.front, p.front + spread_chunk(stage, share.first, 0)});
      for (int c = 1; c < vp_; ++c) {  // of layers that are alike, wherever they are
        result.push_back({layers_ - spread_chunk(stage, share.first, c), layers_});
      }
      return;
    case Kind::kSharedEnds:
      result.push_back({p.front, p.front + spread_chunk(stage, share.first, 0)});
      result.push_back({layers_ - p.back - spread_chunk(stage, share.first, 1), layers_ - p.back});
      return;
    case Kind::kRounds:
      for (int c = 0; c < vp_; ++c) {
        const std::int64_t begin = rounds_->next_layer(p.taken, p.lead, c);
        result.push_back({begin, begin + spread_chunk(stage, share.first, c)});
      }
      return;
    case Kind::kBidirectional:
      result.push_back({p.front, p.front + n});
      result.push_back({layers_ - p.back - share.second, layers_ - p.back});
      return;
  }
}

std::size_t StageLayout::num_slots() const {
  const auto n = static_cast<std::size_t>(layers_ + 1), s = static_cast<std::size_t>(stages_);
  const auto fronts = static_cast<std::size_t>(leading_ + 1);
  switch (kind_) {
    case Kind::kContiguous:
    case Kind::kSpread:
      return s * fronts * n;
    case Kind::kSharedEnds:
    case Kind::kRounds:
      return kMany;
    case Kind::kBidirectional:
      return few_leading_ ? s * fronts * n * kDifferences : s * n * n * kLeads * kDifferences;
  }
  return 0;
}

// A chunk of as many layers holds the same kinds in the same order if it begins with a layer that
// the same ones follow.
std::size_t StageLayout::key_of_followings(int stage, const StageAssignment& share) const {
  auto key = static_cast<std::size_t>(stage * (layers_ + 1) + share.first);
  const auto add = [&](int chunk, std::int64_t begin) {
    const bool empty = spread_chunk(stage, share.first, chunk) == 0;
    const std::int64_t number = empty ? prefix_->num_followings() : prefix_->following(begin);
    key = key * static_cast<std::size_t>(prefix_->num_followings() + 1) +
          static_cast<std::size_t>(number);
  };
  const LayerCursor& p = share.place;
  if (kind_ == Kind::kSharedEnds) {
    add(0, p.front);
    add(1, layers_ - p.back - spread_chunk(stage, share.first, 1));
    return key;
  }
  for (int c = 0; c < vp_; ++c) add(c, rounds_->next_layer(p.taken, p.lead, c));
  return key;
}

std::size_t StageLayout::slot(int stage, const StageAssignment& share) const {
  const auto n = static_cast<std::size_t>(layers_ + 1), s = static_cast<std::size_t>(stage);
  const auto first = static_cast<std::size_t>(share.first);
  const auto front = static_cast<std::size_t>(share.place.front);
  const auto capped = static_cast<std::size_t>(std::min(share.place.front, leading_));
  const auto fronts = static_cast<std::size_t>(leading_ + 1);
  switch (kind_) {
    case Kind::kContiguous:
    case Kind::kSpread:
      return (s * fronts + capped) * n + first;
    case Kind::kSharedEnds:
    case Kind::kRounds: {
      if (by_followings_) return key_of_followings(stage, share);
      const auto states = static_cast<std::size_t>(num_states());
      return (s * states + static_cast<std::size_t>(state(share.place))) * n + first;
    }
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

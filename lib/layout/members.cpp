#include <algorithm>

#include "base/check.hpp"
#include "layout/digits.hpp"
#include "layout/groups.hpp"

namespace meshplan {
namespace {

using Ranks = std::vector<std::int64_t>;

Ranks pipeline_pair(const Ranks& pipeline, Group g, std::int64_t rank) {
  if (pipeline.size() == 1) return pipeline;
  if (g == Group::kEmbedding) {
    const bool at_an_end = rank == pipeline.front() || rank == pipeline.back();
    return at_an_end ? Ranks{pipeline.front(), pipeline.back()} : Ranks{};
  }
  auto next = std::next(std::find(pipeline.begin(), pipeline.end(), rank));
  if (next == pipeline.end()) next = pipeline.begin();
  return {std::min(rank, *next), std::max(rank, *next)};
}

// Two ranks of each pipeline, which lies in blocks of its own.
MemberPattern pair_pattern(const Digit& pipeline, Group g) {
  MemberPattern p;
  p.size = 2;
  p.stride = pipeline.stride * (g == Group::kEmbedding ? pipeline.size - 1 : 1);
  const std::int64_t period = pipeline.size * pipeline.stride;
  if (period % (p.size * p.stride) != 0) p.period = period;
  return p;
}

// Member digits, innermost first; neighbours in the rank order joined to one.
std::vector<Digit> joined_members(const RankDigits& d) {
  std::vector<Digit> joined;
  for (std::size_t i = 0; i < d.count; ++i) {
    const Digit& digit = d.digits[i];
    if (!digit.member || digit.size == 1) continue;
    if (!joined.empty() && joined.back().stride * joined.back().size == digit.stride) {
      joined.back().size *= digit.size;
    } else {
      joined.push_back(digit);
    }
  }
  return joined;
}

}  // namespace

std::optional<MemberPattern> member_pattern(const Strategy& s, Group g) {
  const RankDigits d = rank_digits(s, g);
  if (d.is_cut()) return std::nullopt;
  const std::vector<Digit> members = joined_members(d);
  if (members.empty()) return MemberPattern{};
  if (g == Group::kPpNeighbour || g == Group::kEmbedding) return pair_pattern(members.front(), g);
  if (members.size() > 2) return std::nullopt;
  const Digit& inner = members.front();
  if (members.size() == 1) return MemberPattern{.size = inner.size, .stride = inner.stride};
  const Digit& outer = members.back();
  return MemberPattern{.size = inner.size * outer.size,
                       .stride = inner.stride,
                       .run = inner.size,
                       .jump = outer.stride};
}

std::vector<std::int64_t> group_members(const Strategy& s, Group g, std::int64_t rank,
                                        std::int64_t most) {
  PLAN_CHECK(rank >= 0 && rank < num_gpus(s));
  const RankDigits d = rank_digits(s, g);
  std::int64_t base = rank;
  std::int64_t number = 0;  // of `rank` among the members
  std::int64_t weight = 1;
  for (std::size_t i = 0; i < d.count; ++i) {
    const Digit& digit = d.digits[i];
    if (!digit.member) continue;
    const std::int64_t value = rank / digit.stride % digit.size;
    base -= value * digit.stride;
    number += value * weight;
    weight *= digit.size;
  }
  const bool pair = g == Group::kPpNeighbour || g == Group::kEmbedding;
  const std::int64_t begin = d.run > 0 ? number / d.run * d.run : d.step > 0 ? number % d.step : 0;
  const std::int64_t end = d.run > 0 ? begin + d.run : weight;
  const std::int64_t step = d.step > 0 ? d.step : 1;
  Ranks members;
  for (std::int64_t i = begin; i < end; i += step) {
    if (!pair && static_cast<std::int64_t>(members.size()) >= most) break;
    members.push_back(base + member_offset(d, i));
  }
  if (pair) members = pipeline_pair(members, g, rank);
  return members;
}

}  // namespace meshplan

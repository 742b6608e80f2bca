#include "layout/digits.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "spec/axes.hpp"

namespace meshplan {
namespace {

bool is_expert_group(Group g) {
  return g == Group::kEp || g == Group::kEtp || g == Group::kEtpEp || g == Group::kExpertDp;
}

bool varies(Group g, Axis axis) {
  switch (g) {
    case Group::kTp:
    case Group::kEtp:
      return axis == Axis::kTp;
    case Group::kCp:
      return axis == Axis::kCp;
    case Group::kTpCp:
      return axis == Axis::kTp || axis == Axis::kCp;
    case Group::kDp:
    case Group::kExpertDp:
      return axis == Axis::kDp;
    case Group::kDpCp:
    case Group::kZeroShard:
    case Group::kZeroReplica:
      return axis == Axis::kDp || axis == Axis::kCp;
    case Group::kEp:
      return axis == Axis::kEp;
    case Group::kEtpEp:
      return axis == Axis::kTp || axis == Axis::kEp;
    case Group::kPp:
    case Group::kPpNeighbour:
    case Group::kEmbedding:
      return axis == Axis::kPp;
  }
  return false;
}

// Keeps the innermost `shard` of the members as members (kZeroShard), or the others.
void split_members(RankDigits& d, std::int64_t shard, bool keep_inner) {
  const RankDigits whole = d;
  std::int64_t rest = shard;
  d.count = 0;
  for (std::size_t i = 0; i < whole.count; ++i) {
    Digit digit = whole.digits[i];
    if (!digit.member || (rest > 1 && rest % digit.size == 0)) {
      if (digit.member) {
        rest /= digit.size;
        digit.member = keep_inner;
      }
      d.digits[d.count++] = digit;
    } else if (digit.size % rest == 0) {
      d.digits[d.count++] = {rest, digit.stride, keep_inner};
      d.digits[d.count++] = {digit.size / rest, digit.stride * rest, !keep_inner};
      rest = 1;
    } else {
      d = whole;
      (keep_inner ? d.run : d.step) = shard;
      return;
    }
  }
}

}  // namespace

RankDigits rank_digits(const Strategy& s, Group g) {
  RankDigits d;
  std::int64_t stride = 1;
  for (const Axis axis : s.order) {
    const std::int64_t size = axis_size(s, axis, is_expert_group(g));
    PLAN_CHECK(size >= 1);
    if (size == 1) continue;
    d.digits[d.count++] = {size, stride, varies(g, axis)};
    stride *= size;
  }
  if (g == Group::kZeroShard || g == Group::kZeroReplica) {
    const std::int64_t shard = shard_group(s);
    PLAN_CHECK(shard >= 1 && (s.dp * s.cp) % shard == 0);
    split_members(d, shard, g == Group::kZeroShard);
  }
  return d;
}

std::int64_t member_offset(const RankDigits& d, std::int64_t number) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < d.count; ++i) {
    if (!d.digits[i].member) continue;
    offset += number % d.digits[i].size * d.digits[i].stride;
    number /= d.digits[i].size;
  }
  return offset;
}

std::vector<std::int64_t> member_offsets(const RankDigits& d) {
  std::vector<std::int64_t> offsets{0};
  for (std::size_t i = 0; i < d.count; ++i) {
    if (!d.digits[i].member) continue;
    const std::size_t inner = offsets.size();
    for (std::int64_t k = 1; k < d.digits[i].size; ++k) {
      for (std::size_t j = 0; j < inner; ++j) {
        offsets.push_back(offsets[j] + k * d.digits[i].stride);
      }
    }
  }
  return offsets;
}

}  // namespace meshplan

#pragma once
// Ranks as mixed-radix numbers, one digit per parallel axis, innermost first; a group varies some
// of the digits and keeps the others.
#include <array>
#include <cstdint>
#include <vector>

#include "layout/groups.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct Digit {
  std::int64_t size = 1;
  std::int64_t stride = 1;  // distance of ranks that differ by one in this digit
  bool member = false;      // the group's members differ in this digit
};

// The digits of one kind of group. The five axes, and one more where zero_group splits an axis.
struct RankDigits {
  std::array<Digit, 6> digits{};
  std::size_t count = 0;
  // Where zero_group splits the members in no such way (cp = 3, zero_group = 2), the digits are
  // those of kDpCp and the members, numbered from 0, are cut: `run` of them in a row (kZeroShard)
  // or every `step`-th (kZeroReplica).
  std::int64_t run = 0;
  std::int64_t step = 0;

  [[nodiscard]] bool is_cut() const { return run > 0 || step > 0; }
};

// [F-LAY-1] rank = sum over axes of digit * product of the sizes of the axes inside it.
// Megatron-Core parallel_state.py, RankGenerator: dense groups order tp, cp, dp, pp; expert groups
// order etp, ep, expert-dp, pp.
[[nodiscard]] RankDigits rank_digits(const Strategy& s, Group g);

// Of the member of this number, from 0: its rank with every other digit zero. Increasing.
[[nodiscard]] std::int64_t member_offset(const RankDigits& d, std::int64_t number);

// The same of all members.
[[nodiscard]] std::vector<std::int64_t> member_offsets(const RankDigits& d);

}  // namespace meshplan

#pragma once
// Conditions on the keys of a strategy that a person sets on a search: "tp<=8", "vp=1|2".
#include <cstdint>
#include <string>
#include <vector>

#include "spec/strategy.hpp"

namespace meshplan {

enum class LimitOp { kEqual, kAtMost, kAtLeast, kBelow, kAbove, kFree };

struct Limit {
  std::string key;  // dotted, one of strategy_keys()
  LimitOp op = LimitOp::kEqual;
  std::vector<std::string> values;  // kEqual: alternatives, as value_text() writes them
  double bound = 0;                 // the other operators but kFree, which admits every value

  bool operator==(const Limit&) const = default;
};

[[nodiscard]] bool satisfies(const Strategy& s, const Limit& limit);
[[nodiscard]] bool satisfies(const Strategy& s, const std::vector<Limit>& limits);

// "tp<=8", "schedule=1f1b|interleaved".
[[nodiscard]] std::string to_text(const Limit& limit);

}  // namespace meshplan

#pragma once
// Conditions on the keys of a strategy that a person sets on a search: "tp<=8", "vp=1|2".
#include <string>
#include <vector>

#include "spec/key_value.hpp"

namespace meshplan {

enum class LimitOp { kEqual, kAtMost, kAtLeast, kBelow, kAbove, kFree };

struct Limit {
  std::string key;  // dotted, one of strategy_keys()
  LimitOp op = LimitOp::kEqual;
  // Of the key's type. kEqual: the alternatives; kFree, which admits every value: none; the other
  // operators: the one number that they compare with.
  std::vector<KeyValue> values;

  bool operator==(const Limit&) const = default;
};

[[nodiscard]] bool satisfies(const Strategy& s, const Limit& limit);
[[nodiscard]] bool satisfies(const Strategy& s, const std::vector<Limit>& limits);

// "tp<=8", "schedule=1f1b|interleaved".
[[nodiscard]] std::string to_text(const Limit& limit);

}  // namespace meshplan

#include "spec/limits.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "base/check.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

std::string_view op_text(LimitOp op) {
  switch (op) {
    case LimitOp::kEqual:
      return "=";
    case LimitOp::kAtMost:
      return "<=";
    case LimitOp::kAtLeast:
      return ">=";
    case LimitOp::kBelow:
      return "<";
    case LimitOp::kAbove:
      return ">";
    case LimitOp::kFree:
      return "=any";
  }
  return "=";
}

template <class T>
bool compare(T value, LimitOp op, T bound) {
  switch (op) {
    case LimitOp::kEqual:
      return value == bound;
    case LimitOp::kAtMost:
      return value <= bound;
    case LimitOp::kAtLeast:
      return value >= bound;
    case LimitOp::kBelow:
      return value < bound;
    case LimitOp::kAbove:
      return value > bound;
    case LimitOp::kFree:
      return true;
  }
  return false;
}

template <class T>
bool admits(const Limit& limit, const T& value) {
  if (limit.op == LimitOp::kFree) return true;
  if (limit.op == LimitOp::kEqual) {
    return std::any_of(limit.values.begin(), limit.values.end(),
                       [&](const KeyValue& v) { return std::get<T>(v) == value; });
  }
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    return compare(value, limit.op, std::get<T>(limit.values.front()));
  }
  return false;  // has no order
}

}  // namespace

bool satisfies(const Strategy& s, const Limit& limit) {
  bool found = false;
  bool good = false;
  for_each_key(s, [&](std::string_view key, const auto& value) {
    if (key != limit.key) return;
    found = true;
    good = admits(limit, value);
  });
  PLAN_CHECK(found);
  return good;
}

bool satisfies(const Strategy& s, const std::vector<Limit>& limits) {
  return std::all_of(limits.begin(), limits.end(),
                     [&](const Limit& limit) { return satisfies(s, limit); });
}

std::string to_text(const Limit& limit) {
  std::string text = limit.key + std::string(op_text(limit.op));
  for (std::size_t i = 0; i < limit.values.size(); ++i) {
    text += (i > 0 ? "|" : "") + key_text(limit.values[i]);
  }
  return text;
}

}  // namespace meshplan

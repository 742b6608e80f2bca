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

bool compare(double value, LimitOp op, double bound) {
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

}  // namespace

bool satisfies(const Strategy& s, const Limit& limit) {
  bool found = false;
  bool good = false;
  for_each_key(s, [&](std::string_view key, const auto& value) {
    if (key != limit.key) return;
    found = true;
    if (limit.op == LimitOp::kFree) {
      good = true;
      return;
    }
    if (limit.op == LimitOp::kEqual) {
      good = std::find(limit.values.begin(), limit.values.end(), key_text(value)) !=
             limit.values.end();
      return;
    }
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      good = compare(static_cast<double>(value), limit.op, limit.bound);
    }
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
  if (limit.op == LimitOp::kFree) return text;
  if (limit.op != LimitOp::kEqual) return text + key_text(limit.bound);
  for (std::size_t i = 0; i < limit.values.size(); ++i)
    text += (i > 0 ? "|" : "") + limit.values[i];
  return text;
}

}  // namespace meshplan

#pragma once
// One line for every key of strategies: what it says, for people.
#include <span>
#include <string_view>

namespace meshplan {

struct KeyMeaning {
  std::string_view key;      // dotted; "[]" behind a list whose items have the keys that follow
  std::string_view meaning;  // with the unit where it has one
};

// In the order of strategy_keys(), each once.
[[nodiscard]] std::span<const KeyMeaning> strategy_key_meanings();

}  // namespace meshplan

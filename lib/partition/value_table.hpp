#pragma once
// What is known of the stages of one candidate, by slot (stage_layout.hpp).
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace meshplan {

struct StageValue {
  static constexpr std::int64_t kTooMuch = -1, kUnknown = -2;
  std::int64_t time = kUnknown;  // quanta, or kTooMuch
  std::int32_t recomputed_first = 0, recomputed_second = 0;
};

// A vector while there are few slots. Of many, only those that somebody asks for are kept: a search
// looks at few of them, and to clear the others would take longer than to work those out.
class ValueTable {
 public:
  explicit ValueTable(std::size_t slots) {
    if (slots <= kMostDense) dense_.resize(slots);
  }
  // Stays where it is.
  [[nodiscard]] StageValue& at(std::size_t slot) {
    return dense_.empty() ? sparse_[slot] : dense_[slot];
  }

 private:
  static constexpr std::size_t kMostDense = std::size_t{1} << 13;

  std::vector<StageValue> dense_;
  std::unordered_map<std::size_t, StageValue> sparse_;
};

}  // namespace meshplan

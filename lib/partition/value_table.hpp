#pragma once
// What is known of the stages of one candidate, by slot (stage_layout.hpp).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace meshplan {

struct StageValue {
  static constexpr std::int64_t kTooMuch = -1, kUnknown = -2;
  std::int64_t time = kUnknown;  // quanta, or kTooMuch
  std::int32_t recomputed_first = 0, recomputed_second = 0;
};

// A vector while there are few slots. Of more, only the pages that somebody asks for are made, and
// of very many only the slots: a search looks at few of them, and to clear the others would take
// longer than to work those out.
class ValueTable {
 public:
  explicit ValueTable(std::size_t slots) {
    if (slots <= kMostDense) {
      dense_.resize(slots);
    } else if (slots <= kMostPaged) {
      pages_.resize(slots / kPage + 1);
    }
  }
  void clear() {
    std::fill(dense_.begin(), dense_.end(), StageValue{});
    for (std::unique_ptr<Page>& page : pages_) page.reset();
    sparse_.clear();
  }
  // Stays where it is.
  [[nodiscard]] StageValue& at(std::size_t slot) {
    if (!dense_.empty()) return dense_[slot];
    if (pages_.empty()) return sparse_[slot];
    std::unique_ptr<Page>& page = pages_[slot / kPage];
    if (page == nullptr) page = std::make_unique<Page>();
    return (*page)[slot % kPage];
  }

 private:
  static constexpr std::size_t kMostDense = std::size_t{1} << 13, kMostPaged = std::size_t{1} << 20;
  static constexpr std::size_t kPage = 64;
  using Page = std::array<StageValue, kPage>;

  std::vector<StageValue> dense_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::unordered_map<std::size_t, StageValue> sparse_;
};

}  // namespace meshplan

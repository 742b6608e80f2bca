#pragma once
// What is known of the stages of one candidate, by slot (stage_layout.hpp).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
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
    index_.clear();
    slots_.clear();
    sparse_.clear();
  }
  // Stays where it is.
  [[nodiscard]] StageValue& at(std::size_t slot) {
    if (!dense_.empty()) return dense_[slot];
    if (pages_.empty()) return sparse(slot);
    std::unique_ptr<Page>& page = pages_[slot / kPage];
    if (page == nullptr) page = std::make_unique<Page>();
    return (*page)[slot % kPage];
  }

 private:
  // Open addressing with linear probing (Knuth, The Art of Computer Programming 3, sec. 6.4,
  // algorithm L): index_ has the number of a value plus 1, at most half of it is taken.
  [[nodiscard]] StageValue& sparse(std::size_t slot) {
    if (2 * slots_.size() >= index_.size()) grow();
    std::uint32_t& number = index_[place_of(slot)];
    if (number == 0) {
      slots_.push_back(slot);
      sparse_.emplace_back();
      number = static_cast<std::uint32_t>(slots_.size());
    }
    return sparse_[number - 1];
  }
  [[nodiscard]] std::size_t place_of(std::size_t slot) const {
    const std::size_t mask = index_.size() - 1;
    std::size_t place = (slot * std::size_t{0x9e3779b97f4a7c15U} >> 32U) & mask;
    while (index_[place] != 0 && slots_[index_[place] - 1] != slot) place = (place + 1) & mask;
    return place;
  }
  void grow() {
    constexpr std::size_t kFirst = 1024;
    index_.assign(std::max(kFirst, 4 * slots_.size()), 0);
    for (std::uint32_t i = 0; i < slots_.size(); ++i) index_[place_of(slots_[i])] = i + 1;
  }

  static constexpr std::size_t kMostDense = std::size_t{1} << 13, kMostPaged = std::size_t{1} << 20;
  static constexpr std::size_t kPage = 64;
  using Page = std::array<StageValue, kPage>;

  std::vector<StageValue> dense_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<std::uint32_t> index_;
  std::vector<std::size_t> slots_;
  std::deque<StageValue> sparse_;
};

}  // namespace meshplan

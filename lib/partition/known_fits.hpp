#pragma once
// Which runs of layers pipeline ranks are known to hold.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace meshplan {

// Of ranks whose layers follow each other: a part of what a rank holds it holds too, and what it
// cannot hold it cannot hold with more.
class KnownFits {
 public:
  KnownFits(int stages, int layers)
      : layers_(layers),
        farthest_(static_cast<std::size_t>(stages) * places(), 0),
        nearest_(static_cast<std::size_t>(stages) * places(), layers + 1) {}

  // Whether the stage holds layers begin .. end - 1; nothing: not known.
  [[nodiscard]] std::optional<bool> fits(int stage, int begin, int end) const {
    const std::size_t here = at(stage, begin);
    if (end <= farthest_[here]) return true;
    if (end >= nearest_[here]) return false;
    return std::nullopt;
  }

  void add(int stage, int begin, int end, bool fits) {
    if (fits) {  // with fewer layers at the front too
      for (int b = begin; b <= layers_ && farthest_[at(stage, b)] < end; ++b) {
        farthest_[at(stage, b)] = end;
      }
    } else {
      for (int b = begin; b >= 0 && nearest_[at(stage, b)] > end; --b) {
        nearest_[at(stage, b)] = end;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t places() const { return static_cast<std::size_t>(layers_) + 1; }
  [[nodiscard]] std::size_t at(int stage, int begin) const {
    return static_cast<std::size_t>(stage) * places() + static_cast<std::size_t>(begin);
  }

  int layers_;
  // By stage and first layer: the largest end that fits, and the smallest that does not.
  std::vector<std::int32_t> farthest_, nearest_;
};

}  // namespace meshplan

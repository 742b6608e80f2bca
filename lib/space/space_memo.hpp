#pragma once
// What spaces of one model on one cluster ask again and again: a plan is explained by dozens of
// searches whose requests differ in a limit or two, which change no answer of a framework and no
// rule.
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "base/shared_memo.hpp"
#include "space/request.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Shared by threads.
class SpaceMemo {
 public:
  // The same for strategies of a space whose keys are the same.
  [[nodiscard]] std::int64_t number_of(Space space, const Strategy& base) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < bases_.size(); ++i) {
      if (bases_[i].first == space && bases_[i].second == base) return static_cast<std::int64_t>(i);
    }
    bases_.emplace_back(space, base);
    return static_cast<std::int64_t>(bases_.size() - 1);
  }

  // Whether the framework refuses values of a list's keys on a mesh: the base's number, tp, pp, cp,
  // the list, the values.
  SharedMemo<8, bool> refused;
  // The rule that they break, or nothing.
  SharedMemo<8, std::string> broken;

 private:
  std::mutex mutex_;
  std::deque<std::pair<Space, Strategy>> bases_;
};

}  // namespace meshplan

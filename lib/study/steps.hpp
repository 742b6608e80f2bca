#pragma once
// Progress of several searches one after the other.
#include <cstddef>

#include "search/search.hpp"

namespace meshplan {

class Steps {
 public:
  Steps(const Progress& progress, std::size_t count) : progress_(progress), count_(count) {}

  // Progress of the search number `index`, as a share of all of them.
  [[nodiscard]] Progress of(std::size_t index) const {
    if (!progress_) return {};
    return [this, index](const SearchProgress& one) {
      progress_({.share = (static_cast<double>(index) + one.share) / static_cast<double>(count_)});
    };
  }

 private:
  const Progress& progress_;
  std::size_t count_;
};

}  // namespace meshplan

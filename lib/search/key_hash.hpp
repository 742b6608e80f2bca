#pragma once
// Hash of a fixed number of integers.
#include <array>
#include <cstddef>
#include <cstdint>

namespace meshplan {

template <std::size_t kSize>
struct KeyHash {
  std::size_t operator()(const std::array<std::int64_t, kSize>& key) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15U;
    for (const std::int64_t value : key) {
      hash ^= static_cast<std::uint64_t>(value);
      hash *= 0xff51afd7ed558ccdU;
      hash ^= hash >> 32U;
    }
    return hash;
  }
};

}  // namespace meshplan

#include "launch/cublas_workspace.hpp"

#include <charconv>

#include "base/units.hpp"

namespace meshplan {

std::int64_t cublas_workspace(std::string_view text) {
  constexpr std::int64_t kMost = 1 << 20;
  const char *at = text.data(), *const end = at + text.size();
  std::int64_t bytes = 0, size = 0;
  bool second = false;
  while (at != end) {
    std::int64_t value = 0;
    if (*at != ':') return 0;
    const auto [next, failure] = std::from_chars(at + 1, end, value);
    if (failure != std::errc{} || value < 0 || value > kMost) return 0;
    if (second) bytes += size * value * kKiB;
    size = value, second = !second, at = next;
  }
  return bytes;
}

}  // namespace meshplan

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace meshplan {
namespace {

// Three significant digits, as tables show them: 0.123, 1.24, 61.3, 412.
std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size >= 99.95) return fixed(value, 0);
  if (size >= 9.995) return fixed(value, 1);
  return fixed(value, 2);
}

struct Step {
  double size;
  std::string_view name;
};

std::string scaled(double value, std::span<const Step> steps) {
  for (const Step& step : steps) {
    if (std::abs(value) >= step.size * 0.9995) {
      return three_digits(value / step.size) + " " + std::string(step.name);
    }
  }
  return three_digits(value / steps.back().size) + " " + std::string(steps.back().name);
}

}  // namespace

std::string fixed(double value, int decimals) {
  std::array<char, 400> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                            std::chars_format::fixed, decimals);
  if (failure != std::errc{}) return "?";
  std::string text(buffer.data(), end);
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') text.erase(0, 1);
  return text;
}

std::string human_bytes(Bytes n) {
  constexpr double kKi = 1024;
  static constexpr std::array steps{Step{kKi * kKi * kKi * kKi, "TiB"},
                                    Step{kKi * kKi * kKi, "GiB"}, Step{kKi * kKi, "MiB"},
                                    Step{kKi, "KiB"}, Step{1, "B"}};
  return scaled(n.si(), steps);
}

std::string human_time(Seconds t) {
  static constexpr std::array steps{Step{86400, "d"}, Step{3600, "h"},  Step{60, "min"},
                                    Step{1, "s"},     Step{1e-3, "ms"}, Step{1e-6, "us"},
                                    Step{1e-9, "ns"}};
  if (t == Seconds{}) return "0 s";
  // Step times of one to ten minutes stay in seconds: that is how logs print them.
  if (t.si() >= 1 && t.si() < 600) return three_digits(t.si()) + " s";
  return scaled(t.si(), steps);
}

std::string human_count(double n) {
  static constexpr std::array steps{Step{1e12, "T"}, Step{1e9, "B"}, Step{1e6, "M"},
                                    Step{1e3, "k"}};
  if (std::abs(n) < 1000) return fixed(n, n == std::floor(n) ? 0 : 2);
  for (const Step& step : steps) {
    if (std::abs(n) >= step.size) {
      const double value = n / step.size;
      return fixed(value, value >= 100 ? 1 : 2) + " " + std::string(step.name);
    }
  }
  return fixed(n, 0);
}

std::string signed_percent(double ratio) { return (ratio >= 0 ? "+" : "") + human_percent(ratio); }

std::string narrow_percent(double ratio, int decimals) {
  return fixed(100 * ratio, decimals) + "%";
}

std::string rounded(double n) { return with_thousands(std::llround(n)); }

std::string short_percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", 100 * ratio);
  return std::string(text.data()) + " %";
}

std::string human_percent(double ratio) { return fixed(100 * ratio, 1) + " %"; }

std::string human_rate(FlopsPerSecond r) {
  static constexpr std::array steps{Step{1e15, "PFLOP/s"}, Step{1e12, "TFLOP/s"},
                                    Step{1e9, "GFLOP/s"}};
  if (r.si() < 1e16) return three_digits(r.si() / 1e12) + " TFLOP/s";
  return scaled(r.si(), steps);
}

std::string human_bandwidth(BytesPerSecond r) {
  static constexpr std::array steps{Step{1e12, "TB/s"}, Step{1e9, "GB/s"}, Step{1e6, "MB/s"},
                                    Step{1, "B/s"}};
  return scaled(r.si(), steps);
}

std::string with_thousands(std::int64_t n) {
  std::string digits = std::to_string(std::abs(n));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return n < 0 ? "-" + digits : digits;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment over three rolling rows.
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> known) {
  constexpr std::size_t kLongestWord = 64;  // longer ones are not typing mistakes
  if (word.size() > kLongestWord) return std::nullopt;
  const std::size_t tolerance = std::max<std::size_t>(2, word.size() / 3);
  std::optional<std::string> best;
  std::size_t best_distance = tolerance + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best_distance = distance;
      best = std::string(candidate);
    }
  }
  return best;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string join_words(std::span<const std::string> words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? std::string(last) : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace meshplan

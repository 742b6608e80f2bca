#pragma once
// Numbers for people, and the nearest known name to a mistyped one.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.hpp"

namespace meshplan {

[[nodiscard]] std::string human_bytes(Bytes n);                        // "61.3 GiB"
[[nodiscard]] std::string human_time(Seconds t);                       // "1.24 s", "13.0 us"
[[nodiscard]] std::string human_count(double n);                       // "405.9 B", "1.20 M"
[[nodiscard]] std::string human_percent(double ratio);                 // 0.4213 -> "42.1 %"
[[nodiscard]] std::string signed_percent(double ratio);                // "+42.1 %"
[[nodiscard]] std::string narrow_percent(double ratio, int decimals);  // "42.1%", for columns
[[nodiscard]] std::string short_percent(double ratio);   // "10 %", "12.5 %": three digits at most
[[nodiscard]] std::string human_rate(FlopsPerSecond r);  // "412 TFLOP/s"
[[nodiscard]] std::string human_bandwidth(BytesPerSecond r);  // "450 GB/s"
[[nodiscard]] std::string with_thousands(std::int64_t n);     // "16,384"
[[nodiscard]] std::string rounded(double n);  // the same of the nearest whole number
[[nodiscard]] std::string fixed(double value, int decimals);

// Number of single-character edits (insert, delete, replace, swap neighbours) between two words.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The known word nearest to `word`, if one is near enough to be what was meant.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 std::span<const std::string_view> known);

[[nodiscard]] bool contains(std::string_view text, std::string_view part);

// "a, b and c"
[[nodiscard]] std::string join_words(std::span<const std::string> words,
                                     std::string_view last = " and ");

}  // namespace meshplan

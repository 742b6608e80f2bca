#pragma once
// Values as the text of our YAML files: it reads back to the same value.
#include <string>
#include <string_view>

#include "base/units.hpp"

namespace meshplan {

enum class Digits { kAll, kSix };  // kSix: six significant ones, for what was measured

[[nodiscard]] std::string yaml_bytes(Bytes n);                                 // "64 MiB"
[[nodiscard]] std::string yaml_time(Seconds t, Digits digits = Digits::kAll);  // "15.2 us"
[[nodiscard]] std::string yaml_bandwidth(BytesPerSecond r, Digits digits = Digits::kAll);
[[nodiscard]] std::string yaml_flop_rate(FlopsPerSecond r, Digits digits = Digits::kAll);
[[nodiscard]] std::string yaml_real(double value, Digits digits = Digits::kAll);

// In quotes, whatever it is.
[[nodiscard]] std::string yaml_quoted(std::string_view text);

// A plain word where YAML reads it as text, else in quotes.
[[nodiscard]] std::string yaml_text(std::string_view text);

}  // namespace meshplan

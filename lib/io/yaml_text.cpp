#include "io/yaml_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/check.hpp"
#include "base/printable.hpp"
#include "base/quantity.hpp"

namespace meshplan {
namespace {

struct Unit {
  double size;
  std::string_view name;
};

std::string digits_text(double value, int precision) {
  std::array<char, 64> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                            std::chars_format::general, precision);
  PLAN_CHECK(failure == std::errc{});
  return {buffer.data(), end};
}

// In the largest unit that leaves one or more, with the fewest digits that read back to the value.
template <class Quantity>
std::string quantity_text(Quantity value, Digits digits, std::span<const Unit> units,
                          Result<Quantity> (*parse)(std::string_view)) {
  PLAN_CHECK(std::isfinite(value.si()) && value.si() >= 0);
  const auto large = std::find_if(units.begin(), units.end(),
                                  [&](const Unit& unit) { return value.si() >= unit.size; });
  const Unit& unit = large == units.end() ? units.back() : *large;
  constexpr int kShort = 6, kExact = 17;
  for (int precision = kShort; precision <= kExact; ++precision) {
    std::string text =
        digits_text(value.si() / unit.size, precision) + " " + std::string(unit.name);
    if (digits == Digits::kSix) return text;
    if (const Result<Quantity> read = parse(text); read && *read == value) return text;
  }
  // The unit of the dimension itself multiplies by one: nothing is rounded.
  const auto base =
      std::find_if(units.begin(), units.end(), [](const Unit& u) { return u.size == 1; });
  return digits_text(value.si(), kExact) + " " + std::string(base->name);
}

}  // namespace

std::string yaml_bytes(Bytes n) {
  constexpr std::int64_t kThousand = 1000;
  static constexpr std::array kUnits{
      std::pair{kGiB * 1024, "TiB"}, std::pair{kThousand * kThousand * kThousand * kThousand, "TB"},
      std::pair{kGiB, "GiB"},        std::pair{kThousand * kThousand * kThousand, "GB"},
      std::pair{kMiB, "MiB"},        std::pair{kThousand * kThousand, "MB"},
      std::pair{kKiB, "KiB"}};
  for (const auto& [size, name] : kUnits) {
    if (n.count() >= size && n.count() % size == 0) {
      return std::to_string(n.count() / size) + " " + name;
    }
  }
  return std::to_string(n.count()) + " B";
}

std::string yaml_time(Seconds t, Digits digits) {
  static constexpr std::array kUnits{Unit{1, "s"}, Unit{1e-3, "ms"}, Unit{1e-6, "us"},
                                     Unit{1e-9, "ns"}};
  return quantity_text(t, digits, kUnits, parse_time);
}

std::string yaml_bandwidth(BytesPerSecond r, Digits digits) {
  static constexpr std::array kUnits{Unit{1e9, "GB/s"}, Unit{1e6, "MB/s"}, Unit{1, "B/s"}};
  return quantity_text(r, digits, kUnits, parse_bandwidth);
}

std::string yaml_flop_rate(FlopsPerSecond r, Digits digits) {
  static constexpr std::array kUnits{Unit{1e12, "TFLOP/s"}, Unit{1e9, "GFLOP/s"},
                                     Unit{1, "FLOP/s"}};
  return quantity_text(r, digits, kUnits, parse_flop_rate);
}

std::string yaml_real(double value, Digits digits) {
  PLAN_CHECK(std::isfinite(value));
  if (digits == Digits::kSix) return digits_text(value, 6);
  std::array<char, 64> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  PLAN_CHECK(failure == std::errc{});
  return {buffer.data(), end};
}

std::string yaml_quoted(std::string_view text) {
  // The escapes of YAML's double-quoted text include those of JSON.
  return escaped_json(
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string yaml_text(std::string_view text) {
  // Words that YAML 1.1 or 1.2 reads as something other than text.
  constexpr std::array<std::string_view, 9> kReserved{"true", "false", "null", "yes", "no",
                                                      "on",   "off",   "y",    "n"};
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_word = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  const bool plain = !text.empty() && is_letter(text.front()) &&
                     std::all_of(text.begin(), text.end(), is_word) &&
                     std::find(kReserved.begin(), kReserved.end(), text) == kReserved.end();
  return plain ? std::string(text) : yaml_quoted(text);
}

}  // namespace meshplan

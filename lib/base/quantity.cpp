#include "base/quantity.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "base/check.hpp"

namespace meshplan {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

constexpr std::array kByteUnits{
    Unit{"B", 1},     Unit{"kB", 1e3},  Unit{"KB", 1e3},  Unit{"MB", 1e6},  Unit{"GB", 1e9},
    Unit{"TB", 1e12}, Unit{"KiB", kKi}, Unit{"MiB", kMi}, Unit{"GiB", kGi}, Unit{"TiB", kTi}};
constexpr std::array kBandwidthUnits{
    Unit{"B/s", 1},          Unit{"kB/s", 1e3},       Unit{"MB/s", 1e6},
    Unit{"GB/s", 1e9},       Unit{"TB/s", 1e12},      Unit{"KiB/s", kKi},
    Unit{"MiB/s", kMi},      Unit{"GiB/s", kGi},      Unit{"TiB/s", kTi},
    Unit{"Mbit/s", 1e6 / 8}, Unit{"Gbit/s", 1e9 / 8}, Unit{"Tbit/s", 1e12 / 8},
    Unit{"Mbps", 1e6 / 8},   Unit{"Gbps", 1e9 / 8},   Unit{"Tbps", 1e12 / 8}};
constexpr std::array kFlopUnits{Unit{"FLOP/s", 1},     Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
                                Unit{"PFLOP/s", 1e15}, Unit{"GFLOPS", 1e9},  Unit{"TFLOPS", 1e12},
                                Unit{"PFLOPS", 1e15}};
constexpr std::array kTimeUnits{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                                Unit{"s", 1},     Unit{"min", 60},  Unit{"h", 3600}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 60;
  const bool cut = text.size() > kShown;
  return "\"" + std::string(text.substr(0, kShown)) + (cut ? "..." : "") + "\"";
}

// The leading number of `text`, and what follows it.
std::optional<double> take_number(std::string_view& text) {
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

Result<double> parse_with_unit(std::string_view text, std::span<const Unit> units,
                               std::string_view example) {
  const std::string_view whole = trim(text);
  std::string_view rest = whole;
  const std::string hint =
      "write a number and its unit, for example \"" + std::string(example) + "\"";
  const std::optional<double> number = take_number(rest);
  if (!number) return error(quoted(whole) + " is not a number with a unit", hint);
  if (*number < 0) return error(quoted(whole) + " is negative", hint);
  rest = trim(rest);
  if (rest.empty()) return error(quoted(whole) + " has no unit", hint);
  for (const Unit& unit : units) {
    if (unit.name != rest) continue;
    const double value = *number * unit.factor;
    if (!std::isfinite(value)) return error(quoted(whole) + " is too large");
    return value;
  }
  std::string known;
  for (const Unit& unit : units) known += (known.empty() ? "" : ", ") + std::string(unit.name);
  return error("unknown unit " + quoted(rest) + " in " + quoted(whole),
               "units that fit here: " + known);
}

template <class Quantity>
Result<Quantity> wrap(const Result<double>& value) {
  if (!value) return value.errors();
  return Quantity{*value};
}

std::string shortest_number(double value) {
  std::array<char, 32> text{};
  const auto [end, failure] = std::to_chars(text.data(), text.data() + text.size(), value);
  PLAN_CHECK(failure == std::errc{});
  return {text.data(), end};
}

// In the unit whose number is shortest, the first of equals; a unit that rounds is passed over.
std::string shortest_text(double si, std::span<const Unit> units) {
  std::string best;
  std::size_t least = 0;
  for (const Unit& unit : units) {
    if (!std::isfinite(si / unit.factor)) continue;
    const std::string number = shortest_number(si / unit.factor);
    double again = 0;
    std::from_chars(number.data(), number.data() + number.size(), again);
    if (again * unit.factor != si || (!best.empty() && number.size() >= least)) continue;
    least = number.size();
    best = number + " " + std::string(unit.name);
  }
  PLAN_CHECK(!best.empty());  // the unit of factor 1 rounds no finite value
  return best;
}

}  // namespace

std::string exact_text(Bytes n) { return shortest_text(n.si(), kByteUnits); }
std::string exact_text(BytesPerSecond r) { return shortest_text(r.si(), kBandwidthUnits); }
std::string exact_text(FlopsPerSecond r) { return shortest_text(r.si(), kFlopUnits); }
std::string exact_text(Seconds t) { return shortest_text(t.si(), kTimeUnits); }

Result<Bytes> parse_bytes(std::string_view text) {
  const Result<double> value = parse_with_unit(text, kByteUnits, "80 GiB");
  if (!value) return value.errors();
  constexpr double kLargest = 9e15;  // doubles are exact up to 2^53
  if (*value > kLargest) return error(quoted(trim(text)) + " is more than 9 PB");
  return Bytes{std::llround(*value)};
}

Result<BytesPerSecond> parse_bandwidth(std::string_view text) {
  return wrap<BytesPerSecond>(parse_with_unit(text, kBandwidthUnits, "450 GB/s"));
}

Result<FlopsPerSecond> parse_flop_rate(std::string_view text) {
  return wrap<FlopsPerSecond>(parse_with_unit(text, kFlopUnits, "989 TFLOP/s"));
}

Result<Seconds> parse_time(std::string_view text) {
  return wrap<Seconds>(parse_with_unit(text, kTimeUnits, "5 us"));
}

Result<std::int64_t> parse_integer(std::string_view text) {
  const std::string_view whole = trim(text);
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(whole.data(), whole.data() + whole.size(), value);
  if (failure == std::errc::result_out_of_range) return error(quoted(whole) + " is too large");
  if (failure != std::errc{} || end != whole.data() + whole.size()) {
    return error(quoted(whole) + " is not a whole number");
  }
  return value;
}

Result<double> parse_real(std::string_view text) {
  std::string_view rest = trim(text);
  const std::optional<double> value = take_number(rest);
  if (!value || !rest.empty()) return error(quoted(trim(text)) + " is not a number");
  return *value;
}

}  // namespace meshplan

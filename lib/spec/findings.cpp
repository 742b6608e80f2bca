#include "spec/findings.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"

namespace meshplan {
namespace {

// Shortest decimal text that reads back to the same number.
std::string shortest(double value) {
  std::array<char, 64> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return failure == std::errc{} ? std::string(buffer.data(), end) : "?";
}

}  // namespace

void Findings::error(std::vector<std::string> keys, std::string message, std::string hint) {
  all_.push_back({std::move(keys), meshplan::error(std::move(message), std::move(hint))});
}

void Findings::warning(std::vector<std::string> keys, std::string message, std::string hint) {
  Diagnostic d = meshplan::error(std::move(message), std::move(hint));
  d.severity = Severity::kWarning;
  all_.push_back({std::move(keys), std::move(d)});
}

bool Findings::check(std::string_view key, std::int64_t value, IntegerRange range) {
  if (value >= range.lowest && value <= range.highest) return true;
  const std::string name(key);
  error({name}, "'" + name + "' must be from " + with_thousands(range.lowest) + " to " +
                    with_thousands(range.highest) + ", got " + std::to_string(value));
  return false;
}

bool Findings::check(std::string_view key, double value, RealRange range) {
  if (value >= range.lowest && value <= range.highest) return true;  // false for a NaN
  const std::string name(key);
  error({name}, "'" + name + "' must be from " + shortest(range.lowest) + " to " +
                    shortest(range.highest) + ", got " + shortest(value));
  return false;
}

bool Findings::has_errors() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Finding& f) { return f.diagnostic.severity == Severity::kError; });
}

Diagnostics Findings::diagnostics() const {
  Diagnostics list;
  for (const Finding& f : all_) list.push_back(f.diagnostic);
  return list;
}

}  // namespace meshplan

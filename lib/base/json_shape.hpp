#pragma once
// How much a JSON text asks of its parser, before it is parsed: what peers and files send may be
// made to exhaust the memory.
#include <cstddef>
#include <string_view>

namespace meshplan {

struct JsonLimits {
  std::size_t depth = 64;
  std::size_t values = 1'000'000;
  std::size_t keys = 10'000;  // of one object: some parsers compare each with all before it
};

// Whether brackets outside of strings nest no deeper, separate no more values, and hold no more
// keys. The text need not be JSON.
[[nodiscard]] bool is_within(std::string_view json, const JsonLimits& limits);

}  // namespace meshplan

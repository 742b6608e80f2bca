#pragma once
// What each fuzz target defines; libFuzzer's main or test/fuzz/replay.cpp calls it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/diagnostic.hpp"
#include "base/result.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace meshplan::fuzz {

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A property that every input must keep; breaking it is a crash that the fuzzer reports.
inline void require(bool holds, const char* what = "a property does not hold") {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// A value, or at least one error, each with a message and printable.
template <class T>
void require_value_or_errors(const Result<T>& result) {
  if (result.ok()) return;
  require(has_errors(result.errors()));
  for (const Diagnostic& d : result.errors()) require(!d.message.empty());
  require(!to_text(result.errors()).empty());
}

}  // namespace meshplan::fuzz

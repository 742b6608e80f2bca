#pragma once
// How a fuzz target is defined: MESHPLAN_FUZZ_TARGET(name) { ... }, with `data` and `size` for the
// input. A program of libFuzzer's holds one; test/fuzz/replay.cpp calls any of all by its name.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/diagnostic.hpp"
#include "base/result.hpp"

#ifdef MESHPLAN_LIBFUZZER
#define MESHPLAN_FUZZ_TARGET(name) \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#else
#define MESHPLAN_FUZZ_TARGET(name)                                                      \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size);                   \
  static const bool kHasTarget_##name = meshplan::fuzz::add_target(#name, fuzz_##name); \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size)
#endif

namespace meshplan::fuzz {

using Target = int (*)(const std::uint8_t* data, std::size_t size);
bool add_target(std::string_view name, Target target);

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

#pragma once
// The constants that were chosen against published runs: where they sit, what they would be had no
// run been seen, and how to set them on a prediction that is about to be made.
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "predict.hpp"

namespace meshplan::accuracy {

// Times are in seconds, everything else as device files and strategies write it.
struct FittedConstant {
  std::string name;
  std::vector<std::string> devices;  // names of device files; empty: of a framework
  std::string framework;             // name of whose preset, "deepspeed-v0" too
  std::vector<std::string> keys;     // all set to the same value
  double uninformed = 0, low = 0, high = 0;
  std::string like;       // constant whose value is taken where no run tells this one; empty: none
  std::string because;    // where the uninformed value comes from
  std::string fitted_to;  // in words

  bool operator==(const FittedConstant&) const = default;
};

// Keys of device files that a constant may name; a framework's are the numbers of kernels.*.
[[nodiscard]] std::vector<std::string> device_constant_keys();
[[nodiscard]] std::vector<std::string> framework_constant_keys();

// `text` is YAML, `file` its name in diagnostics: unknown keys, frameworks, and values out of range
// are errors, all of them at once.
[[nodiscard]] Result<std::vector<FittedConstant>> parse_constants(const std::string& text,
                                                                  const std::string& file);

// The value as it ships, seen through a task that the constant touches; empty: untouched. A
// candidate whose own keys differ from its framework's preset is untouched.
[[nodiscard]] std::optional<double> shipped_value(const FittedConstant& constant, const Task& task);

// On a task that the constant touches, that is where shipped_value() is not empty.
void set_constant(const FittedConstant& constant, double value, Task& task);

}  // namespace meshplan::accuracy

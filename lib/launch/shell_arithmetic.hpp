#pragma once
// Whole-number expressions of a shell: $((...)), ((...)), let, -eq and its like.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace meshplan::shell {

struct ArithmeticVariables {
  std::function<std::optional<std::int64_t>(const std::string&)> get;  // nothing: not known
  std::function<void(const std::string&, std::optional<std::int64_t>)> set;
};

// 64-bit numbers that wrap round, as a shell's. Nothing where a variable is not known, a division
// is by zero, or the text is no expression.
[[nodiscard]] std::optional<std::int64_t> arithmetic(std::string_view text,
                                                     const ArithmeticVariables& variables);

}  // namespace meshplan::shell

#pragma once
// Values that options with few choices have: any other one is named, never taken for the default.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshplan {

// The choices of a Megatron-LM option ("--fp8-recipe") whose value decides what is trained or how;
// nothing where it has none, or where what reads it names other values itself.
[[nodiscard]] std::vector<std::string_view> option_values(std::string_view name);

// Whether `value` is one of `choices`, as a script, a configuration (None, null) or an enumeration
// (AttnBackend.auto) writes it.
[[nodiscard]] bool is_option_value(std::string_view value,
                                   const std::vector<std::string_view>& choices);

}  // namespace meshplan

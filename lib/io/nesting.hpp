#pragma once
// Depth of nesting of a YAML text before it is parsed: the parser recurses, and its scanner keeps
// every open bracket, so that a few megabytes of '[' would exhaust the stack or the patience.
#include <cstddef>
#include <optional>
#include <string_view>

namespace meshplan {

// Offset of the first place where brackets or indentation nest deeper than `limit`.
[[nodiscard]] std::optional<std::size_t> too_deep(std::string_view text, std::size_t limit);

}  // namespace meshplan

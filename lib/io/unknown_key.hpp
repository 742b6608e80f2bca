#pragma once
// What to say of a key that nobody knows.
#include <span>
#include <string>
#include <string_view>

namespace meshplan {

// The known key that other tools call `key`, or the nearest; for the name of a group ("overlap")
// its members; else every known key.
[[nodiscard]] std::string hint_for_unknown(std::string_view key,
                                           std::span<const std::string_view> known);

}  // namespace meshplan

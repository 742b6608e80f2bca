#pragma once
// Text from files and from the network on its way to a terminal: names may hold anything.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshplan {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;  // else one byte that belongs to no character
};

// The character that starts at `utf8`, which is not empty.
[[nodiscard]] Character first_character(std::string_view utf8);

// Line and tab, escape and the other control characters of ASCII and Latin-1, line separators, and
// the marks that turn the direction of what follows.
[[nodiscard]] bool is_control(const Character& c);

// The text with control characters and broken UTF-8 replaced by '?'.
[[nodiscard]] std::string printable_text(std::string_view text);

// The same for the whole of an output: lines, tabs and the program's own colours ("\x1b[1m") stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

// One line of JSON with the control characters of its strings escaped ("\u007f"): JSON takes some
// of them as they are, YAML and terminals do not.
[[nodiscard]] std::string escaped_json(std::string_view json);

}  // namespace meshplan

#include "base/printable.hpp"

#include <array>
#include <cstdio>

namespace meshplan {

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {lead, 1, false};
  std::uint32_t code = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {lead, 1, false};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kSmallest[bytes] || code > 0x10ffff || surrogate) return {lead, 1, false};
  return {code, bytes, true};
}

bool is_control(const Character& c) {
  // Marks, embeddings, overrides and isolates of writing from right to left, and the byte order
  // mark.
  const bool turns = c.code == 0x61c || c.code == 0x200e || c.code == 0x200f || c.code == 0xfeff ||
                     (c.code >= 0x202a && c.code <= 0x202e) ||
                     (c.code >= 0x2066 && c.code <= 0x2069);
  return c.code < 0x20 || (c.code >= 0x7f && c.code < 0xa0) || c.code == 0x2028 ||
         c.code == 0x2029 || turns;
}

std::string printable_text(std::string_view text) {
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    if (!c.valid || is_control(c)) {
      clean += '?';
    } else {
      clean += text.substr(at, c.bytes);
    }
    at += c.bytes;
  }
  return clean;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t colour = text.starts_with("\x1b[") ? text.find_first_not_of("0123456789;", 2)
                                                         : std::string_view::npos;
    std::size_t length = first_character(text).bytes;
    bool keep = text.front() == '\n' || text.front() == '\t';
    if (colour != std::string_view::npos && text[colour] == 'm') {
      length = colour + 1;
      keep = true;
    }
    shown += keep ? std::string(text.substr(0, length)) : printable_text(text.substr(0, length));
    text.remove_prefix(length);
  }
  return shown;
}

std::string escaped_json(std::string_view json) {
  std::string escaped;
  while (!json.empty()) {
    const Character c = first_character(json);
    if (c.valid && is_control(c)) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c.code));
      escaped += code.data();
    } else {
      escaped += json.substr(0, c.bytes);
    }
    json.remove_prefix(c.bytes);
  }
  return escaped;
}

}  // namespace meshplan

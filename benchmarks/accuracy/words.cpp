#include "words.hpp"

#include <algorithm>

namespace meshplan::accuracy {
namespace {

char lower_char(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

}  // namespace

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower_char);
  return result;
}

bool has_word(std::string_view text, std::string_view word) {
  return lower(text).find(lower(word)) != std::string::npos;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return has_word(text, word); });
}

bool starts_with_word(std::string_view text, std::string_view word) {
  return lower(text.substr(0, word.size())) == lower(word);
}

std::string letters_and_digits(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (is_letter_or_digit(lower_char(c))) result += lower_char(c);
  }
  return result;
}

}  // namespace meshplan::accuracy

#pragma once
// Looking for words in the free text of published tables.
#include <initializer_list>
#include <string>
#include <string_view>

namespace meshplan::accuracy {

[[nodiscard]] std::string lower(std::string_view text);

// `word` occurs in `text`, whatever the case.
[[nodiscard]] bool has_word(std::string_view text, std::string_view word);
[[nodiscard]] bool has_any(std::string_view text, std::initializer_list<std::string_view> words);
[[nodiscard]] bool starts_with_word(std::string_view text, std::string_view word);

// Letters and digits of `text` in lower case: "LLAMA2-70B" -> "llama270b".
[[nodiscard]] std::string letters_and_digits(std::string_view text);

}  // namespace meshplan::accuracy

#pragma once
// Lengths of documents: text of one length a line, or of a length and how many documents have it;
// and what JSON lines say of theirs.
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "spec/lengths.hpp"

namespace meshplan {

// Lines "512" or "512 30" (blank, comma or tab between), empty ones and those that begin with '#'
// aside. Fails where there is no length, a line is none of these or says something else than the
// lines before it, or a number is out of range.
Result<LengthSpec> parse_lengths(std::string_view text, const std::string& file);

// JSON lines, a document each: the number under one of tokens, num_tokens, n_tokens, token_count,
// length or len, else how many items input_ids has. Fails where a line is not JSON or says neither:
// text must go through the tokenizer first.
Result<LengthSpec> parse_token_counts(std::string_view text, const std::string& file);

// A distribution by name, or a file of lengths, "-" for standard input.
Result<LengthSpec> load_lengths(const std::string& text);

// What parse_lengths() reads back, with a heading for people.
[[nodiscard]] std::string lengths_file_text(const LengthSpec& lengths);

}  // namespace meshplan

#include "token_counts.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/quantity.hpp"
#include "base/text.hpp"
#include "inputs.hpp"
#include "log.hpp"

namespace meshplan {
namespace {

// Takes `word`, in either case and after blanks, off the end of the text.
bool take_word(std::string_view& text, std::string_view word) {
  if (text.size() < word.size()) return false;
  const std::string_view end = text.substr(text.size() - word.size());
  const auto same = [](char a, char b) { return (a | 0x20) == b; };
  if (!std::equal(end.begin(), end.end(), word.begin(), same)) return false;
  text.remove_suffix(word.size());
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return true;
}

}  // namespace

WrittenCount read_written_count(const std::string& text, std::string_view flag, std::int64_t most,
                                Diagnostics& problems) {
  WrittenCount count;
  if (text.empty()) return count;
  std::string_view rest = text;
  count.tokens = take_word(rest, "tokens");
  const bool sequences = !count.tokens && take_word(rest, "sequences");
  const bool batch = flag == "--global-batch";
  std::int64_t unit = 1;
  if (take_word(rest, "k")) {
    unit = 1024;
    if (batch && !count.tokens && !sequences) {
      problems.push_back(error_at({std::string(flag)}, "'" + text + "' of what?",
                                  "write '" + text + " tokens' or '" + text + " sequences'"));
      return {};
    }
  } else if (take_word(rest, "m")) {
    unit = std::int64_t{1024} * 1024;
    if (batch && !sequences) count.tokens = true;  // nobody takes millions of sequences a step
  }
  if ((count.tokens && !batch && flag != "--tokens-per-batch" && flag != "--seq-len") ||
      (sequences && !batch)) {
    problems.push_back(error_at({std::string(flag)}, "'" + text + "' is not what it counts"));
    return {};
  }
  if (unit == 1) {
    count.value = read_count(std::string(rest), flag, most, problems);
    return count;
  }
  const std::optional<double> number = take(parse_real(std::string(rest)), flag, problems);
  if (!number) return {};
  const double value = *number * static_cast<double>(unit);
  if (!(value >= 1) || value > static_cast<double>(most) || value != std::floor(value)) {
    problems.push_back(
        error_at({std::string(flag)},
                 "must be a whole number from 1 to " + with_thousands(most) + ", got " + text,
                 "k are 1,024 and M are 1,048,576"));
    return {};
  }
  count.value = static_cast<std::int64_t>(value);
  return count;
}

std::int64_t sequences_of(std::int64_t tokens, std::int64_t seq_len, std::string_view flag,
                          Diagnostics& problems) {
  if (tokens == 0) return 0;
  if (seq_len == 0) {
    problems.push_back(error(std::string(flag) + " in tokens needs --seq-len",
                             "the batch is as many sequences as hold them"));
    return 0;
  }
  const std::int64_t n = std::max<std::int64_t>(1, (tokens + seq_len / 2) / seq_len);
  if (n * seq_len != tokens) {
    log_warning(with_thousands(tokens) + " tokens are not whole sequences of " +
                with_thousands(seq_len) + ": a batch is " + with_thousands(n) + " of them, " +
                with_thousands(n * seq_len) + " tokens");
  }
  return n;
}

}  // namespace meshplan

#include "io/lengths_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.hpp"
#include "base/quantity.hpp"
#include "base/text.hpp"
#include "io/load.hpp"

namespace meshplan {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostTokens = 1 << 30;
constexpr double kMostDocuments = 1e15;

// Calls visit(number, line) for each line until it returns false.
template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (!visit(number, line)) return;
  }
}

Diagnostic problem(const std::string& file, int line, std::string_view text, std::string message,
                   std::string hint) {
  constexpr std::size_t kShown = 120;
  Diagnostic d = error_at({file, line, 1}, std::move(message), std::move(hint));
  d.source_line = printable_text(text.substr(0, kShown));
  return d;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : line) {
    if (c != ' ' && c != '\t' && c != ',') {
      word += c;
      continue;
    }
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

bool is_length(std::int64_t tokens) { return tokens >= 1 && tokens <= kMostTokens; }

Diagnostic out_of_range(const std::string& file, int line, std::string_view text) {
  return problem(file, line, text,
                 "a length must be 1 to " + with_thousands(kMostTokens) + " tokens",
                 "leave documents without tokens out");
}

Result<LengthSpec> spec_of(std::vector<LengthBin> bins, const std::string& file) {
  if (bins.empty()) {
    return error_at({file}, "there is no length in it", "write a length in tokens on each line");
  }
  LengthSpec spec{file, merged(std::move(bins))};
  if (spec.bins.empty()) {
    return error_at({file}, "no document has any of its lengths",
                    "write how many documents have a length behind it");
  }
  return spec;
}

// Number of tokens of one document; nothing where it says none.
std::optional<std::int64_t> count_of(const Json& document) {
  constexpr std::array kNames{"tokens", "num_tokens", "n_tokens", "token_count", "length", "len"};
  for (const char* name : kNames) {
    const auto at = document.find(name);
    if (at != document.end() && at->is_number_integer()) return at->get<std::int64_t>();
  }
  for (const char* name : {"input_ids", "tokens"}) {
    const auto ids = document.find(name);
    if (ids != document.end() && ids->is_array()) return static_cast<std::int64_t>(ids->size());
  }
  return std::nullopt;
}

}  // namespace

Result<LengthSpec> parse_lengths(std::string_view text, const std::string& file) {
  std::vector<LengthBin> bins;
  std::size_t columns = 0;
  std::optional<Diagnostic> wrong;
  for_each_line(text, [&](int number, std::string_view line) {
    const std::vector<std::string> words = words_of(line);
    if (words.empty() || words.front().front() == '#') return true;
    const std::string hint =
        "one length in tokens on each line, or a length and how many documents have it";
    if (words.size() > 2 || (columns != 0 && words.size() != columns)) {
      wrong = problem(file, number, line,
                      columns == 0 ? "more than two numbers on a line"
                                   : "this line has " + std::to_string(words.size()) +
                                         (words.size() == 1 ? " number" : " numbers") +
                                         ", those before it " + std::to_string(columns),
                      hint);
      return false;
    }
    columns = words.size();
    const Result<std::int64_t> tokens = parse_integer(words.front());
    const Result<double> documents = columns == 2 ? parse_real(words.back()) : Result<double>(1.0);
    if (!tokens || !documents) {
      wrong = problem(file, number, line,
                      "not a number: '" + printable_text(words[tokens ? 1 : 0]) + "'", hint);
    } else if (!is_length(*tokens)) {
      wrong = out_of_range(file, number, line);
    } else if (!(*documents >= 0 && *documents <= kMostDocuments)) {
      wrong = problem(file, number, line, "a number of documents must be 0 to 1e15", hint);
    } else {
      bins.push_back({static_cast<double>(*tokens), *documents});
    }
    return !wrong;
  });
  if (wrong) return *wrong;
  return spec_of(std::move(bins), file);
}

Result<LengthSpec> parse_token_counts(std::string_view text, const std::string& file) {
  std::vector<LengthBin> bins;
  std::optional<Diagnostic> wrong;
  for_each_line(text, [&](int number, std::string_view line) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) return true;
    const Json document = Json::parse(line, nullptr, false);
    if (!document.is_object()) {
      wrong = problem(file, number, line, "this line is not a JSON object",
                      "JSON lines have one document on each line");
      return false;
    }
    const std::optional<std::int64_t> tokens = count_of(document);
    if (!tokens) {
      wrong = problem(file, number, line, "this document says nothing of its tokens",
                      "count them with the model's tokenizer: {\"tokens\": 512} or "
                      "{\"input_ids\": [...]} on each line");
    } else if (!is_length(*tokens)) {
      wrong = out_of_range(file, number, line);
    } else {
      bins.push_back({static_cast<double>(*tokens), 1});
    }
    return !wrong;
  });
  if (wrong) return *wrong;
  return spec_of(std::move(bins), file);
}

Result<LengthSpec> load_lengths(const std::string& text) {
  if (is_length_distribution(text)) return parse_length_distribution(text);
  const Result<std::string> file = read_text_file(text);
  if (!file) {
    Diagnostics errors = file.errors();
    if (errors.front().hint.empty()) {
      errors.front().hint =
          "a file of lengths, or fixed(2048), zipf(1.2, 8192), lognormal(900, 700)";
    }
    return errors;
  }
  return parse_lengths(*file, text);
}

std::string lengths_file_text(const LengthSpec& lengths) {
  double documents = 0;
  for (const LengthBin& bin : lengths.bins) documents += bin.documents;
  const auto whole = [](double value) { return with_thousands(std::llround(value)); };
  std::string text = "# " + printable_text(lengths.name) + ": " + whole(documents) +
                     " documents, mean " + whole(mean_length(lengths)) + " tokens, median " +
                     whole(length_quantile(lengths, 0.5)) + ", longest " + whole(longest(lengths)) +
                     "\n# tokens documents\n";
  for (const LengthBin& bin : lengths.bins) {
    text += std::to_string(std::llround(bin.tokens)) + " " +
            std::to_string(std::llround(bin.documents)) + "\n";
  }
  return text;
}

}  // namespace meshplan

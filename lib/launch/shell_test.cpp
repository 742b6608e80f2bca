// Conditions: [ ... ], test, [[ ... ]].
#include <algorithm>
#include <array>
#include <fnmatch.h>
#include <regex.h>
#include <utility>

#include "launch/shell_interpreter.hpp"

namespace meshplan::shell {
namespace {

Truth truth_of(bool value) { return value ? Truth::kTrue : Truth::kFalse; }

Truth opposite(Truth t) {
  if (t == Truth::kUnknown) return t;
  return truth_of(t == Truth::kFalse);
}

constexpr std::array<std::string_view, 14> kComparisons{
    "=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot"};

bool is_comparison(std::string_view word) {
  return std::find(kComparisons.begin(), kComparisons.end(), word) != kComparisons.end();
}

Truth matches(const std::string& text, const std::string& pattern) {
  constexpr std::size_t kLongest = 200;
  if (text.size() > kLongest || pattern.size() > kLongest) return Truth::kUnknown;
  // Counted repeats and back-references can take for ever or all memory.
  if (pattern.find_first_of("{\\") != std::string::npos) return Truth::kUnknown;
  regex_t compiled;
  if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return Truth::kUnknown;
  const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return truth_of(found);
}

}  // namespace

Truth Interpreter::unknown_truth(const Value& v) {
  const std::string names = unknown_names(v);
  if (reasons_.find(names) == std::string::npos || reasons_.empty()) {
    reasons_ += (reasons_.empty() || names.empty() ? "" : ", ") + names;
  }
  return Truth::kUnknown;
}

Truth Interpreter::test(const Node& node) {
  std::vector<Value> words;
  for (const Range& raw : node.words) words.push_back(text_in(raw));
  return test(std::move(words), &node.words);
}

Truth Interpreter::test(std::vector<Value> words, const std::vector<Range>* raw) {
  const std::vector<Value> outer = std::exchange(tested_, std::move(words));
  const std::vector<Range>* outer_raw = std::exchange(tested_raw_, raw);
  reasons_.clear();
  std::size_t at = 0;
  const Truth result = tested_.empty() ? Truth::kFalse : either(at);
  tested_ = outer;
  tested_raw_ = outer_raw;
  return result;
}

Truth Interpreter::either(std::size_t& at) {
  Truth result = both(at);
  while (at < tested_.size()) {
    const std::string word = text_of(tested_[at]);
    if (word != "||" && word != "-o") break;
    ++at;
    const Truth right = both(at);
    if (result == Truth::kTrue || right == Truth::kTrue) {
      result = Truth::kTrue;
    } else if (right == Truth::kUnknown) {
      result = right;
    }
  }
  return result;
}

Truth Interpreter::both(std::size_t& at) {
  Truth result = one(at);
  while (at < tested_.size()) {
    const std::string word = text_of(tested_[at]);
    if (word != "&&" && word != "-a") break;
    ++at;
    const Truth right = one(at);
    if (result == Truth::kFalse || right == Truth::kFalse) {
      result = Truth::kFalse;
    } else if (right == Truth::kUnknown) {
      result = right;
    }
  }
  return result;
}

Truth Interpreter::one(std::size_t& at) {
  constexpr int kDeepest = 400;
  if (at >= tested_.size() || depth_ > kDeepest) {
    at = tested_.size();
    return Truth::kFalse;
  }
  const std::string word = text_of(tested_[at]);
  const std::size_t left = tested_.size() - at;
  const std::string next = left > 1 ? text_of(tested_[at + 1]) : std::string();
  ++depth_;
  Truth result = Truth::kFalse;
  if (left >= 3 && is_comparison(next) && !(word == "!" && left == 2)) {
    const bool literal = tested_raw_ == nullptr || (*tested_raw_)[at + 2].text().find_first_of(
                                                       "'\"") != std::string_view::npos;
    result = binary(tested_[at], next, tested_[at + 2], literal);
    at += 3;
  } else if (word == "!" && left > 1) {
    ++at;
    result = opposite(one(at));
  } else if (word == "(") {
    ++at;
    result = either(at);
    if (at < tested_.size() && text_of(tested_[at]) == ")") ++at;
  } else if (word.size() == 2 && word[0] == '-' && left > 1 && next != "&&" && next != "||") {
    result = unary(word, tested_[at + 1]);
    at += 2;
  } else {
    // A word alone; "-z" with nothing behind it asks about an empty word that was split away.
    if (word == "-z" && left == 1) {
      result = Truth::kTrue;
    } else if (word == "-n" && left == 1) {
      result = Truth::kFalse;
    } else {
      result = unary("-n", tested_[at]);
    }
    ++at;
  }
  --depth_;
  return result;
}

Truth Interpreter::unary(std::string_view what, const Value& v) {
  if (what == "-z" || what == "-n") {
    const bool asks_empty = what == "-z";
    if (is_known(v)) return truth_of(text_of(v).empty() == asks_empty);
    if (!text_of(v).empty()) return truth_of(!asks_empty);
    const bool unset = std::all_of(v.begin(), v.end(),
                                   [](const Segment& s) { return s.unset || s.unknown.empty(); });
    if (!unset || !inputs_.unset_is_empty) return unknown_truth(v);
    out_.defaults[unknown_names(v)] = "";
    out_.took_as_empty = true;
    return truth_of(asks_empty);
  }
  if (what == "-v") {
    if (!is_known(v)) return unknown_truth(v);
    if (!is_unset(text_of(v))) return Truth::kTrue;
    if (!inputs_.unset_is_empty) return unknown_truth(unknown(text_of(v), 0, 0));
    out_.took_as_empty = true;
    return Truth::kFalse;
  }
  // Files, folders, terminals: what is on the machine.
  return unknown_truth({});
}

Truth Interpreter::binary(const Value& left, std::string_view what, const Value& right,
                          bool literal) {
  if (what == "-nt" || what == "-ot") return unknown_truth({});
  if (what.size() == 3 && what[0] == '-') {
    std::string names;
    const auto a = number(left, names), b = number(right, names);
    if (!a || !b) return names.empty() ? unknown_truth({}) : unknown_truth(unknown(names, 0, 0));
    if (what == "-eq") return truth_of(*a == *b);
    if (what == "-ne") return truth_of(*a != *b);
    if (what == "-lt") return truth_of(*a < *b);
    if (what == "-le") return truth_of(*a <= *b);
    if (what == "-gt") return truth_of(*a > *b);
    return truth_of(*a >= *b);
  }
  if (!is_known(left)) return unknown_truth(left);
  if (!is_known(right)) return unknown_truth(right);
  const std::string a = text_of(left), b = text_of(right);
  if (what == "=~") {
    const Truth found = matches(a, b);
    return found == Truth::kUnknown ? unknown_truth({}) : found;
  }
  if (what == "<" || what == ">") return truth_of(what == "<" ? a < b : a > b);
  const bool same = literal ? a == b : ::fnmatch(b.c_str(), a.c_str(), 0) == 0;
  return truth_of(same == (what != "!="));
}

}  // namespace meshplan::shell

// Commands that are part of the shell, and what others print where it can be known.
#include <algorithm>
#include <array>

#include "launch/shell_interpreter.hpp"

namespace meshplan::shell {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::optional<Truth> Interpreter::control(const std::string& name,
                                          const std::vector<Value>& words) {
  if (name == "exit") {
    stopped_ = true;
  } else if (name == "return") {
    returning_ = true;
  } else if (name == "break" || name == "continue") {
    breaking_ = name == "break";
  } else if (name == "shift") {
    const std::string text = words.size() > 1 ? text_of(words[1]) : "1";
    const std::size_t count =
        text.size() < 4 && text.find_first_not_of("0123456789") == std::string::npos
            ? static_cast<std::size_t>(std::stoi("0" + text))
            : 1;
    if (knows_arguments_) {
      const std::size_t gone = std::min(count, arguments_.size());
      arguments_.erase(arguments_.begin(), arguments_.begin() + static_cast<std::ptrdiff_t>(gone));
    } else {
      shifted_ += count;
    }
  } else if (name == "set") {
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (text_of(words[i]) != "--") continue;
      arguments_.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      knows_arguments_ = true;
      break;
    }
  } else if (name == "unset") {
    for (std::size_t i = 1; i < words.size(); ++i) out_.variables.erase(text_of(words[i]));
  } else {
    return std::nullopt;
  }
  return Truth::kTrue;
}

std::optional<Truth> Interpreter::built_in(const std::string& name, std::vector<Value>& words) {
  if (const std::optional<Truth> done = control(name, words)) return done;
  if (name == "true" || name == ":" || name == "cd" || name == "trap" || name == "ulimit" ||
      name == "module" || name == "shopt" || name == "wait" || name == "pushd" || name == "popd") {
    return Truth::kTrue;
  }
  if (name == "false") return Truth::kFalse;
  if (name == "echo" || name == "printf") {
    print(name, words);
    return Truth::kTrue;
  }
  if (name == "[" || name == "test") {
    std::vector<Value> tested(words.begin() + 1, words.end());
    if (name == "[" && !tested.empty() && text_of(tested.back()) == "]") tested.pop_back();
    return test(std::move(tested), nullptr);
  }
  if (name == "let") {
    std::string names;
    for (std::size_t i = 1; i < words.size(); ++i) (void)number(words[i], names);
    return Truth::kTrue;
  }
  if (name == "read" || name == "mapfile" || name == "readarray") {
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string variable = text_of(words[i]);
      if (is_name(variable)) set(variable, unknown(variable, words[i].front().line, 1));
    }
    return Truth::kUnknown;
  }
  if (name == "source" || name == ".") {
    if (words.size() > 1) source(words[1]);
    return Truth::kTrue;
  }
  if (name == "eval") {
    Value text;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (i > 1) text.push_back({" ", {}, false, words[i].empty() ? 1 : words[i].front().line, 1});
      text.insert(text.end(), words[i].begin(), words[i].end());
    }
    return evaluate(text);
  }
  constexpr std::array<std::string_view, 4> kPrefix{"exec", "command", "builtin", "time"};
  if (std::find(kPrefix.begin(), kPrefix.end(), name) != kPrefix.end()) {
    words.erase(words.begin());
    if (name == "command" && !words.empty() && text_of(words.front()).starts_with("-")) {
      return unknown_truth({});
    }
    if (words.empty()) return Truth::kTrue;
    return std::nullopt;
  }
  constexpr std::array<std::string_view, 5> kAsk{"grep", "which", "type", "hash", "pgrep"};
  if (captured_ == nullptr && std::find(kAsk.begin(), kAsk.end(), name) != kAsk.end()) {
    return unknown_truth({});
  }
  return std::nullopt;
}

void Interpreter::print(const std::string& name, const std::vector<Value>& words) {
  if (captured_ == nullptr) return;
  std::size_t i = 1;
  while (i < words.size() && name == "echo" &&
         (text_of(words[i]) == "-n" || text_of(words[i]) == "-e")) {
    ++i;
  }
  const bool formats =
      name == "printf" && i < words.size() && text_of(words[i]).find('%') != std::string::npos;
  if (formats) {
    const Segment at = words[i].front();
    const Value v = unknown("$(printf ...)", at.line, at.column);
    captured_->insert(captured_->end(), v.begin(), v.end());
    return;
  }
  for (std::size_t k = i; k < words.size(); ++k) {
    if (k > i) captured_->push_back({" ", {}, false, 1, 1});
    captured_->insert(captured_->end(), words[k].begin(), words[k].end());
  }
  captured_->push_back({"\n", {}, false, 1, 1});
}

// What a command prints, where it can be known.
Value Interpreter::output_of(const std::vector<Value>& words) {
  const std::string name = without_folder(text_of(words.front()));
  const Segment at = words.front().empty() ? Segment() : words.front().front();
  std::string all;
  for (const Value& v : words) all += (all.empty() ? "" : " ") + text_of(v);
  const auto literal = [&](std::string text) {
    return known(std::move(text) + "\n", at.line, at.column);
  };
  if (name == "pwd") return literal(".");
  const bool arguments_known =
      std::all_of(words.begin() + 1, words.end(), [](const Value& v) { return is_known(v); });
  if (arguments_known && words.size() > 1) {
    if (name == "dirname") return literal(folder_of(text_of(words[1])));
    if (name == "basename") return literal(without_folder(text_of(words[1])));
    if (name == "expr") {
      std::string names;
      Value sum = known(all.substr(all.find(' ')), at.line, at.column);
      if (const auto n = number(sum, names)) return literal(std::to_string(*n));
    }
    if (name == "seq") {
      std::string names;
      const auto first = words.size() > 2 ? number(words[1], names) : 1;
      const auto last = number(words.size() > 2 ? words[words.size() - 1] : words[1], names);
      const auto step = words.size() > 3 ? number(words[2], names) : 1;
      constexpr std::int64_t kMost = 10'000;
      if (first && last && step && *step > 0 && *last - *first < kMost * *step) {
        std::string text;
        for (std::int64_t i = *first; i <= *last; i += *step) text += std::to_string(i) + " ";
        return literal(text);
      }
    }
  }
  if (name == "cat" && words.size() > 1) {
    if (const auto file = out_.files.find(text_of(words[1])); file != out_.files.end()) {
      return file->second;
    }
  }
  if (name == "cat" && words.size() == 1) {
    if (const auto file = out_.files.find(""); file != out_.files.end()) return file->second;
  }
  return unknown("$(" + first_line(all) + ")", at.line, at.column);
}

}  // namespace meshplan::shell

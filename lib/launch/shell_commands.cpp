// Commands of a script.
#include <algorithm>
#include <array>
#include <fnmatch.h>
#include <utility>

#include "launch/shell_arithmetic.hpp"
#include "launch/shell_interpreter.hpp"

namespace meshplan::shell {
namespace {

// The condition as it stands in the script.
Range extent(const Node& node) {
  Range all;
  const auto add = [&](Range r) {
    if (r.source == nullptr) return;
    if (all.source == nullptr) {
      all = r;
    } else if (r.source == all.source) {
      all.begin = std::min(all.begin, r.begin);
      all.end = std::max(all.end, r.end);
    }
  };
  for (const Range& word : node.words) add(word);
  for (const auto& child : node.children) add(extent(*child));
  return all;
}

}  // namespace

Interpreter::Interpreter(const Inputs& inputs) : inputs_(inputs) {
  for (const auto& [name, text] : inputs.environment) {
    out_.variables[name].items = {known(text, 1, 1)};
  }
  for (const auto& [name, text] : inputs.fixed) {
    out_.variables[name].items = {known(text, 1, 1)};
  }
  knows_arguments_ = inputs.arguments.has_value();
  if (!knows_arguments_) return;
  for (const std::string& text : *inputs.arguments) arguments_.push_back(known(text, 1, 1));
}

Outcome Interpreter::run(const Source& script) {
  scripts_.push_back(parse(script));
  (void)execute(*scripts_.back());
  return std::move(out_);
}

bool Interpreter::decide(Truth truth, const Node& condition, const std::string& text) {
  if (truth != Truth::kUnknown) return truth == Truth::kTrue;
  const Range at = extent(condition);
  Decision d;
  if (at.source != nullptr) {
    d.line = at.source->at(at.begin).line;
    d.text = text.empty() ? first_line(at.text()) : text;
  }
  d.names = reasons_;
  reasons_.clear();
  const std::size_t index = out_.decisions.size();
  d.taken = index < inputs_.decisions.size() && inputs_.decisions[index];
  out_.decisions.push_back(d);
  return d.taken;
}

Truth Interpreter::execute(const Node& node) {
  if (stops()) return Truth::kTrue;
  if (++depth_ > kDeepestCalls * 10) {
    --depth_;
    return Truth::kTrue;
  }
  Truth result = Truth::kTrue;
  const auto part = [&](std::size_t i) { return execute(*node.children[i]); };
  switch (node.kind) {
    case Node::Kind::kSimple:
      result = simple(node);
      break;
    case Node::Kind::kSequence:
      for (std::size_t i = 0; i < node.children.size() && !stops(); ++i) result = part(i);
      break;
    case Node::Kind::kAnd:
      result = part(0);
      if (!stops() && decide(result, *node.children[0])) {
        result = part(1);
      } else {
        result = Truth::kFalse;
      }
      break;
    case Node::Kind::kOr:
      result = part(0);
      if (!stops() && !decide(result, *node.children[0])) {
        result = part(1);
      } else {
        result = Truth::kTrue;
      }
      break;
    case Node::Kind::kNot:
      result = part(0);
      if (result != Truth::kUnknown) {
        result = result == Truth::kTrue ? Truth::kFalse : Truth::kTrue;
      }
      break;
    case Node::Kind::kPipe: {
      Value* outer = captured_;
      Value printed;
      for (std::size_t i = 0; i < node.children.size(); ++i) {
        const bool last = i + 1 == node.children.size();
        if (outer != nullptr && last && i > 0) {
          // A filter: what it makes of what came in is not known.
          const Range at = extent(*node.children[i]);
          const Segment place = at.source == nullptr ? Segment() : at.source->at(at.begin);
          const std::string all = first_line(extent(node).text());
          captured_ = outer;
          const std::string_view filter = at.source == nullptr ? "" : at.text();
          std::string names;
          std::optional<std::int64_t> n;
          if (filter == "bc") n = number(printed, names);
          *outer = n ? known(std::to_string(*n), place.line, place.column)
                     : unknown("$(" + all + ")", place.line, place.column);
        } else {
          if (outer != nullptr) captured_ = &printed;
          result = part(i);
        }
      }
      captured_ = outer;
      if (outer == nullptr) break;
      result = Truth::kTrue;
      break;
    }
    case Node::Kind::kIf:
      result = conditional(node);
      break;
    case Node::Kind::kCase:
      result = choice(node);
      break;
    case Node::Kind::kFor:
      result = loop(node);
      break;
    case Node::Kind::kWhile:
      result = while_loop(node);
      break;
    case Node::Kind::kFunction:
      if (!node.words.empty() && !node.children.empty()) {
        functions_[std::string(node.words.front().text())] = node.children.front().get();
      }
      break;
    case Node::Kind::kTest:
      result = test(node);
      break;
    case Node::Kind::kArithmetic: {
      std::string names;
      const std::optional<std::int64_t> n =
          number(text_in(node.words.front(), Mode::kQuoted), names);
      reasons_ = names;
      result = !n ? Truth::kUnknown : *n != 0 ? Truth::kTrue : Truth::kFalse;
      break;
    }
  }
  --depth_;
  return result;
}

Truth Interpreter::conditional(const Node& node) {
  std::size_t i = 0;
  for (; i + 1 < node.children.size(); i += 2) {
    const Truth truth = execute(*node.children[i]);
    if (stops()) return truth;
    if (decide(truth, *node.children[i])) return execute(*node.children[i + 1]);
  }
  return i < node.children.size() ? execute(*node.children[i]) : Truth::kTrue;
}

Truth Interpreter::choice(const Node& node) {
  const Value subject = text_in(node.words.front());
  for (const Node::Arm& arm : node.arms) {
    Truth truth = Truth::kFalse;
    for (const Range& raw : arm.patterns) {
      const Value pattern = text_in(raw);
      const bool matches_all = text_of(pattern) == "*";
      const bool known = is_known(subject) && is_known(pattern);
      if (matches_all ||
          (known && ::fnmatch(text_of(pattern).c_str(), text_of(subject).c_str(), 0) == 0)) {
        truth = Truth::kTrue;
      } else if (!known && truth == Truth::kFalse) {
        truth = unknown_truth(is_known(subject) ? pattern : subject);
      }
    }
    Node condition;
    condition.words = node.words;
    for (const Range& raw : arm.patterns) condition.words.push_back(raw);
    std::string text = "case " + std::string(node.words.front().text()) + " in ";
    for (const Range& raw : arm.patterns) {
      text += (raw.begin == arm.patterns.front().begin ? "" : "|") + std::string(raw.text());
    }
    if (decide(truth, condition, text + ")")) return execute(*arm.body);
  }
  return Truth::kTrue;
}

Truth Interpreter::body(const Node& node) {
  const Truth result = execute(*node.children.back());
  return result;
}

Truth Interpreter::counted_loop(const Node& node) {
  const std::string_view all = node.words.front().text();
  const std::size_t first = std::min(all.find(';'), all.size());
  const std::size_t second = std::min(all.find(';', first + 1), all.size());
  const std::size_t begin = node.words.front().begin;
  const auto evaluated = [&](std::size_t from, std::size_t to) {
    std::string names;
    from = std::min(from, to);
    return number(text_in({node.words.front().source, begin + from, begin + to}, Mode::kQuoted),
                  names);
  };
  (void)evaluated(0, first);
  while (!stops() && evaluated(first + 1, second).value_or(0) != 0) {
    --steps_;
    (void)body(node);
    (void)evaluated(second + 1, all.size());
  }
  breaking_ = false;
  return Truth::kTrue;
}

Truth Interpreter::loop(const Node& node) {
  const std::string name(node.words.front().text());
  if (!is_name(name)) return counted_loop(node);
  std::vector<Value> items;
  if (node.over_arguments) items = arguments_;
  for (std::size_t i = 1; i < node.words.size(); ++i) {
    for (Value& v : fields_of(node.words[i])) items.push_back(std::move(v));
  }
  for (Value& item : items) {
    if (stops()) break;
    --steps_;
    set(name, std::move(item));
    (void)body(node);
  }
  breaking_ = false;
  return Truth::kTrue;
}

Truth Interpreter::while_loop(const Node& node) {
  while (!stops()) {
    --steps_;
    in_loop_condition_ = true;
    const Truth truth = execute(*node.children.front());
    in_loop_condition_ = false;
    if (stops()) break;
    const bool goes_on = decide(truth, *node.children.front()) != node.until;
    if (!goes_on) break;
    (void)body(node);
    if (truth == Truth::kUnknown) break;  // once, where nothing says how often
  }
  breaking_ = false;
  return Truth::kTrue;
}

Truth Interpreter::simple(const Node& node) {
  --steps_;
  std::map<std::string, Value> environment;
  std::size_t first = 0;
  while (first < node.words.size() && assigned_name(node.words[first].text()) > 0) ++first;
  const bool only_assigns = first == node.words.size();
  for (std::size_t i = 0; i < first; ++i)
    assign(node.words[i], only_assigns ? nullptr : &environment);
  if (only_assigns) return Truth::kTrue;
  const std::string_view raw = node.words[first].text();
  constexpr std::array<std::string_view, 5> kDeclare{"export", "declare", "local", "readonly",
                                                     "typeset"};
  if (std::find(kDeclare.begin(), kDeclare.end(), raw) != kDeclare.end()) {
    declare(node, first + 1);
    return Truth::kTrue;
  }
  std::vector<Value> words;
  for (std::size_t i = first; i < node.words.size(); ++i) {
    for (Value& v : fields_of(node.words[i])) {
      if (words.size() < kMostItems) words.push_back(std::move(v));
    }
  }
  if (words.empty()) return Truth::kTrue;
  write_documents(node, words);
  const std::string name = is_known(words.front()) ? text_of(words.front()) : std::string();
  if (const auto found = functions_.find(name); found != functions_.end()) {
    if (depth_ > kDeepestCalls) return Truth::kTrue;
    std::vector<Value> outer(words.begin() + 1, words.end());
    outer.swap(arguments_);
    const bool knew = std::exchange(knows_arguments_, true);
    const Truth result = execute(*found->second);
    arguments_ = std::move(outer);
    knows_arguments_ = knew;
    returning_ = false;
    return result;
  }
  if (const std::optional<Truth> result = built_in(name, words)) return *result;
  if (captured_ != nullptr) {
    const Value printed = output_of(words);
    captured_->insert(captured_->end(), printed.begin(), printed.end());
    return Truth::kTrue;
  }
  start(std::move(words), std::move(environment));
  reasons_.clear();
  return Truth::kTrue;
}

// A command that is no part of the shell; what it starts through another shell is read as well.
void Interpreter::start(std::vector<Value> words, std::map<std::string, Value> environment) {
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string shell = without_folder(text_of(words[i]));
    const bool is_shell = shell == "bash" || shell == "sh" || shell == "zsh";
    const std::string flag = text_of(words[i + 1]);
    if (!is_shell || !flag.starts_with("-") || !flag.ends_with("c")) continue;
    const std::size_t before = out_.started.size();
    (void)evaluate(words[i + 2]);
    // srun's own words say how many processes it starts.
    for (std::size_t k = before; k < out_.started.size(); ++k) {
      std::vector<Value>& all = out_.started[k].words;
      all.insert(all.begin(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return;
  }
  const std::string name = without_folder(text_of(words.front()));
  if (name == "ssh" || name == "pdsh" || name == "nohup") {
    for (const Value& v : words) {
      if (text_of(v).find(" --") != std::string::npos) return (void)evaluate(v);
    }
  }
  out_.started.push_back({std::move(words), std::move(environment)});
}

Truth Interpreter::evaluate(const Value& text) {
  if (depth_ > kDeepestCalls) return Truth::kTrue;
  ++depth_;
  // What is not known keeps its name through the second reading.
  Value marked = text;
  for (Segment& s : marked) {
    if (s.unknown.empty()) continue;
    const std::string name = "__unknown_" + std::to_string(out_.variables.size());
    out_.variables[name].items = {{s}};
    s.text = "${" + name + "}";
    s.unknown.clear();
  }
  sources_.push_back(source_of(marked));
  scripts_.push_back(parse(sources_.back()));
  const Truth result = execute(*scripts_.back());
  --depth_;
  return result;
}

void Interpreter::source(const Value& path) {
  const std::string name = text_of(path);
  const std::optional<std::string> text =
      is_known(path) && inputs_.read_file && depth_ < kDeepestCalls ? inputs_.read_file(name)
                                                                    : std::nullopt;
  if (!text) {
    out_.not_read.push_back(is_known(path) ? name : "$" + unknown_names(path) + name);
    return;
  }
  // Positions in another file would be taken for the script's: its words stand where it is read.
  Source other{*text, {}};
  const Segment at = path.empty() ? Segment() : path.front();
  for (std::size_t i = 0; i <= text->size(); ++i) other.anchors.push_back({i, at.line, at.column});
  sources_.push_back(std::move(other));
  scripts_.push_back(parse(sources_.back()));
  ++depth_;
  (void)execute(*scripts_.back());
  --depth_;
  returning_ = false;
}

}  // namespace meshplan::shell

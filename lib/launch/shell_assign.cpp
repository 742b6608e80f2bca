// Variables of a script, and the files that it writes.
#include <algorithm>
#include <utility>

#include "launch/shell_interpreter.hpp"

namespace meshplan::shell {
namespace {}  // namespace

void Interpreter::set(const std::string& name, Value value) {
  if (inputs_.fixed.find(name) != inputs_.fixed.end()) return;
  // What would say the whole of it has this name too, which is easier to understand.
  if (value.size() == 1 && !value.front().unknown.empty() &&
      value.front().unknown.find(name) == std::string::npos) {
    Segment& s = value.front();
    const bool argument = s.unknown.starts_with("argument");
    s.unknown = name + (argument ? " (" + s.unknown + ")" : "");
  }
  Variable& v = out_.variables[name];
  if (v.array && !v.items.empty()) {
    v.items.front() = std::move(value);
  } else {
    v.items = {std::move(value)};
  }
}

void Interpreter::assign_array(Variable& v, Range inside) {
  for (const Range& word : words_in(inside)) {
    const std::string_view raw = word.text();
    const std::size_t close = raw.find("]=");
    if (raw.starts_with("[") && close != std::string_view::npos) {
      const Value key = text_in({word.source, word.begin + 1, word.begin + close});
      const Value item = text_in({word.source, word.begin + close + 2, word.end});
      v.keys.resize(v.items.size());
      v.keys.push_back(text_of(key));
      v.items.push_back(item);
      continue;
    }
    for (Value& item : fields_of(word)) {
      if (v.items.size() < kMostItems) v.items.push_back(std::move(item));
    }
  }
}

void Interpreter::assign(Range word, std::map<std::string, Value>* environment) {
  const std::string_view raw = word.text();
  const std::size_t length = assigned_name(raw);
  std::string name(raw.substr(0, length));
  const bool adds = raw[length] == '+';
  const Range right{word.source, word.begin + length + (adds ? 2 : 1), word.end};
  if (const std::size_t bracket = name.find('['); bracket != std::string::npos) {
    const Range index{word.source, word.begin + bracket + 1, word.begin + length - 1};
    name.resize(bracket);
    Value value = text_in(right);
    if (inputs_.fixed.find(name) != inputs_.fixed.end()) return;
    Variable& v = out_.variables[name];
    const Value at = text_in(index, Mode::kQuoted);
    std::string names;
    const std::optional<std::int64_t> n =
        v.keys.empty() && !v.array ? std::nullopt : number(at, names);
    v.array = true;
    if (v.keys.empty() && n && *n >= 0 && *n < static_cast<std::int64_t>(v.items.size())) {
      v.items[static_cast<std::size_t>(*n)] = std::move(value);
    } else if (v.items.size() < kMostItems) {
      if (!n || !v.keys.empty()) {
        v.keys.resize(v.items.size());
        v.keys.push_back(text_of(at));
      }
      v.items.push_back(std::move(value));
    }
    return;
  }
  if (right.text().starts_with("(")) {
    if (inputs_.fixed.find(name) != inputs_.fixed.end()) return;
    Variable next = adds ? out_.variables[name] : Variable();
    next.array = true;
    assign_array(next, {right.source, right.begin + 1, std::max(right.begin + 1, right.end - 1)});
    out_.variables[name] = std::move(next);
    return;
  }
  const std::string outer = std::exchange(assigned_, name);
  Value value = text_in(right);
  assigned_ = outer;
  if (adds) {
    Variable& v = out_.variables[name];
    if (v.items.empty()) v.items.emplace_back();
    if (inputs_.fixed.find(name) == inputs_.fixed.end()) {
      v.items.front().insert(v.items.front().end(), value.begin(), value.end());
    }
    return;
  }
  if (environment != nullptr) {
    (*environment)[name] = std::move(value);
  } else {
    set(name, std::move(value));
  }
}

void Interpreter::declare(const Node& node, std::size_t first) {
  bool keyed = false;
  for (std::size_t i = first; i < node.words.size(); ++i) {
    const Range word = node.words[i];
    if (word.text().starts_with("-")) {
      keyed = keyed || word.text().find('A') != std::string_view::npos;
    } else if (assigned_name(word.text()) > 0) {
      assign(word);
    } else if (keyed) {
      out_.variables[std::string(word.text())].array = true;
    }
  }
}

// cat <<EOT > file: the script's own configuration files.
void Interpreter::write_documents(const Node& node, const std::vector<Value>& words) {
  (void)words;
  const Redirect* document = nullptr;
  std::string to;
  for (const Redirect& r : node.redirects) {
    if (r.here_document) document = &r;
    if (r.output) to = text_of(text_in(r.target));
  }
  if (document == nullptr) return;
  Value text;
  if (document->expands) {
    text = text_in(document->target, Mode::kDocument);
  } else {
    const Segment at = document->target.source->at(document->target.begin);
    text = known(std::string(document->target.text()), at.line, at.column);
  }
  out_.files[to] = std::move(text);
}

}  // namespace meshplan::shell

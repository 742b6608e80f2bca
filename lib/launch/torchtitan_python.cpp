#include "launch/torchtitan_python.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "frameworks/target.hpp"
#include "launch/python_text.hpp"

namespace meshplan {
namespace {

using Kind = PythonValue::Kind;

struct Function {
  std::string name;
  bool takes_arguments = false;
  int line = 0;
  std::vector<PythonStatement> body;
};

// What a function's configuration sets: "training.steps" -> the value.
using Configuration = std::map<std::string, YamlNode>;

// Sections of which every field says something of the run.
constexpr auto kDeciding =
    std::to_array<std::string_view>({"training", "parallelism", "compile", "model", "loss"});

YamlNode scalar(std::string text, int line, bool quoted = false) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  node.line = line, node.column = 1;
  return node;
}

// A literal as a job file has it; nothing for what only Python knows.
std::optional<YamlNode> literal(const PythonValue& value) {
  YamlNode node = scalar(value.text, value.line, value.kind == Kind::kText);
  switch (value.kind) {
    case Kind::kText:
    case Kind::kNumber:
      return node;
    case Kind::kWord:
      if (value.text == "None") {
        node.kind = YamlNode::Kind::kNull;
      } else {
        node.text = value.text == "True" ? "true" : "false";
      }
      return node;
    case Kind::kList:
      node.kind = YamlNode::Kind::kSequence;
      for (const PythonValue& item : value.items) {
        std::optional<YamlNode> own = literal(item);
        if (!own) return std::nullopt;
        node.items.push_back(*std::move(own));
      }
      return node;
    case Kind::kCall:
    case Kind::kName:
    case Kind::kOther:
      break;
  }
  return std::nullopt;
}

void erase_section(Configuration& all, const std::string& section) {
  all.erase(all.lower_bound(section + "."), all.lower_bound(section + "/"));  // '/' is behind '.'
}

class Reader {
 public:
  Reader(const NamedText& file, const std::string& config)
      : file_(file), wanted_(config), text_(without_python_comments(file.text)) {}

  Result<YamlNode> read() {
    find_functions();
    const Function* function = choose();
    if (function == nullptr) return problems_;
    Configuration all = evaluate(*function, 0);
    if (!problems_.empty()) return problems_;
    all["model.name"] = scalar(model_name(function->name), function->line, true);
    return tree(all, function->line);
  }

 private:
  void refuse(int line, const std::string& what, const std::string& way_out = {}) {
    problems_.push_back(error_at({file_.name, line, 1, 1}, what, way_out));
  }

  [[nodiscard]] std::string_view text_of(const PythonStatement& s) const {
    return std::string_view(text_).substr(s.begin, s.end - s.begin);
  }

  void find_functions() {
    for (const PythonStatement& s : python_statements(text_)) {
      const std::string_view own = text_of(s);
      if (s.indent > 0) {
        if (!functions_.empty()) functions_.back().body.push_back(s);
        continue;
      }
      if (!own.starts_with("def ")) {
        if (!functions_.empty() && !functions_.back().name.empty()) functions_.emplace_back();
        continue;
      }
      const std::size_t open = own.find('('), close = own.find(')');
      Function f;
      f.name = own.substr(4, std::min(open, own.size()) - 4);
      f.line = s.line;
      f.takes_arguments =
          open == own.npos || close == own.npos ||
          own.substr(open + 1, close - open - 1).find_first_not_of(" \n\t") != own.npos;
      functions_.push_back(std::move(f));
    }
    std::erase_if(functions_, [](const Function& f) { return f.name.empty(); });
  }

  [[nodiscard]] const Function* find(const std::string& name) const {
    const auto found = std::find_if(functions_.begin(), functions_.end(),
                                    [&](const Function& f) { return f.name == name; });
    return found == functions_.end() ? nullptr : &*found;
  }

  const Function* choose() {
    std::vector<std::string> known;
    for (const Function& f : functions_) {
      if (!f.takes_arguments && !f.name.starts_with('_')) known.push_back(f.name);
    }
    constexpr std::size_t kMostNamed = 40;
    const std::size_t count = known.size();
    if (wanted_.empty() && count == 1) return find(known.front());
    const Function* function = find(wanted_);
    if (function != nullptr && !function->takes_arguments) return function;
    if (count > kMostNamed) known.resize(kMostNamed);
    refuse(1,
           wanted_.empty() ? "the file has " + std::to_string(count) + " configurations"
                           : "the file has no configuration '" + wanted_ + "'",
           "--set CONFIG=NAME with one of " + join_words(known, ", "));
    return nullptr;
  }

  // Of the folder below models/ that the file is in, else of the flavors' models the longest that
  // the function's name begins with.
  [[nodiscard]] std::string model_name(const std::string& function) const {
    const std::string_view path = file_.name;
    const std::string_view folder =
        path.substr(0, path.rfind('/') != path.npos ? path.rfind('/') : 0);
    const std::size_t slash = folder.rfind('/');
    if (slash != folder.npos && folder.substr(0, slash).ends_with("models")) {
      return std::string(folder.substr(slash + 1));
    }
    std::string_view best;
    for (const TorchtitanFlavor& f : torchtitan_flavors()) {
      if (function.starts_with(f.model) && f.model.size() > best.size()) best = f.model;
    }
    return best.empty() ? function : std::string(best);
  }

  Configuration evaluate(const Function& f, int depth) {
    constexpr int kDeepestCalls = 20, kMostCalls = 100;
    Configuration all;
    if (depth > kDeepestCalls || ++calls_ > kMostCalls || f.takes_arguments) {
      refuse(f.line, "'" + f.name + "' is no configuration by itself");
      return all;
    }
    std::map<std::string, PythonValue> locals;
    const std::size_t indent = f.body.empty() ? 0 : f.body.front().indent;
    for (const PythonStatement& s : f.body) {
      const std::string_view own = text_of(s);
      if (s.indent > indent) {  // of a condition or a loop
        if (own.starts_with("config.") && python_assignment(text_, s) != std::string_view::npos) {
          refuse(s.line, "only Python knows whether this is done: " + std::string(own));
        }
        continue;
      }
      if (own.starts_with("return")) {
        const PythonValue value = read_python_value(text_, s.begin + 6, s.end, s.line);
        if (value.kind == Kind::kCall) take_configuration(value, locals, depth, all);
        return all;
      }
      const std::size_t equals = python_assignment(text_, s);
      if (equals == std::string_view::npos) {
        note_call(s);
        continue;
      }
      const std::string left = read_python_value(text_, s.begin, equals).text;
      const PythonValue value = read_python_value(text_, equals + 1, s.end, s.line);
      if (left.starts_with("config.")) {
        take_field(left.substr(7), value, locals, all);
      } else if (left == "config" && value.kind == Kind::kCall) {
        take_configuration(value, locals, depth, all);
      } else {
        locals[left] = value;
      }
    }
    return all;
  }

  // "enable_fused_swiglu(config)" and "config.override.imports.append(...)".
  void note_call(const PythonStatement& s) {
    const std::string_view own = text_of(s);
    for (const std::string_view word :
         {"assert", "from ", "import ", "if ", "for ", "else", "pass"}) {
      if (own.starts_with(word)) return;
    }
    if (own.find("config") == own.npos) return;
    notes_.push_back(scalar(std::string(own.substr(0, own.find('\n'))), s.line, true));
  }

  // Trainer.Config(...), or another function of the file.
  void take_configuration(const PythonValue& call, const std::map<std::string, PythonValue>& locals,
                          int depth, Configuration& all) {
    if (call.text.ends_with(".Config")) {
      for (const auto& [name, value] : call.keywords) take_field(name, value, locals, all);
      return;
    }
    const Function* other = find(call.text);
    if (other == nullptr || !call.items.empty() || !call.keywords.empty()) {
      refuse(call.line, "only Python knows what '" + call.text + "' returns",
             "a configuration whose fields are stated is read");
      return;
    }
    all = evaluate(*other, depth + 1);
  }

  [[nodiscard]] static const PythonValue& resolved(
      const PythonValue& value, const std::map<std::string, PythonValue>& locals) {
    if (value.kind != Kind::kName) return value;
    const auto found = locals.find(value.text);
    return found != locals.end() ? found->second : value;
  }

  void take_field(const std::string& path, const PythonValue& given,
                  const std::map<std::string, PythonValue>& locals, Configuration& all) {
    const PythonValue& value = resolved(given, locals);
    const std::string section = path.substr(0, path.find('.'));
    if (path == "model_spec") return take_model(value, all);
    if (path == "activation_checkpoint") return take_recomputation(value, all);
    if (path == "loss") {
      all["loss.chunked"] =
          scalar(value.text.find("Chunked") != std::string::npos ? "true" : "false", value.line);
      return;
    }
    if (path == section && value.kind == Kind::kCall) {
      erase_section(all, section);
      for (const auto& [name, field] : value.keywords) {
        take_literal(section + "." + name, section, resolved(field, locals), all);
      }
      if (section == "optimizer" && value.text != "default_adamw") {
        all["optimizer.made_by"] = scalar(value.text, value.line, true);
      }
      return;
    }
    take_literal(path, section, value, all);
  }

  void take_literal(const std::string& path, const std::string& section, const PythonValue& value,
                    Configuration& all) {
    if (std::optional<YamlNode> node = literal(value)) {
      if (node->kind == YamlNode::Kind::kNull) {
        all.erase(path);
      } else {
        all[path] = *std::move(node);
      }
      return;
    }
    if (std::find(kDeciding.begin(), kDeciding.end(), section) == kDeciding.end()) return;
    refuse(value.line, "only Python knows the value of '" + path + "'",
           "read a script that states it as --" + path + ", or give the model and --strategy");
  }

  void take_model(const PythonValue& call, Configuration& all) {
    if (call.kind != Kind::kCall || call.text != "model_registry" || call.items.empty() ||
        call.items.front().kind != Kind::kText) {
      return refuse(call.line, "a model is model_registry(\"FLAVOR\", ...)",
                    "--model says another");
    }
    erase_section(all, "model");
    all["model.flavor"] = scalar(call.items.front().text, call.line, true);
    YamlNode converters;
    converters.kind = YamlNode::Kind::kSequence;
    converters.line = call.line, converters.column = 1;
    if (const PythonValue* list = call.keyword("converters")) {
      for (const PythonValue& item : list->items) {
        std::string name = item.text.substr(0, item.text.find("Converter"));
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
          return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        });
        if (name.empty() || name.starts_with("lora") || name.starts_with("nvfp4")) {
          refuse(item.line, "a model changed by " + item.text + " is not read");
        }
        converters.items.push_back(scalar(name, item.line, true));
      }
    }
    if (!converters.items.empty()) all["model.converters"] = std::move(converters);
    if (const PythonValue* backend = call.keyword("moe_comm_backend")) {
      all["parallelism.expert_parallel_comm_backend"] = scalar(backend->text, backend->line, true);
    }
    if (const PythonValue* mtp = call.keyword("num_mtp_layers")) {
      refuse(mtp->line, "layers of multi-token prediction are not read", "--model says them");
    }
  }

  // torchtitan/distributed/activation_checkpoint.py.
  void take_recomputation(const PythonValue& value, Configuration& all) {
    const std::string_view kind = value.text;
    std::string mode = "selective";
    if (kind == "None") {
      mode = "none";
    } else if (kind.starts_with("FullAC")) {
      mode = "full";
    } else if (kind.starts_with("MemoryBudgetAC")) {
      mode = "memory_budget";
    } else if (!kind.starts_with("SelectiveAC")) {
      refuse(value.line, "there is no recomputation '" + std::string(kind) + "'",
             "None, SelectiveAC, FullAC or MemoryBudgetAC");
    }
    all["activation_checkpoint.mode"] = scalar(mode, value.line, true);
  }

  YamlNode tree(Configuration& all, int line) {
    // What torchtitan's defaults are now (torchtitan/config/configs.py, trainer.py).
    all.try_emplace("activation_checkpoint.mode", scalar("selective", line, true));
    all.try_emplace("activation_checkpoint.selective_ac_option", scalar("op", line, true));
    all.try_emplace("training.num_tokens_per_microbatch_per_dp_rank", scalar("16384", line));
    all.try_emplace("training.max_context_length", scalar("2048", line));
    YamlNode root;
    root.kind = YamlNode::Kind::kMap;
    const auto child = [](YamlNode& map, const std::string& name, int where) -> YamlNode& {
      // Paths come sorted: a section's stand together.
      if (!map.entries.empty() && map.entries.back().first.text == name) {
        return map.entries.back().second;
      }
      YamlNode value;
      value.kind = YamlNode::Kind::kMap;
      value.line = where, value.column = 1;
      map.entries.push_back({scalar(name, where), std::move(value)});
      return map.entries.back().second;
    };
    for (auto& [path, value] : all) {
      YamlNode* at = &root;
      std::size_t begin = 0;
      for (std::size_t dot = path.find('.'); dot != std::string::npos;
           dot = path.find('.', begin)) {
        at = &child(*at, path.substr(begin, dot - begin), value.line);
        begin = dot + 1;
      }
      const int where = value.line;
      at->entries.push_back({scalar(path.substr(begin), where), std::move(value)});
    }
    if (!notes_.empty()) {
      YamlNode list;
      list.kind = YamlNode::Kind::kSequence;
      list.items = notes_;
      list.line = notes_.front().line, list.column = 1;
      root.entries.push_back({scalar("not_understood", list.line), std::move(list)});
    }
    return root;
  }

  const NamedText& file_;
  const std::string& wanted_;
  std::string text_;
  std::vector<Function> functions_;
  std::vector<YamlNode> notes_;
  Diagnostics problems_;
  int calls_ = 0;
};

}  // namespace

bool is_torchtitan_python(std::string_view text) {
  return text.find("Trainer.Config") != std::string_view::npos &&
         text.find("def ") != std::string_view::npos;
}

Result<YamlNode> read_torchtitan_python(const NamedText& file, const std::string& config) {
  return Reader(file, config).read();
}

}  // namespace meshplan

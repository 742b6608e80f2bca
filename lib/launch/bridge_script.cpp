#include "launch/bridge_script.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "io/yaml_tree.hpp"
#include "launch/bridge_config.hpp"
#include "launch/bridge_precision.hpp"
#include "launch/shell.hpp"

namespace meshplan {
namespace {

// "model.tensor_model_parallel_size=2", with Hydra's "+" before what a recipe lacks.
struct Override {
  std::string path, value;
};

// Sections of which no field changes time or memory of a step.
bool is_beside_training(std::string_view section) {
  constexpr auto kBeside = std::to_array<std::string_view>(
      {"checkpoint", "logger", "scheduler", "rng", "tokenizer", "profiling", "rerun_state_machine",
       "straggler", "nvrx_straggler", "ft", "inprocess_restart", "validation", "tensor_inspect"});
  return std::find(kBeside.begin(), kBeside.end(), section) != kBeside.end();
}

std::optional<Override> override_of(std::string_view word) {
  while (word.starts_with('+')) word.remove_prefix(1);
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || word.starts_with('-')) return std::nullopt;
  const std::string_view path = word.substr(0, equals);
  const bool upper = path.starts_with("env_vars.");
  const bool named = std::all_of(path.begin(), path.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           (upper && c >= 'A' && c <= 'Z');
  });
  const bool whole = path == "mixed_precision" || path == "comm_overlap" || path == "peft";
  if (!named || (path.find('.') == std::string_view::npos && !whole)) return std::nullopt;
  return Override{std::string(path), std::string(word.substr(equals + 1))};
}

void set_lines(YamlNode& node, int line, int column) {
  node.line = line, node.column = column;
  for (YamlNode& item : node.items) set_lines(item, line, column);
  for (YamlEntry& entry : node.entries) {
    set_lines(entry.first, line, column);
    set_lines(entry.second, line, column);
  }
}

YamlNode scalar(const std::string& text) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.text = text;
  return node;
}

// A value as Hydra reads it, which is nearly as YAML has it.
YamlNode value_node(const std::string& text, const ShellWord& word) {
  const Result<YamlNode> root = parse_yaml("v: " + text + "\n", "");
  const YamlNode* value = root ? root->find("v") : nullptr;
  YamlNode node = value != nullptr ? *value : scalar(text);
  set_lines(node, word.line, word.column);
  return node;
}

// The value at a dotted path below `root`, made where it is missing.
void set_at(YamlNode& root, const std::string& path, YamlNode value) {
  YamlNode* at = &root;
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = path.find('.', begin);
    const std::string key = path.substr(begin, dot - begin);
    at->kind = YamlNode::Kind::kMap;
    auto entry = std::find_if(at->entries.begin(), at->entries.end(),
                              [&](const YamlEntry& e) { return e.first.text == key; });
    if (entry == at->entries.end()) {
      YamlNode name = scalar(key);
      name.line = value.line, name.column = value.column;
      at->entries.push_back({std::move(name), {}});
      entry = at->entries.end() - 1;
    }
    if (dot == std::string::npos) {
      entry->second = std::move(value);
      return;
    }
    at = &entry->second;
    begin = dot + 1;
  }
}

// The script asks for no recipe of precisions, so that what the model and others say of it stays.
bool without_precision(const ShellScript& script) {
  std::string last;
  for (const ShellWord& word : script.words) {
    const std::optional<Override> set = override_of(word.text);
    if (set && set->path.starts_with("mixed_precision")) last = set->path + "=" + set->value;
  }
  return last == "mixed_precision=null";
}

const ShellWord* recipe_word(const ShellScript& script) {
  for (std::size_t i = 0; i + 1 < script.words.size(); ++i) {
    if (script.words[i].text == "--recipe") return &script.words[i + 1];
  }
  return nullptr;
}

}  // namespace

bool starts_bridge_recipe(const ShellScript& script) {
  if (recipe_word(script) != nullptr) return true;
  return std::any_of(script.words.begin(), script.words.end(), [](const ShellWord& word) {
    const std::optional<Override> set = override_of(word.text);
    // NeMo 1 has a section `model` too, but none of these.
    return set && (set->path.starts_with("train.") || set->path.starts_with("ddp."));
  });
}

std::string bridge_recipe_model(const ShellScript& script) {
  const ShellWord* word = recipe_word(script);
  if (word == nullptr || !word->unknown.empty()) return {};
  std::string name = word->text.substr(word->text.rfind('.') + 1);
  // scripts/training/run_recipe.py: functions of megatron.bridge.recipes, as "llama31_8b_pretrain_
  // 2gpu_h100_bf16_config", in older releases "llama31_8b_pretrain_config".
  std::size_t end = name.size();
  for (const std::string_view task :
       {"_config", "_pretrain", "_sft", "_peft", "_finetune", "_lora"}) {
    end = std::min(end, name.find(task));
  }
  name.resize(std::min(end, name.size()));
  return name;
}

Result<MegatronRun> read_bridge_script(const NamedText& file, const RunContext& context) {
  constexpr std::size_t kMostOverrides = 1000;
  const ShellScript script = read_shell(file.text, context.shell);
  Diagnostics problems;
  if (!context.model) {
    problems.push_back(
        error_at({file.name}, "the recipe decides the model, and it is not known here",
                 "--model NAME, or --set RECIPE=NAME with that of a model that ships"));
  }
  YamlNode root;
  root.kind = YamlNode::Kind::kMap;
  std::vector<ReadOption> beside;
  std::size_t count = 0;
  for (const ShellWord& word : script.words) {
    const std::optional<Override> set = override_of(word.text);
    if (!set) continue;
    if (++count > kMostOverrides) {
      problems.push_back(error_at({file.name, word.line, word.column, 1}, "too many overrides"));
      break;
    }
    const std::string section = set->path.substr(0, set->path.find('.'));
    if (is_beside_training(section)) {
      beside.push_back({set->path, set->value, OptionEffect::kNoEffect,
                        "Megatron-Bridge's logging, checkpoints and schedules", word.line});
    } else if (is_precision_field(set->path) && !without_precision(script)) {
      beside.push_back({set->path, set->value, OptionEffect::kNoEffect,
                        "the fields of mixed_precision, this script's or its recipe's, replace it",
                        word.line});
    } else if (!word.unknown.empty()) {
      problems.push_back(error_at({file.name, word.line, word.column, 1},
                                  "nothing says what '" + set->path + "' is: " + word.unknown,
                                  "--set " + word.unknown + "=VALUE"));
    } else {
      set_at(root, set->path, value_node(set->value, word));
    }
  }
  const ShellWord* recipe = recipe_word(script);
  const bool adapts = recipe != nullptr && (recipe->text.find("peft") != std::string::npos ||
                                            recipe->text.find("lora") != std::string::npos);
  if (adapts && root.find("peft") == nullptr) {
    problems.push_back(error_at({file.name, recipe->line, recipe->column, 1},
                                "the recipe trains adapters, and their rank is not known here",
                                "state peft.dim, as in peft.dim=16"));
  }
  ImportedRun launched;
  const Result<std::int64_t> world = launched_world(script, file.name, &launched);
  if (!world && context.gpus == 0) {
    problems.insert(problems.end(), world.errors().begin(), world.errors().end());
  }
  const Result<NamedText> list = bridge_overrides(root, file.name);
  if (!list) problems.insert(problems.end(), list.errors().begin(), list.errors().end());
  if (!problems.empty()) return problems;
  RunContext own = context;
  if (own.gpus == 0) own.gpus = *world;
  own.shell = {};
  std::map<std::string, std::string> variables;
  for (const auto& [name, word] : script.variables) {
    if (word.unknown.empty()) variables[name] = word.text;
  }
  // Behind the recipe's own: a recipe sets what nobody has (training/config.py, setdefault).
  const std::string text = list->text + shell_assignments(variables);
  Result<MegatronRun> read = read_megatron_run(text, file.name, own);
  if (!read) return read.errors();
  MegatronRun run = std::move(read).value();
  if (context.gpus == 0) run.world_source = launched.world_source;
  run.options.insert(run.options.end(), beside.begin(), beside.end());
  run.assumed.push_back({"what the script leaves to its recipe:", "Megatron-LM's defaults",
                         "the recipe's own values are not known here"});
  return run;
}

}  // namespace meshplan

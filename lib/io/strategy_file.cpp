#include "io/strategy_file.hpp"

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "io/key_values.hpp"
#include "io/load.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

// "overlap: {tp: true}" -> "overlap.tp: true". A list of layers as `recompute` is short for
// `recompute_layers`.
void flatten(const YamlNode& map, const std::string& prefix, YamlNode& flat,
             std::set<std::string>& seen, Document& d) {
  for (const auto& [key, value] : map.entries) {
    YamlNode name = key;
    name.text = prefix + key.text;
    if (value.kind == YamlNode::Kind::kMap) {
      flatten(value, name.text + ".", flat, seen, d);
      continue;
    }
    if (name.text == "recompute" && value.kind == YamlNode::Kind::kSequence) {
      name.text = "recompute_layers";
    }
    if (!seen.insert(name.text).second) {
      d.report(name, name.text, "key '" + name.text + "' appears twice");
    } else {
      flat.entries.push_back({std::move(name), value});
    }
  }
}

YamlNode map_of(const std::vector<KeyItem>& items) {
  YamlNode map;
  map.kind = YamlNode::Kind::kMap;
  map.line = map.column = 1;
  for (const KeyItem& item : items) map.entries.push_back({item.key, item.values.front()});
  return map;
}

// On the command line a key sets one value.
void refuse_limits(const std::vector<KeyItem>& items, Document& d) {
  for (const KeyItem& item : items) {
    if (item.op != "=" || item.values.size() > 1) {
      d.report(item.key, item.key.text, "'" + item.key.text + "' needs exactly one value",
               "write key=value");
    }
  }
}

Result<StrategyText> finish(Document& d, const Strategy& defaults) {
  StrategyText result = read_strategy(d, defaults);
  if (!d.ok()) return d.diagnostics();
  return result;
}

// Keys that earlier versions wrote into every result: their only value still reads, others do not.
void refuse_removed(MapReader& r) {
  constexpr std::string_view kKey = "kernels.message_launches";
  double value = 0;
  if (r.read(std::string(kKey), value) && value != 0) {
    r.report(std::string(kKey),
             "'" + std::string(kKey) + "' is no longer a key: no framework set it",
             "leave it out, or state the host's time by kernels.collective_launches");
  }
}

// What people ask for that no framework here has: DeepSpeed's offload_param and PyTorch's
// CPUOffloadPolicy take all weights, Megatron-Core none; KTransformers computes experts on the
// host.
void refuse_unbuilt(MapReader& r) {
  const auto is_asked = [&](std::string_view key) {
    const auto& entries = r.node().entries;
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& entry) { return entry.first.text == key; });
  };
  for (const char* const key : {"offload.expert_weights", "offload.experts"}) {
    if (!is_asked(key) || !r.has(key)) continue;
    r.report(key,
             "no framework here keeps the experts' weights alone on the host: not Megatron-Core, "
             "DeepSpeed, PyTorch's FSDP or torchtitan",
             "'offload.weights=true' with 'offload.optimizer=true' and 'zero=3' keeps all weights "
             "there (DeepSpeed, FSDP, torchtitan); KTransformers, which has no exporter here, the "
             "experts'");
  }
}

// The preset that the text names; a release alone is one of the framework that `s` is for.
void read_preset(MapReader& r, Strategy& s) {
  std::string framework(name_of(s.framework)), release;
  const bool named = r.read("framework", framework), dated = r.read("release", release);
  if (!named && !dated) return;
  const Result<const Preset*> preset = find_preset(framework, release);
  if (preset) {
    s = with_preset(s, **preset);
    return;
  }
  // A file of presets has positions of its own; an unknown name is at fault here.
  const Diagnostic& first = preset.errors().front();
  if (!first.where.file.empty()) {
    r.document().add(preset.errors());
  } else {
    r.report(dated && find_preset(framework) ? "release" : "framework", first.message, first.hint);
  }
}

bool is_text(const std::string& text_or_path) {
  std::error_code failure;
  return text_or_path.find('=') != std::string::npos &&
         !std::filesystem::exists(text_or_path, failure);
}

template <class Module>
bool read_modules(Document& d, const std::string& key, const YamlNode& node,
                  ModuleSet<Module>& target) {
  ModuleSet<Module> modules;
  const auto add = [&](const YamlNode& item) {
    Module module{};
    if (!read_value(d, key, item, module)) return false;
    modules.add(module);
    return true;
  };
  if (node.kind != YamlNode::Kind::kSequence) {
    if (!add(node)) return false;
  } else if (!std::all_of(node.items.begin(), node.items.end(), add)) {
    return false;
  }
  target = modules;
  return true;
}

}  // namespace

bool read_value(Document& d, const std::string& key, const YamlNode& node, RankOrder& target) {
  const std::string hint = "for example " + key_text(kDefaultOrder);
  std::string text;
  if (!read_value(d, key, node, text)) return false;
  RankOrder order{};
  std::size_t filled = 0;
  bool good = true;
  for (std::size_t begin = 0; begin <= text.size() && good;) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    const std::optional<Axis> axis =
        from_name<Axis>(std::string_view(text).substr(begin, end - begin));
    good = axis && filled < order.size() &&
           std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(filled), *axis) ==
               order.begin() + static_cast<std::ptrdiff_t>(filled);
    if (good) order[filled++] = *axis;
    begin = end + 1;
  }
  if (!good || filled != order.size()) {
    d.report(node, key, "'" + key + "' must list each of tp, cp, ep, dp and pp once", hint);
    return false;
  }
  target = order;
  return true;
}

bool read_value(Document& d, const std::string& key, const YamlNode& node,
                RecomputeModules& target) {
  return read_modules(d, key, node, target);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node,
                CudaGraphModules& target) {
  return read_modules(d, key, node, target);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, OffloadModules& target) {
  return read_modules(d, key, node, target);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, FrozenParts& target) {
  return read_modules(d, key, node, target);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, LoraTargets& target) {
  std::vector<YamlNode> names{node};
  if (node.kind == YamlNode::Kind::kSequence) names = node.items;
  LoraTargets all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string place =
        node.kind == YamlNode::Kind::kSequence ? key + "[" + std::to_string(i) + "]" : key;
    std::string text;
    if (!read_value(d, place, names[i], text)) return false;
    const LoraTargets one = lora_targets(text);
    if (one.empty()) {
      const std::optional<std::string> near = nearest(text, lora_target_names());
      d.report(names[i], place, "unknown layer '" + text + "' for an adapter",
               near ? "did you mean '" + *near + "'?"
                    : "linear_qkv, linear_proj, linear_fc1, linear_fc2, PEFT's names of single "
                      "projections, or all-linear");
      return false;
    }
    all.insert(one);
  }
  target = all;
  return true;
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, Framework& target) {
  std::string text;
  if (!read_value(d, key, node, text)) return false;
  const Result<const Preset*> preset = find_preset(text);
  if (!preset) {
    d.report(node, key, preset.errors().front().message, preset.errors().front().hint);
    return false;
  }
  const Preset& row = **preset;
  if (row.alias == text) {
    d.report(node, key, "'" + text + "' is a release of " + row.framework_name,
             "write framework=" + row.framework_name + ",release=" + row.release_name);
    return false;
  }
  target = row.framework();
  return true;
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, Release& target) {
  std::string text;
  if (!read_value(d, key, node, text)) return false;
  const Result<std::vector<const Preset*>> all = all_presets();
  if (!all) {
    d.add(all.errors());
    return false;
  }
  const auto row = std::find_if(all->begin(), all->end(),
                                [&](const Preset* p) { return p->release_name == text; });
  if (row == all->end()) {
    d.report(node, key, "no framework has a release '" + text + "'",
             "'meshplan list frameworks' shows them");
    return false;
  }
  target = (*row)->release();
  return true;
}

StrategyText read_strategy(Document& document, const Strategy& defaults) {
  YamlNode flat = document.root();
  flat.entries.clear();
  std::set<std::string> seen;
  flatten(document.root(), "", flat, seen, document);
  StrategyText result{defaults, {}};
  MapReader r(document, flat);
  if (document.root().kind != YamlNode::Kind::kMap) return result;
  read_preset(r, result.strategy);
  result.strategy.dp = 0;
  for_each_key(result.strategy, [&](std::string_view key, auto& member) {
    using T = std::remove_cvref_t<decltype(member)>;
    if constexpr (std::is_base_of_v<LastingName, T>) {
      if (r.has(key)) result.given.emplace(key);
    } else {
      if (r.read(key, member)) result.given.emplace(key);
    }
  });
  if (!result.given.contains("kernels.inplace_cross_entropy")) {
    result.strategy = as_carried(result.strategy);
  }
  refuse_removed(r);
  refuse_unbuilt(r);
  r.refuse_unknown();
  // Only what the text states can be wrong here; the rest may come from other flags.
  Findings stated;
  const Findings all = findings(result.strategy);
  for (const Finding& finding : all.all()) {
    const bool is_stated = result.given.contains(finding.keys.front());
    if (is_stated) stated.error(finding.keys, finding.diagnostic.message, finding.diagnostic.hint);
  }
  document.add(stated);
  return result;
}

Result<StrategyText> read_strategy(const std::string& text_or_path, const Strategy& defaults,
                                   const std::string& flag) {
  if (is_text(text_or_path)) {
    const Result<std::vector<KeyItem>> items = parse_key_items(text_or_path, flag);
    if (!items) return items.errors();
    Document document(map_of(*items), text_or_path, flag);
    refuse_limits(*items, document);
    return finish(document, defaults);
  }
  const std::string hint = "write key=value,key=value,... or the path of a file";
  if (text_or_path.empty()) return error_at({flag}, "the strategy is empty", hint);
  const Result<std::string> text = read_text_file(text_or_path);
  if (!text) {
    Diagnostic d = text.errors().front();
    d.hint = hint;
    return d;
  }
  Document document(*text, text_or_path);
  if (!document.ok()) return document.diagnostics();
  return finish(document, defaults);
}

Result<Strategy> load_strategy(const std::string& text_or_path, const Strategy& defaults) {
  Result<StrategyText> read = read_strategy(text_or_path, defaults);
  if (!read) return read.errors();
  return std::move(read).value().strategy;
}

}  // namespace meshplan

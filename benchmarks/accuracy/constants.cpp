#include "constants.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "base/quantity.hpp"
#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "spec/strategy_keys.hpp"
#include "yaml_json.hpp"

namespace meshplan::accuracy {
namespace {

using json = nlohmann::json;

constexpr std::string_view kSustained = "gemm.sustained.";

struct DeviceKey {
  std::string_view key;
  double (*read)(const DeviceSpec&);
  void (*write)(DeviceSpec&, double);
};

constexpr std::array kDeviceKeys{
    DeviceKey{"gemm.k_half", [](const DeviceSpec& d) { return d.gemm.k_half; },
              [](DeviceSpec& d, double x) { d.gemm.k_half = x; }},
    DeviceKey{"gemm.output_exposed", [](const DeviceSpec& d) { return d.gemm.output_exposed; },
              [](DeviceSpec& d, double x) { d.gemm.output_exposed = x; }},
    DeviceKey{"memory_efficiency", [](const DeviceSpec& d) { return d.memory_efficiency; },
              [](DeviceSpec& d, double x) { d.memory_efficiency = x; }},
    DeviceKey{"attention.forward", [](const DeviceSpec& d) { return d.attention.forward; },
              [](DeviceSpec& d, double x) { d.attention.forward = x; }},
    DeviceKey{"attention.backward", [](const DeviceSpec& d) { return d.attention.backward; },
              [](DeviceSpec& d, double x) { d.attention.backward = x; }},
    DeviceKey{"attention.seq_half", [](const DeviceSpec& d) { return d.attention.seq_half; },
              [](DeviceSpec& d, double x) { d.attention.seq_half = x; }},
    DeviceKey{"overlap_slowdown", [](const DeviceSpec& d) { return d.overlap_slowdown; },
              [](DeviceSpec& d, double x) { d.overlap_slowdown = x; }},
    DeviceKey{"kernel_overhead", [](const DeviceSpec& d) { return d.kernel_overhead.si(); },
              [](DeviceSpec& d, double x) { d.kernel_overhead = Seconds{x}; }},
    DeviceKey{"launch_gap", [](const DeviceSpec& d) { return d.launch_gap.si(); },
              [](DeviceSpec& d, double x) { d.launch_gap = Seconds{x}; }},
    DeviceKey{"collective_gap", [](const DeviceSpec& d) { return d.collective_gap.si(); },
              [](DeviceSpec& d, double x) { d.collective_gap = Seconds{x}; }}};

const DeviceKey* device_key(std::string_view key) {
  const auto* const found = std::find_if(kDeviceKeys.begin(), kDeviceKeys.end(),
                                         [&](const DeviceKey& row) { return row.key == key; });
  return found == kDeviceKeys.end() ? nullptr : found;
}

std::optional<std::size_t> sustained_precision(std::string_view key) {
  if (!key.starts_with(kSustained)) return std::nullopt;
  for (const auto& row : NameTable<Precision>::rows) {
    if (row.name == key.substr(kSustained.size())) return static_cast<std::size_t>(row.value);
  }
  return std::nullopt;
}

double device_value(const DeviceSpec& d, const std::string& key) {
  if (const auto precision = sustained_precision(key)) return d.gemm.sustained[*precision];
  return device_key(key)->read(d);
}

void set_device_value(DeviceSpec& d, const std::string& key, double value) {
  if (const auto precision = sustained_precision(key)) {
    d.gemm.sustained[*precision] = value;
  } else {
    device_key(key)->write(d, value);
  }
}

// Calls use(member) for the number of the strategy that `key` names.
template <class S, class Use>
void with_number(S& s, std::string_view key, Use&& use) {
  for_each_key(s, [&](std::string_view name, auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, double>) {
      if (name == key) use(member);
    }
  });
}

double preset_value(const std::string& framework, const std::string& key) {
  const Strategy preset = with_preset(Strategy{}, known_preset(framework));
  double value = 0;
  with_number(preset, key, [&](double x) { value = x; });
  return value;
}

bool names_device(const FittedConstant& constant, const Task& task) {
  return std::find(constant.devices.begin(), constant.devices.end(), task.cluster.device.name) !=
         constant.devices.end();
}

// --- reading the table

// Collects what is wrong with one entry.
class Entry {
 public:
  Entry(const json& node, std::string file, Diagnostics& problems)
      : node_(node), file_(std::move(file)), problems_(problems) {
    name_ = words("name");
  }

  void fail(const std::string& what, std::string hint = {}) {
    problems_.push_back(error_at({file_}, "constant '" + name_ + "': " + what, std::move(hint)));
  }

  std::string words(const std::string& key) {
    if (node_.contains(key) && node_[key].is_string()) return node_[key].get<std::string>();
    fail("'" + key + "' is missing or not a text");
    return {};
  }

  std::vector<std::string> list(const std::string& key) {
    std::vector<std::string> all;
    if (!node_.contains(key)) return all;
    for (const json& item : node_[key]) {
      if (item.is_string()) {
        all.push_back(item.get<std::string>());
      } else {
        fail("'" + key + "' is not a list of names");
      }
    }
    return all;
  }

  // "30 us" in seconds, or a plain number.
  double value(const json& node, const std::string& key) {
    if (node.is_number()) return node.get<double>();
    if (node.is_string()) {
      const Result<Seconds> time = parse_time(node.get<std::string>());
      if (time) return time->si();
    }
    fail("'" + key + "' must be a number or a time");
    return 0;
  }

  [[nodiscard]] const json& node() const { return node_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  const json& node_;
  std::string file_, name_;
  Diagnostics& problems_;
};

void check_keys(const FittedConstant& constant, Entry& entry) {
  const bool of_device = constant.framework.empty();
  const std::vector<std::string> known =
      of_device ? device_constant_keys() : framework_constant_keys();
  if (constant.keys.empty()) entry.fail("'keys' is missing");
  for (const std::string& key : constant.keys) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      entry.fail("'" + key + "' is no key of a " + (of_device ? "device" : "framework"),
                 "one of " + join_words(known));
  }
}

FittedConstant read_constant(Entry& entry) {
  const json& node = entry.node();
  FittedConstant c;
  c.name = entry.name();
  c.devices = entry.list("devices");
  c.keys = entry.list("keys");
  c.because = entry.words("because");
  c.fitted_to = entry.words("fitted_to");
  if (node.contains("like")) c.like = entry.words("like");
  if (node.contains("framework")) {
    c.framework = entry.words("framework");
    const Result<const Preset*> preset = find_preset(c.framework);
    if (!preset) entry.fail(preset.errors().front().message, preset.errors().front().hint);
  }
  if (c.devices.empty() == c.framework.empty()) entry.fail("give either 'devices' or 'framework'");
  check_keys(c, entry);
  const json range = node.value("range", json::array());
  if (!range.is_array() || range.size() != 2 || !node.contains("uninformed")) {
    entry.fail("'uninformed' and a 'range' of two values are needed");
    return c;
  }
  c.uninformed = entry.value(node["uninformed"], "uninformed");
  c.low = entry.value(range[0], "range");
  c.high = entry.value(range[1], "range");
  if (!(c.low < c.high && c.low <= c.uninformed && c.uninformed <= c.high))
    entry.fail("'uninformed' must lie inside 'range', and the range must not be empty");
  return c;
}

void check_likenesses(const std::vector<FittedConstant>& all, const std::string& file,
                      Diagnostics& problems) {
  for (const FittedConstant& c : all) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const FittedConstant& other) {
      return other.name == c.like && other.name != c.name;
    });
    if (!c.like.empty() && !known)
      problems.push_back(
          error_at({file}, "constant '" + c.name + "': 'like' must name another constant"));
  }
}

}  // namespace

std::vector<std::string> device_constant_keys() {
  std::vector<std::string> keys;
  for (const auto& row : NameTable<Precision>::rows)
    keys.push_back(std::string(kSustained) + std::string(row.name));
  for (const DeviceKey& row : kDeviceKeys) keys.emplace_back(row.key);
  return keys;
}

std::vector<std::string> framework_constant_keys() {
  std::vector<std::string> keys;
  const Strategy s;
  for_each_key(s, [&](std::string_view name, const auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, double>)
      keys.emplace_back(name);
  });
  return keys;
}

Result<std::vector<FittedConstant>> parse_constants(const std::string& text,
                                                    const std::string& file) {
  const Result<json> tree = yaml_as_json(text, file);
  if (!tree) return tree.errors();
  if (!tree->is_object() || !tree->contains("constants") || !(*tree)["constants"].is_array())
    return error_at({file}, "a list 'constants' is missing");
  Diagnostics problems;
  std::vector<FittedConstant> all;
  for (const json& node : (*tree)["constants"]) {
    if (!node.is_object()) {
      problems.push_back(error_at({file}, "every constant is a map"));
      continue;
    }
    Entry entry(node, file, problems);
    all.push_back(read_constant(entry));
  }
  check_likenesses(all, file, problems);
  if (has_errors(problems)) return problems;
  return all;
}

std::optional<double> shipped_value(const FittedConstant& constant, const Task& task) {
  if (constant.framework.empty()) {
    if (!names_device(constant, task)) return std::nullopt;
    return device_value(task.cluster.device, constant.keys.front());
  }
  for (const Candidate& candidate : task.mapped.candidates) {
    if (code_name(candidate.strategy) != constant.framework) continue;
    const double preset = preset_value(constant.framework, constant.keys.front());
    bool follows = false;
    with_number(candidate.strategy, constant.keys.front(),
                [&](double x) { follows = x == preset; });
    if (follows) return preset;
  }
  return std::nullopt;
}

void set_constant(const FittedConstant& constant, double value, Task& task) {
  if (constant.framework.empty()) {
    for (const std::string& key : constant.keys) set_device_value(task.cluster.device, key, value);
    return;
  }
  for (Candidate& candidate : task.mapped.candidates) {
    for (const std::string& key : constant.keys)
      with_number(candidate.strategy, key, [&](double& x) { x = value; });
  }
}

}  // namespace meshplan::accuracy

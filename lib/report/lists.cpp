#include "report/lists.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "model/parameters.hpp"
#include "schedule/traits.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

std::string count(std::int64_t n) { return human_count(static_cast<double>(n)); }

// The overlaps that a preset switches on, by their keys.
std::string overlaps(const Strategy& s) {
  constexpr std::string_view kPrefix = "overlap.";
  std::string names;
  for (const std::string_view key : strategy_keys()) {
    if (!key.starts_with(kPrefix) || value_text(s, key) != key_text(true)) continue;
    names += (names.empty() ? "" : ", ") + std::string(key.substr(kPrefix.size()));
  }
  return names.empty() ? "none" : names;
}

}  // namespace

std::string model_list(std::span<const ModelSpec> all, const TextOptions& options) {
  Table table({{"model", Align::kLeft},
               {"parameters"},
               {"active"},
               {"layers"},
               {"hidden"},
               {"attention", Align::kLeft},
               {"experts"},
               {"max seq"}});
  for (const ModelSpec& m : all) {
    const ParameterCount n = parameter_count(m);
    table.add_row({m.name, count(n.total), count(n.active), std::to_string(m.num_layers),
                   std::to_string(m.hidden_size), std::string(name_of(m.attention)),
                   m.moe ? std::to_string(m.moe->num_experts) : "-",
                   with_thousands(m.max_seq_length)});
  }
  return table.text(options);
}

std::string device_list(std::span<const DeviceSpec> all, const TextOptions& options) {
  Table table({{"device", Align::kLeft},
               {"architecture", Align::kLeft},
               {"memory"},
               {"bandwidth"},
               {"16-bit peak"}});
  for (const DeviceSpec& d : all) {
    table.add_row({d.name, std::string(name_of(d.architecture)), human_bytes(d.memory),
                   human_bandwidth(d.memory_bandwidth),
                   human_rate(peak_rate(d, Precision::kBf16))});
  }
  return table.text(options);
}

std::string cluster_list(std::span<const ClusterSpec> all, const TextOptions& options) {
  Table table({{"cluster", Align::kLeft},
               {"device", Align::kLeft},
               {"nodes"},
               {"GPUs"},
               {"links, innermost first; per GPU, one direction", Align::kLeft, true}});
  for (const ClusterSpec& c : all) {
    std::string links;
    for (const LinkLevel& level : c.levels) {
      links += (links.empty() ? "" : ", ") + level.name + " " + human_bandwidth(level.bandwidth);
    }
    table.add_row(
        {c.name, c.device.name, with_thousands(c.nodes), with_thousands(num_gpus(c)), links});
  }
  return table.text(options);
}

std::string schedule_list(const TextOptions& options) {
  Table table({{"schedule", Align::kLeft},
               {"what it does", Align::kLeft, true},
               {"source", Align::kLeft, true}});
  for (const auto& row : NameTable<Schedule>::rows) {
    const ScheduleTraits& traits = traits_of(row.value);
    table.add_row({std::string(row.name), std::string(traits.fact), std::string(traits.source)});
  }
  return table.text(options);
}

std::string framework_list(std::span<const Preset* const> all, const TextOptions& options) {
  Table newest({{"framework", Align::kLeft},
                {"zero"},
                {"gradients", Align::kLeft},
                {"overlaps of its newest release", Align::kLeft, true}});
  Table releases({{"framework", Align::kLeft},
                  {"release", Align::kLeft},
                  {"date", Align::kLeft},
                  {"source", Align::kLeft, true}});
  std::string_view before;
  std::string aliases;
  for (const Preset* preset : all) {
    const Strategy s = with_preset(Strategy{}, *preset);
    const bool first = preset->framework_name != before;
    if (first) {
      newest.add_row({preset->framework_name, std::to_string(s.zero),
                      std::string(name_of(s.grad_dtype)), overlaps(s)});
    }
    releases.add_row(
        {first ? preset->framework_name : "", preset->release_name, preset->date, preset->source});
    if (!preset->alias.empty()) {
      aliases += "framework=" + preset->alias + " is framework=" + preset->framework_name +
                 ",release=" + preset->release_name + "\n";
    }
    before = preset->framework_name;
  }
  return newest.text(options) + "\n" + releases.text(options) +
         (aliases.empty() ? "" : "\n" + aliases);
}

std::string key_list(std::span<const KeyGroup> all, const TextOptions& options) {
  std::string text;
  for (const KeyGroup& group : all) {
    Table table({{"key of a " + std::string(group.of), Align::kLeft},
                 {"what it says", Align::kLeft, true}});
    for (const KeyMeaning& row : group.keys) {
      table.add_row({std::string(row.key), std::string(row.meaning)});
    }
    text += (text.empty() ? "" : "\n") + table.text(options);
  }
  return text;
}

std::string format_list(std::string_view kind, std::span<const FormatFact> all,
                        const TextOptions& options) {
  const bool limited =
      std::any_of(all.begin(), all.end(), [](const FormatFact& f) { return !f.limits.empty(); });
  std::vector<Column> columns{{std::string(kind), Align::kLeft}, {"what", Align::kLeft, true}};
  if (limited) columns.push_back({"what it cannot express", Align::kLeft, true});
  Table table(std::move(columns));
  for (const FormatFact& f : all) {
    std::vector<std::string> row{std::string(f.name), std::string(f.what)};
    if (limited) row.emplace_back(f.limits);
    table.add_row(std::move(row));
  }
  return table.text(options);
}

}  // namespace meshplan

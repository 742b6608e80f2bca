#pragma once
// What ships with the program, one line each.
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "frameworks/preset.hpp"
#include "report/table.hpp"
#include "spec/cluster.hpp"
#include "spec/key_meanings.hpp"
#include "spec/model.hpp"

namespace meshplan {

[[nodiscard]] std::string model_list(std::span<const ModelSpec> all, const TextOptions& options);
[[nodiscard]] std::string device_list(std::span<const DeviceSpec> all, const TextOptions& options);
[[nodiscard]] std::string cluster_list(std::span<const ClusterSpec> all,
                                       const TextOptions& options);
[[nodiscard]] std::string schedule_list(const TextOptions& options);
// One row per release, the newest of each framework first.
[[nodiscard]] std::string framework_list(std::span<const Preset* const> all,
                                         const TextOptions& options);

// A format that files are written in or read from.
struct FormatFact {
  std::string_view name;
  std::string_view what;
  std::string_view limits;  // what it cannot express; empty: nothing to say
};
[[nodiscard]] std::string format_list(std::string_view kind, std::span<const FormatFact> all,
                                      const TextOptions& options);

// The keys of one kind of input.
struct KeyGroup {
  std::string_view of;  // strategy, model, cluster, device
  std::span<const KeyMeaning> keys;
};
[[nodiscard]] std::string key_list(std::span<const KeyGroup> all, const TextOptions& options);

}  // namespace meshplan

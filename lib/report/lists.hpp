#pragma once
// What ships with the program, one line each.
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "report/table.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

[[nodiscard]] std::string model_list(std::span<const ModelSpec> all, const TextOptions& options);
[[nodiscard]] std::string device_list(std::span<const DeviceSpec> all, const TextOptions& options);
[[nodiscard]] std::string cluster_list(std::span<const ClusterSpec> all,
                                       const TextOptions& options);
[[nodiscard]] std::string schedule_list(const TextOptions& options);
[[nodiscard]] std::string framework_list(const TextOptions& options);

// A format that files are written in or read from.
struct FormatFact {
  std::string_view name;
  std::string_view what;
  std::string_view limits;  // what it cannot express; empty: nothing to say
};
[[nodiscard]] std::string format_list(std::string_view kind, std::span<const FormatFact> all,
                                      const TextOptions& options);

// What a pipeline schedule does and costs, and who published it.
struct ScheduleFact {
  Schedule schedule = Schedule::kGpipe;
  std::string_view fact;
  std::string_view source;
};
inline constexpr std::array kScheduleFacts{
    ScheduleFact{Schedule::kGpipe, "all forwards, then all backwards; keeps every microbatch",
                 "Huang et al. 2019 (1811.06965)"},
    ScheduleFact{
        Schedule::k1f1b,
        "alternates one forward, one backward; the bubble of gpipe, at most pp microbatches "
        "kept",
        "Narayanan et al. 2019 (PipeDream), 2021 (2104.04473)"},
    ScheduleFact{Schedule::kInterleaved,
                 "1f1b over vp chunks per rank; the bubble divided by vp, sends multiplied by vp",
                 "Narayanan et al. 2021 (2104.04473)"},
    ScheduleFact{Schedule::kZbH1,
                 "splits off weight gradients to fill the bubble; the memory of 1f1b",
                 "Qi et al. 2023 (2401.10241)"},
    ScheduleFact{Schedule::kZbV,
                 "two chunks per rank in a V; no bubble for equal passes at the memory of 1f1b",
                 "Qi et al. 2023 (2401.10241)"},
    ScheduleFact{Schedule::kDualPipe,
                 "both directions at once, every chunk held twice; meant for expert parallelism",
                 "DeepSeek-AI 2024 (2412.19437)"}};

}  // namespace meshplan

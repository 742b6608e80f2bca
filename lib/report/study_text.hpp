#pragma once
// Sweeps, fronts, sensitivities, fallbacks and goodput for people.
#include <string>

#include "report/table.hpp"
#include "spec/cluster.hpp"
#include "study/studies.hpp"

namespace meshplan {

// Which sizes were searched where none was asked for, and which of them are of interest.
[[nodiscard]] std::string sizes_text(const Sweep& sweep, Objective objective);

[[nodiscard]] std::string sweep_text(const Sweep& sweep, const ClusterSpec& c,
                                     const TextOptions& options);
[[nodiscard]] std::string pareto_text(const ParetoFront& front, const ClusterSpec& c,
                                      const TextOptions& options);
[[nodiscard]] std::string sensitivity_text(const Sensitivity& s, const TextOptions& options);
[[nodiscard]] std::string fallback_text(const FallbackBook& book, const TextOptions& options);
[[nodiscard]] std::string goodput_text(const GoodputStudy& study, const TextOptions& options);

// All that were asked for, each under its heading; empty if none.
[[nodiscard]] std::string studies_text(const Studies& studies, const ClusterSpec& c,
                                       const TextOptions& options);

// The largest value of what was maximised, and what the next one lacks.
[[nodiscard]] std::string maximum_text(const Maximum& maximum, const SearchRequest& request);

}  // namespace meshplan

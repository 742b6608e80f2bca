#pragma once
// Measured profiles for people and for programs: what was fitted and how far to trust it.
#include <span>
#include <string>

#include "report/json.hpp"
#include "report/table.hpp"

namespace meshplan {

// One row per curve: operation, level, group, sizes, latency, bandwidth, errors.
[[nodiscard]] std::string fits_text(std::span<const CollectiveFit> fits,
                                    const TextOptions& options);

// profile.schema.json: the cluster, its curves with their samples and errors, the provenance.
[[nodiscard]] std::string profile_document(const ToolInfo& tool, const ClusterSpec& c);

}  // namespace meshplan

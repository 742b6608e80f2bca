#pragma once
// Keys that measured cluster and device files share.
#include "io/yaml_reader.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

[[nodiscard]] FitErrors read_fit_errors(MapReader& r);
[[nodiscard]] Provenance read_provenance(MapReader& r);
[[nodiscard]] SeenRun read_seen_run(MapReader r);

// A device's `measured:` section stands among its sources, each key with this before it.
inline constexpr std::string_view kMeasuredSource = "measured.";
void read_measured_sources(MapReader& r, std::map<std::string, std::string>& sources);

// A map of free keys to texts.
void read_text_map(MapReader& r, std::string_view key, std::map<std::string, std::string>& target);

}  // namespace meshplan

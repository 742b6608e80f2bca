#pragma once
// Presets of frameworks as files: name, and releases, newest first, with the date, the source and
// the keys of each (benchmarks/accuracy/frameworks has examples).
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"

namespace meshplan {

// Own files of a data folder, and those that ship beside the published runs that need them.
inline constexpr std::string_view kFrameworkFolder = "frameworks";
inline constexpr std::string_view kHistoricalFrameworkFolder = "benchmarks/accuracy/frameworks";

Result<std::vector<Preset>> parse_presets(std::string_view text, const std::string& file);
// Every file of both folders, in the order of their names; the problems of all.
Result<std::vector<Preset>> load_presets(const DataFolders& data);

}  // namespace meshplan

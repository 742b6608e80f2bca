#pragma once
// Presets by name, those of the files that ship among them.
#include <stdexcept>
#include <string>
#include <string_view>

#include "frameworks/preset.hpp"
#include "io/presets_file.hpp"

namespace meshplan {

// A test that includes this knows the files' names.
inline const bool kPresetFilesAreRead = [] {
  set_preset_source([] { return load_presets(DataFolders({MESHPLAN_SOURCE_DIR})); });
  return true;
}();

inline const Preset& shipped_preset(std::string_view name) {
  const Result<const Preset*> preset = find_preset(name);
  if (!preset) throw std::runtime_error("no preset '" + std::string(name) + "'");
  return **preset;
}

inline Strategy shipped_strategy(std::string_view name) {
  return with_preset(Strategy{}, shipped_preset(name));
}

}  // namespace meshplan

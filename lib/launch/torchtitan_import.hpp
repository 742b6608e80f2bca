#pragma once
// torchtitan's job file (v0.2.2) and command line -> model and strategy.
#include <span>

#include "base/result.hpp"
#include "launch/settings.hpp"

namespace meshplan {

// A job file, a launch script or argument list with --section.key options, or both; options go
// before the file, as they do there. The model is the flavor that they name, or
// the context's. Fails where a value is none or the model is not known.
[[nodiscard]] Result<SettingsRun> read_torchtitan_run(std::span<const NamedText> files,
                                                      const RunContext& context);

}  // namespace meshplan

#pragma once
// Which framework the files of a run are of.
#include <span>

#include "base/result.hpp"
#include "launch/imported_run.hpp"

namespace meshplan {

// From what the files say, not from their names alone: a JSON object is DeepSpeed's, TOML is
// torchtitan's, a script's framework follows from the options that it passes. Fails on files of
// tools that are not read, by their names.
[[nodiscard]] Result<Target> detect_target(std::span<const NamedText> files,
                                           const RunContext& context);

}  // namespace meshplan

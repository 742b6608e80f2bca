#pragma once
// ds_config.json, with the launch arguments of Megatron-DeepSpeed where there are such -> strategy,
// and the model if the arguments tell its sizes.
#include <span>

#include "base/result.hpp"
#include "launch/settings.hpp"

namespace meshplan {

// A JSON configuration, a script or argument list, or both. Fails where a value is none, or batch
// sizes cannot be told.
[[nodiscard]] Result<SettingsRun> read_deepspeed_run(std::span<const NamedText> files,
                                                     const RunContext& context);

}  // namespace meshplan

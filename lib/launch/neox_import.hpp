#pragma once
// GPT-NeoX's configurations (YAML with keys of Megatron and of DeepSpeed) -> model and strategy.
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "launch/settings.hpp"

namespace meshplan {

// Whether a YAML text has what every such configuration of a model has: pipe-parallel-size, or with
// underscores.
[[nodiscard]] bool is_neox(std::string_view text);

// The files that deepy.py is given, merged; a key in two of them is an error, as there. The
// vocabulary follows the tokenizer's kind where nothing states it, and is named as assumed.
[[nodiscard]] Result<SettingsRun> read_neox_run(std::span<const NamedText> files,
                                                const RunContext& context);

}  // namespace meshplan

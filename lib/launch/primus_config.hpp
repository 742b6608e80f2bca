#pragma once
// AMD Primus's experiment files (examples/megatron/configs), which fill in Megatron-LM's arguments
// by their names in its namespace.
#include <string_view>

#include "base/result.hpp"
#include "launch/imported_run.hpp"

namespace meshplan {

// Whether a text has a `modules` section with a trainer that names its `framework`.
[[nodiscard]] bool is_primus(std::string_view text);

// The arguments as an argument list, in the lines of the experiment that state them; what comes
// from the files that it is built on, in the line that names the file. Those (`model`, `config` and
// what they extend) are read from primus/configs of the checkout that the experiment is in; later
// files override earlier ones, `overrides` all (primus/core/config/preset_loader.py).
// "${NAME:value}" is what `shell.variables` says of NAME, or the value. Fails for other frameworks
// than Megatron, and where a file is not found.
[[nodiscard]] Result<NamedText> primus_arguments(const NamedText& file, const ShellInputs& shell);

}  // namespace meshplan

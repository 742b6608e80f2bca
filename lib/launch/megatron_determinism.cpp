// Training that gives the same numbers in every run, in Megatron-LM's arguments and environment.
#include "launch/megatron_parts.hpp"

namespace meshplan {

// The option asks for Transformer Engine's as well: newer releases set it themselves, older ones
// stop where it is not set (training/determinism.py; core/extensions/transformer_engine.py).
void read_determinism(ProgramOptions& options, const ShellScript& script, Runtime& k) {
  const auto& set = script.variables;
  const auto engine = set.find("NVTE_ALLOW_NONDETERMINISTIC_ALGO");
  k.deterministic_mode = options.has("--deterministic-mode");
  k.deterministic_attention =
      k.deterministic_mode || (engine != set.end() && engine->second.text == "0");
}

}  // namespace meshplan

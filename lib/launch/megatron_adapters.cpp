// Adapters beside frozen weights, by the names of Megatron-Bridge's fields (peft/lora.py): its
// configurations come as Megatron-LM's arguments with these beside them.
#include <string_view>

#include "base/text.hpp"
#include "launch/megatron_parts.hpp"

namespace meshplan {

void read_adapters(ProgramOptions& options, ImportedRun& run) {
  Strategy& s = run.strategy;
  constexpr IntegerRange kLoraRanks{1, 1 << 20};
  s.lora.rank = options.number("--peft.dim", 0, kLoraRanks);
  const double dropout = options.real("--peft.dropout", 0);
  const bool all_to_all = options.has("--peft.a2a_experimental");
  const bool regather = options.has("--peft.sequence_parallel_input_regather");
  const std::string names = options.text("--peft.target_modules");
  if (s.lora.rank == 0) return;
  s.lora.dropout = dropout;
  s.lora.all_to_all = all_to_all;
  const bool elsewhere = s.recompute == Recompute::kFull || s.offload.activations;
  s.lora.input_regather = regather && !elsewhere;
  if (regather && elsewhere) {
    run.notes.push_back(
        "sequence_parallel_input_regather beside full recomputation or activations on the host: "
        "without effect");
  }
  if (names.empty()) return;  // Megatron-Bridge's default, and this program's
  s.lora.targets = {};
  std::string_view rest = names;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    const LoraTargets targets = lora_targets(name);
    if (targets.empty()) {
      options.report("no adapters are known on '" + std::string(name) + "'",
                     "a pattern of some layers is not read");
    }
    s.lora.targets.insert(targets);
    rest.remove_prefix(name.size() == rest.size() ? name.size() : name.size() + 1);
  }
}

}  // namespace meshplan

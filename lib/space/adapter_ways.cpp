#include "space/adapter_ways.hpp"

#include <algorithm>

namespace meshplan {
namespace {

// `s` on a mesh where nothing but its own keys and the option's stand in the way.
bool regathers(Strategy s) {
  s.tp = 2, s.sequence_parallel = true;
  return regathers_input(s);
}

}  // namespace

bool set_regathered_input(const std::vector<Limit>& limits, Strategy& base) {
  const auto of_input = [](const Limit& l) { return l.key == "lora.input_regather"; };
  if (base.framework != Framework::kMegatron || base.lora.input_regather) return false;
  if (std::any_of(limits.begin(), limits.end(), of_input)) return false;
  Strategy again = base;
  again.lora.input_regather = true;
  if (!regathers(with_option(again, MemoryOption{}))) return false;
  base = again;
  return true;
}

bool may_regather(const Strategy& base, const MemoryOption& option) {
  if (option.recompute == Recompute::kFull || option.offload_activations) return false;
  return regathers(with_option(base, option));
}

}  // namespace meshplan

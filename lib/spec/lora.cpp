#include "spec/lora.hpp"

#include <algorithm>
#include <array>

namespace meshplan {
namespace {

struct Alias {
  std::string_view name;
  LoraTargets targets;
};

using enum LoraTarget;
constexpr std::array kAliases{
    Alias{"o_proj", {kProj}},
    Alias{"output_proj", {kProj}},
    Alias{"down_proj", {kFc2}},
    Alias{"qkv_proj", {kQkv}},
    Alias{"gate_up_proj", {kFc1}},
    Alias{"w1", {kGate}},
    Alias{"w2", {kFc2}},
    Alias{"w3", {kUp}},
    Alias{"linear_q_proj", {kQ}},
    Alias{"q_a_proj", {kQDown}},
    Alias{"q_b_proj", {kQUp}},
    Alias{"kv_a_proj_with_mqa", {kKvDown}},
    Alias{"kv_b_proj", {kKvUp}},
    Alias{"all-linear",
          {kQ, kK, kV, kProj, kGate, kUp, kFc2, kQDown, kQUp, kKvDown, kKvUp, kIn, kOut}},
};

}  // namespace

std::vector<LoraTarget> LoraTargets::all() const {
  std::vector<LoraTarget> list;
  for (const auto& row : NameTable<LoraTarget>::rows) {
    if (contains(row.value)) list.push_back(row.value);
  }
  return list;
}

LoraTargets lora_targets(std::string_view name) {
  if (const auto target = from_name<LoraTarget>(name)) return {*target};
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(),
                                  [&](const Alias& row) { return row.name == name; });
  return alias == kAliases.end() ? LoraTargets{} : alias->targets;
}

std::string_view peft_name(LoraTarget target) {
  switch (target) {
    case LoraTarget::kQkv:
    case LoraTarget::kFc1:
      return {};
    case LoraTarget::kProj:
      return "o_proj";
    case LoraTarget::kFc2:
      return "down_proj";
    case LoraTarget::kQDown:
      return "q_a_proj";
    case LoraTarget::kQUp:
      return "q_b_proj";
    case LoraTarget::kKvDown:
      return "kv_a_proj_with_mqa";
    case LoraTarget::kKvUp:
      return "kv_b_proj";
    default:
      return name_of(target);
  }
}

std::vector<std::string_view> lora_target_names() {
  std::vector<std::string_view> names;
  for (const auto& row : NameTable<LoraTarget>::rows) names.emplace_back(row.name);
  for (const Alias& alias : kAliases) names.emplace_back(alias.name);
  return names;
}

double frozen_bytes_each(FrozenDtype dtype, int training_bytes) {
  switch (dtype) {
    case FrozenDtype::kTraining:
      return training_bytes;
    case FrozenDtype::kFp8:
    case FrozenDtype::kInt8:
      return 1;
    case FrozenDtype::kNvfp4:
      return 0.5 + 1.0 / 16;
    case FrozenDtype::kNf4:
      return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
  }
  return training_bytes;
}

}  // namespace meshplan

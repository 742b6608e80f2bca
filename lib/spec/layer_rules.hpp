#pragma once
// What a strategy must divide of each kind of layer, and how wide a kind's tensors are.
#include "spec/layers.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {

// Sizes that tensor ranks (of experts: expert-tensor and expert ranks) share.
void check_split(const AttentionSpec& kind, const Plan& p, Findings& f);
void check_split(const LatentAttentionSpec& kind, const Plan& p, Findings& f);
void check_split(const CompressedAttentionSpec& kind, const Plan& p, Findings& f);
void check_split(const Mamba2Spec& kind, const Plan& p, Findings& f);
void check_split(const ParallelMixerSpec& kind, const Plan& p, Findings& f);
void check_split(const MambaSpec& kind, const Plan& p, Findings& f);
void check_split(const GatedDeltaNetSpec& kind, const Plan& p, Findings& f);
void check_split(const LightningSpec& kind, const Plan& p, Findings& f);
void check_split(const NoneSpec& kind, const Plan& p, Findings& f);
void check_split(const DenseMlpSpec& kind, const Plan& p, Findings& f);
void check_split(const MoeSpec& kind, const Plan& p, Findings& f);

// Sizes that context-parallel ranks share; called where there are any.
void check_context_split(const AttentionSpec& kind, const Plan& p, Findings& f);
void check_context_split(const LatentAttentionSpec& kind, const Plan& p, Findings& f);
void check_context_split(const CompressedAttentionSpec& kind, const Plan& p, Findings& f);
void check_context_split(const Mamba2Spec& kind, const Plan& p, Findings& f);
void check_context_split(const ParallelMixerSpec& kind, const Plan& p, Findings& f);
void check_context_split(const MambaSpec& kind, const Plan& p, Findings& f);
void check_context_split(const GatedDeltaNetSpec& kind, const Plan& p, Findings& f);
void check_context_split(const LightningSpec& kind, const Plan& p, Findings& f);
void check_context_split(const NoneSpec& kind, const Plan& p, Findings& f);

// Elements per token of the widest tensors, at most a few of each.
[[nodiscard]] double tensor_width(const AttentionSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const LatentAttentionSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const CompressedAttentionSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const Mamba2Spec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const ParallelMixerSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const MambaSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const GatedDeltaNetSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const LightningSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const NoneSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const DenseMlpSpec& kind, const Plan& p);
[[nodiscard]] double tensor_width(const MoeSpec& kind, const Plan& p);

}  // namespace meshplan

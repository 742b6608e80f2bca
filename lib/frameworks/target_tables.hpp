#pragma once
// The tables behind target_rules(), one file each, and rules that several of them have.
#include "frameworks/preset.hpp"
#include "frameworks/target.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {

[[nodiscard]] std::span<const TargetRule> megatron_rules();
[[nodiscard]] std::span<const TargetRule> deepspeed_rules();
[[nodiscard]] std::span<const TargetRule> torchtitan_rules();
[[nodiscard]] std::span<const TargetRule> accelerate_rules();
[[nodiscard]] std::span<const TargetRule> axolotl_rules();
[[nodiscard]] std::span<const TargetRule> torchtune_rules();

// The exporters write what the newest release of the plan's framework reads.
void check_release(const Plan& p, Findings& f);

// PyTorch's FSDP: its preset; data, tensor and context parallelism alone; keys and values that go
// round; whole layers recomputed; no weights on the host.
void check_fsdp(const Plan& p, Findings& f);
void mend_fsdp(Strategy& s, const ModelSpec& m);
void check_fsdp_dimensions(const Plan& p, Findings& f);
void mend_fsdp_dimensions(Strategy& s, const ModelSpec& m);
void check_rotated_keys(const Plan& p, Findings& f);
void mend_rotated_keys(Strategy& s, const ModelSpec& m);
void check_layer_recomputation(const Plan& p, Findings& f);
void mend_layer_recomputation(Strategy& s, const ModelSpec& m);
void check_host_weights(const Plan& p, Findings& f);
void mend_host_weights(Strategy& s, const ModelSpec& m);

// Of whatever framework: the precision-aware optimizer, and one on the host.
void check_precision_aware(Target t, const Strategy& s, Findings& f);
void check_adapter_kernels(Target t, const Strategy& s, Findings& f);
void check_megatron_optimizer(const Plan& p, Findings& f);
void check_optimizer_kernel(Target t, const Strategy& s, Findings& f);
void check_offloaded_masters(Target t, const Strategy& s, Findings& f);
void check_megatron_extras(Target t, const Strategy& s, Findings& f);

void check_streams(Target t, const Strategy& s, const ModelSpec& m, Findings& f);
void check_attention_residuals(Target t, const Strategy& s, const ModelSpec& m, Findings& f);

// Layers and modules that Megatron-LM recomputes.
void check_megatron_recomputation(const Plan& p, Findings& f);
void mend_megatron_recomputation(Strategy& s, const ModelSpec& m);
[[nodiscard]] CountRule counts_of_megatron_recomputation(const ModelSpec& m);
void check_megatron_modules(const Plan& p, Findings& f);
void mend_megatron_modules(Strategy& s, const ModelSpec& m);

// CUDA graphs of layers, and of the full iteration, as Megatron-LM captures them.
void check_megatron_graphs(const Plan& p, Findings& f);
void mend_megatron_graphs(Strategy& s, const ModelSpec& m);
void check_graph_of_all(const Plan& p, Findings& f);
void mend_graph_of_all(Strategy& s, const ModelSpec& m);

// Ranks are numbered tp-cp-ep-dp-pp, and no other way.
void check_default_order(const Plan& p, Findings& f);
void mend_default_order(Strategy& s, const ModelSpec& m);

// Every layer is recomputed, or none.
void check_whole_recomputation(const Plan& p, Findings& f);
void mend_whole_recomputation(Strategy& s, const ModelSpec& m);
[[nodiscard]] CountRule every_layer(const ModelSpec& m);

// An optimizer of 16-bit weights keeps them and both moments in fp32.
void check_fp32_states(const Plan& p, Findings& f);
void mend_fp32_states(Strategy& s, const ModelSpec& m);

// Tokens reach their experts by plain all-to-alls, which nothing hides.
void check_plain_dispatch(const Plan& p, Findings& f);
void mend_plain_dispatch(Strategy& s, const ModelSpec& m);

// Selective recomputation repeats what the framework says, and no list of modules.
void check_unlisted_modules(const Plan& p, Findings& f);
void mend_unlisted_modules(Strategy& s, const ModelSpec& m);
void check_whole_loss(const Plan& p, Findings& f);
void mend_whole_loss(Strategy& s, const ModelSpec& m);
// Full recomputation repeats whole layers; or stops at the last tensor that is saved.
void check_repeats_all(const Plan& p, Findings& f);
void mend_repeats_all(Strategy& s, const ModelSpec& m);
void check_stops_early(const Plan& p, Findings& f);
void mend_stops_early(Strategy& s, const ModelSpec& m);
void check_late_update(const Plan& p, Findings& f);
void mend_late_update(Strategy& s, const ModelSpec& m);

// Adam updates all weights, and tokens are trained on, not pairs of answers.
void check_adam(const Plan& p, Findings& f);
void mend_adam(Strategy& s, const ModelSpec& m);
void check_lm_loss(const Plan& p, Findings& f);
void mend_lm_loss(Strategy& s, const ModelSpec& m);

void check_resident_activations(const Plan& p, Findings& f);
void mend_resident_activations(Strategy& s, const ModelSpec& m);

}  // namespace meshplan

#pragma once
// The keys of a strategy, once: reading, writing, limits and the result files all go through this
// list. A new key is one line in for_each_key.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "spec/strategy.hpp"

namespace meshplan {

// Calls visit(key, member) for every key in the order in which strategies are written.
// S is Strategy or const Strategy.
template <class S, class Visit>
void for_each_key(S& s, Visit&& visit) {
  static_assert(std::is_same_v<std::remove_const_t<S>, Strategy>);
  visit("framework", s.framework);
  visit("release", s.release);
  visit("tp", s.tp);
  visit("pp", s.pp);
  visit("vp", s.vp);
  visit("cp", s.cp);
  visit("cp_kind", s.cp_kind);
  visit("ep", s.ep);
  visit("etp", s.etp);
  visit("dp", s.dp);
  visit("zero", s.zero);
  visit("zero_group", s.zero_group);
  visit("sequence_parallel", s.sequence_parallel);
  visit("micro_batch", s.micro_batch);
  visit("global_batch", s.global_batch);
  visit("seq_len", s.seq_len);
  visit("packing", s.packing);
  visit("schedule", s.schedule);
  visit("stage_layers", s.stage_layers);
  visit("chunk_layers", s.chunk_layers);
  visit("recompute", s.recompute);
  visit("recompute_modules", s.recompute_modules);
  visit("recompute_layers", s.recompute_layers);
  visit("precision", s.precision);
  visit("master_weights", s.master_weights);
  visit("grad_dtype", s.grad_dtype);
  visit("optimizer_dtype", s.optimizer_dtype);
  visit("optimizer", s.optimizer);
  visit("loss", s.loss);
  visit("flash_attention", s.flash_attention);
  visit("overlap.grad_reduce", s.overlap.grad_reduce);
  visit("overlap.param_gather", s.overlap.param_gather);
  visit("overlap.param_gather_with_optimizer_step", s.overlap.param_gather_with_optimizer_step);
  visit("overlap.tp", s.overlap.tp);
  visit("overlap.tp_backward", s.overlap.tp_backward);
  visit("overlap.ep", s.overlap.ep);
  visit("overlap.delay_wgrad_compute", s.overlap.delay_wgrad_compute);
  visit("overlap.pp", s.overlap.pp);
  visit("overlap.shared_experts", s.overlap.shared_experts);
  visit("offload.optimizer", s.offload.optimizer);
  visit("offload.optimizer_fraction", s.offload.optimizer_fraction);
  visit("offload.master_weights", s.offload.master_weights);
  visit("offload.overlap_copies", s.offload.overlap_copies);
  visit("offload.weights", s.offload.weights);
  visit("offload.activations", s.offload.activations);
  visit("offload.activation_layers", s.offload.activation_layers);
  visit("offload.modules", s.offload.modules);
  visit("offload.activation_fraction", s.offload.activation_fraction);
  visit("frozen", s.frozen);
  visit("lora.rank", s.lora.rank);
  visit("lora.targets", s.lora.targets);
  visit("lora.dropout", s.lora.dropout);
  visit("lora.all_to_all", s.lora.all_to_all);
  visit("lora.input_regather", s.lora.input_regather);
  visit("lora.frozen_dtype", s.lora.frozen_dtype);
  visit("kernels.fused_softmax", s.runtime.fused_softmax);
  visit("kernels.fused_norm", s.runtime.fused_norm);
  visit("kernels.fused_rope", s.runtime.fused_rope);
  visit("kernels.fused_activation", s.runtime.fused_activation);
  visit("kernels.fused_dropout_add", s.runtime.fused_dropout_add);
  visit("kernels.fused_cross_entropy", s.runtime.fused_cross_entropy);
  visit("kernels.inplace_cross_entropy", s.runtime.inplace_cross_entropy);
  visit("kernels.fused_grad_accumulation", s.runtime.fused_grad_accumulation);
  visit("kernels.fused_optimizer", s.runtime.fused_optimizer);
  visit("kernels.attention", s.runtime.attention);
  visit("kernels.scatter_gather", s.runtime.scatter_gather);
  visit("kernels.tp_recompute_allgather", s.runtime.tp_recompute_allgather);
  visit("kernels.flex_dispatcher", s.runtime.flex_dispatcher);
  visit("kernels.allgather_dispatcher", s.runtime.allgather_dispatcher);
  visit("kernels.dispatch_nvshmem", s.runtime.dispatch_nvshmem);
  visit("kernels.fp8_recipe", s.runtime.fp8_recipe);
  visit("kernels.num_layers_at_start_in_bf16", s.runtime.num_layers_at_start_in_bf16);
  visit("kernels.num_layers_at_end_in_bf16", s.runtime.num_layers_at_end_in_bf16);
  visit("kernels.fp8_attention", s.runtime.fp8_attention);
  visit("kernels.activation_func_fp8_input_store", s.runtime.activation_func_fp8_input_store);
  visit("kernels.fused_experts", s.runtime.fused_experts);
  visit("kernels.fused_latent_rope", s.runtime.fused_latent_rope);
  visit("kernels.fused_router", s.runtime.fused_router);
  visit("kernels.fused_permute", s.runtime.fused_permute);
  visit("kernels.fused_mhc", s.runtime.fused_mhc);
  visit("kernels.fp32_mhc", s.runtime.fp32_mhc);
  visit("kernels.fused_attn_res", s.runtime.fused_attn_res);
  visit("kernels.fused_lora", s.runtime.fused_lora);
  visit("kernels.gathered_logits", s.runtime.gathered_logits);
  visit("kernels.fused_linear_cross_entropy", s.runtime.fused_linear_cross_entropy);
  visit("kernels.loss_chunks", s.runtime.loss_chunks);
  visit("kernels.fp32_copies", s.runtime.fp32_copies);
  visit("kernels.whole_tensor_shards", s.runtime.whole_tensor_shards);
  visit("kernels.whole_reduction", s.runtime.whole_reduction);
  visit("kernels.fp32_reduction", s.runtime.fp32_reduction);
  visit("kernels.bucket_mib", s.runtime.bucket_mib);
  visit("kernels.cuda_graph", s.runtime.cuda_graph);
  visit("kernels.cuda_graph_modules", s.runtime.cuda_graph_modules);
  visit("kernels.cuda_graph_warmup_steps", s.runtime.cuda_graph_warmup_steps);
  visit("kernels.product_rate", s.runtime.product_rate);
  visit("kernels.host_factor", s.runtime.host_factor);
  visit("kernels.collective_launches", s.runtime.collective_launches);
  visit("kernels.node_launches", s.runtime.node_launches);
  visit("kernels.contended_launches", s.runtime.contended_launches);
  visit("kernels.optimizer_launches", s.runtime.optimizer_launches);
  visit("kernels.step_launches", s.runtime.step_launches);
  visit("kernels.shard_launches", s.runtime.shard_launches);
  visit("kernels.retry_stall", s.runtime.retry_stall);
  visit("runtime.single_device_connection", s.runtime.single_device_connection);
  visit("runtime.interleaved_p2p_overlap", s.runtime.interleaved_p2p_overlap);
  visit("runtime.deallocate_pipeline_outputs", s.runtime.deallocate_pipeline_outputs);
  visit("runtime.sharded_pipeline", s.runtime.sharded_pipeline);
  visit("runtime.stage_split", s.runtime.stage_split);
  visit("runtime.torch_cross_entropy", s.runtime.torch_cross_entropy);
  visit("runtime.cloned_logits", s.runtime.cloned_logits);
  visit("runtime.two_pass_layernorm", s.runtime.two_pass_layernorm);
  visit("runtime.cast_grad_accumulation", s.runtime.cast_grad_accumulation);
  visit("runtime.grads_beside_sums", s.runtime.grads_beside_sums);
  visit("runtime.cast_reduction", s.runtime.cast_reduction);
  visit("runtime.fp32_grad_copies", s.runtime.fp32_grad_copies);
  visit("runtime.flat_grad_copies", s.runtime.flat_grad_copies);
  visit("runtime.late_gradients", s.runtime.late_gradients);
  visit("runtime.offload_margin", s.runtime.offload_margin);
  visit("runtime.flat_weight_gather", s.runtime.flat_weight_gather);
  visit("runtime.zero_bucket_size", s.runtime.zero_bucket_size);
  visit("runtime.held_gathers", s.runtime.held_gathers);
  visit("runtime.held_gathers_one_microbatch", s.runtime.held_gathers_one_microbatch);
  visit("runtime.transformer_engine", s.runtime.transformer_engine);
  visit("runtime.grouped_gemm", s.runtime.grouped_gemm);
  visit("runtime.cublas_workspace_bytes", s.runtime.cublas_workspace_bytes);
  visit("runtime.kept_gather_buffer", s.runtime.kept_gather_buffer);
  visit("runtime.kept_stage_inputs", s.runtime.kept_stage_inputs);
  visit("runtime.layer_dummy_gradients", s.runtime.layer_dummy_gradients);
  visit("runtime.head_dummy_gradient", s.runtime.head_dummy_gradient);
  visit("runtime.fp8_param_gather", s.runtime.fp8_param_gather);
  visit("runtime.split_expert_biases", s.runtime.split_expert_biases);
  visit("runtime.op_recompute", s.runtime.op_recompute);
  visit("runtime.split_projections", s.runtime.split_projections);
  visit("runtime.grouped_kernel", s.runtime.grouped_kernel);
  visit("runtime.bf16_cross_entropy", s.runtime.bf16_cross_entropy);
  visit("runtime.host_checkpoints", s.runtime.host_checkpoints);
  visit("runtime.optimizer_in_backward", s.runtime.optimizer_in_backward);
  visit("runtime.weighted_expert_outputs", s.runtime.weighted_expert_outputs);
  visit("runtime.recompute_early_stop", s.runtime.recompute_early_stop);
  visit("runtime.precision_aware_optimizer", s.runtime.precision_aware_optimizer);
  visit("runtime.param_remainders", s.runtime.param_remainders);
  visit("runtime.fp32_unquantised", s.runtime.fp32_unquantised);
  visit("runtime.expandable_segments", s.runtime.expandable_segments);
  visit("runtime.fp32_shards", s.runtime.fp32_shards);
  visit("runtime.per_parameter_shards", s.runtime.per_parameter_shards);
  visit("runtime.late_weight_gather", s.runtime.late_weight_gather);
  visit("runtime.engine_router", s.runtime.engine_router);
  visit("runtime.defer_embedding_wgrad_compute", s.runtime.defer_embedding_wgrad_compute);
  visit("runtime.wgrad_deferral_limit", s.runtime.wgrad_deferral_limit);
  visit("runtime.mhc_recompute_layers", s.runtime.mhc_recompute_layers);
  visit("runtime.layer_wise_optimizer", s.runtime.layer_wise_optimizer);
  visit("runtime.layer_wise_param_layout", s.runtime.layer_wise_param_layout);
  visit("runtime.calculate_per_token_loss", s.runtime.calculate_per_token_loss);
  visit("runtime.create_attention_mask_in_dataloader",
        s.runtime.create_attention_mask_in_dataloader);
  visit("runtime.check_for_nan_in_loss_and_grad", s.runtime.check_for_nan_in_loss_and_grad);
  visit("runtime.microbatch_group_size", s.runtime.microbatch_group_size);
  visit("runtime.expert_capacity_factor", s.runtime.expert_capacity_factor);
  visit("runtime.pad_to_capacity", s.runtime.pad_to_capacity);
  visit("runtime.deterministic_mode", s.runtime.deterministic_mode);
  visit("runtime.deterministic_attention", s.runtime.deterministic_attention);
  visit("order", s.order);
}

// A value as strategies write it: 8, true, bf16, [7,8,8,7], tp-cp-ep-dp-pp.
[[nodiscard]] std::string key_text(std::int64_t value);
[[nodiscard]] std::string key_text(int value);
[[nodiscard]] std::string key_text(bool value);
[[nodiscard]] std::string key_text(double value);
[[nodiscard]] std::string key_text(const std::vector<std::int64_t>& value);
[[nodiscard]] std::string key_text(const RankOrder& value);
[[nodiscard]] std::string key_text(const LoraTargets& value);
[[nodiscard]] std::string key_text(Framework value);
[[nodiscard]] std::string key_text(Release value);
template <class E>
requires std::is_enum_v<E>
[[nodiscard]] std::string key_text(E value) { return std::string(name_of(value)); }

// All keys, in order.
[[nodiscard]] std::span<const std::string_view> strategy_keys();

// The value of one key as text; `key` must be one of strategy_keys().
[[nodiscard]] std::string value_text(const Strategy& s, std::string_view key);

}  // namespace meshplan

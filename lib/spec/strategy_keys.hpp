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
  visit("schedule", s.schedule);
  visit("stage_layers", s.stage_layers);
  visit("recompute", s.recompute);
  visit("recompute_layers", s.recompute_layers);
  visit("precision", s.precision);
  visit("master_weights", s.master_weights);
  visit("grad_dtype", s.grad_dtype);
  visit("optimizer_dtype", s.optimizer_dtype);
  visit("flash_attention", s.flash_attention);
  visit("overlap.grad_reduce", s.overlap.grad_reduce);
  visit("overlap.param_gather", s.overlap.param_gather);
  visit("overlap.tp", s.overlap.tp);
  visit("overlap.tp_backward", s.overlap.tp_backward);
  visit("overlap.ep", s.overlap.ep);
  visit("overlap.pp", s.overlap.pp);
  visit("offload.optimizer", s.offload.optimizer);
  visit("offload.activations", s.offload.activations);
  visit("kernels.fused_softmax", s.kernels.fused_softmax);
  visit("kernels.fused_norm", s.kernels.fused_norm);
  visit("kernels.fused_rope", s.kernels.fused_rope);
  visit("kernels.fused_activation", s.kernels.fused_activation);
  visit("kernels.fused_dropout_add", s.kernels.fused_dropout_add);
  visit("kernels.fused_cross_entropy", s.kernels.fused_cross_entropy);
  visit("kernels.inplace_cross_entropy", s.kernels.inplace_cross_entropy);
  visit("kernels.fused_grad_accumulation", s.kernels.fused_grad_accumulation);
  visit("kernels.fused_optimizer", s.kernels.fused_optimizer);
  visit("kernels.attention", s.kernels.attention);
  visit("kernels.scatter_gather", s.kernels.scatter_gather);
  visit("kernels.tp_recompute_allgather", s.kernels.tp_recompute_allgather);
  visit("kernels.flex_dispatcher", s.kernels.flex_dispatcher);
  visit("kernels.gathered_logits", s.kernels.gathered_logits);
  visit("kernels.fp32_copies", s.kernels.fp32_copies);
  visit("kernels.whole_tensor_shards", s.kernels.whole_tensor_shards);
  visit("kernels.whole_reduction", s.kernels.whole_reduction);
  visit("kernels.bucket_mib", s.kernels.bucket_mib);
  visit("kernels.host_factor", s.kernels.host_factor);
  visit("kernels.collective_launches", s.kernels.collective_launches);
  visit("kernels.contended_launches", s.kernels.contended_launches);
  visit("kernels.optimizer_launches", s.kernels.optimizer_launches);
  visit("kernels.shard_launches", s.kernels.shard_launches);
  visit("kernels.retry_stall", s.kernels.retry_stall);
  visit("runtime.interleaved_p2p_overlap", s.kernels.interleaved_p2p_overlap);
  visit("runtime.deallocate_pipeline_outputs", s.kernels.deallocate_pipeline_outputs);
  visit("runtime.sharded_pipeline", s.kernels.sharded_pipeline);
  visit("runtime.stage_split", s.kernels.stage_split);
  visit("runtime.torch_cross_entropy", s.kernels.torch_cross_entropy);
  visit("runtime.cloned_logits", s.kernels.cloned_logits);
  visit("runtime.two_pass_layernorm", s.kernels.two_pass_layernorm);
  visit("runtime.cast_grad_accumulation", s.kernels.cast_grad_accumulation);
  visit("runtime.grads_beside_sums", s.kernels.grads_beside_sums);
  visit("runtime.fp32_grad_copies", s.kernels.fp32_grad_copies);
  visit("runtime.flat_grad_copies", s.kernels.flat_grad_copies);
  visit("runtime.late_gradients", s.kernels.late_gradients);
  visit("runtime.flat_weight_gather", s.kernels.flat_weight_gather);
  visit("runtime.zero_bucket_size", s.kernels.zero_bucket_size);
  visit("runtime.held_gathers", s.kernels.held_gathers);
  visit("runtime.held_gathers_one_microbatch", s.kernels.held_gathers_one_microbatch);
  visit("order", s.order);
}

// A value as strategies write it: 8, true, bf16, [7,8,8,7], tp-cp-ep-dp-pp.
[[nodiscard]] std::string key_text(std::int64_t value);
[[nodiscard]] std::string key_text(int value);
[[nodiscard]] std::string key_text(bool value);
[[nodiscard]] std::string key_text(double value);
[[nodiscard]] std::string key_text(const std::vector<std::int64_t>& value);
[[nodiscard]] std::string key_text(const RankOrder& value);
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

#pragma once
// What every kind of layer states of itself, in one file of its own: a new kind is a struct in
// spec/layers.hpp with its keys (spec/layer_keys.hpp) and rules (spec/layer_rules.hpp), and the
// functions below for it. The compiler asks for each of them.
#include <cstdint>
#include <string_view>

#include "model/context.hpp"
#include "model/operations.hpp"
#include "model/parameters.hpp"

namespace meshplan {

// Bytes that one microbatch leaves for the backward pass.
struct KeptBytes {
  double all = 0;
  double selective = 0;  // of which selective recomputation drops
  double together = 0;   // of that, the most that comes back at once before its backward pass
  double offloaded = 0;  // of the rest, what offload.modules sends to the host
};

// [F-GRAPH-1] What CUDA graphs of a layer's parts keep allocated from step to step for one
// microbatch in flight, as part of what the layer saves: its input, and behind attention the mask,
// of one byte for every pair of tokens, whether the kernel reads it or not (Megatron-Core
// transformer_layer.py, get_layer_static_inputs; cuda_graphs.py,
// TECudaGraphHelper._get_sample_arguments, where a microbatch whose backward pass is done hands its
// inputs on). What a graph saves besides lies in the graphs' memory pool, and takes there what it
// takes outside of it.
[[nodiscard]] double layer_graph_inputs(const BlockContext& x, const LayerSpec& layer);

// [F-GRAPH-2] What lies in the memory pool of a layer's CUDA graphs: what their captured parts save
// of a microbatch, what their backward pass needs beside it, and what the rest of the layer needs
// in its own. The pool's tensors are given back once they are captured (Transformer Engine
// pytorch/graph.py, make_weak_ref of outputs and gradients): replays write into memory that the
// allocator holds but no longer counts.
struct GraphedBytes {
  double saved = 0, working = 0, beside = 0;
};
[[nodiscard]] GraphedBytes layer_graphed_bytes(const BlockContext& x, const LayerSpec& layer);

// Each kind of mixer:
//   add_parameters      of one layer
//   copied_parameters   more that every rank of `tp` holds beyond its share: heads that cannot be
//                       split further
//   token_flops         forward operations per token and layer besides its matrices
//   causal_token_flops  the same, of attention: only scores that a causal mask leaves
//   append_operations   kernels and collectives of one microbatch
//   saved_bytes         norm and projections included
//   temporary_bytes     of the largest temporaries of the backward pass that are not features

void add_parameters(const AttentionSpec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const AttentionSpec& kind, const ModelSpec& m,
                                             std::int64_t tp);
[[nodiscard]] double token_flops(const AttentionSpec& kind, std::int64_t seq_len);
[[nodiscard]] double causal_token_flops(const AttentionSpec& kind, std::int64_t seq_len);
void append_operations(const AttentionSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const AttentionSpec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const AttentionSpec& kind, const BlockContext& x);

void add_parameters(const LatentAttentionSpec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const LatentAttentionSpec& kind, const ModelSpec& m,
                                             std::int64_t tp);
[[nodiscard]] double token_flops(const LatentAttentionSpec& kind, std::int64_t seq_len);
[[nodiscard]] double causal_token_flops(const LatentAttentionSpec& kind, std::int64_t seq_len);
void append_operations(const LatentAttentionSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const LatentAttentionSpec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const LatentAttentionSpec& kind, const BlockContext& x);

void add_parameters(const CompressedAttentionSpec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const CompressedAttentionSpec& kind,
                                             const ModelSpec& m, std::int64_t tp);
[[nodiscard]] double token_flops(const CompressedAttentionSpec& kind, std::int64_t seq_len);
[[nodiscard]] double causal_token_flops(const CompressedAttentionSpec& kind, std::int64_t seq_len);
void append_operations(const CompressedAttentionSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const CompressedAttentionSpec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const CompressedAttentionSpec& kind, const BlockContext& x);

void add_parameters(const Mamba2Spec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const Mamba2Spec& kind, const ModelSpec& m,
                                             std::int64_t tp);
[[nodiscard]] double token_flops(const Mamba2Spec& kind, std::int64_t seq_len);
void append_operations(const Mamba2Spec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const Mamba2Spec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const Mamba2Spec& kind, const BlockContext& x);

void add_parameters(const ParallelMixerSpec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const ParallelMixerSpec& kind, const ModelSpec& m,
                                             std::int64_t tp);
[[nodiscard]] double token_flops(const ParallelMixerSpec& kind, std::int64_t seq_len);
[[nodiscard]] double causal_token_flops(const ParallelMixerSpec& kind, std::int64_t seq_len);
void append_operations(const ParallelMixerSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const ParallelMixerSpec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const ParallelMixerSpec& kind, const BlockContext& x);

void add_parameters(const MambaSpec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const MambaSpec& kind, const ModelSpec& m,
                                             std::int64_t tp);
[[nodiscard]] double token_flops(const MambaSpec& kind, std::int64_t seq_len);
void append_operations(const MambaSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const MambaSpec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const MambaSpec& kind, const BlockContext& x);

void add_parameters(const GatedDeltaNetSpec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const GatedDeltaNetSpec& kind, const ModelSpec& m,
                                             std::int64_t tp);
[[nodiscard]] double token_flops(const GatedDeltaNetSpec& kind, std::int64_t seq_len);
void append_operations(const GatedDeltaNetSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const GatedDeltaNetSpec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const GatedDeltaNetSpec& kind, const BlockContext& x);

void add_parameters(const LightningSpec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const LightningSpec& kind, const ModelSpec& m,
                                             std::int64_t tp);
[[nodiscard]] double token_flops(const LightningSpec& kind, std::int64_t seq_len);
void append_operations(const LightningSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const LightningSpec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const LightningSpec& kind, const BlockContext& x);

void add_parameters(const NoneSpec& kind, const ModelSpec& m, LayerParameters& p);
[[nodiscard]] std::int64_t copied_parameters(const NoneSpec& kind, const ModelSpec& m,
                                             std::int64_t tp);
[[nodiscard]] double token_flops(const NoneSpec& kind, std::int64_t seq_len);
void append_operations(const NoneSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const NoneSpec& kind, const BlockContext& x);
[[nodiscard]] double temporary_bytes(const NoneSpec& kind, const BlockContext& x);

// Each kind of feed-forward:
//   add_parameters, append_operations, saved_bytes   as above
//   widest_features     elements of the widest tensor inside of it

void add_parameters(const DenseMlpSpec& kind, const ModelSpec& m, LayerParameters& p);
void append_operations(const DenseMlpSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const DenseMlpSpec& kind, const BlockContext& x);
[[nodiscard]] double widest_features(const DenseMlpSpec& kind, const BlockContext& x);

void add_parameters(const MoeSpec& kind, const ModelSpec& m, LayerParameters& p);
void append_operations(const MoeSpec& kind, const BlockContext& x, BlockOps& ops);
[[nodiscard]] KeptBytes saved_bytes(const MoeSpec& kind, const BlockContext& x);
[[nodiscard]] double widest_features(const MoeSpec& kind, const BlockContext& x);

[[nodiscard]] double widest_features(const NoneSpec& kind, const BlockContext& x);

// The ends of the chain, and what joins them for multi-token prediction.
inline constexpr std::string_view kLogitsName = "logits";  // of the output layer's products
void append_embedding(const BlockContext& x, BlockOps& ops);
void append_head(const BlockContext& x, BlockOps& ops);
void append_mtp_projection(const BlockContext& x, BlockOps& ops);
[[nodiscard]] double embedding_saved_bytes(const BlockContext& x);
[[nodiscard]] double head_saved_bytes(const BlockContext& x);
[[nodiscard]] double head_working_bytes(const BlockContext& x);

// [F-EP-3] How much of its messages a layer with overlapped dispatch hides.
void limit_hidden_dispatch(const BlockContext& x, BlockOps& ops);

// A whole decoder layer.
void append_mixer(const BlockContext& x, const Mixer& mixer, BlockOps& ops);
void append_feed_forward(const BlockContext& x, const FeedForward& feed_forward, BlockOps& ops);
void append_layer(const BlockContext& x, const LayerSpec& layer, BlockOps& ops);
[[nodiscard]] KeptBytes layer_saved_bytes(const BlockContext& x, const LayerSpec& layer);
[[nodiscard]] double layer_working_bytes(const BlockContext& x, const LayerSpec& layer);

}  // namespace meshplan

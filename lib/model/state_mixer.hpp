#pragma once
// What mixers with a state (Mamba, delta rules, linear attention) share: a wide projection, a short
// convolution, context parallelism that exchanges tokens for heads, and an output projection.
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

// Of the projection that all of them begin with.
inline constexpr AdapterSite kStateInput{.layer = LoraTarget::kIn};

// [F-CONV-1] A causal convolution of `channels` features a token with its activation: reads and
// writes once; backward it is computed again and reads two and writes one more (causal-conv1d,
// csrc/causal_conv1d_bwd.cu).
void append_convolution(const BlockContext& x, double channels, BlockOps& ops);

// [F-CP-4] Ranks of a context-parallel group hold parts of the sequence, a scan needs all of it: an
// all-to-all of `before` features a token into whole sequences of some heads, and one of `after`
// back, each way (Megatron-Core core/ssm/mamba_context_parallel.py).
void append_head_exchange(const BlockContext& x, double before, double after, BlockOps& ops);

// Output projection of `features`, the collectives of tensor parallelism, residual.
void append_mixer_output(const BlockContext& x, std::string_view name, std::int64_t features,
                         const LinearTimes& column, BlockOps& ops);

// What such a mixer keeps beside `inside`, the bytes between its projections: the input norm and
// projection's input, and the output projection's of `features` a token.
[[nodiscard]] KeptBytes state_mixer_bytes(const BlockContext& x, double inside,
                                          std::int64_t features);

}  // namespace meshplan

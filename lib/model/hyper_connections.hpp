#pragma once
// Manifold-constrained hyper-connections (mHC, 2512.24880): layers hand n streams of hidden states
// on; each part of a layer reads a mixture of them and adds its output to a mixture of them.
#include <cstdint>

#include "model/context.hpp"
#include "model/operations.hpp"

namespace meshplan {

[[nodiscard]] inline bool has_streams(const ModelSpec& m) { return m.mhc_num_residual_streams > 1; }

// Parameters of the mixtures around one part of a layer, and of the one before the output layer;
// 0 without streams. Copied on every tensor rank.
[[nodiscard]] std::int64_t connection_parameters(const ModelSpec& m);
[[nodiscard]] std::int64_t contraction_parameters(const ModelSpec& m);

// Whether selective recomputation repeats what is made of them.
[[nodiscard]] bool repeats_streams(const BlockContext& x);

// Kernels around one part of a layer, behind the embedding and before the output layer; nothing
// without streams.
void append_connection(const BlockContext& x, bool ends_layer, BlockOps& ops);
void append_expansion(const BlockContext& x, BlockOps& ops);
void append_contraction(const BlockContext& x, BlockOps& ops);

// Bytes that one part of a layer leaves besides its own: its streams and its output.
[[nodiscard]] double connection_saved_bytes(const BlockContext& x);
// What recomputation drops of a layer with so many parts, and has again of all the layers that come
// back at once.
struct RepeatedStreams {
  double dropped = 0, together = 0;
};
[[nodiscard]] RepeatedStreams repeated_streams(const BlockContext& x, int parts);
// What layers hand on, streams or one hidden state, as stored: of this rank's share.
[[nodiscard]] double residual_bytes(const BlockContext& x);

}  // namespace meshplan

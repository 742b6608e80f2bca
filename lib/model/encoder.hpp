#pragma once
// The vision encoder and projector of a model, as a part of its first block.
#include "model/context.hpp"
#include "model/operations.hpp"

namespace meshplan {

// All of them; 0 without an encoder.
[[nodiscard]] std::int64_t encoder_parameters(const ModelSpec& m);
// On one device of tp ranks.
[[nodiscard]] std::int64_t encoder_parameters_of_device(const ModelSpec& m, const Strategy& s);
// Forward operations for one sequence.
[[nodiscard]] double encoder_flops(const ModelSpec& m);
// Nothing without an encoder. Every context-parallel rank encodes all images of its sequences.
void append_encoder(const BlockContext& x, BlockOps& ops);
[[nodiscard]] double encoder_saved_bytes(const BlockContext& x);

}  // namespace meshplan

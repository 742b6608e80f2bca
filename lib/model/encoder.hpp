#pragma once
// The vision encoder and projector of a model, as a part of its first block.
#include "model/context.hpp"
#include "model/operations.hpp"

namespace meshplan {

// Of its layers with what makes patches of pixels, and of what makes tokens of the language model;
// 0 without an encoder.
struct EncoderParameters {
  std::int64_t vision_model = 0, vision_projection = 0;
  [[nodiscard]] std::int64_t all() const { return vision_model + vision_projection; }
};
[[nodiscard]] EncoderParameters encoder_parameters(const ModelSpec& m);
// On one device of tp ranks.
[[nodiscard]] EncoderParameters encoder_parameters_of_device(const ModelSpec& m, const Strategy& s);
// Forward operations for one sequence.
struct EncoderFlops {
  double vision_model = 0, vision_projection = 0;
};
[[nodiscard]] EncoderFlops encoder_flops(const ModelSpec& m);
// Whether the gradient of the tokens' embeddings is needed for it.
[[nodiscard]] bool trains_encoder(const ModelSpec& m, const Strategy& s);
// Nothing without an encoder. Every context-parallel rank encodes all images of its sequences.
void append_encoder(const BlockContext& x, BlockOps& ops);
[[nodiscard]] double encoder_saved_bytes(const BlockContext& x);

}  // namespace meshplan

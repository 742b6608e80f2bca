#include "model/encoder.hpp"

#include "model/flops.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {
namespace {

// The encoder's layers as those of a model of their own: attention to all patches of an image.
ModelSpec vision_model(const ModelSpec& m) {
  const EncoderSpec& e = *m.encoder;
  ModelSpec v;
  v.name = m.name;
  v.num_layers = e.num_layers;
  v.hidden_size = e.hidden_size;
  v.num_attention_heads = v.num_query_groups = e.num_attention_heads;
  v.head_dim = e.hidden_size / e.num_attention_heads;
  v.ffn_hidden_size = e.ffn_hidden_size;
  v.gated_mlp = e.gated_mlp;
  v.linear_bias = e.linear_bias;
  v.position_embedding = e.positions > 0 ? PositionEmbedding::kLearned : PositionEmbedding::kRope;
  v.max_seq_length = e.patches_per_image;
  v.vocab_size = 1;
  return v;
}

LayerSpec vision_layer(const ModelSpec& v) {
  LayerSpec layer = layer_spec(v, LayerKind::kDense, false);
  std::get<AttentionSpec>(layer.mixer).bidirectional = true;
  return layer;
}

// The same ranks, on images instead of sequences. Tensor ranks that its heads cannot be split over
// compute all of it.
Strategy vision_strategy(const ModelSpec& m, Strategy s) {
  const EncoderSpec& e = *m.encoder;
  s.seq_len = e.patches_per_image;
  s.micro_batch *= e.images_per_sequence;
  s.cp = 1;
  if (e.num_attention_heads % s.tp == 0 && e.ffn_hidden_size % s.tp == 0) return s;
  s.tp = 1;
  s.sequence_parallel = false;
  return s;
}

std::int64_t patch_features(const EncoderSpec& e) {
  return e.patch_size * e.patch_size * e.channels;
}

std::int64_t projector_parameters(const ModelSpec& m) {
  const EncoderSpec& e = *m.encoder;
  const std::int64_t in = e.merged_patches * e.hidden_size, h = m.hidden_size;
  const std::int64_t inner = e.projector_hidden_size;
  const std::int64_t matrices = inner > 0 ? in * inner + inner * h : in * h;
  const std::int64_t biases = e.linear_bias ? inner + h : 0;
  return e.projectors * (matrices + biases + 2 * e.hidden_size);
}

// What the layers share: `share` ranks hold it together.
std::int64_t parameters(const ModelSpec& m, std::int64_t share) {
  const EncoderSpec& e = *m.encoder;
  const ModelSpec v = vision_model(m);
  const LayerParameters p = layer_parameters(v, vision_layer(v));
  const std::int64_t split = p.attention_linear + p.mlp_linear;
  const std::int64_t copied = p.attention_other + p.norms;
  return e.num_layers * (ceil_div(split, share) + copied) +
         (patch_features(e) + e.positions + 1) * e.hidden_size + projector_parameters(m);
}

std::int64_t patches_of(const Strategy& vision) { return vision.seq_len * vision.micro_batch; }

void append_projector(const BlockContext& x, std::int64_t patches, BlockOps& ops) {
  const EncoderSpec& e = *x.model.encoder;
  const std::int64_t tokens = patches / e.merged_patches * e.projectors;
  const std::int64_t in = e.merged_patches * e.hidden_size, h = x.model.hidden_size;
  append_norm(x, "projector norm", tokens * in, ops);
  if (e.projector_hidden_size == 0) {
    append_linear(x, "projector", tokens, h, in, e.linear_bias, ops);
    return;
  }
  append_linear(x, "projector in", tokens, e.projector_hidden_size, in, e.linear_bias, ops);
  append_linear(x, "projector out", tokens, h, e.projector_hidden_size, e.linear_bias, ops);
}

}  // namespace

// [F-VIT-1] Patches p^2 c to h_v with a bias, learned positions, layers of attention and MLP, and
// projectors of m h_v (through an inner layer) to h with a norm each: p pixels, c channels, m
// patches per token of the language model. Dosovitskiy et al. 2010.11929 sec. 3.1; Liu et al.
// 2304.08485 sec. 4.1.
std::int64_t encoder_parameters(const ModelSpec& m) { return m.encoder ? parameters(m, 1) : 0; }

// Patches and projector are copied on every tensor rank.
std::int64_t encoder_parameters_of_device(const ModelSpec& m, const Strategy& s) {
  return m.encoder ? parameters(m, vision_strategy(m, s).tp) : 0;
}

double encoder_flops(const ModelSpec& m) {
  if (!m.encoder) return 0;
  const EncoderSpec& e = *m.encoder;
  const ModelSpec v = vision_model(m);
  const double patch =
      real(e.num_layers) * layer_forward_flops(v, vision_layer(v), v.max_seq_length) +
      2 * real(patch_features(e) * e.hidden_size);
  const double patches = real(e.images_per_sequence) * real(e.patches_per_image);
  return patches * (patch + 2 * real(projector_parameters(m)) / real(e.merged_patches));
}

// [F-VIT-2] One layer's kernels and collectives, num_layers times, the patches' product and the
// projectors.
void append_encoder(const BlockContext& x, BlockOps& ops) {
  if (!x.model.encoder) return;
  const ModelSpec v = vision_model(x.model);
  const Strategy s = vision_strategy(x.model, x.strategy);
  const BlockContext vision{v, x.cluster, s, local_shape(v, s)};
  BlockOps layer;
  append_layer(vision, vision_layer(v), layer);
  const double times = real(v.num_layers);
  for (KernelOp op : layer.kernels) {
    op.time = op.time * times;
    op.flops *= times, op.launches *= times, op.calls *= times, op.bytes *= times;
    ops.kernels.push_back(op);
  }
  for (CommOp op : layer.comm) {
    op.count *= times;
    ops.comm.push_back(op);
  }
  append_linear(vision, "patches", patches_of(s), v.hidden_size, patch_features(*x.model.encoder),
                true, ops);
  append_projector(x, patches_of(s), ops);
  if (!is_frozen(x.strategy)) return;
  // Nothing that is trained comes before it.
  const auto is_backward = [](const auto& op) { return op.pass != Pass::kForward; };
  std::erase_if(ops.kernels, is_backward);
  std::erase_if(ops.comm, is_backward);
}

// [F-VIT-3] What every layer keeps, never computed again; the patches, and the projectors' inputs.
double encoder_saved_bytes(const BlockContext& x) {
  if (!x.model.encoder || is_frozen(x.strategy)) return 0;
  const EncoderSpec& e = *x.model.encoder;
  const ModelSpec v = vision_model(x.model);
  const Strategy s = vision_strategy(x.model, x.strategy);
  const BlockContext vision{v, x.cluster, s, local_shape(v, s)};
  const double patches = real(patches_of(s));
  const double inner = real(e.projector_hidden_size) / real(e.merged_patches);
  const double projected = real(e.projectors) * (2 * real(e.hidden_size) + 2 * inner);
  return real(v.num_layers) * layer_saved_bytes(vision, vision_layer(v)).all +
         x.shape.bytes * patches * (real(patch_features(e)) + projected);
}

}  // namespace meshplan

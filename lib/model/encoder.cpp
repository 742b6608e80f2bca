#include "model/encoder.hpp"

#include <algorithm>
#include <string_view>

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
  v.head_dim = e.head_dim > 0 ? e.head_dim : e.hidden_size / e.num_attention_heads;
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
  // Its weights are as those of a language model's: all trained, or none.
  s.frozen =
      trains(s, FrozenPart::kVisionModel) ? FrozenParts{} : FrozenParts{FrozenPart::kLanguageModel};
  s.lora = {};
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
EncoderParameters parameters(const ModelSpec& m, std::int64_t share) {
  const EncoderSpec& e = *m.encoder;
  const ModelSpec v = vision_model(m);
  const LayerParameters p = layer_parameters(v, vision_layer(v));
  const std::int64_t split = p.attention_linear + p.mlp_linear;
  const std::int64_t copied = p.attention_other + p.norms;
  return {e.num_layers * (ceil_div(split, share) + copied) +
              (patch_features(e) + e.positions + 1) * e.hidden_size,
          projector_parameters(m)};
}

std::int64_t patches_of(const Strategy& vision) { return vision.seq_len * vision.micro_batch; }

// Without the gradient of the projectors' input where nothing before them is trained.
void append_projector(const BlockContext& whole, std::int64_t patches, BlockOps& ops) {
  const EncoderSpec& e = *whole.model.encoder;
  Strategy s = whole.strategy;
  s.frozen = trains(s, FrozenPart::kVisionProjection) ? FrozenParts{}
                                                      : FrozenParts{FrozenPart::kLanguageModel};
  s.lora = {};
  const BlockContext x{whole.model, whole.cluster, s, whole.shape, whole.groups};
  const std::size_t begin = ops.kernels.size();
  const std::int64_t tokens = patches / e.merged_patches * e.projectors;
  const std::int64_t in = e.merged_patches * e.hidden_size, h = x.model.hidden_size;
  append_norm(x, "projector norm", tokens * in, ops);
  const std::string_view first = e.projector_hidden_size == 0 ? "projector" : "projector in";
  const std::int64_t columns = e.projector_hidden_size == 0 ? h : e.projector_hidden_size;
  append_linear(x, first, tokens, columns, in, e.linear_bias, ops);
  if (e.projector_hidden_size > 0) {
    append_linear(x, "projector out", tokens, h, e.projector_hidden_size, e.linear_bias, ops);
  }
  if (trains(whole.strategy, FrozenPart::kVisionModel)) return;
  const bool any = trains(whole.strategy, FrozenPart::kVisionProjection);
  ops.kernels.erase(
      std::remove_if(ops.kernels.begin() + static_cast<std::ptrdiff_t>(begin), ops.kernels.end(),
                     [&](const KernelOp& op) {
                       if (!any) return op.pass != Pass::kForward;
                       return op.pass == Pass::kBackwardInput && op.gemm && op.name == first;
                     }),
      ops.kernels.end());
}

}  // namespace

// [F-VIT-1] Patches p^2 c to h_v with a bias, learned positions, layers of attention and MLP, and
// projectors of m h_v (through an inner layer) to h with a norm each: p pixels, c channels, m
// patches per token of the language model. Dosovitskiy et al. 2010.11929 sec. 3.1; Liu et al.
// 2304.08485 sec. 4.1.
EncoderParameters encoder_parameters(const ModelSpec& m) {
  return m.encoder ? parameters(m, 1) : EncoderParameters{};
}

// Patches and projector are copied on every tensor rank.
EncoderParameters encoder_parameters_of_device(const ModelSpec& m, const Strategy& s) {
  return m.encoder ? parameters(m, vision_strategy(m, s).tp) : EncoderParameters{};
}

bool trains_encoder(const ModelSpec& m, const Strategy& s) {
  return m.encoder &&
         (trains(s, FrozenPart::kVisionModel) || trains(s, FrozenPart::kVisionProjection));
}

EncoderFlops encoder_flops(const ModelSpec& m) {
  if (!m.encoder) return {};
  const EncoderSpec& e = *m.encoder;
  const ModelSpec v = vision_model(m);
  const double patch =
      real(e.num_layers) * layer_forward_flops(v, vision_layer(v), v.max_seq_length) +
      2 * real(patch_features(e) * e.hidden_size);
  const double patches = real(e.images_per_sequence) * real(e.patches_per_image);
  return {patches * patch, patches * 2 * real(projector_parameters(m)) / real(e.merged_patches)};
}

// [F-VIT-2] One layer's kernels and collectives, num_layers times, the patches' product and the
// projectors. What is frozen has no gradients of weights, and no backward pass where nothing before
// it is trained.
void append_encoder(const BlockContext& x, BlockOps& ops) {
  if (!x.model.encoder) return;
  const ModelSpec v = vision_model(x.model);
  const Strategy s = vision_strategy(x.model, x.strategy);
  const BlockContext vision{v, x.cluster, s, local_shape(v, s)};
  BlockOps layer, own;
  append_layer(vision, vision_layer(v), layer);
  const double times = real(v.num_layers);
  for (KernelOp op : layer.kernels) {
    op.time = op.time * times;
    op.flops *= times, op.launches *= times, op.calls *= times, op.bytes *= times;
    own.kernels.push_back(op);
  }
  for (CommOp op : layer.comm) {
    op.count *= times;
    own.comm.push_back(op);
  }
  append_linear(vision, "patches", patches_of(s), v.hidden_size, patch_features(*x.model.encoder),
                true, own);
  if (!trains(x.strategy, FrozenPart::kVisionModel)) {  // nothing that is trained comes before it
    const auto is_backward = [](const auto& op) { return op.pass != Pass::kForward; };
    std::erase_if(own.kernels, is_backward);
    std::erase_if(own.comm, is_backward);
  }
  ops.kernels.insert(ops.kernels.end(), own.kernels.begin(), own.kernels.end());
  ops.comm.insert(ops.comm.end(), own.comm.begin(), own.comm.end());
  append_projector(x, patches_of(s), ops);
}

// [F-VIT-3] What every layer keeps, never computed again, and the patches; the projectors' inputs.
// Of what is frozen, with nothing trained before it, nothing.
double encoder_saved_bytes(const BlockContext& x) {
  if (!trains_encoder(x.model, x.strategy)) return 0;
  const EncoderSpec& e = *x.model.encoder;
  const ModelSpec v = vision_model(x.model);
  const Strategy s = vision_strategy(x.model, x.strategy);
  const BlockContext vision{v, x.cluster, s, local_shape(v, s)};
  const double patches = real(patches_of(s));
  const double inner = real(e.projector_hidden_size) / real(e.merged_patches);
  const double projected = real(e.projectors) * (2 * real(e.hidden_size) + 2 * inner);
  double bytes = x.shape.bytes * patches * projected;
  if (trains(x.strategy, FrozenPart::kVisionModel)) {
    bytes += real(v.num_layers) * layer_saved_bytes(vision, vision_layer(v)).all +
             x.shape.bytes * patches * real(patch_features(e));
  }
  return bytes;
}

}  // namespace meshplan

#include "model/flops.hpp"

#include <variant>

#include "model/block_table.hpp"
#include "model/encoder.hpp"
#include "model/kinds.hpp"

namespace meshplan {

namespace {

// Kinds without scores have nothing that a mask leaves out.
template <class Kind>
double causal_token_flops(const Kind& kind, std::int64_t seq_len) {
  return token_flops(kind, seq_len);
}

double score_forward_flops(const LayerSpec& layer, std::int64_t seq_len, AttentionCount count) {
  const auto per_token = [&](const auto& kind) {
    return count == AttentionCount::kCausal ? causal_token_flops(kind, seq_len)
                                            : token_flops(kind, seq_len);
  };
  return std::visit(per_token, layer.mixer);
}

}  // namespace

double layer_forward_flops(const ModelSpec& m, const LayerSpec& layer, std::int64_t seq_len,
                           AttentionCount count) {
  const LayerParameters p = layer_parameters(m, layer);
  const auto matrices = static_cast<double>(p.attention_linear + p.attention_other + p.mlp_linear +
                                            p.router + p.experts_active);
  return 2 * matrices + score_forward_flops(layer, seq_len, count);
}

TrainedParts trained_parts(const Strategy& s) {
  return {!is_frozen(s), trains(s, FrozenPart::kVisionModel),
          trains(s, FrozenPart::kVisionProjection)};
}

Flops model_flops(const ModelSpec& m, std::int64_t seq_len, double tokens, AttentionCount count,
                  const TrainedParts& trained) {
  const BlockTable table = block_table(m);
  const auto h = static_cast<double>(m.hidden_size);
  const double head = 2.0 * static_cast<double>(m.vocab_size) * h;
  double forward = head, scores = 0;
  const auto add = [&](const LayerSpec& layer, double times) {
    forward += layer_forward_flops(m, layer, seq_len, count) * times;
    scores += score_forward_flops(layer, seq_len, count) * times;
  };
  for (const std::size_t block : table.of_layer) add(table.layer(block), 1);
  if (m.mtp_layers > 0) {
    const auto times = static_cast<double>(m.mtp_layers);
    add(mtp_layer(m), times);
    forward += times * (head + 4 * h * h);
  }
  // A frozen part has gradients of its input alone, and none where nothing before it is trained.
  const EncoderFlops encoder = encoder_flops(m);
  const double vision = trained.vision_model ? 3 : 1;
  const double projection = (trained.vision_model ? 2 : 1) + (trained.vision_projection ? 1 : 0);
  const double images = (vision * encoder.vision_model + projection * encoder.vision_projection) /
                        static_cast<double>(seq_len);
  const double text = trained.language_model ? 3 * forward : 2 * (forward - scores) + 3 * scores;
  return Flops{(text + images) * tokens};
}

}  // namespace meshplan

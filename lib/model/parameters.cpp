#include "model/parameters.hpp"

#include "model/attention_residuals.hpp"
#include "model/block_table.hpp"
#include "model/encoder.hpp"
#include "model/hyper_connections.hpp"

namespace meshplan {
namespace {

std::int64_t sum(const LayerParameters& p) {
  return p.attention_linear + p.attention_other + p.mlp_linear + p.router + p.experts + p.norms;
}

}  // namespace

std::int64_t norm_parameters(const ModelSpec& m, std::int64_t width) {
  return m.norm == Norm::kLayerNorm ? 2 * width : width;
}

// [F-PAR-5] Layers, token embedding V*h, learned positions max_seq*h, output head V*h unless tied,
// norms after the embedding and before the head. Narayanan et al. 2021 (Megatron-LM) eq. 2,
// extended; active: only top_k experts. A multi-token-prediction layer adds a 2h*h projection,
// norms of its two inputs and of its output (DeepSeek-V3 2412.19437 sec. 2.2), with the embedding
// and the head shared.
ParameterCount parameter_count(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  ParameterCount count;
  count.embedding = m.vocab_size * h;
  if (m.position_embedding == PositionEmbedding::kLearned) count.embedding += m.max_seq_length * h;
  count.output_head = m.tied_embeddings ? 0 : m.vocab_size * h;
  count.total = count.embedding + count.output_head + norm_parameters(m, h);
  count.total += contraction_parameters(m) + mixture_parameters(m);
  if (m.embedding_norm) count.total += norm_parameters(m, h);
  count.encoder = encoder_parameters(m).all();
  count.total += count.encoder;
  count.active = count.total;
  const BlockTable table = block_table(m);
  const BlockCounts blocks = all_blocks(m, table);
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    const LayerParameters p = layer_parameters(m, table.layers[i]);
    const std::int64_t layers = blocks[kFirstLayerBlock + i];
    count.total += layers * sum(p);
    count.active += layers * (sum(p) - p.experts + p.experts_active);
  }
  if (m.mtp_layers > 0) {
    const std::int64_t joint = 2 * h * h + 3 * norm_parameters(m, h) + contraction_parameters(m);
    count.mtp =
        (m.mtp_shared ? 1 : m.mtp_layers) * (sum(layer_parameters(m, mtp_layer(m))) + joint);
  }
  return count;
}

std::int64_t frozen_parameters(const ModelSpec& m, const Strategy& s) {
  if (s.frozen.empty()) return 0;
  const EncoderParameters encoder = encoder_parameters(m);
  std::int64_t count = 0;
  if (s.frozen.has(FrozenPart::kVisionModel)) count += encoder.vision_model;
  if (s.frozen.has(FrozenPart::kVisionProjection)) count += encoder.vision_projection;
  if (s.frozen.has(FrozenPart::kLanguageModel)) {
    const ParameterCount all = parameter_count(m);
    count += all.total + all.mtp - encoder.all();
  }
  return count;
}

}  // namespace meshplan

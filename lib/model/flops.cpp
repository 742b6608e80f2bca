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

Flops model_flops(const ModelSpec& m, std::int64_t seq_len, double tokens, AttentionCount count,
                  bool frozen) {
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
  const double encoder = m.encoder ? encoder_flops(m) / static_cast<double>(seq_len) : 0;
  if (!frozen) return Flops{3 * (forward + encoder) * tokens};
  // A frozen encoder, before which nothing is trained, has no backward pass at all.
  return Flops{(2 * (forward - scores) + 3 * scores + encoder) * tokens};
}

}  // namespace meshplan

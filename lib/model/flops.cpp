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

}  // namespace

double layer_forward_flops(const ModelSpec& m, const LayerSpec& layer, std::int64_t seq_len,
                           AttentionCount count) {
  const LayerParameters p = layer_parameters(m, layer);
  const auto matrices = static_cast<double>(p.attention_linear + p.attention_other + p.mlp_linear +
                                            p.router + p.experts_active);
  const auto per_token = [&](const auto& kind) {
    return count == AttentionCount::kCausal ? causal_token_flops(kind, seq_len)
                                            : token_flops(kind, seq_len);
  };
  return 2 * matrices + std::visit(per_token, layer.mixer);
}

Flops model_flops(const ModelSpec& m, std::int64_t seq_len, double tokens, AttentionCount count) {
  const BlockTable table = block_table(m);
  double forward = 0;
  for (const std::size_t block : table.of_layer) {
    forward += layer_forward_flops(m, table.layer(block), seq_len, count);
  }
  const double head = 2.0 * static_cast<double>(m.vocab_size) * static_cast<double>(m.hidden_size);
  forward += head;
  if (m.encoder) forward += encoder_flops(m) / static_cast<double>(seq_len);
  const auto h = static_cast<double>(m.hidden_size);
  forward += static_cast<double>(m.mtp_layers) *
             (layer_forward_flops(m, mtp_layer(m), seq_len, count) + head + 4 * h * h);
  return Flops{3 * forward * tokens};
}

}  // namespace meshplan

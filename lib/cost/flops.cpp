#include "cost/flops.hpp"

#include <algorithm>

namespace meshplan {

double layer_forward_flops(const ModelSpec& m, LayerKind kind, bool windowed,
                           std::int64_t seq_len) {
  const LayerParameters p = layer_parameters(m, kind);
  const auto matrices = static_cast<double>(p.attention_linear + p.attention_other + p.mlp_linear +
                                            p.router + p.experts_active);
  const std::int64_t keys = windowed && m.window > 0 ? std::min(m.window, seq_len) : seq_len;
  const auto heads = static_cast<double>(m.num_attention_heads);
  const double qk = m.mla ? static_cast<double>(m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim)
                          : static_cast<double>(m.head_dim);
  const double v = m.mla ? static_cast<double>(m.mla->v_head_dim) : static_cast<double>(m.head_dim);
  return 2 * matrices + 2 * static_cast<double>(keys) * heads * (qk + v);
}

Flops model_flops(const ModelSpec& m, std::int64_t seq_len, double tokens) {
  double forward = 0;
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    forward += layer_forward_flops(m, layer_kind(m, i), layer_is_windowed(m, i), seq_len);
  }
  const double head = 2.0 * static_cast<double>(m.vocab_size) * static_cast<double>(m.hidden_size);
  forward += head;
  const LayerKind last = layer_kind(m, m.num_layers - 1);
  const auto h = static_cast<double>(m.hidden_size);
  forward += static_cast<double>(m.mtp_layers) *
             (layer_forward_flops(m, last, layer_is_windowed(m, m.num_layers - 1), seq_len) + head +
              4 * h * h);
  return Flops{3 * forward * tokens};
}

}  // namespace meshplan

// A whole decoder layer: a mixer and what follows it.
#include <algorithm>
#include <variant>

#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

LayerParameters layer_parameters(const ModelSpec& m, const LayerSpec& layer) {
  LayerParameters p;
  p.norms = (has_own_norm(m) ? 2 : 1) * norm_parameters(m, m.hidden_size);
  std::visit([&](const auto& kind) { add_parameters(kind, m, p); }, layer.mixer);
  std::visit([&](const auto& kind) { add_parameters(kind, m, p); }, layer.feed_forward);
  return p;
}

void append_mixer(const BlockContext& x, const Mixer& mixer, BlockOps& ops) {
  std::visit([&](const auto& kind) { append_operations(kind, x, ops); }, mixer);
}

void append_feed_forward(const BlockContext& x, const FeedForward& feed_forward, BlockOps& ops) {
  std::visit([&](const auto& kind) { append_operations(kind, x, ops); }, feed_forward);
}

void append_layer(const BlockContext& x, const LayerSpec& layer, BlockOps& ops) {
  append_mixer(x, layer.mixer, ops);
  append_feed_forward(x, layer.feed_forward, ops);
  limit_hidden_dispatch(x, ops);
}

KeptBytes layer_saved_bytes(const BlockContext& x, const LayerSpec& layer) {
  const auto of = [&](const auto& kind) { return saved_bytes(kind, x); };
  const KeptBytes mixer = std::visit(of, layer.mixer), rest = std::visit(of, layer.feed_forward);
  return {mixer.all + rest.all, mixer.selective + rest.selective};
}

// Gradients of the widest features (both gated halves and the product), and of the gathered input
// and output of the layer; or the gradients of an operation's scores going in and coming out.
double layer_working_bytes(const BlockContext& x, const LayerSpec& layer) {
  const double e = x.shape.bytes, hidden = real(x.shape.tokens) * real(x.shape.hidden);
  const double features =
      std::visit([&](const auto& kind) { return widest_features(kind, x); }, layer.feed_forward);
  const double scores =
      std::visit([&](const auto& kind) { return num_scores(kind, x); }, layer.mixer);
  return std::max(features * (x.model.gated_mlp ? 3 : 2) * e + 3 * e * hidden,
                  2 * e * scores + 2 * e * hidden);
}

}  // namespace meshplan

// A whole decoder layer: a mixer and what follows it.
#include <algorithm>
#include <type_traits>
#include <variant>

#include "model/attention_residuals.hpp"
#include "model/dispatch.hpp"
#include "model/hyper_connections.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

LayerParameters layer_parameters(const ModelSpec& m, const LayerSpec& layer) {
  LayerParameters p;
  const std::int64_t norms =
      (has_mixer(layer) ? 1 : 0) + (has_feed_forward(layer) && has_own_norm(m) ? 1 : 0);
  p.norms = (m.sandwich_norm ? 2 : 1) * norms * norm_parameters(m, m.hidden_size);
  const std::int64_t parts = (has_mixer(layer) ? 1 : 0) + (has_feed_forward(layer) ? 1 : 0);
  p.attention_other += parts * (connection_parameters(m) + mixture_parameters(m));
  std::visit([&](const auto& kind) { add_parameters(kind, m, p); }, layer.mixer);
  std::visit([&](const auto& kind) { add_parameters(kind, m, p); }, layer.feed_forward);
  return p;
}

namespace {

// [F-NORM-2] The norm behind a part of a layer, before the residual takes it (Gemma 2, 2408.00118).
template <class Part>
void append_part(const BlockContext& x, const Part& part, BlockOps& ops) {
  if (std::holds_alternative<NoneSpec>(part)) return;
  append_mixture(x, ops);
  std::visit([&](const auto& kind) { append_operations(kind, x, ops); }, part);
  append_connection(x, std::is_same_v<Part, FeedForward>, ops);
  if (!x.model.sandwich_norm) return;
  append_norm(x, "post norm", x.shape.norm_tokens * x.shape.hidden, ops);
}

}  // namespace

void append_mixer(const BlockContext& x, const Mixer& mixer, BlockOps& ops) {
  const PartBegin begin = part_begin(ops);
  append_part(x, mixer, ops);
  if (const auto module = graph_module_of(mixer)) graph_part(x, *module, begin, ops);
}

void append_feed_forward(const BlockContext& x, const FeedForward& feed_forward, BlockOps& ops) {
  const PartBegin begin = part_begin(ops);
  append_part(x, feed_forward, ops);
  if (std::holds_alternative<NoneSpec>(feed_forward)) return;
  const bool dense = std::holds_alternative<DenseMlpSpec>(feed_forward);
  graph_part(x, dense ? CudaGraphModule::kMlp : CudaGraphModule::kMoe, begin, ops);
}

namespace {

bool captures(const BlockContext& x, CudaGraphModule module) {
  const Runtime& k = x.strategy.runtime;
  if (k.cuda_graph != CudaGraph::kLayer) return false;
  return k.cuda_graph_modules.empty() || k.cuda_graph_modules.has(module);
}

double mask_bytes(const BlockContext& x, const Mixer& mixer) {
  if (graph_module_of(mixer) != CudaGraphModule::kAttn) return 0;
  if (!captures(x, CudaGraphModule::kAttn)) return 0;
  const Strategy& s = x.strategy;
  return real(s.micro_batch) * real(s.seq_len) * real(ceil_div(s.seq_len, s.cp));
}

struct Captured {
  bool mixer = false, feed_forward = false, router = false;
};

Captured captured_parts(const BlockContext& x, const LayerSpec& layer) {
  const auto module = graph_module_of(layer.mixer);
  Captured parts{module && captures(x, *module)};
  if (std::holds_alternative<DenseMlpSpec>(layer.feed_forward)) {
    parts.feed_forward = captures(x, CudaGraphModule::kMlp);
  } else if (has_feed_forward(layer)) {
    parts.feed_forward = captures(x, CudaGraphModule::kMoe);
    parts.router = captures(x, CudaGraphModule::kMoeRouter);
  }
  return parts;
}

}  // namespace

void append_layer(const BlockContext& x, const LayerSpec& layer, BlockOps& ops) {
  append_mixer(x, layer.mixer, ops);
  append_feed_forward(x, layer.feed_forward, ops);
  limit_hidden_dispatch(x, ops);
  stop_recompute_early(x, ops);
  append_fills(x, ops);
}

double layer_graph_inputs(const BlockContext& x, const LayerSpec& layer) {
  const Captured parts = captured_parts(x, layer);
  const bool captured = parts.mixer || parts.feed_forward || parts.router;
  return captured ? residual_bytes(x) + mask_bytes(x, layer.mixer) : 0;
}

KeptBytes layer_saved_bytes(const BlockContext& x, const LayerSpec& layer) {
  const auto of = [&](const auto& kind) { return saved_bytes(kind, x); };
  const KeptBytes mixer = std::visit(of, layer.mixer), rest = std::visit(of, layer.feed_forward);
  const int parts = (has_mixer(layer) ? 1 : 0) + (has_feed_forward(layer) ? 1 : 0);
  const double behind =
      x.model.sandwich_norm
          ? parts * norm_bytes(x, real(x.shape.norm_tokens) * real(x.shape.hidden))
          : 0;
  const double connections = parts * (connection_saved_bytes(x) + mixture_saved_bytes(x));
  const RepeatedStreams streams = repeated_streams(x, parts);
  return {mixer.all + rest.all + behind + connections + mask_bytes(x, layer.mixer),
          mixer.selective + rest.selective + streams.dropped,
          std::max(mixer.together, rest.together) + streams.together,
          mixer.offloaded + rest.offloaded};
}

namespace {

// Gradients of the widest features (both gated halves and the product, in whose place its gradient
// comes where it was saved: 3.2 GiB where 3.7 would be with it in a step of 32,768 tokens on one
// H200, scripts/gpu_switches.py), and of the gathered input and output of the layer, and of the
// tokens of all ranks where experts gather them.
double feed_forward_working_bytes(const BlockContext& x, const LayerSpec& layer) {
  const double e = x.shape.bytes, hidden = real(x.shape.tokens) * real(x.shape.hidden);
  const double features =
      std::visit([&](const auto& kind) { return widest_features(kind, x); }, layer.feed_forward);
  const bool freed = kept(x, {LoraTarget::kFc2}) > 0;
  const double cast = stores_fp8_input(x) ? 2 * e : 0;  // both halves in 16 bits again
  const bool gathers = std::holds_alternative<MoeSpec>(layer.feed_forward) && is_gathered(x);
  const double tokens = gathers ? e * gathered_tokens(x) * real(x.shape.hidden) : 0;
  return features * ((x.model.gated_mlp && !freed ? 3 : 2) * e + cast) + 3 * e * hidden + tokens;
}

// What the mixer has in use besides.
double mixer_working_bytes(const BlockContext& x, const LayerSpec& layer) {
  const double hidden = real(x.shape.tokens) * real(x.shape.hidden);
  return std::visit([&](const auto& kind) { return temporary_bytes(kind, x); }, layer.mixer) +
         2 * x.shape.bytes * hidden;
}

double stream_working_bytes(const BlockContext& x) {
  return (has_streams(x.model) ? 2 * residual_bytes(x) : 0) + mixture_working_bytes(x);
}

}  // namespace

double layer_working_bytes(const BlockContext& x, const LayerSpec& layer) {
  return stream_working_bytes(x) +
         std::max(feed_forward_working_bytes(x, layer), mixer_working_bytes(x, layer));
}

// The input of the first captured part is static ([F-GRAPH-1]); the output of the last one lies in
// the pool, as the input that the part behind it saves.
GraphedBytes layer_graphed_bytes(const BlockContext& x, const LayerSpec& layer) {
  const Captured parts = captured_parts(x, layer);
  const bool repeats = x.strategy.recompute == Recompute::kSelective;
  const auto saved = [&](const auto& part) {
    const KeptBytes bytes = std::visit([&](const auto& k) { return saved_bytes(k, x); }, part);
    return bytes.all - (repeats ? bytes.selective : 0);
  };
  GraphedBytes bytes;
  const double streams = stream_working_bytes(x);
  const double mixer = streams + mixer_working_bytes(x, layer);
  const double rest = streams + feed_forward_working_bytes(x, layer);
  if (parts.mixer) bytes.saved += saved(layer.mixer), bytes.working = mixer;
  if (parts.feed_forward) {
    bytes.saved += saved(layer.feed_forward), bytes.working = std::max(bytes.working, rest);
  }
  if (parts.mixer && parts.feed_forward) bytes.saved -= residual_bytes(x);
  bytes.beside = std::max(parts.mixer ? streams : mixer, parts.feed_forward ? streams : rest);
  return bytes;
}

}  // namespace meshplan

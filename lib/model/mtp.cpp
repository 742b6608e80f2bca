// Multi-token prediction.
#include "model/hyper_connections.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {
namespace {

// [F-MTP-2] The projection is column-parallel and its output gathered whole, unlike a decoder
// layer's, where a row-parallel one follows: with sequence parallelism the input of 2h is gathered
// before it and the output's own share of the sequence is kept, whose gradient is gathered; the
// input's gradients are reduced (Megatron-Core transformer/multi_token_prediction.py,
// _concat_embeddings; tensor_parallel/mappings.py).
void append_projection_collectives(const BlockContext& x, const LinearTimes& projection,
                                   BlockOps& ops) {
  using enum Collective;
  const Strategy& s = x.strategy;
  const double output = x.shape.bytes * real(x.shape.tokens) * real(x.shape.hidden);
  const double input = 2 * output;
  const auto add = [&](Pass pass, Collective op, double bytes, Seconds window) {
    append_tp_collective(x, CommDimension::kTp, pass, op, bytes, 1, window, ops);
  };
  const Seconds beside = hides_tensor_backward(x) ? projection.backward_weight : Seconds{};
  if (s.sequence_parallel) add(Pass::kForward, kAllGather, input, {});
  add(Pass::kForward, kAllGather, output, {});
  if (!s.sequence_parallel) {
    add(Pass::kBackwardInput, kAllReduce, input, beside);
    return;
  }
  add(Pass::kBackwardInput, kAllGather, output, {});
  if (s.runtime.tp_recompute_allgather && !is_frozen(s)) {
    add(Pass::kBackwardInput, kAllGather, input, projection.backward_input);
  }
  add(Pass::kBackwardInput, kReduceScatter, input, beside);
}

}  // namespace

// [F-MTP-1] Multi-token prediction joins the hidden state with the next token's embedding: two
// norms and a projection of 2h to h before one more decoder layer (DeepSeek-V3, 2412.19437, 2.2).
void append_mtp_projection(const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  append_norm(x, "mtp norm", l.norm_tokens * l.hidden, ops);
  append_norm(x, "mtp embedding norm", l.norm_tokens * l.hidden, ops);
  const LinearTimes projection = append_linear(
      x, "mtp projection", l.tokens, ceil_div(l.hidden, x.strategy.tp), 2 * l.hidden, false, ops);
  append_projection_collectives(x, projection, ops);
  append_expansion(x, ops);
}

}  // namespace meshplan

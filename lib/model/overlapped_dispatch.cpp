// Tokens on their way to experts and back beside another microbatch's layer.
#include <algorithm>
#include <array>
#include <optional>

#include "model/dispatch.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

// [F-EP-19] One queue for all streams runs kernels in the order of their calls, so that messages
// wait for kernels and kernels for messages: overlapped dispatch needs CUDA_DEVICE_MAX_CONNECTIONS
// over 1 (Megatron-Core transformer/moe/README.md, requirements of EP A2A overlap).
bool hides_dispatch(const Strategy& s) {
  return s.overlap.ep && !s.runtime.single_device_connection;
}

namespace {

// What a layer's pass runs on the stream of kernels, by part: before tokens leave, and with the
// experts that they come to. Of the backward pass what the gradients of inputs take, and those of
// weights.
struct PassParts {
  Seconds forward, input, weight;
};
struct PairedLayer {
  PassParts before, experts;
  // On the stream of messages: forward to the experts and back, backward the same for gradients.
  Seconds dispatch, combine, gradients_out, gradients_back;
};

bool is_message(const CommOp& op) {
  return op.dimension == CommDimension::kEp && op.hidden > Seconds{};
}

Seconds& part_of(PairedLayer& layer, const ExpertsSpan& span, std::size_t place, Pass pass) {
  const bool shared = place >= span.shared_begin && place < span.shared_end;
  const bool experts = place >= span.sent && place < span.returned && !shared;
  PassParts& parts = experts ? layer.experts : layer.before;
  switch (pass) {
    case Pass::kForward:
      return parts.forward;
    case Pass::kBackwardInput:
      return parts.input;
    case Pass::kBackwardWeight:
      return parts.weight;
  }
  return parts.forward;
}

// Kernels behind the combination of tokens run on the stream of messages, where they take what
// kernels beside them would: they are no part of either.
bool is_behind(const ExpertsSpan& span, std::size_t place) {
  return place >= span.returned && !(place >= span.shared_begin && place < span.shared_end);
}

PairedLayer paired_layer(const BlockOps& ops) {
  PairedLayer layer;
  const ExpertsSpan& span = *ops.experts_span;
  for (std::size_t i = 0; i < ops.kernels.size(); ++i) {
    if (!is_behind(span, i)) part_of(layer, span, i, ops.kernels[i].pass) += ops.kernels[i].time;
  }
  for (const CommOp& op : ops.comm) {
    const Seconds time = op.time_each * op.count;
    if (is_message(op)) {
      const bool forward = op.pass == Pass::kForward;
      (forward      ? op.returns ? layer.combine : layer.dispatch
       : op.returns ? layer.gradients_back
                    : layer.gradients_out) += time;
    } else if (!is_behind(span, op.place)) {
      part_of(layer, span, op.place, op.pass) += time;
    }
  }
  return layer;
}

// [F-EP-3] A forward layer of one microbatch and a backward layer of another, one pair after the
// other:
//   messages:  gradients out   | tokens out, gradients back            | tokens back
//   kernels:   before, forward | experts backward (weights), forward   | before, backward (weights)
// Each of a stream begins when the one before has ended and its own input is there (Megatron-Core
// models/common/model_chunk_schedule_plan.py, TransformerLayerSchedulePlan.run). Weight gradients
// belong to the backward pass of their part unless they are issued by themselves.
Seconds paired_period(const PairedLayer& t, bool delays_weights) {
  const Seconds own = delays_weights ? Seconds{} : t.experts.weight;
  const Seconds own_before = delays_weights ? Seconds{} : t.before.weight;
  constexpr int kPairs = 12, kSettled = 4;
  Seconds kernels, messages, forward_done, backward_done, settled;
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair == kSettled) settled = std::max(kernels, messages);
    const Seconds gradients_out = messages = std::max(messages, backward_done) + t.gradients_out;
    const Seconds before = kernels = std::max(kernels, forward_done) + t.before.forward;
    const Seconds backward = kernels = std::max(kernels, gradients_out) + t.experts.input + own;
    const Seconds tokens_out = messages = std::max(messages, before) + t.dispatch;
    kernels += t.experts.weight - own;
    const Seconds gradients_back = messages = std::max(messages, backward) + t.gradients_back;
    const Seconds experts = kernels = std::max(kernels, tokens_out) + t.experts.forward;
    forward_done = messages = std::max(messages, experts) + t.combine;
    backward_done = kernels = std::max(kernels, gradients_back) + t.before.input + own_before;
    kernels += t.before.weight - own_before;
  }
  return (std::max(kernels, messages) - settled) * (1.0 / (kPairs - kSettled));
}

}  // namespace

void limit_hidden_dispatch(const BlockContext& x, BlockOps& ops) {
  if (!hides_dispatch(x.strategy) || !ops.experts_span) return;
  const PairedLayer t = paired_layer(ops);
  const Seconds messages = t.dispatch + t.combine + t.gradients_out + t.gradients_back;
  if (messages == Seconds{}) return;
  const Seconds kernels = t.before.forward + t.before.input + t.before.weight + t.experts.forward +
                          t.experts.input + t.experts.weight;
  const Seconds period = paired_period(t, x.strategy.overlap.delay_wgrad_compute);
  const Seconds hidden = std::max(Seconds{}, messages + kernels - period);
  const double share = std::min(1.0, hidden.si() / messages.si());
  for (CommOp& op : ops.comm) {
    if (!is_message(op)) continue;
    op.hidden = op.hidden * share;
    op.slowdown = op.hidden * (x.cluster.device.overlap_slowdown - 1);
  }
}

}  // namespace meshplan

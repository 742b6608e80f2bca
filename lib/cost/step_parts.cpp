#include "cost/step_parts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "comm/collectives.hpp"
#include "cost/block.hpp"
#include "cost/memory.hpp"
#include "schedule/traits.hpp"

namespace meshplan {

// [F-EMB-2] Tied embeddings: the first and the last pipeline rank all-reduce their copies of the
// table's gradient (Shoeybi et al. 1909.08053; Megatron-LM finalize_model_grads.py).
Seconds embedding_reduction(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                            std::vector<CommEntry>* table) {
  if (s.pp == 1 || is_frozen(s) || !(m.tied_embeddings || m.mtp_layers > 0)) return {};
  const Bytes bytes{padded_vocab(m, s) / s.tp * m.hidden_size * size_of(s.grad_dtype)};
  const GroupShape g = group_shape(s, c, Group::kEmbedding);
  const Seconds each = collective_time(c, Collective::kAllReduce, bytes, g).total;
  if (table != nullptr) {
    table->push_back({CommDimension::kEmbedding, Collective::kAllReduce, g.size, g.level, bytes, 1,
                      each, each, Group::kEmbedding, s.grad_dtype, false});
  }
  return each;
}

namespace {

// Megatron-Core turns overlap_p2p_comm off without interleaving (training/arguments.py) and then
// waits for every batch of sends and receives (core/pipeline_parallel/p2p_communication.py).
bool messages_beside_kernels(const Strategy& s) {
  return s.overlap.pp && !(traits_of(s.schedule).is_plain() && s.runtime.interleaved_p2p_overlap);
}

// [F-PP-SEND-2] With one forward and one backward pass in turn, activations go to the next stage
// while gradients come back from it (Megatron-LM p2p_communication.py, send_forward_recv_backward);
// with all forwards first (GPipe) all activations go first. Warm-up and drain, pp - 1 of the
// microbatches, go one way.
bool messages_meet(const Strategy& s) { return !traits_of(s.schedule).forwards_first; }

}  // namespace

// [F-PP-SEND-1] A boundary's message: tokens x hidden (of all streams) of a microbatch, split over
// tensor ranks with sequence parallelism. Without overlap the sender stands still for it
// (Megatron-LM p2p_communication.py waits for its batched sends and receives).
BoundarySend boundary_send(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                           const Placement& placement) {
  const LocalShape l = timed_shape(m, s);
  const Bytes whole{l.norm_tokens * l.residual * l.bytes};
  const bool split = s.runtime.scatter_gather && s.tp > 1 && !s.sequence_parallel;
  BoundarySend send;
  send.message = split ? Bytes{ceil_div(whole.count(), s.tp)} : whole;
  send.bidirectional = messages_meet(s);
  send.time.transfer = collective_time(c, Collective::kSendRecv, send.message,
                                       placement.neighbours(), send.bidirectional)
                           .total;
  if (!messages_beside_kernels(s)) send.time.sender_busy = send.time.transfer;
  if (split) {
    send.time.transfer +=
        collective_time(c, Collective::kAllGather, whole, placement.tensor()).total;
  }
  return send;
}

StepEnd step_end(const ClusterSpec& c, const Strategy& s, const RankEnd& rank,
                 const RankCost& passes, std::vector<CommEntry>* table) {
  return step_end(c, s, rank, passes.forward.total(),
                  passes.backward.total() + passes.recompute.total(), table);
}

UnevenWork uneven_work(const std::vector<Chunk>& chunks, const BlockCosts& blocks,
                       const Strategy& s, double passes) {
  UnevenWork work;
  const bool selective = s.recompute == Recompute::kSelective;
  for (const Chunk& chunk : chunks) {
    for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
      const BlockCost& block = blocks.of(k, chunk.device);
      const auto all = static_cast<double>(chunk.blocks[k]);
      const auto again = static_cast<double>(chunk.recomputed[k]);
      const double forwards = s.loss == Loss::kDpo ? 2 : 1;  // the reference model's too
      const Seconds attention =
          (block.attention_forward * forwards + block.attention_backward) * all +
          block.attention_forward * again;
      PassTime pass = (block.forward + block.backward_input + block.backward_weight) * all +
                      block.recompute_full * again;
      if (selective) pass += block.recompute_selective * (all - again);
      const Seconds time = pass.total() - pass.launch;  // the host is as fast whatever they are
      work.pairs += attention;
      work.tokens += time - attention;
    }
  }
  const double share = passes / static_cast<double>(s.pp);
  return {work.tokens * share, work.pairs * share};
}

UnevenWork uneven_work(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  const double share = traits_of(s.schedule).share();
  return uneven_work(chunk_plan(m, s), block_costs(m, c, s), s,
                     share * static_cast<double>(num_microbatches(s)));
}

TimeTerms step_terms(const RankStep& r) {
  const PassTime sum = (r.passes.forward + r.passes.backward) * r.microbatches;
  const PassTime again = r.passes.recompute * r.microbatches;
  TimeTerms t;
  t.compute = sum.compute;
  t.recompute = again.compute;
  t.tp_comm_exposed = sum.tp + again.tp;
  t.cp_comm_exposed = sum.cp + again.cp;
  t.ep_comm_exposed = sum.ep + again.ep;
  t.dp_comm_exposed = sum.dp + again.dp + r.reduction + r.tied;
  t.optimizer = r.optimizer;
  t.other = sum.launch + again.launch + r.offload;
  t.pp_bubble = std::max(r.finish - r.passes.total() * r.microbatches, Seconds{});
  return t;
}

// Sums are rounded term by term. With the bubble in whole units of the sum's last digit, the sum
// before it is such a number too, and some message time leads to it: the difference, but where
// that is rounded the wrong way, the one with a bubble that is a unit longer or shorter.
void split_idle(TimeTerms& t, Seconds messages) {
  if (messages <= Seconds{}) return;
  if (messages >= t.pp_bubble) {
    std::swap(t.pp_comm_exposed, t.pp_bubble);
    return;
  }
  const double before =
      (t.compute + t.recompute + t.tp_comm_exposed + t.cp_comm_exposed + t.ep_comm_exposed).si();
  const double sum = before + t.pp_bubble.si();
  const double unit = std::nextafter(sum, 2 * sum) - sum;
  const double bubble = std::round((t.pp_bubble - messages).si() / unit) * unit;
  for (const double b : {bubble, bubble + unit, bubble - unit}) {
    const double m = sum - b - before;
    if (b < 0 || m < 0 || before + m + b != sum) continue;
    t.pp_comm_exposed = Seconds{m}, t.pp_bubble = Seconds{b};
    return;
  }
}

}  // namespace meshplan

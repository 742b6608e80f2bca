#include "cost/step_parts.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "comm/collectives.hpp"
#include "cost/block_ops.hpp"
#include "cost/memory.hpp"
#include "schedule/traits.hpp"

namespace meshplan {
namespace {

Seconds activation_offload(const ClusterSpec& c, const Strategy& s, const BlockCosts& blocks,
                           const Assembly& a, std::size_t rank) {
  if (!s.offload.activations) return {};
  Bytes saved;
  for (const std::size_t i : chunks_of_rank(s, static_cast<std::int64_t>(rank))) {
    saved += ceil_bytes(saved_bytes(a.chunks[i], blocks, s.recompute).si() * a.share);
  }
  const RankCost& cost = a.ranks[rank];
  const Seconds backward = cost.backward.total() + cost.recompute.total();
  return activation_offload_time(c.device, saved, cost.forward.total(), backward) * a.microbatches;
}

}  // namespace

// [F-EMB-2] Tied embeddings: the first and the last pipeline rank all-reduce their copies of the
// table's gradient (Shoeybi et al. 1909.08053; Megatron-LM finalize_model_grads.py).
Seconds embedding_reduction(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                            std::vector<CommEntry>* table) {
  if (s.pp == 1 || !(m.tied_embeddings || m.mtp_layers > 0)) return {};
  const Bytes bytes{padded_vocab(m, s) / s.tp * m.hidden_size * size_of(s.grad_dtype)};
  const GroupShape g = group_shape(s, c, Group::kEmbedding);
  const Seconds each = collective_time(c, Collective::kAllReduce, bytes, g).total;
  if (table != nullptr) {
    table->push_back({CommDimension::kEmbedding, Collective::kAllReduce, g.size, g.level, bytes, 1,
                      each, each, Group::kEmbedding, s.grad_dtype, false});
  }
  return each;
}

Assembly assemble(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks) {
  Assembly a;
  a.chunks = chunk_plan(m, s);
  a.microbatches = static_cast<double>(num_microbatches(s));
  a.share = traits_of(s.schedule).share();
  const Recompute mode = s.recompute == Recompute::kFull ? Recompute::kNone : s.recompute;
  for (const Chunk& chunk : a.chunks) a.costs.push_back(chunk_cost(chunk, blocks, mode));
  a.ranks.resize(static_cast<std::size_t>(s.pp));
  for (std::int64_t r = 0; r < s.pp; ++r) {
    RankCost& rank = a.ranks[static_cast<std::size_t>(r)];
    for (const std::size_t i : chunks_of_rank(s, r)) {
      rank.forward += a.costs[i].forward * a.share;
      rank.backward += a.costs[i].backward * a.share;
      rank.recompute += a.costs[i].recompute * a.share;
    }
  }
  return a;
}

namespace {

// Megatron-Core turns overlap_p2p_comm off without interleaving (training/arguments.py) and then
// waits for every batch of sends and receives (core/pipeline_parallel/p2p_communication.py).
bool messages_beside_kernels(const Strategy& s) {
  return s.overlap.pp && !(traits_of(s.schedule).is_plain() && s.kernels.interleaved_p2p_overlap);
}

// [F-PP-SEND-2] With one forward and one backward pass in turn, activations go to the next stage
// while gradients come back from it (Megatron-LM p2p_communication.py, send_forward_recv_backward);
// with all forwards first (GPipe) all activations go first. Warm-up and drain, pp - 1 of the
// microbatches, go one way.
bool messages_meet(const Strategy& s) { return !traits_of(s.schedule).forwards_first; }

}  // namespace

// [F-PP-SEND-1] A boundary's message: tokens x hidden of a microbatch, split over tensor ranks with
// sequence parallelism. Without overlap the sender stands still for it (Megatron-LM
// p2p_communication.py waits for its batched sends and receives).
BoundarySend boundary_send(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  return boundary_send(m, c, s, group_shape(s, c, Group::kPpNeighbour));
}

BoundarySend boundary_send(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                           const GroupShape& neighbours) {
  const LocalShape l = local_shape(m, s);
  const Bytes whole{l.norm_tokens * l.hidden * l.bytes};
  const bool split = s.kernels.scatter_gather && s.tp > 1 && !s.sequence_parallel;
  BoundarySend send;
  send.message = split ? Bytes{ceil_div(whole.count(), s.tp)} : whole;
  send.bidirectional = messages_meet(s);
  send.time.transfer =
      collective_time(c, Collective::kSendRecv, send.message, neighbours, send.bidirectional).total;
  if (!messages_beside_kernels(s)) send.time.sender_busy = send.time.transfer;
  if (split) {
    const GroupShape tensor = group_shape(s, c, Group::kTp);
    send.time.transfer += collective_time(c, Collective::kAllGather, whole, tensor).total;
  }
  return send;
}

PipelineResult run_assembly(const Strategy& s, const Assembly& a, const SendTime& send,
                            bool with_timeline) {
  std::vector<ChunkTime> times;
  for (const ChunkCost& cost : a.costs) times.push_back(cost.time);
  const std::vector<SendTime> sends(times.size() - 1, send);
  thread_local PipelineRunner runner;  // keeps task orders, which many strategies share
  return runner.run(pipeline_shape(s), times, sends, sends, with_timeline);
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
  const Seconds busy = r.passes.total() * r.microbatches;
  t.pp_bubble = std::max(r.finish_alone - busy, Seconds{});
  t.pp_comm_exposed = std::max(r.finish - std::max(r.finish_alone, busy), Seconds{});
  return t;
}

StepEnds step_ends(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                   const BlockCosts& blocks, const Assembly& a,
                   const std::vector<Seconds>& finish) {
  StepEnds ends;
  ends.tied = embedding_reduction(m, c, s, &ends.embedding);
  const StepEndGroups groups = step_end_groups(m, c, s);
  const auto end_of = [&](std::size_t r, std::vector<CommEntry>* table) {
    const RankCost& rank = a.ranks[r];
    const BlockParameters p = rank_parameters(m, s, blocks, a.chunks, static_cast<std::int64_t>(r));
    return step_end(c, s, rank_end(m, c, s, groups, p), rank.forward.total(),
                    rank.backward.total() + rank.recompute.total(), table);
  };
  Seconds latest{-1};
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    const StepEnd& here = ends.ranks.emplace_back(end_of(r, nullptr));
    const Seconds end = finish[r] + here.exposed;
    if (end > latest) latest = end, ends.last = r;
    ends.optimizer = std::max(ends.optimizer, here.optimizer);
    ends.offload = std::max(ends.offload, here.offload + activation_offload(c, s, blocks, a, r));
  }
  end_of(ends.last, &ends.reductions);
  return ends;
}

}  // namespace meshplan

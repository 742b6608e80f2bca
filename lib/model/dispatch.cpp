// How tokens travel to their experts and back.
#include "model/dispatch.hpp"

#include <algorithm>
#include <cmath>

#include "comm/collectives.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {
namespace {

// Parts of a group that get one copy of a token each: its nodes where it spans several, else its
// ranks.
std::int64_t parts_of(const GroupShape& g) { return g.blocks[0] > 1 ? g.blocks[0] : g.size; }

// [F-EP-11] Where the network lets no device post messages, as EFA, kernels that send tokens
// themselves hand each to a proxy on the host: a start, and the level's token_message for every
// token and other node that gets it; never faster than the links. The start and p5's 1.4 us a token
// are fitted to AWS's published cells (awsome-distributed-ai, megatron-bridge: 512 to 2,048 tokens
// of 4 and 14 KiB to one or three other nodes; NVSHMEM on libfabric takes 0.56 of UCCL's time a
// token). UCCL's own benchmarks of 4,096 tokens of 14 KiB on p5en and p6-b200, without a host that
// waits, start with 0.7 to 1.1 ms and grow by 0.1 to 0.2 us a token (uccl ep/README.md).
// The host waits through the start of a forward dispatch, until it knows how many tokens come
// (DeepEP csrc/deep_ep.cpp, internode_dispatch).
Seconds proxy_start(const BlockContext& x) {
  constexpr Seconds kUccl{2e-3}, kNvshmem{1.5e-3};
  return x.strategy.runtime.dispatch_nvshmem ? kNvshmem : kUccl;
}

bool is_proxied(const BlockContext& x, const GroupShape& g) {
  return x.strategy.runtime.flex_dispatcher && g.size > 1 &&
         x.cluster.levels[g.level].token_message > Seconds{0};
}

Seconds proxied_time(const BlockContext& x, const CommOp& comm, double token_bytes) {
  constexpr double kNvshmemToken = 0.56;
  const bool nvshmem = x.strategy.runtime.dispatch_nvshmem;
  const Seconds each = x.cluster.levels[comm.group.level].token_message;
  const double parts = real(parts_of(comm.group));
  const double tokens = comm.bytes.si() * (parts - 1) / parts / token_bytes;
  return proxy_start(x) + each * tokens * (nvshmem ? kNvshmemToken : 1);
}

// [F-EP-7] Kernels that write tokens into the other ranks' memory over NVLink (DeepEP, HybridEP)
// reach three quarters of its rate: 153 GB/s dispatching and 158 combining of an H800's 200 (DeepEP
// README), 331 and 323 of the 450 of H100 and H200 (its test_intranode.py on 24 multiprocessors);
// each 4,096 tokens of 7,168 to 8 experts on 8 GPUs. NCCL's exchange is the other choice.
Seconds dispatch_time(const BlockContext& x, const CommOp& comm, double token_bytes) {
  constexpr double kShare = 0.75;
  const Seconds nccl = collective_time(x.cluster, comm.operation, comm.bytes, comm.group).total;
  const GroupShape& g = comm.group;
  if (is_proxied(x, g)) return std::max(nccl, proxied_time(x, comm, token_bytes));
  if (!x.strategy.runtime.flex_dispatcher || g.level != 0 || g.size == 1) return nccl;
  const LinkLevel& link = x.cluster.levels.front();
  if (link.kind != LinkKind::kNvswitch && link.kind != LinkKind::kNvlink) return nccl;
  const Seconds start = collective_time(x.cluster, comm.operation, Bytes{1}, g).total;
  const double sent =
      comm.bytes.si() * static_cast<double>(g.size - 1) / static_cast<double>(g.size);
  return std::min(nccl, start + Seconds{sent / (link.bandwidth.si() * kShare)});
}

CommOp dispatch_op(const BlockContext& x, Pass pass, Collective op, Group group, double bytes) {
  CommOp comm;
  comm.dimension = CommDimension::kEp;
  comm.pass = pass;
  comm.operation = op;
  comm.bytes = ceil_bytes(bytes);
  comm.group = x.group(group);
  comm.kind = group;
  comm.dtype = activation_dtype(x.strategy.precision);
  comm.time_each = collective_time(x.cluster, op, comm.bytes, comm.group).total;
  return comm;
}

void push(CommOp comm, BlockOps& ops) {
  comm.place = ops.kernels.size();
  ops.comm.push_back(comm);
}

void push_ep(const BlockContext& x, Pass pass, Collective op, double bytes, double token_bytes,
             BlockOps& ops) {
  const Strategy& s = x.strategy;
  CommOp comm = dispatch_op(x, pass, op, Group::kEp, bytes);
  if (op == Collective::kAllToAll) comm.time_each = dispatch_time(x, comm, token_bytes);
  // As far as limit_hidden_dispatch() leaves it.
  if (hides_dispatch(s)) comm.hidden = comm.time_each;
  push(comm, ops);
}

void push_etp(const BlockContext& x, Pass pass, Collective op, double bytes, BlockOps& ops) {
  push(dispatch_op(x, pass, op, Group::kEtp, bytes), ops);
}

void push_gather(const BlockContext& x, Pass pass, Collective op, double bytes, BlockOps& ops) {
  push(dispatch_op(x, pass, op, Group::kEtpEp, bytes), ops);
}

// [F-EP-12] What is sent copy by copy: before, ranks gather how many copies each expert gets, for
// which the host waits; and where the probabilities weigh the experts' hidden features (since
// 2025-04), they are exchanged in fp32 beside it, both ways (Megatron-Core
// moe/token_dispatcher.py, preprocess and token_dispatch).
void append_beside_copies(const MoeSpec& moe, const BlockContext& x, Pass pass, double copies,
                          BlockOps& ops) {
  if (!x.strategy.runtime.weighted_expert_outputs) {
    push_ep(x, pass, Collective::kAllToAll, 4 * copies, 0, ops);
  }
  if (pass != Pass::kForward) return;
  push_ep(x, pass, Collective::kAllGather, 8 * real(moe.num_experts * x.strategy.ep), 0, ops);
  CommOp& counts = ops.comm.back();
  counts.awaited = counts.time_each;
  counts.hidden = {};
  if (ops.host_wait) counts.place = ops.host_wait->place - 2;  // before tokens are sorted
}

bool gathers_received(const Strategy& s) { return s.etp > 1 && s.sequence_parallel; }

// [F-EP-14] Dispatch by gathering: the tokens of all ranks that share the experts, with the
// router's probabilities and the map of who goes where; back, outputs of all tokens are reduced and
// scattered. The backward pass has the opposite of each (Megatron-Core moe/token_dispatcher.py,
// MoEAllGatherTokenDispatcher).
void append_gathers(const MoeSpec& moe, const BlockContext& x, double token_bytes, BlockOps& ops) {
  const double tokens = gathered_tokens(x), experts = real(moe.num_experts);
  const double scores = tokens * experts * x.shape.bytes;
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    const bool forward = pass == Pass::kForward;
    push_gather(x, pass, Collective::kAllGather, tokens * token_bytes, ops);
    push_gather(x, pass, Collective::kReduceScatter, tokens * token_bytes, ops);
    ops.comm.back().returns = true;
    push_gather(x, pass, forward ? Collective::kAllGather : Collective::kReduceScatter, scores,
                ops);
    if (forward) push_gather(x, pass, Collective::kAllGather, tokens * experts, ops);
  }
}

// The chance that none of k experts, drawn evenly from `all`, is one of `of_part`.
double missed(double k, double all, double of_part) {
  double chance = 1;
  for (double i = 0; i < k; ++i) chance *= std::max(0.0, all - of_part - i) / (all - i);
  return chance;
}

// The chance that `chosen` of `groups`, drawn evenly, hold exactly j of `mine`.
double holds(double groups, double chosen, double mine, double j) {
  const auto ways = [](double n, double k) {
    return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
  };
  if (j > chosen || j > mine || chosen - j > groups - mine) return 0;
  return std::exp(ways(mine, j) + ways(groups - mine, chosen - j) - ways(groups, chosen));
}

// [F-EP-20] Where the router first chooses g of G groups of experts, by the best of each, and k
// experts of theirs: between k experts drawn evenly from all of theirs and k / g from each, the
// mean of both, which is within 4 % of counted tokens with random scores. A part of several groups
// holds more of those chosen or fewer (DeepSeek-V3, 2412.19437 sec. 2.1.2; Megatron-Core
// moe/moe_utils.py, group_limited_topk).
double group_limited_copies(const MoeSpec& moe, double parts) {
  const double k = real(moe.top_k), groups = real(moe.router_num_groups);
  const double chosen = real(moe.router_group_top_k);
  const double of_group = real(moe.num_experts) / groups, of_part = real(moe.num_experts) / parts;
  if (parts >= groups) {
    const double evenly = 1 - missed(k, of_group * chosen, of_part);
    const double from_each = 1 - missed(k / chosen, of_group, of_part);
    return parts * chosen / groups * (evenly + from_each) / 2;
  }
  const double mine = groups / parts;
  double reached = 0;
  for (double j = 1; j <= mine; ++j) {
    const double evenly = 1 - missed(k, of_group * chosen, j * of_group);
    reached += holds(groups, chosen, mine, j) * (evenly + 1) / 2;
  }
  return parts * reached;
}

}  // namespace

// [F-EP-2] Of a token's top_k copies, how many distinct parts of the expert-parallel group get one,
// experts drawn evenly: p (1 - C(E - E/p, k) / C(E, k)) of p equal parts of E experts. The parts
// are its ranks inside a node and its nodes where it spans several, whose members forward to each
// other over NVLink (DeepEP; DeepSeek-V3, 2412.19437 sec. 3.2.2).
double copies_sent(const MoeSpec& moe, const BlockContext& x) {
  const double k = real(moe.top_k), all = real(moe.num_experts);
  if (!x.strategy.runtime.flex_dispatcher) return k;
  const double parts = real(parts_of(x.group(Group::kEp)));
  const bool limited = moe.router_group_top_k < moe.router_num_groups;
  const double copies =
      limited ? group_limited_copies(moe, parts) : parts * (1 - missed(k, all, all / parts));
  return std::min(k, copies);
}

// Whether what is sent is one copy for each rank instead of one for each expert.
bool is_sent_once(const BlockContext& x) {
  return x.strategy.ep > 1 && x.strategy.runtime.flex_dispatcher;
}

bool is_gathered(const BlockContext& x) {
  const Strategy& s = x.strategy;
  return s.runtime.allgather_dispatcher && (s.ep > 1 || gathers_received(s));
}

double gathered_tokens(const BlockContext& x) {
  const Strategy& s = x.strategy;
  return real(x.shape.norm_tokens * s.ep * (gathers_received(s) ? s.etp : 1));
}

double received_share(const BlockContext& x) {
  return gathers_received(x.strategy) ? real(x.strategy.etp) : 1;
}

void append_dispatch(const MoeSpec& moe, const BlockContext& x, double elements, double busiest,
                     BlockOps& ops) {
  const Strategy& s = x.strategy;
  const double token_bytes = elements * x.shape.bytes, tokens = real(x.shape.norm_tokens);
  if (is_gathered(x)) return append_gathers(moe, x, token_bytes, ops);
  const double routed = tokens * real(moe.top_k) * busiest;
  if (s.ep > 1) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
      const double bytes = tokens * copies_sent(moe, x) * busiest * token_bytes;
      push_ep(x, pass, Collective::kAllToAll, bytes, token_bytes, ops);
      if (pass == Pass::kForward && is_proxied(x, ops.comm.back().group)) {
        ops.comm.back().awaited = proxy_start(x);
      }
      push_ep(x, pass, Collective::kAllToAll, bytes, token_bytes, ops);
      ops.comm.back().returns = true;
      if (!is_sent_once(x)) append_beside_copies(moe, x, pass, routed, ops);
    }
  }
  if (!gathers_received(s)) return;
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    push_etp(x, pass, Collective::kAllGather, routed * real(s.etp) * token_bytes, ops);
    push_etp(x, pass, Collective::kReduceScatter, routed * real(s.etp) * token_bytes, ops);
    ops.comm.back().returns = true;
  }
}

void hide_behind_shared_experts(const BlockContext& x, std::size_t first, std::size_t last,
                                BlockOps& ops) {
  if (!x.strategy.overlap.shared_experts) return;
  for (const bool forward : {true, false}) {
    Seconds kernels, messages;
    for (std::size_t i = first; i < last; ++i) {
      if ((ops.kernels[i].pass == Pass::kForward) == forward) kernels += ops.kernels[i].time;
    }
    // What the host waits for comes before any expert.
    const auto is_hidden = [&](const CommOp& op) {
      const bool same = (op.pass == Pass::kForward) == forward;
      return same && op.dimension == CommDimension::kEp && op.awaited == Seconds{};
    };
    for (const CommOp& op : ops.comm) {
      if (is_hidden(op)) messages += op.time_each * op.count;
    }
    if (messages == Seconds{}) continue;
    const double share = std::min(1.0, kernels.si() / messages.si());
    for (CommOp& op : ops.comm) {
      if (!is_hidden(op)) continue;
      op.hidden = op.time_each * share;
      op.slowdown = op.hidden * (x.cluster.device.overlap_slowdown - 1);
    }
  }
}

}  // namespace meshplan

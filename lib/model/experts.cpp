// A mixture of experts, with or without experts that every token passes.
#include <algorithm>

#include "comm/collectives.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"
#include "spec/expert_load.hpp"

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

void push_ep(const BlockContext& x, Pass pass, double bytes, double token_bytes, BlockOps& ops) {
  const Strategy& s = x.strategy;
  CommOp comm;
  comm.dimension = CommDimension::kEp;
  comm.pass = pass;
  comm.operation = Collective::kAllToAll;
  comm.bytes = ceil_bytes(bytes);
  comm.group = x.group(Group::kEp);
  comm.kind = Group::kEp;
  comm.dtype = activation_dtype(s.precision);
  comm.time_each = dispatch_time(x, comm, token_bytes);
  if (s.overlap.ep) comm.hidden = comm.time_each;  // as far as limit_hidden_dispatch() leaves it
  ops.comm.push_back(comm);
}

// [F-EP-2] Of a token's top_k copies, how many distinct parts of the expert-parallel group get one,
// experts drawn evenly: p (1 - C(E - E/p, k) / C(E, k)) of p equal parts of E experts. The parts
// are its ranks inside a node and its nodes where it spans several, whose members forward to each
// other over NVLink (DeepEP; DeepSeek-V3, 2412.19437 sec. 3.2.2).
double copies_sent(const MoeSpec& moe, const BlockContext& x) {
  const double k = real(moe.top_k), all = real(moe.num_experts);
  if (!x.strategy.runtime.flex_dispatcher) return k;
  const double parts = real(parts_of(x.group(Group::kEp))), elsewhere = all - all / parts;
  double missed = 1;  // the chance that no copy goes to one given part
  for (double i = 0; i < k; ++i) missed *= std::max(0.0, elsewhere - i) / (all - i);
  return std::min(k, parts * (1 - missed));
}

void push_etp(const BlockContext& x, Pass pass, Collective op, double bytes, BlockOps& ops) {
  const Strategy& s = x.strategy;
  CommOp comm;
  comm.dimension = CommDimension::kEp;
  comm.pass = pass;
  comm.operation = op;
  comm.bytes = ceil_bytes(bytes);
  comm.group = x.group(Group::kEtp);
  comm.kind = Group::kEtp;
  comm.dtype = activation_dtype(s.precision);
  comm.time_each = collective_time(x.cluster, op, comm.bytes, comm.group).total;
  ops.comm.push_back(comm);
}

// [F-EP-12] What is sent copy by copy: before, ranks gather how many copies each expert gets, for
// which the host waits; and where the probabilities weigh the experts' hidden features (since
// 2025-04), they are exchanged in fp32 beside it, both ways (Megatron-Core
// moe/token_dispatcher.py, preprocess and token_dispatch).
void append_beside_copies(const MoeSpec& moe, const BlockContext& x, Pass pass, double copies,
                          BlockOps& ops) {
  if (!x.strategy.runtime.weighted_expert_outputs) push_ep(x, pass, 4 * copies, 0, ops);
  if (pass != Pass::kForward) return;
  push_ep(x, pass, 0, 0, ops);
  CommOp& counts = ops.comm.back();
  counts.operation = Collective::kAllGather;
  counts.bytes = Bytes{8 * moe.num_experts * x.strategy.ep};
  counts.time_each = collective_time(x.cluster, counts.operation, counts.bytes, counts.group).total;
  counts.awaited = counts.time_each;
  counts.hidden = {};
}

// Token copies that the busiest expert-parallel rank receives. Memory must suffice in bad layers
// too: the 99th percentile of [F-MOE-2], or [F-MOE-3].
double received_tokens(const MoeSpec& moe, const BlockContext& x) {
  return real(x.shape.norm_tokens) * real(moe.top_k) * rank_load(moe, x.strategy.ep).p99;
}

// What a device's experts work on: copies of tokens, their features and outputs each.
struct ExpertWork {
  double received = 0, features = 0, outputs = 0, experts = 0;
};

// Host time of one of PyTorch's operators in plain modules, in kernels of the framework.
double plain_operator(const BlockContext& x) {
  const double factor = x.strategy.runtime.host_factor;
  return factor > kPlainHostFactor ? kPlainHostFactor / factor : 1;
}

// Whether what is sent is one copy for each rank instead of one for each expert.
bool is_sent_once(const BlockContext& x) {
  return x.strategy.ep > 1 && x.strategy.runtime.flex_dispatcher;
}

// [F-HOST-6] Launches of the host to choose experts, to sort tokens to them and back, and to wait
// until the device says how many tokens each expert got; forward and backward. Counted and timed in
// Megatron-Core 0.17 on one H200, 128 experts (benchmarks/device/h200-megatron.json): by operators
// of PyTorch 33 choose by softmax and make the auxiliary loss, the router's product among them, and
// 21 more by sigmoid, corrected scores and groups of experts, of which ten are the groups'; 20 sort
// tokens to experts and 5 bring them back. Where tokens travel copy by copy they are sorted by
// local expert as well: they are cut at every expert and joined again, 128 pieces in 10 operators'
// time. Backward issues about as many in all (102 of a layer, 96 forward). Fused, three kernels of
// Transformer Engine choose, with eight operators around them (Megatron-Core moe/router.py). The
// wait takes 0.4 ms where a kernel of a module takes 86 us.
struct RoutingLaunches {
  double route = 0, route_back = 0, sort = 2, sort_back = 2, unsort = 3, unsort_back = 3;
};

RoutingLaunches routing_launches(const MoeSpec& moe, const BlockContext& x) {
  constexpr double kWait = 5;
  const Runtime& k = x.strategy.runtime;
  const double plain = plain_operator(x);
  RoutingLaunches n{.route = 3 + 8 * plain, .route_back = 3 + 4 * plain};
  if (!k.fused_router) {
    const double corrected = moe.router_bias ? 11 : 0;
    n.route = (32 + corrected) * plain;
    n.route_back = (24 + corrected) * plain;
  }
  if (!k.fused_permute) {
    if (is_sent_once(x)) {  // sorted and brought back where they arrive
      n.unsort = n.unsort_back = (20 + 5) * plain;
    } else {
      const double pieces = 0.08 * real(moe.num_experts);
      n.sort = n.sort_back = (20 + pieces) * plain;
      n.unsort = n.unsort_back = (5 + pieces) * plain;
    }
  }
  if (!k.grouped_kernel) n.unsort += kWait;
  // The dispatcher's own functions and what they keep for the way back, forward and backward.
  constexpr double kDispatcher = 20;
  if (x.strategy.ep > 1) n.unsort += kDispatcher, n.unsort_back += kDispatcher;
  // Sums over what ranks told each other ([F-EP-12]), and copies of five of them to the host.
  constexpr double kCounts = 12;
  if (x.strategy.ep > 1 && !is_sent_once(x)) n.sort += kCounts * plain;
  return n;
}

// [F-EP-5] What Megatron-Core does to experts with biases (gpt-oss) outside of the products: both
// halves of the gated features are clamped and put together again before the fused activation (4
// times their bytes, 5 times backward; fusions/fused_bias_geglu.py,
// weighted_bias_quick_geglu_impl), and the output's bias, weighed by the router's fp32
// probabilities, is added expert by expert in fp32 and cast back (28 bytes an element in 2 kernels
// of each expert, 40 in 6 backward; moe/experts.py, _apply_bias). The loop over experts calls
// PyTorch's operators, which take the host what they take it in plain modules.
void append_biased_experts(const BlockContext& x, const ExpertWork& work, BlockOps& ops) {
  const double e = x.shape.bytes, features = work.received * work.features;
  append_elementwise(x, "expert clamp", 8 * e * features, 3, 10 * e * features, 4, ops);
  const double outputs = work.received * work.outputs;
  const double plain = plain_operator(x);
  const auto add = [&](Pass pass, double bytes, double each) {
    ops.kernels.push_back(memory_op(x, "expert bias", pass, bytes, each * work.experts + 2));
    ops.kernels.back().launches = each * work.experts * plain + 2;
  };
  add(Pass::kForward, 28 * outputs, 2);
  add(Pass::kBackwardInput, 40 * outputs, 6);
}

// What the host issues for the two passes of the operation that was appended last.
void set_launches(double forward, double backward, BlockOps& ops) {
  ops.kernels[ops.kernels.size() - 2].launches = forward;
  ops.kernels.back().launches = backward;
}

// [F-EP-8] A kernel that gates what it multiplied and writes it in 8 bits, and its counterpart that
// does so to the gradient, leave no casts between the experts' two products. Recomputing the
// activation is one output more of the second, which reads the features anyway (Transformer Engine
// ops/, activation_recompute_in_mlp): no time of its own.
void drop_casts(std::size_t first, Pass pass, BlockOps& ops) {
  const auto is_cast = [&](const KernelOp& op) { return op.name == "fp8 cast" && op.pass == pass; };
  const auto begin = ops.kernels.begin() + static_cast<std::ptrdiff_t>(first);
  ops.kernels.erase(std::remove_if(begin, ops.kernels.end(), is_cast), ops.kernels.end());
}

// Elements per token that routed experts work on.
std::int64_t expert_input(const MoeSpec& moe, std::int64_t hidden) {
  return moe.latent_size > 0 ? moe.latent_size : hidden;
}

}  // namespace

// [F-PAR-4] E experts, each an MLP of width f_e, a router h*E (and E where it has a bias), of which
// a token passes top_k. Shazeer et al. 2017; Fedus et al. 2021 (Switch) sec. 2; biases of gpt-oss.
void add_parameters(const MoeSpec& moe, const ModelSpec& m, LayerParameters& p) {
  const std::int64_t input = expert_input(moe, m.hidden_size);
  std::int64_t expert = (m.gated_mlp ? 3 : 2) * input * moe.expert_ffn_hidden_size;
  if (m.linear_bias || m.expert_bias) {
    expert += mlp_first_bias(m, moe.expert_ffn_hidden_size) + input;
  }
  p.experts = moe.num_experts * expert;
  p.experts_active = moe.top_k * expert;
  p.router = moe.num_experts * (m.hidden_size + (moe.router_bias ? 1 : 0));
  p.router += 2 * m.hidden_size * moe.latent_size;  // the projections to and from the latent
  if (moe.latent_norm) p.norms += norm_parameters(m, moe.latent_size);
  add_mlp(m, moe.shared_expert_ffn_hidden_size, p);
}

// [F-EP-1] Mixture of experts: each of T tokens of a rank goes to top_k experts. Dispatch and
// combine are all-to-alls of T top_k h elements (fewer with flex_dispatcher, [F-EP-2]) over the
// expert-parallel group, forward and again backward; expert tensor parallelism gathers and
// reduce-scatters the received tokens. All wait for the busiest rank, whose load is that of
// [F-MOE-2] or [F-MOE-3]: the median over placements. (Megatron-Core moe/token_dispatcher.py.)
void append_operations(const MoeSpec& moe, const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const ModelSpec& m = x.model;
  const Strategy& s = x.strategy;
  const std::int64_t input = expert_input(moe, l.hidden);
  const double e = l.bytes, h = real(input);
  const PartBegin first_of_all = part_begin(ops);
  append_residual_norm(x, "mlp norm", ops, true);
  const PartBegin whole = part_begin(ops);
  const bool all_again = repeats(x, RecomputeModule::kMoe, false);
  append_gradient_sum(x, l.norm_tokens * l.hidden, ops);  // of router and experts

  const double tokens = real(l.norm_tokens);
  // Router: fp32 scores, softmax or sigmoid, top-k, auxiliary loss, and the maps for permutation.
  const GemmShape router{l.norm_tokens, moe.num_experts, l.hidden, 1, 4, 0};
  const bool has_bf16 = peak_rate(x.cluster.device, Precision::kBf16).si() > 0;
  const Precision router_precision = has_bf16 ? Precision::kBf16 : s.precision;
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    KernelOp op;
    op.name = "router";
    op.pass = pass;
    op.time =
        gemm_time(x.cluster.device, router_precision, router) * (pass == Pass::kForward ? 1 : 2);
    op.flops = gemm_flops(router).si() * (pass == Pass::kForward ? 1 : 2);
    op.launches = pass == Pass::kForward ? 1 : 2;
    ops.kernels.push_back(op);
  }
  const double scores = tokens * real(moe.num_experts);
  const RoutingLaunches launches = routing_launches(moe, x);
  append_elementwise(x, "routing", 40 * scores, 10, 40 * scores, 8, ops);
  set_launches(launches.route, launches.route_back, ops);
  graph_part(x, CudaGraphModule::kMoeRouter, first_of_all, ops);

  const PartBegin preprocess = part_begin(ops);
  if (moe.latent_size > 0) {
    append_linear(x, "latent down", l.norm_tokens, input, l.hidden, false, ops);
  }
  const double routed = tokens * real(moe.top_k);  // token copies this rank sends
  const double busiest = rank_load(moe, s.ep).median;
  // [F-EP-6] What is sent copy by copy is sorted by rank, and by expert again where it arrives; one
  // copy for each rank is put in order once, there (Megatron-Core moe/token_dispatcher.py,
  // MoEAlltoAllTokenDispatcher; _DeepepManager.get_permuted_hidden_states_by_experts).
  const bool sent_once = is_sent_once(x);
  if (!sent_once) {
    // PyTorch adds the gradients of rows that it picked to zeros of their own.
    const double back = s.runtime.fused_permute ? 2 : 4;
    append_elementwise(x, "permute", 2 * e * routed * h, 2, back * e * routed * h, 2, ops);
    set_launches(launches.sort, launches.sort_back, ops);
  }
  graph_part(x, CudaGraphModule::kMoePreprocess, preprocess, ops);
  if (s.ep > 1) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
      const double bytes = tokens * copies_sent(moe, x) * h * e * busiest;
      push_ep(x, pass, bytes, h * e, ops);
      if (pass == Pass::kForward && is_proxied(x, ops.comm.back().group)) {
        ops.comm.back().awaited = proxy_start(x);
      }
      push_ep(x, pass, bytes, h * e, ops);
      if (!sent_once) append_beside_copies(moe, x, pass, routed * busiest, ops);
    }
  }
  const bool etp_gather = s.etp > 1 && s.sequence_parallel;
  const double received = routed * busiest * (etp_gather ? real(s.etp) : 1);
  if (etp_gather) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
      push_etp(x, pass, Collective::kAllGather, received * h * e, ops);
      push_etp(x, pass, Collective::kReduceScatter, received * h * e, ops);
    }
  }
  const std::int64_t local_experts = std::max<std::int64_t>(moe.num_experts / s.ep, 1);
  const auto per_expert =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(received / real(local_experts)));
  const std::int64_t ffn = ceil_div(moe.expert_ffn_hidden_size, s.etp);
  const std::size_t first_expert = ops.kernels.size();
  AdapterSite first = first_mlp_site(m, ffn);
  AdapterSite second{.layer = LoraTarget::kFc2, .row_parallel = true};
  first.of_experts = second.of_experts = true;
  const bool fused = has_fused_experts(x);
  append_linear(x, "experts up", per_expert, ffn * (m.gated_mlp ? 2 : 1), input, m.expert_bias, ops,
                local_experts, &first);
  if (fused) drop_casts(first_expert, Pass::kBackwardInput, ops);
  const PartBegin activation = part_begin(ops);
  if (!fused) append_activation(x, received * real(ffn), ops);
  const bool activation_again = !all_again && repeats(x, RecomputeModule::kMoeAct, false);
  if (activation_again && !fused) repeat_part(activation, ops);
  const std::size_t first_down = ops.kernels.size();
  append_linear(x, "experts down", per_expert, input, ffn, m.expert_bias, ops, local_experts,
                &second);
  if (fused) drop_casts(first_down, Pass::kForward, ops);
  if (m.expert_bias && s.runtime.transformer_engine) {
    append_biased_experts(x, {received, real(ffn), h, real(local_experts)}, ops);
  }
  for (std::size_t i = first_expert; i < ops.kernels.size(); ++i) {
    ops.kernels[i].awaited = ops.kernels[i].pass == Pass::kForward && !s.runtime.grouped_kernel;
  }
  if (s.runtime.weighted_expert_outputs) {
    append_elementwise(x, "expert weights", 2 * e * received * h, 1, 6 * e * received * h, 3, ops);
  }
  // Sorting by local expert and back, then the weighted sum over top_k copies.
  const double copies = tokens * copies_sent(moe, x) * busiest;
  const double sorted = sent_once ? 2 * e * (copies + received) : 2 * e * (received + routed);
  append_elementwise(x, "unpermute", sorted * h, 3, sorted * h, 3, ops);
  set_launches(launches.unsort, launches.unsort_back, ops);
  if (moe.latent_size > 0) {
    if (moe.latent_norm) append_norm(x, "latent norm", l.norm_tokens * input, ops);
    append_linear(x, "latent up", l.norm_tokens, l.hidden, input, false, ops);
  }
  if (moe.shared_expert_ffn_hidden_size > 0) {
    const PartBegin begin = part_begin(ops);
    const std::int64_t shared = ceil_div(moe.shared_expert_ffn_hidden_size, s.tp);
    const AdapterSite narrow{.layer = LoraTarget::kFc2, .row_parallel = true};
    const LinearTimes up = append_mlp_first(x, "shared expert up", l.tokens, shared, false, ops);
    append_activation(x, real(l.tokens) * real(shared), ops);
    const LinearTimes down =
        append_linear(x, "shared expert down", l.tokens, l.hidden, shared, false, ops, 1, &narrow);
    append_tp_collectives(x, up, down, ops);
    if (!all_again && repeats(x, RecomputeModule::kSharedExperts, false)) repeat_part(begin, ops);
    append_gradient_sum(x, l.norm_tokens * l.hidden, ops);
    graph_part(x, CudaGraphModule::kMoeRouter, begin, ops);
  } else if (s.tp > 1 && !s.sequence_parallel) {
    append_tp_collectives(x, {}, {}, ops);  // experts split by tp: one reduction each way
  }
  if (all_again) repeat_part(whole, ops);
  append_residual(x, ops);
}

// [F-EP-9] Routed experts: permuted inputs, the experts' hidden features, router logits and
// probabilities in fp32; shared experts as a dense MLP. Where the probabilities weigh the hidden
// features (Megatron-Core moe/experts.py, since 2025-04) the sum over copies needs no saved
// outputs; else outputs are read and written once more, forward, and read for both gradients,
// backward: the outputs' (2 e) and the probabilities' (3 e for the products, e for their sums).
KeptBytes saved_bytes(const MoeSpec& moe, const BlockContext& x) {
  const LocalShape& l = x.shape;
  const Strategy& s = x.strategy;
  const double norm = real(l.norm_tokens) * real(l.hidden);
  const double routed = received_tokens(moe, x);
  const double gathered = s.etp > 1 && s.sequence_parallel ? real(s.etp) : 1;
  const double hidden = routed * gathered * real(ceil_div(moe.expert_ffn_hidden_size, s.etp));
  const double shared = real(l.tokens) * real(ceil_div(moe.shared_expert_ffn_hidden_size, s.tp));
  // The norm's output is the router's input and the shared experts'.
  const bool own = moe.shared_expert_ffn_hidden_size > 0 || !is_frozen(s);
  const double normed = own ? kept(x, kFirstTargets) * norm : 0;
  double inside = routed * gathered * real(expert_input(moe, l.hidden)) * kept(x, kFirstTargets);
  inside += real(l.norm_tokens) * real(moe.latent_size) * kept(x);  // input of the way back
  if (moe.latent_norm) inside += norm_bytes(x, real(l.norm_tokens) * real(moe.latent_size));
  if (s.runtime.weighted_expert_outputs) {
    inside += routed * gathered * real(expert_input(moe, l.hidden)) * l.bytes;
  }
  inside += activation_function_bytes(x, hidden);
  inside += real(l.norm_tokens) * real(moe.num_experts) * 8;
  const double of_shared = activation_function_bytes(x, shared);
  KeptBytes saved{norm_bytes(x, norm) + normed + inside + of_shared};
  const OffloadModules& off = s.offload.modules;
  if (off.has(OffloadModule::kMlpNorm)) saved.offloaded += norm_bytes(x, norm);
  if (off.has(OffloadModule::kExpertFc1)) {
    saved.offloaded +=
        routed * gathered * real(expert_input(moe, l.hidden)) * kept(x, kFirstTargets);
  }
  if (off.has(OffloadModule::kMoeAct)) {
    saved.offloaded += activation_function_bytes(x, hidden) - kept(x, {LoraTarget::kFc2}) * hidden;
  }
  if (s.recompute_modules.empty()) {
    if (s.flash_attention) saved.selective = repeated_features(x, hidden + shared);
    return saved;
  }
  if (repeats(x, RecomputeModule::kMoe, false)) {
    saved.selective = saved.together = inside + of_shared;
  } else {
    const bool again = repeats(x, RecomputeModule::kSharedExperts, false);
    const double features =
        repeats(x, RecomputeModule::kMoeAct, false) ? kept(x, {LoraTarget::kFc2}) * hidden : 0;
    saved.selective = features + (again ? of_shared : 0);
    saved.together = std::max(features, again ? of_shared : 0);
  }
  if (repeats(x, RecomputeModule::kLayernorm, false)) saved.selective += normed;
  return saved;
}

double widest_features(const MoeSpec& moe, const BlockContext& x) {
  return received_tokens(moe, x) * real(ceil_div(moe.expert_ffn_hidden_size, x.strategy.etp));
}

// [F-EP-3] With overlap.ep the messages of one microbatch's pass run beside the kernels of
// another's opposite pass, layer against layer: a layer's messages of both passes hide behind its
// kernels of both, as far as these last, and slow them (Megatron-Core combined_1f1b.py).
void limit_hidden_dispatch(const BlockContext& x, BlockOps& ops) {
  if (!x.strategy.overlap.ep) return;
  Seconds kernels, hidden;
  for (const KernelOp& op : ops.kernels) kernels += op.time;
  for (const CommOp& op : ops.comm) {
    if (op.dimension == CommDimension::kEp) hidden += op.hidden * op.count;
  }
  const double share = hidden > Seconds{} ? std::min(1.0, kernels.si() / hidden.si()) : 0;
  for (CommOp& op : ops.comm) {
    if (op.dimension != CommDimension::kEp) continue;
    op.hidden = op.hidden * share;
    op.slowdown = op.hidden * (x.cluster.device.overlap_slowdown - 1);
  }
}

}  // namespace meshplan

// A mixture of experts, with or without experts that every token passes.
#include <algorithm>

#include "model/dispatch.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"
#include "spec/expert_load.hpp"

namespace meshplan {
namespace {

// Token copies that the busiest expert-parallel rank receives. Memory must suffice in bad layers
// too: the 99th percentile of [F-MOE-2], or [F-MOE-3].
double received_tokens(const MoeSpec& moe, const BlockContext& x) {
  return real(x.shape.norm_tokens) * real(moe.top_k) * expert_load(moe, x.strategy).p99;
}

// What a device's experts work on: copies of tokens, their features and outputs each.
struct ExpertWork {
  double received = 0, features = 0, outputs = 0, experts = 0;
};

// Whether experts work on as many tokens whatever comes: the host knows how many.
bool is_padded(const BlockContext& x) {
  const Runtime& k = x.strategy.runtime;
  return k.pad_to_capacity && k.expert_capacity_factor > 0;
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
// wait takes 0.4 ms where a kernel of a module takes 86 us. One that reads counters which the
// device writes to the host copies nothing (DeepEP csrc/deep_ep.cpp): estimated at two kernels by
// the mixtures of seven sources (benchmarks/accuracy), for which one to three do as well.
struct RoutingLaunches {
  double route = 0, route_back = 0, sort = 2, sort_back = 2;
  double wait = 0, arrive = 1;  // for the counts, and from there to the experts' products
  double unsort = 2, unsort_back = 3;
};

// Whether the host waits for the counts of tokens: kernels of groups may read them on the device,
// but who sends tokens copy by copy or one for each rank has to know how many come.
bool waits_for_counts(const BlockContext& x) {
  const bool sends = x.strategy.ep > 1;
  return (!x.strategy.runtime.grouped_kernel || sends) && !is_padded(x);
}

RoutingLaunches routing_launches(const MoeSpec& moe, const BlockContext& x) {
  constexpr double kWait = 5, kPolled = 2;
  const Runtime& k = x.strategy.runtime;
  const double plain = plain_operator(x);
  RoutingLaunches n{.route = 3 + 8 * plain, .route_back = 3 + 4 * plain};
  if (!k.fused_router) {
    const double corrected = moe.router_bias ? 11 : 0;
    n.route = (32 + corrected) * plain;
    n.route_back = (24 + corrected) * plain;
  }
  const bool sorted_once = is_sent_once(x) || is_gathered(x);
  if (!k.fused_permute) {
    if (sorted_once) {  // and brought back where they arrive
      n.arrive = 20 * plain, n.unsort = 5 * plain;
      n.unsort_back = (20 + 5) * plain;
    } else {
      const double pieces = 0.08 * real(moe.num_experts);
      n.sort = 20 * plain, n.sort_back = (20 + pieces) * plain;
      n.arrive = pieces * plain;
      n.unsort = n.unsort_back = (5 + pieces) * plain;
    }
  }
  if (waits_for_counts(x)) n.wait = is_sent_once(x) ? kPolled : kWait;
  // The dispatcher's own functions and what they keep for the way back, forward and backward. One
  // that gathers has the two collectives alone (MoEAllGatherTokenDispatcher).
  constexpr double kDispatcher = 20;
  if (x.strategy.ep > 1 && !is_gathered(x)) n.unsort += kDispatcher, n.unsort_back += kDispatcher;
  // Sums over what ranks told each other ([F-EP-12]), and copies of five of them to the host.
  constexpr double kCounts = 12;
  if (x.strategy.ep > 1 && !sorted_once) n.sort += kCounts * plain;
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

// [F-HOST-2] Tokens per expert and rank go to the host on a stream of their own behind the router's
// kernels; it sorts what will be sent before it waits for them, unless a graph does that too, after
// which the copy begins. What is sent once waits inside of its dispatch, what is gathered behind it
// (Megatron-Core moe/token_dispatcher.py, cuda_dtoh_point and cuda_sync_point; DeepEP csrc/
// deep_ep.cpp, intranode_dispatch).
void append_host_wait(bool sorts_before, double launches, BlockOps& ops) {
  HostWait wait{ops.kernels.size(), {}};
  for (std::size_t i = ops.kernels.size() - 2; sorts_before && i < ops.kernels.size(); ++i) {
    const KernelOp& op = ops.kernels[i];
    if (op.pass == Pass::kForward && !op.graphed) wait.queued += op.time;
  }
  ops.host_wait = wait;
  KernelOp op;
  op.name = "token counts";
  op.launches = launches;
  ops.kernels.push_back(op);
}

void place_before_wait(std::size_t first_comm, BlockOps& ops) {
  for (std::size_t i = first_comm; ops.host_wait && i < ops.comm.size(); ++i) {
    ops.comm[i].place = ops.host_wait->place - 1;
  }
}

// What the host issues for the two passes of the operation that was appended last.
void set_launches(double forward, double backward, BlockOps& ops) {
  ops.kernels[ops.kernels.size() - 2].launches = forward;
  ops.kernels.back().launches = backward;
}

// [F-EP-16] Where no kernel of its own does it, copies are added to their tokens element by element
// by atomic operations, behind the experts (scatter_add_) and in the backward pass to the tokens
// that were picked (index_add_; Megatron-Core moe/moe_utils.py, unpermute and permute). These go at
// 0.8e9 a second and multiprocessor: the mean of 0.46e9 on H20 (FlagGems pull request 4502, 4,096 x
// 4,096 elements in 0.55 ms, 0.08 of it to read and write them) and 1.15e9 on H200 (TileOps pull
// request 608, 2,048 x 2 rows of 4,096 in 0.20 ms, 0.09 of it for what comes before). What
// PyTorch's pull request 182675 of May 2026 gains on Hopper and later is not counted.
void append_token_sums(const BlockContext& x, double elements, BlockOps& ops) {
  constexpr double kAtomics = 0.8e9;
  if (x.strategy.runtime.fused_permute) return;
  const auto multiprocessors = real(x.cluster.device.multiprocessors);
  append_elementwise(x, "token sums", 3 * x.shape.bytes * elements, 1, 3 * x.shape.bytes * elements,
                     1, ops);
  for (auto op = ops.kernels.end() - 2; op != ops.kernels.end(); ++op) {
    op->launches = 0;  // with what sorts
    if (multiprocessors > 0) {
      op->time = std::max(op->time, Seconds{elements / (kAtomics * multiprocessors)});
    }
  }
}

// [F-EP-17] Whether the probabilities weigh the experts' hidden features by operators of their own,
// behind an activation function that is not fused: the product keeps what it weighs. Probabilities
// are fp32, so that it is made in fp32 and cast (Megatron-Core moe/experts.py, bias_act_func; other
// codes that weigh features compile both). The host issues them with what [F-HOST-6] counts, which
// was chosen on runs that have them.
bool weighs_features(const BlockContext& x) {
  const Runtime& k = x.strategy.runtime;
  return k.transformer_engine && !k.weighted_expert_outputs && !k.fused_activation;
}

void append_feature_weights(const BlockContext& x, double features, BlockOps& ops) {
  if (!weighs_features(x)) return;
  const double e = x.shape.bytes;
  append_elementwise(x, "feature weights", (2 * e + 8) * features, 2, (4 * e + 16) * features, 4,
                     ops);
  set_launches(0, 0, ops);
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
  GemmShape router{l.norm_tokens, moe.num_experts, l.hidden, 1, 4, 0};
  const bool has_bf16 = peak_rate(x.cluster.device, Precision::kBf16).si() > 0;
  const Precision router_precision = has_bf16 ? Precision::kBf16 : s.precision;
  router.rate = product_rate(x, router_precision);
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
  const double busiest = expert_load(moe, s).median;
  // [F-EP-6] What is sent copy by copy is sorted by rank, and by expert again where it arrives; one
  // copy for each rank is put in order once, there (Megatron-Core moe/token_dispatcher.py,
  // MoEAlltoAllTokenDispatcher; _DeepepManager.get_permuted_hidden_states_by_experts).
  const bool sent_once = is_sent_once(x), gathered = is_gathered(x);
  if (!sent_once && !gathered) {
    append_elementwise(x, "permute", 2 * e * routed * h, 2, 2 * e * routed * h, 2, ops);
    set_launches(launches.sort, launches.sort_back, ops);
  }
  graph_part(x, CudaGraphModule::kMoePreprocess, preprocess, ops);
  const std::size_t first_comm = ops.comm.size();
  if (waits_for_counts(x)) append_host_wait(!sent_once && !gathered, launches.wait, ops);
  append_dispatch(moe, x, h, busiest, ops);
  ExpertsSpan& span = ops.experts_span.emplace();
  span.sent = ops.kernels.size();
  if (gathered) place_before_wait(first_comm, ops);
  const double received = routed * busiest * received_share(x);
  const std::int64_t local_experts = std::max<std::int64_t>(moe.num_experts / s.ep, 1);
  const auto per_expert =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(received / real(local_experts)));
  const std::int64_t ffn = ceil_div(moe.expert_ffn_hidden_size, s.etp);
  // Sorting by local expert and back, then the weighted sum over top_k copies.
  const double copies = tokens * copies_sent(moe, x) * busiest;
  double sorted = sent_once ? 2 * e * (copies + received) : 2 * e * (received + routed);
  // Rows that are picked of all tokens', and added to zeros for all of them.
  const double picked = s.runtime.fused_permute ? 5 : 2;
  if (gathered) sorted = e * (picked * received + gathered_tokens(x));
  ops.kernels.push_back(memory_op(x, "sort by expert", Pass::kForward, sorted * h / 2, 1));
  ops.kernels.back().launches = launches.arrive;
  const std::size_t first_expert = ops.kernels.size();
  AdapterSite first = first_mlp_site(m, ffn);
  AdapterSite second{.layer = LoraTarget::kFc2, .row_parallel = true};
  first.of_experts = second.of_experts = true;
  const bool fused = has_fused_experts(x);
  append_linear(x, "experts up", per_expert, ffn * (m.gated_mlp ? 2 : 1), input, m.expert_bias, ops,
                local_experts, &first);
  if (fused) drop_casts(first_expert, Pass::kBackwardInput, ops);
  const PartBegin activation = part_begin(ops);
  if (!fused) {
    append_activation(x, received * real(ffn), ops);
    append_feature_weights(x, received * real(ffn), ops);
  }
  const bool activation_again = !all_again && repeats(x, RecomputeModule::kMoeAct, false);
  if (activation_again && !fused) repeat_part(activation, ops);
  const std::size_t first_down = ops.kernels.size();
  append_linear(x, "experts down", per_expert, input, ffn, m.expert_bias, ops, local_experts,
                &second);
  if (fused) drop_casts(first_down, Pass::kForward, ops);
  if (m.expert_bias && s.runtime.transformer_engine) {
    append_biased_experts(x, {received, real(ffn), h, real(local_experts)}, ops);
  }
  if (s.runtime.weighted_expert_outputs) {
    append_elementwise(x, "expert weights", 2 * e * received * h, 1, 6 * e * received * h, 3, ops);
  }
  for (std::size_t i = first_comm; i < ops.comm.size(); ++i) {
    if (ops.comm[i].returns) ops.comm[i].place = ops.kernels.size();
  }
  span.returned = ops.kernels.size();
  append_elementwise(x, "unpermute", sorted * h / 2, 2, sorted * h, 3, ops);
  set_launches(launches.unsort, launches.unsort_back, ops);
  append_token_sums(x, (sent_once || gathered ? received : routed) * h, ops);
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
    hide_behind_shared_experts(x, begin.kernel, ops.kernels.size(), ops);
    span.shared_begin = begin.kernel, span.shared_end = ops.kernels.size();
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
  const double gathered = received_share(x);
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
  const double unweighted = weighs_features(x) ? l.bytes * hidden : 0;
  inside += unweighted;
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
    const double features = repeats(x, RecomputeModule::kMoeAct, false)
                                ? kept(x, {LoraTarget::kFc2}) * hidden + unweighted
                                : 0;
    saved.selective = features + (again ? of_shared : 0);
    saved.together = std::max(features, again ? of_shared : 0);
  }
  if (repeats_norms(x)) saved.selective += normed;
  return saved;
}

double widest_features(const MoeSpec& moe, const BlockContext& x) {
  return received_tokens(moe, x) * real(ceil_div(moe.expert_ffn_hidden_size, x.strategy.etp));
}

}  // namespace meshplan

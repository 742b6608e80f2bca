// Traces with one known fault each: the verdict names it first.
#include <algorithm>
#include <cmath>

#include "compare/kineto.hpp"
#include "compare/losses.hpp"
#include "compare/synthetic_trace.hpp"
#include "compare/trace_comparison.hpp"
#include "io/load.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

struct Job {
  ModelSpec model;
  ClusterSpec cluster;
  PlanCost plan;
};

Job job(const std::string& model, std::int64_t gpus, const std::string& strategy) {
  const DataFolders data = DataFolders::standard();
  Job j{*load_model(model, data), with_gpus(*load_cluster("dgx-h100", data), gpus), {}};
  Strategy defaults;
  defaults.dp = 0;
  const Result<Strategy> s = load_strategy("framework=megatron," + strategy, defaults);
  if (!s.ok()) FAIL(to_text(s.errors()));
  const Strategy whole = with_derived_dp(*s, gpus);
  const Diagnostics broken = validate(whole, j.model, j.cluster);
  if (has_errors(broken)) FAIL(to_text(broken));
  j.plan = cost_of(j.model, j.cluster, complete(whole, j.model, j.cluster));
  return j;
}

Job dense() {
  return job("llama-3.1-8b", 8,
             "tp=2,sequence_parallel=true,zero=1,micro_batch=1,global_batch=16,seq_len=4096");
}

struct Traced {
  SyntheticStep step;
  std::int64_t rank = 0;
};

std::vector<TimeLoss> verdict(const Job& j, const std::vector<Traced>& ranks) {
  std::vector<DeviceTrace> traces;
  for (const Traced& r : ranks) {
    const std::string text = kineto_text(r.step, r.rank, num_gpus(j.plan.strategy), 2);
    Result<std::vector<DeviceTrace>> read = read_chrome_trace(ByteStream::of(text), "trace.json");
    if (!read.ok()) FAIL(to_text(read.errors()));
    traces.push_back(std::move(read->front()));
  }
  const TraceComparison t = compared_traces(traces, j.model, j.cluster, j.plan);
  return losses_of(t, j.model, j.cluster, j.plan);
}

SyntheticStep step_of(const Job& j, std::int64_t pipeline_rank = 0) {
  return synthetic_step(j.model, j.cluster, j.plan, pipeline_rank);
}

bool is(const SyntheticOp& op, std::string_view part) {
  return op.name.find(part) != std::string::npos || op.operation.find(part) != std::string::npos ||
         op.group.find(part) != std::string::npos;
}

template <class Change>
void each(SyntheticStep& step, std::string_view part, const Change& change) {
  for (SyntheticOp& op : step.ops) {
    if (is(op, part)) change(op);
  }
}

// In place of every such operation `count` of another name that take `times` as long together.
void split(SyntheticStep& step, std::string_view part, const std::string& name, int count,
           double times) {
  std::vector<SyntheticOp> ops;
  for (const SyntheticOp& op : step.ops) {
    if (!is(op, part)) {
      ops.push_back(op);
      continue;
    }
    SyntheticOp one = op;
    one.name = name;
    one.duration = op.duration * times / count;
    ops.insert(ops.end(), static_cast<std::size_t>(count), one);
  }
  step.ops = std::move(ops);
}

std::vector<TimeLoss> expect_first(const Job& j, const std::vector<Traced>& ranks, LossKind kind) {
  const std::vector<TimeLoss> found = verdict(j, ranks);
  std::string all;
  for (const TimeLoss& f : found) {
    all += std::string(name_of(f.kind)) + " " + std::to_string(f.lost.si()) + ": " + f.what + "\n";
  }
  INFO("of a step of " << j.plan.step_time.si() << " s:\n" << all);
  REQUIRE_FALSE(found.empty());
  CHECK(name_of(found.front().kind) == name_of(kind));
  return found;
}

void expect_first(const Job& j, SyntheticStep step, LossKind kind) {
  (void)expect_first(j, {{std::move(step), 0}}, kind);
}

TEST_CASE("a trace of what was predicted names no cause") {
  for (const Job& j :
       {dense(), job("llama-3.1-8b", 8, "pp=2,tp=2,micro_batch=1,global_batch=16,seq_len=4096"),
        job("mixtral-8x7b", 32,
            "tp=2,sequence_parallel=true,ep=8,micro_batch=1,global_batch=64,seq_len=4096")}) {
    const std::vector<TimeLoss> found = verdict(j, {{step_of(j), 0}});
    for (const TimeLoss& f : found) UNSCOPED_INFO(f.what << " (" << f.evidence << ")");
    CHECK(found.empty());
  }
}

TEST_CASE("fault 1: the gradient reduction is not overlapped, although it is meant to be") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  each(step, "DATA_PARALLEL", [](SyntheticOp& op) {
    if (op.collective != "_allgather_base") op.beside = false;
  });
  expect_first(j, step, LossKind::kGradientReduction);
}

TEST_CASE("fault 2: the gradient reduction is not overlapped, and an option would do it") {
  const Job j = job("llama-3.1-8b", 16,
                    "tp=1,zero=1,micro_batch=1,global_batch=32,seq_len=4096,"
                    "overlap.grad_reduce=false,overlap.param_gather=false");
  const std::vector<TimeLoss> found = verdict(j, {{step_of(j), 0}});
  REQUIRE_FALSE(found.empty());
  CHECK(found.front().kind == LossKind::kGradientReduction);
  CHECK(found.front().changes == "overlap.grad_reduce=true");
  CHECK(found.front().remedy == "pass --overlap-grad-reduce");
  REQUIRE(found.front().gain.has_value());
  // What the cost model says of the changed plan.
  Strategy s = j.plan.strategy;
  s.overlap.grad_reduce = true;
  const Seconds changed = cost_of(j.model, j.cluster, s).step_time;
  CHECK(found.front().gain->si() == Approx((j.plan.step_time - changed).si()));
}

TEST_CASE("fault 3: parameters are gathered before the next step begins") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  each(step, "DATA_PARALLEL", [](SyntheticOp& op) {
    if (op.collective == "_allgather_base") op.beside = false;
  });
  expect_first(j, step, LossKind::kParameterGather);
}

TEST_CASE("fault 4: tensor-parallel messages are not hidden behind weight gradients") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  each(step, "TENSOR_MODEL", [](SyntheticOp& op) { op.beside = false; });
  expect_first(j, step, LossKind::kTensorParallel);
}

TEST_CASE("fault 5: a link is three times slower") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  each(step, "TENSOR_MODEL", [](SyntheticOp& op) { op.duration *= 3; });
  expect_first(j, step, LossKind::kSlowLinks);
}

TEST_CASE("fault 6: dispatch to experts crosses a slow network") {
  const Job j = job("mixtral-8x7b", 32,
                    "tp=2,sequence_parallel=true,ep=8,micro_batch=1,global_batch=64,seq_len=4096");
  SyntheticStep step = step_of(j);
  each(step, "EXPERT_MODEL", [](SyntheticOp& op) { op.duration *= 2.5; });
  expect_first(j, step, LossKind::kSlowLinks);
}

TEST_CASE("fault 7: the first pipeline rank waits for a slower one") {
  const Job j = job("llama-3.1-8b", 8, "pp=4,tp=2,micro_batch=1,global_batch=16,seq_len=4096");
  SyntheticStep step = step_of(j);
  each(step, "PIPELINE", [](SyntheticOp& op) { op.duration *= 2.5; });
  expect_first(j, step, LossKind::kPipeline);
}

TEST_CASE("fault 8: one pipeline rank computes longer than its layers should") {
  const Job j = job("llama-3.1-8b", 8, "pp=2,tp=1,micro_batch=1,global_batch=16,seq_len=4096");
  SyntheticStep second = step_of(j, 1);
  for (SyntheticOp& op : second.ops) {
    if (op.collective.empty()) op.duration *= 1.25;
  }
  const std::vector<TimeLoss> found =
      expect_first(j, {{step_of(j), 0}, {second, 4}}, LossKind::kUnevenStages);
  CHECK(found.front().what.find("pipeline rank 1") == 0);
}

TEST_CASE("fault 9: one rank is slower in every product") {
  const Job j = dense();
  SyntheticStep slow = step_of(j);
  each(slow, "nvjet", [](SyntheticOp& op) { op.duration *= 1.08; });
  const SyntheticStep usual = step_of(j);
  const std::vector<Traced> ranks{{usual, 0}, {usual, 1}, {slow, 2}, {usual, 3}};
  const std::vector<TimeLoss> found = expect_first(j, ranks, LossKind::kSlowDevice);
  CHECK(found.front().what == "rank 2 is 8.0 % slower in every product");
}

TEST_CASE("fault 10: the others wait for one rank") {
  const Job j = dense();
  SyntheticStep usual = step_of(j);
  each(usual, "TENSOR_MODEL", [](SyntheticOp& op) {
    if (!op.beside) op.duration *= 1.25;
  });
  const SyntheticStep late = step_of(j);
  const std::vector<TimeLoss> found =
      expect_first(j, {{usual, 0}, {usual, 1}, {late, 2}, {usual, 3}}, LossKind::kLateRank);
  CHECK(found.front().what == "the other ranks wait for rank 2");
}

TEST_CASE("fault 11: attention runs unfused") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  split(step, "flash_", "void (anonymous namespace)::softmax_warp_forward<...>", 2, 3);
  expect_first(j, step, LossKind::kUnfusedAttention);
}

TEST_CASE("fault 12: the causal mask is not used as one") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  each(step, "flash_", [](SyntheticOp& op) { op.duration *= 2; });
  expect_first(j, step, LossKind::kAttention);
}

TEST_CASE("fault 13: norms run unfused") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  split(step, "rmsnorm", "void at::native::vectorized_elementwise_kernel<4, ...>", 6, 5);
  expect_first(j, step, LossKind::kUnfusedNorm);
}

TEST_CASE("fault 14: activations and rotary embeddings run unfused") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  split(step, "elementwise", "void at::native::elementwise_kernel<128, 2, ...>", 3, 3);
  expect_first(j, step, LossKind::kUnfusedElementwise);
}

TEST_CASE("fault 15: the optimizer's update runs unfused") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  split(step, "multi_tensor", "void at::native::vectorized_elementwise_kernel<4, ...>", 300, 8);
  expect_first(j, step, LossKind::kUnfusedOptimizer);
}

TEST_CASE("fault 16: layers are recomputed") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  std::vector<SyntheticOp> ops;
  for (const SyntheticOp& op : step.ops) {
    ops.push_back(op);
    const bool of_layer =
        op.collective.empty() && !op.backward && !op.name.empty() && !is(op, "multi_tensor");
    if (of_layer) ops.push_back(op);
  }
  step.ops = std::move(ops);
  expect_first(j, step, LossKind::kRecomputation);
}

TEST_CASE("fault 17: the micro-batch is half of what the strategy says") {
  const Job j =
      job("llama-3.1-8b", 8,
          "tp=4,sequence_parallel=true,zero=1,micro_batch=2,global_batch=16,seq_len=4096");
  SyntheticStep step = step_of(j);
  std::vector<SyntheticOp> ops;
  for (SyntheticOp op : step.ops) {
    if (op.collective.empty() && !op.name.empty() && !is(op, "multi_tensor")) {
      op.duration *= 0.6;
      ops.push_back(op);
    }
    ops.push_back(op);
  }
  step.ops = std::move(ops);
  expect_first(j, step, LossKind::kSmallMicrobatch);
}

TEST_CASE("fault 18: products run in TF32") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  each(step, "nvjet", [](SyntheticOp& op) {
    op.name = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32";
    op.duration *= 2;
  });
  expect_first(j, step, LossKind::kPrecision);
}

TEST_CASE("fault 19: the device throttles") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  each(step, "nvjet", [](SyntheticOp& op) { op.duration *= 1.2; });
  expect_first(j, step, LossKind::kProducts);
}

TEST_CASE("fault 20: one product is slow") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  each(step, "mlp down", [](SyntheticOp& op) { op.duration *= 2; });
  expect_first(j, step, LossKind::kProduct);
}

TEST_CASE("fault 21: the device waits for the host between kernels") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  std::vector<SyntheticOp> ops;
  for (const SyntheticOp& op : step.ops) {
    ops.push_back(op);
    SyntheticOp gap;
    gap.duration = 15;
    if (op.collective.empty()) ops.push_back(gap);
  }
  step.ops = std::move(ops);
  expect_first(j, step, LossKind::kHostBound);
}

TEST_CASE("fault 22: the caching allocator gives memory back in every step") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  SyntheticOp gap;
  gap.duration = 4000;
  for (std::size_t i = 10; i < step.ops.size(); i += step.ops.size() / 20) {
    step.ops.insert(step.ops.begin() + static_cast<std::ptrdiff_t>(i), gap);
  }
  step.allocations = 40;
  step.allocation_us = 1900;
  expect_first(j, step, LossKind::kAllocations);
}

TEST_CASE("fault 23: the device waits for data") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  SyntheticOp gap;
  gap.duration = 1e5;
  gap.host_loads = true;
  step.ops.insert(step.ops.begin(), gap);
  expect_first(j, step, LossKind::kDataLoading);
}

TEST_CASE("fault 24: copies to the host stop the step") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  SyntheticOp copy;
  copy.name = "Memcpy DtoH (Device -> Pageable)";
  copy.duration = 9000;
  for (std::size_t i = 0; i < 10; ++i) {
    step.ops.insert(step.ops.begin() + static_cast<std::ptrdiff_t>(i * 50), copy);
  }
  expect_first(j, step, LossKind::kCopies);
}

TEST_CASE("fault 25: communication takes multiprocessors from what runs beside it") {
  const Job j = dense();
  SyntheticStep step = step_of(j);
  // A fifth of the step with communication beside it, of which every kernel takes twice as
  // long.
  SyntheticOp comm;
  comm.name = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL";
  comm.collective = "_reduce_scatter_base";
  comm.group = "DATA_PARALLEL_GROUP_WITH_CP";
  comm.group_size = 4;
  comm.beside = true;
  const std::size_t from = step.ops.size() / 2, to = from + step.ops.size() / 5;
  for (std::size_t i = from; i < to; ++i) {
    SyntheticOp& op = step.ops[i];
    if (!op.collective.empty()) continue;
    op.duration *= 2;
    comm.duration += op.duration;
  }
  step.ops.insert(step.ops.begin() + static_cast<std::ptrdiff_t>(from), comm);
  expect_first(j, step, LossKind::kSlowDown);
}

TEST_CASE("a log's timers: reductions that an option would hide, slower passes, data, stalls") {
  const Job j = job("llama-3.1-8b", 16,
                    "tp=1,zero=1,micro_batch=1,global_batch=32,seq_len=4096,"
                    "overlap.grad_reduce=false,overlap.param_gather=false");
  const Seconds step = j.plan.step_time, dp = j.plan.time.dp_comm_exposed;
  const auto term = [](StepTerm t, Seconds time) {
    return MeasuredTerm{t, {time, time}, std::string(name_of(t))};
  };
  const Seconds forward = predicted_term(j.plan, StepTerm::kForward)->most,
                backward = predicted_term(j.plan, StepTerm::kBackward)->most;
  const auto found =
      log_losses_of({term(StepTerm::kForward, forward), term(StepTerm::kBackward, backward * 1.5),
                     term(StepTerm::kDataParallel, dp), term(StepTerm::kDataLoading, step * 0.001),
                     term(StepTerm::kStalls, step * 0.02)},
                    step * 1.4, j.model, j.cluster, j.plan);
  REQUIRE(found.size() == 3);
  CHECK(found[0].kind == LossKind::kPasses);
  CHECK(found[0].remedy.find("recomputed") != std::string::npos);
  CHECK(found[1].kind == LossKind::kGradientReduction);
  CHECK(found[1].changes == "overlap.grad_reduce=true");
  CHECK(found[2].kind == LossKind::kStalls);
  // What is as predicted, and cannot be changed, is no loss.
  const Job overlapped = dense();
  CHECK(log_losses_of({term(StepTerm::kDataParallel, overlapped.plan.time.dp_comm_exposed),
                       term(StepTerm::kOptimizer, overlapped.plan.time.optimizer)},
                      overlapped.plan.step_time, overlapped.model, overlapped.cluster,
                      overlapped.plan)
            .empty());
}

}  // namespace
}  // namespace meshplan

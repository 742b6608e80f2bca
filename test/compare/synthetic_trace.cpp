#include "compare/synthetic_trace.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/trace_comparison.hpp"

namespace meshplan {
namespace {

std::string kernel_name(const KernelOp& op) {
  const bool backward = op.pass != Pass::kForward;
  switch (class_of(op)) {
    case OpClass::kProduct:
      return "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT";
    case OpClass::kAttention:
      return backward ? "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>"
                      : "void flash::flash_fwd_kernel<...>";
    case OpClass::kNorm:
      return backward ? "void transformer_engine::normalization::rmsnorm_bwd_tuned_kernel<...>"
                      : "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<...>";
    case OpClass::kOptimizer:
      return "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<...>>";
    case OpClass::kSoftmax:
      return "void cross_entropy_kernel<float>";
    case OpClass::kRouting:
      return "_permute_kernel";
    default:
      return "void at::native::vectorized_elementwise_kernel<4, ...>(int, " + std::string(op.name) +
             ")";
  }
}

SyntheticOp kernel(const KernelCall& call, double us) {
  SyntheticOp op;
  op.name = kernel_name(call.op);
  op.duration = us;
  if (call.op.gemm) op.sizes = {call.op.gemm->m, call.op.gemm->n, call.op.gemm->k};
  if (call.op.gemm && call.op.gemm->count > 1) op.sizes.push_back(call.op.gemm->count);
  op.backward = call.op.pass != Pass::kForward;
  op.operation = std::string(call.op.name);
  return op;
}

struct Words {
  std::string kernel, collective;
};
Words words_of(Collective c) {
  switch (c) {
    case Collective::kAllReduce:
      return {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "allreduce"};
    case Collective::kReduceScatter:
      return {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "_reduce_scatter_base"};
    case Collective::kAllGather:
      return {"ncclDevKernel_AllGather_RING_LL", "_allgather_base"};
    case Collective::kAllToAll:
      return {"ncclDevKernel_SendRecv", "all_to_allv"};
    default:
      return {"ncclDevKernel_SendRecv", "send"};
  }
}

std::string group_name(CommDimension d) {
  switch (d) {
    case CommDimension::kTp:
    case CommDimension::kLoss:
      return "TENSOR_MODEL_PARALLEL_GROUP";
    case CommDimension::kCp:
      return "CONTEXT_PARALLEL_GROUP";
    case CommDimension::kEp:
      return "EXPERT_MODEL_PARALLEL_GROUP";
    case CommDimension::kPp:
      return "PIPELINE_MODEL_PARALLEL_GROUP";
    default:
      return "DATA_PARALLEL_GROUP_WITH_CP";
  }
}

SyntheticOp message(const CommEntry& e, double us, bool beside) {
  const Words words = words_of(e.operation);
  SyntheticOp op;
  op.name = words.kernel;
  op.collective = words.collective;
  op.group = group_name(e.dimension);
  op.group_size = e.group_size;
  op.duration = us;
  op.beside = beside;
  return op;
}

SyntheticOp idle(double us) {
  SyntheticOp op;
  op.duration = us;
  return op;
}

}  // namespace

SyntheticStep synthetic_step(const ModelSpec& m, const ClusterSpec& c, const PlanCost& plan,
                             std::int64_t pipeline_rank) {
  const Strategy& s = plan.strategy;
  const auto passes = static_cast<double>(num_microbatches(s));
  const std::vector<KernelCall> calls = step_kernels(m, c, s, pipeline_rank);
  SyntheticStep step;
  // Of every microbatch and direction: its kernels one after the other, layer by layer is not told
  // apart; messages of its dimensions before and beside them.
  const auto pass = [&](bool backward) {
    for (const KernelCall& call : calls) {
      if (class_of(call.op) == OpClass::kOptimizer) continue;
      if ((call.op.pass != Pass::kForward) != backward) continue;
      const double kernels = std::max(call.op.launches, 1.0) * call.count_per_step / passes;
      const auto count = std::max<std::int64_t>(std::llround(kernels), 1);
      const double us = call.per_step.si() * 1e6 / passes / static_cast<double>(count);
      for (std::int64_t i = 0; i < count; ++i) step.ops.push_back(kernel(call, us));
    }
    for (const CommEntry& e : plan.communication) {
      if (e.forward == backward || e.dimension == CommDimension::kDp ||
          e.dimension == CommDimension::kEmbedding || e.dimension == CommDimension::kPp) {
        continue;
      }
      const double hidden = (e.time_each * e.count_per_step - e.exposed).si() * 1e6 / passes;
      if (hidden > 0.01) {
        const auto at = step.ops.end() - std::min<std::ptrdiff_t>(3, std::ssize(step.ops));
        step.ops.insert(at, message(e, hidden, true));
      }
      const double exposed = e.exposed.si() * 1e6 / passes;
      if (exposed > 0.01) step.ops.push_back(message(e, exposed, false));
    }
  };
  const StepTimeline timeline = step_timeline(m, c, s);
  const RankTimeline& rank = timeline.ranks[static_cast<std::size_t>(pipeline_rank)];
  Seconds end;
  for (const TimelineEntry& task : rank.tasks) {
    // A receive runs while the rank waits for the other.
    if (task.start > end) {
      SyntheticOp wait = idle((task.start - end).si() * 1e6);
      wait.name = "ncclDevKernel_SendRecv";
      wait.collective = "recv";
      wait.group = group_name(CommDimension::kPp);
      wait.group_size = 2;
      if (s.pp > 1) step.ops.push_back(wait);
    }
    end = task.end;
    if (task.task.kind == TaskKind::kBackwardWeight) continue;
    pass(task.task.kind != TaskKind::kForward);
  }
  for (const CommEntry& e : plan.communication) {
    if (e.dimension != CommDimension::kDp) continue;
    const double hidden = (e.time_each * e.count_per_step - e.exposed).si() * 1e6;
    // Parameters are gathered beside the first pass, gradients reduced beside the last ones.
    const bool gather = e.operation == Collective::kAllGather;
    const std::ptrdiff_t at = gather ? 1 : std::ssize(step.ops) * 2 / 3;
    if (hidden > 0.01) step.ops.insert(step.ops.begin() + at, message(e, hidden, true));
    if (e.exposed.si() > 0) step.ops.push_back(message(e, e.exposed.si() * 1e6, false));
  }
  for (const KernelCall& call : calls) {
    if (class_of(call.op) != OpClass::kOptimizer) continue;
    step.ops.push_back(kernel(call, call.per_step.si() * 1e6));
  }
  if (plan.time.other.si() > 0) step.ops.push_back(idle(plan.time.other.si() * 1e6));
  return step;
}

std::string kineto_text(const SyntheticStep& step, std::int64_t rank, std::int64_t world,
                        int steps) {
  using Json = nlohmann::ordered_json;
  std::string events;
  const auto add = [&](const Json& event) {
    events += (events.empty() ? "" : ",\n") + event.dump();
  };
  double now = 1.7e9;
  std::int64_t external = 1;
  add({{"ph", "X"},
       {"cat", "cpu_op"},
       {"name", "autograd::engine::evaluate_function: MmBackward0"},
       {"pid", 1},
       {"tid", 2},
       {"ts", now},
       {"dur", 1},
       {"args", {{"External id", external++}}}});
  for (int i = 0; i < steps; ++i) {
    const double begin = now;
    double comm_free = now;
    for (const SyntheticOp& op : step.ops) {
      const std::int64_t id = external++;
      if (op.name.empty()) {
        if (op.host_loads) {
          add({{"ph", "X"},
               {"cat", "user_annotation"},
               {"name", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"},
               {"pid", 1},
               {"tid", 1},
               {"ts", now},
               {"dur", op.duration}});
        }
        now += op.duration;
        continue;
      }
      const bool copies = op.name.starts_with("Memcpy");
      Json args{{"External id", id}, {"device", 0}, {"stream", op.collective.empty() ? 7 : 20}};
      if (!op.collective.empty()) {
        args["Collective name"] = op.collective;
        args["Process Group Description"] = op.group;
        args["Group size"] = op.group_size;
      }
      Json cpu{{"External id", id}};
      if (op.sizes.size() == 3) {
        cpu["Input Dims"] = {{op.sizes[0], op.sizes[2]}, {op.sizes[2], op.sizes[1]}};
      } else if (op.sizes.size() == 4) {
        cpu["Input Dims"] = {{op.sizes[3], op.sizes[0], op.sizes[2]},
                             {op.sizes[3], op.sizes[2], op.sizes[1]}};
      }
      add({{"ph", "X"},
           {"cat", "cpu_op"},
           {"name", op.sizes.empty()       ? "aten::empty"
                    : op.sizes.size() == 4 ? "aten::bmm"
                                           : "aten::mm"},
           {"pid", 1},
           {"tid", op.backward ? 2 : 1},
           {"ts", now},
           {"dur", 1},
           {"args", cpu}});
      const double start = op.beside ? std::max(now, comm_free) : now;
      add({{"ph", "X"},
           {"cat", copies ? "gpu_memcpy" : "kernel"},
           {"name", op.name},
           {"pid", 0},
           {"tid", 7},
           {"ts", start},
           {"dur", op.duration},
           {"args", args}});
      if (op.beside) comm_free = start + op.duration;
      if (!op.beside) now += op.duration;
    }
    for (std::int64_t a = 0; a < step.allocations; ++a) {
      add({{"ph", "X"},
           {"cat", "cuda_runtime"},
           {"name", a % 2 == 0 ? "cudaFree" : "cudaMalloc"},
           {"pid", 1},
           {"tid", 1},
           {"ts", begin},
           {"dur", step.allocation_us},
           {"args", {{"External id", 0}}}});
    }
    add({{"ph", "X"},
         {"cat", "user_annotation"},
         {"name", "ProfilerStep#" + std::to_string(i)},
         {"pid", 1},
         {"tid", 1},
         {"ts", begin},
         {"dur", now - begin}});
  }
  return "{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": " +
         std::to_string(rank) + ", \"world_size\": " + std::to_string(world) +
         "},\n\"traceEvents\": [\n" + events + "\n]}\n";
}

}  // namespace meshplan

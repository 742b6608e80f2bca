// The device idles: for the host, for data, for copies, for the allocator.
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "compare/losses_parts.hpp"

namespace meshplan {
namespace {

void add_waiting(const LossContext& x, Seconds lost, std::vector<TimeLoss>& all) {
  const DeviceMeasure& d = x.device();
  TimeLoss f;
  f.kind = LossKind::kHostBound;
  f.what =
      "host-bound: " + human_percent(d.waiting / d.step) + " of the step is idle between kernels";
  f.evidence = human_time(d.waiting) + " in " + with_thousands(std::llround(d.gaps)) + " gaps, " +
               with_thousands(std::llround(d.kernels)) + " kernels a step; " +
               human_time(x.plan.time.other) + " predicted";
  f.remedy = "CUDA graphs (--cuda-graph-impl), or a larger micro-batch";
  f.lost = lost;
  const auto graphs =
      x.gain_of([](Strategy& s) { s.runtime.cuda_graph = CudaGraph::kFullIteration; });
  const auto larger = x.gain_of([](Strategy& s) { s.micro_batch *= 2; });
  if (graphs && (!larger || *graphs >= *larger)) {
    f.gain = graphs;
    f.changes = "kernels.cuda_graph=full_iteration";
  } else if (larger) {
    f.gain = larger;
    f.changes = "micro_batch=" + std::to_string(x.plan.strategy.micro_batch * 2);
  }
  all.push_back(std::move(f));
}

}  // namespace

void find_host(const LossContext& x, std::vector<TimeLoss>& all) {
  const DeviceMeasure& d = x.device();
  if (d.loading >= x.least) {
    TimeLoss f;
    f.kind = LossKind::kDataLoading;
    f.what = "the device waits for data";
    f.evidence = human_time(d.loading) + " idle while the host loads the next batch";
    f.remedy =
        "more workers (--num-workers), prefetching and pinned memory, or data on local disks";
    f.lost = d.loading;
    all.push_back(std::move(f));
  }
  if (d.copying >= x.least) {
    const Seconds predicted =
        x.plan.strategy.offload.optimizer || x.plan.strategy.offload.activations ? x.plan.time.other
                                                                                 : Seconds{};
    TimeLoss f;
    f.kind = LossKind::kCopies;
    f.what = "copies between host and device are not hidden";
    f.evidence = human_time(d.copying) + " exposed in " +
                 with_thousands(std::llround(d.of(OpClass::kCopy).count)) + " copies a step, " +
                 human_time(predicted) + " predicted";
    f.remedy = "pinned memory and non_blocking=True; no .item() or .cpu() inside of the step";
    f.lost = d.copying - predicted;
    all.push_back(std::move(f));
  }
  Seconds lost = d.waiting - x.plan.time.other;
  if (d.allocations >= 5 && d.allocation_time >= x.least) {
    TimeLoss f;
    f.kind = LossKind::kAllocations;
    f.what = "the caching allocator gives memory back and asks for it again";
    f.evidence = with_thousands(std::llround(d.allocations)) + " cudaMalloc and cudaFree a step, " +
                 human_time(d.allocation_time) + " of the host";
    f.remedy =
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or less memory: recomputation or "
        "more sharding";
    f.lost = std::min(d.allocation_time, std::max(lost, Seconds{}));
    lost -= f.lost;
    all.push_back(std::move(f));
  }
  if (lost >= x.least) add_waiting(x, lost, all);
}

}  // namespace meshplan

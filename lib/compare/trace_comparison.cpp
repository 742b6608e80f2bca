#include "compare/trace_comparison.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "compare/trace_dimensions.hpp"
#include "cost/operations.hpp"

namespace meshplan {
namespace {

using Sizes = std::array<std::int64_t, 4>;  // sorted, then how many at once

Sizes sizes_of(const GemmShape& g) {
  std::array<std::int64_t, 3> s{g.m, g.n, g.k};
  std::sort(s.rbegin(), s.rend());
  return {s[0], s[1], s[2], g.count};
}

std::vector<ComparedClass> classes_of(const DeviceMeasure& d,
                                      const std::vector<KernelCall>& calls) {
  std::vector<ComparedClass> all;
  for (const auto& row : NameTable<OpClass>::rows) {
    ComparedClass c;
    c.cls = row.value;
    c.measured = d.of(row.value);
    const auto& directions = d.classes[static_cast<std::size_t>(row.value)];
    c.measured_forward = directions[static_cast<std::size_t>(Direction::kForward)];
    c.measured_backward = directions[static_cast<std::size_t>(Direction::kBackward)];
    for (const KernelCall& call : calls) {
      if (class_of(call.op) != row.value) continue;
      OpTime& side = call.op.pass == Pass::kForward ? c.predicted_forward : c.predicted_backward;
      for (OpTime* to : {&c.predicted, &side}) {
        to->time += call.per_step;
        to->count += call.count_per_step * call.op.launches;
      }
    }
    if (c.measured.count > 0 || c.predicted.count > 0) all.push_back(c);
  }
  return all;
}

std::vector<ComparedProduct> products_of(const DeviceMeasure& d,
                                         const std::vector<KernelCall>& calls) {
  std::map<Sizes, ComparedProduct> all;
  std::map<Sizes, std::set<std::string>> names;
  for (const KernelCall& call : calls) {
    if (!call.op.gemm) continue;
    const Sizes sizes = sizes_of(*call.op.gemm);
    ComparedProduct& p = all[sizes];
    p.shape = {sizes[0], sizes[1], sizes[2], sizes[3]};
    p.predicted.time += call.per_step;
    p.predicted.count += call.count_per_step;
    names[sizes].insert(std::string(call.op.name));
  }
  for (const ProductTime& product : d.products) {
    const ProductShape& s = product.shape;
    ComparedProduct& p = all[{s.m, s.n, s.k, s.count}];
    p.shape = s;
    p.measured = product.all;
  }
  std::vector<ComparedProduct> list;
  for (auto& [sizes, p] : all) {
    for (const std::string& name : names[sizes]) p.name += (p.name.empty() ? "" : ", ") + name;
    list.push_back(std::move(p));
  }
  std::sort(list.begin(), list.end(), [](const ComparedProduct& a, const ComparedProduct& b) {
    return std::max(a.measured.time, a.predicted.time) >
           std::max(b.measured.time, b.predicted.time);
  });
  return list;
}

std::vector<ComparedComm> communication_of(const DeviceMeasure& d, const PlanCost& plan) {
  std::vector<ComparedComm> all;
  const auto row = [&](std::optional<CommDimension> dimension) -> ComparedComm& {
    for (ComparedComm& c : all) {
      if (c.dimension == dimension) return c;
    }
    all.push_back({});
    all.back().dimension = dimension;
    return all.back();
  };
  for (const CommEntry& entry : plan.communication) {
    ComparedComm& c = row(whose_ranks(entry.dimension));
    c.predicted.time += entry.time_each * entry.count_per_step;
    c.predicted.count += entry.count_per_step;
    c.predicted_exposed += entry.exposed;
  }
  for (const CommTime& comm : d.communication) {
    ComparedComm& c = row(comm.dimension);
    c.measured.time += comm.all.time;
    c.measured.count += comm.all.count;
    c.measured_exposed += comm.exposed;
  }
  return all;
}

void widen(std::optional<TermTime>& range, Seconds t) {
  if (!range) range = TermTime{t, t};
  range->least = std::min(range->least, t);
  range->most = std::max(range->most, t);
}

class Terms {
 public:
  void add(StepTerm term, Seconds t) { widen(all_[term], t); }
  [[nodiscard]] std::vector<MeasuredTerm> list(const std::string& source) const {
    std::vector<MeasuredTerm> terms;
    for (const auto& [term, range] : all_) terms.push_back({term, *range, source});
    return terms;
  }

 private:
  std::map<StepTerm, std::optional<TermTime>> all_;
};

void add_device(const DeviceMeasure& d, const PlanCost& plan, Terms& terms) {
  const Strategy& s = plan.strategy;
  const Seconds optimizer = d.of(OpClass::kOptimizer).time;
  terms.add(StepTerm::kCompute, std::max(d.computing - optimizer, Seconds{}));
  if (optimizer.si() > 0) terms.add(StepTerm::kOptimizer, optimizer);
  const auto dimension = [&](bool there, CommDimension of, StepTerm term) {
    if (there || d.exposed(of).si() > 0) terms.add(term, d.exposed(of));
  };
  dimension(s.dp * s.cp > 1, CommDimension::kDp, StepTerm::kDataParallel);
  dimension(s.tp > 1, CommDimension::kTp, StepTerm::kTensorParallel);
  dimension(s.cp > 1, CommDimension::kCp, StepTerm::kContextParallel);
  dimension(s.ep > 1, CommDimension::kEp, StepTerm::kExpertParallel);
  dimension(s.pp > 1, CommDimension::kPp, StepTerm::kPipelineWait);
  if (d.copying.si() > 0) terms.add(StepTerm::kCopies, d.copying);
  terms.add(StepTerm::kLaunch, d.waiting);
  if (d.loading.si() > 0) terms.add(StepTerm::kDataLoading, d.loading);
}

// One step of a pipeline rank, as 'meshplan report --trace' writes it.
DeviceMeasure task_device(const DeviceTrace& trace, Terms& terms) {
  DeviceMeasure d;
  d.file = trace.file;
  d.rank = trace.rank;
  d.steps_from = "one step is what such a trace has";
  d.notes = trace.notes;
  double forward = 0, backward = 0, reduction = 0, optimizer = 0, first = 0, last = 0, end = 0;
  bool any = false;
  for (const TaskSpan& task : trace.tasks) {
    const double took = task.end - task.start;
    end = std::max(end, task.end);
    if (task.category == "send") continue;
    if (task.category == "end") {
      if (contains(task.name, "optimizer")) optimizer += took;
      if (contains(task.name, "reduction")) reduction += took;
      continue;
    }
    (task.category == "forward" ? forward : backward) += took;
    first = any ? std::min(first, task.start) : task.start;
    last = std::max(last, task.end);
    any = true;
  }
  const auto seconds = [](double us) { return Seconds{std::max(us, 0.0) * 1e-6}; };
  d.step = seconds(end);
  d.computing = seconds(forward + backward);
  terms.add(StepTerm::kForward, seconds(forward));
  terms.add(StepTerm::kBackward, seconds(backward));
  if (reduction > 0) terms.add(StepTerm::kDataParallel, seconds(reduction));
  if (optimizer > 0) terms.add(StepTerm::kOptimizer, seconds(optimizer));
  const double idle = end - forward - backward - reduction - optimizer;
  if (idle > 1e-3) terms.add(StepTerm::kPipelineWait, seconds(idle));
  return d;
}

}  // namespace

OpClass class_of(const KernelOp& op) {
  if (op.gemm) return OpClass::kProduct;
  if (op.attention || op.kind == KernelKind::kAttention) return OpClass::kAttention;
  if (op.kind == KernelKind::kNorm || contains(op.name, "norm")) return OpClass::kNorm;
  if (op.kind == KernelKind::kOptimizer || op.name == "optimizer step") return OpClass::kOptimizer;
  if (contains(op.name, "softmax") || contains(op.name, "cross entropy")) return OpClass::kSoftmax;
  if (contains(op.name, "permute") || contains(op.name, "rout")) return OpClass::kRouting;
  return op.flops > 0 ? OpClass::kOther : OpClass::kElementwise;
}

TraceComparison compared_traces(const std::vector<DeviceTrace>& traces, const ModelSpec& m,
                                const ClusterSpec& c, const PlanCost& plan) {
  TraceComparison all;
  Terms terms;
  const bool own =
      std::any_of(traces.begin(), traces.end(), [](const DeviceTrace& t) { return t.own; });
  for (const DeviceTrace& trace : traces) {
    if (trace.own) {
      if (trace.tasks.empty()) continue;
      all.devices.push_back(task_device(trace, terms));
    } else {
      if (trace.ops.empty()) continue;
      all.devices.push_back(measured_device(trace, plan));
      add_device(all.devices.back(), plan, terms);
    }
  }
  std::stable_sort(all.devices.begin(), all.devices.end(),
                   [](const DeviceMeasure& a, const DeviceMeasure& b) { return a.rank < b.rank; });
  for (std::size_t i = 0; i < all.devices.size(); ++i) {
    const DeviceMeasure& d = all.devices[i];
    all.step = std::max(all.step, d.step);
    if (d.computing > all.devices[all.shown].computing) all.shown = i;
  }
  all.terms = terms.list("the traces");
  if (own) {
    all.notes.emplace_back(
        "a trace of 'meshplan report' has tasks, not kernels: operations are "
        "not compared");
    return all;
  }
  if (all.devices.empty()) return all;
  const DeviceMeasure& shown = all.devices[all.shown];
  constexpr std::size_t kColumns = 600;
  const std::int64_t rank = pipeline_rank_of(plan.strategy, shown.rank);
  for (const DeviceTrace& trace : traces) {
    if (trace.file != shown.file || trace.rank != shown.rank) continue;
    all.picture = picture_of(trace, shown.steps, kColumns);
    const LayerTime mean = mean_layer(m, c, plan.strategy, rank);
    for (LayerPasses& p : layer_passes(trace, shown.steps, mean.attention_layers, mean.chunks)) {
      const bool forward = p.direction == Direction::kForward;
      all.passes.push_back({std::move(p), forward ? mean.forward : mean.backward});
    }
  }
  const std::vector<KernelCall> calls = step_kernels(m, c, plan.strategy, rank);
  all.classes = classes_of(shown, calls);
  for (const KernelCall& call : calls) {
    const bool forward = call.op.pass == Pass::kForward;
    if (class_of(call.op) == OpClass::kAttention && forward) {
      all.attention_forward += call.count_per_step * call.op.launches;
    }
  }
  all.products = products_of(shown, calls);
  all.communication = communication_of(shown, plan);
  const auto sized = std::any_of(shown.products.begin(), shown.products.end(),
                                 [](const ProductTime& p) { return p.all.count > 0; });
  if (!sized && shown.of(OpClass::kProduct).count > 0) {
    all.notes.emplace_back(
        "the trace does not say the sizes of products: PyTorch's profiler does "
        "with record_shapes=True, Nsight Systems with --pytorch=autograd-shapes-nvtx");
  }
  const bool known = std::any_of(
      all.products.begin(), all.products.end(),
      [](const ComparedProduct& p) { return p.measured.count > 0 && p.predicted.count > 0; });
  if (sized && !known) {
    all.notes.emplace_back(
        "no product of the trace has a size that the strategy's products have: another model, "
        "batch "
        "or length of sequences ran");
  }
  return all;
}

}  // namespace meshplan

// What a log's timers say of lost time.
#include <algorithm>

#include "base/text.hpp"
#include "compare/losses_parts.hpp"

namespace meshplan {
namespace {

class LogLosses {
 public:
  LogLosses(const std::vector<MeasuredTerm>& terms, Seconds step, const LossContext& x)
      : terms_(terms), step_(step), x_(x) {}

  std::vector<TimeLoss> all() {
    data_parallel();
    passes();
    optimizer();
    pipeline();
    plain(StepTerm::kDataLoading, LossKind::kDataLoading, "the step waits for data",
          "more workers (--num-workers), prefetching, or data on local disks");
    plain(StepTerm::kStalls, LossKind::kStalls, "some steps are far slower than the others",
          "look what happens in them: checkpoints, evaluation, garbage collection, a slow node");
    std::erase_if(all_, [&](const TimeLoss& loss) { return loss.lost < step_ * 0.01; });
    std::stable_sort(all_.begin(), all_.end(),
                     [](const TimeLoss& a, const TimeLoss& b) { return a.lost > b.lost; });
    return std::move(all_);
  }

 private:
  [[nodiscard]] const MeasuredTerm* find(StepTerm term) const {
    const auto at = std::find_if(terms_.begin(), terms_.end(),
                                 [&](const MeasuredTerm& m) { return m.term == term; });
    return at == terms_.end() ? nullptr : &*at;
  }

  TimeLoss loss_of(LossKind kind, const MeasuredTerm& m, Seconds predicted) const {
    TimeLoss loss;
    loss.kind = kind;
    loss.evidence = against(m.time.most, predicted) + ", by " + m.source;
    loss.lost = m.time.most - predicted;
    return loss;
  }

  void data_parallel() {
    const MeasuredTerm* m = find(StepTerm::kDataParallel);
    if (m == nullptr) return;
    const Seconds predicted = x_.plan.time.dp_comm_exposed;
    TimeLoss loss = loss_of(LossKind::kGradientReduction, *m, predicted);
    if (!x_.plan.strategy.overlap.grad_reduce) {
      loss.gain = x_.gain_of([](Strategy& s) { s.overlap.grad_reduce = true; });
    }
    if (loss.gain) {
      loss.what = "gradient reduction is not overlapped";
      loss.remedy = "pass --overlap-grad-reduce";
      loss.changes = "overlap.grad_reduce=true";
      loss.lost = std::max(loss.lost, Seconds{}) + std::min(*loss.gain, m->time.most);
      loss.lost = std::min(loss.lost, m->time.most);
    } else {
      loss.what = "data-parallel communication shows longer than predicted";
      loss.remedy = "a trace of PyTorch's profiler (--trace) tells slow links from missing overlap";
    }
    all_.push_back(std::move(loss));
  }

  // Both passes, where both are timed: else the timer around all of them.
  void passes() {
    const MeasuredTerm *forward = find(StepTerm::kForward), *backward = find(StepTerm::kBackward);
    if (forward == nullptr || backward == nullptr) return;
    const auto f = predicted_term(x_.plan, StepTerm::kForward);
    const auto b = predicted_term(x_.plan, StepTerm::kBackward);
    MeasuredTerm both = *forward;
    both.time.most += backward->time.most;
    both.source += " + " + backward->source;
    TimeLoss loss = loss_of(LossKind::kPasses, both, f->most + b->most);
    const double first = forward->time.most / f->most, second = backward->time.most / b->most;
    loss.what = "forward passes take " + fixed(first, 2) +
                " times as long as predicted, backward " + "passes " + fixed(second, 2) + " times";
    loss.remedy =
        second > first * 1.25
            ? "layers may be recomputed that the strategy does not recompute, or gradients "
              "reduced inside; a trace (--trace) tells"
            : "a trace (--trace) tells slow kernels, missing fusions and a slow host apart";
    all_.push_back(std::move(loss));
  }

  void optimizer() {
    const MeasuredTerm* m = find(StepTerm::kOptimizer);
    if (m == nullptr) return;
    TimeLoss loss = loss_of(LossKind::kOptimizer, *m, x_.plan.time.optimizer);
    loss.what = "the optimizer's step takes longer than predicted";
    loss.remedy = "look whether its update is fused and what data types its states have";
    if (x_.plan.strategy.zero == 0 && x_.plan.strategy.dp > 1) {
      loss.gain = x_.gain_of([](Strategy& s) { s.zero = 1; });
      if (loss.gain) {
        loss.remedy = "--use-distributed-optimizer shares it out over data-parallel ranks";
        loss.changes = "zero=1";
      }
    }
    all_.push_back(std::move(loss));
  }

  void pipeline() {
    const MeasuredTerm* m = find(StepTerm::kPipelineWait);
    if (m == nullptr || x_.plan.strategy.pp <= 1) return;
    TimeLoss loss =
        loss_of(LossKind::kPipeline, *m, x_.plan.time.pp_comm_exposed + x_.plan.time.pp_bubble);
    loss.what = "the pipeline waits longer than its schedule has to";
    loss.remedy = "traces of every pipeline rank (--trace) tell which one is slow";
    all_.push_back(std::move(loss));
  }

  // What the cost model does not describe is lost as a whole.
  void plain(StepTerm term, LossKind kind, const char* what, const char* remedy) {
    const MeasuredTerm* m = find(term);
    if (m == nullptr) return;
    TimeLoss loss;
    loss.kind = kind;
    loss.what = what;
    loss.evidence = human_time(m->time.most) + " a step, by " + m->source;
    loss.remedy = remedy;
    loss.lost = m->time.most;
    all_.push_back(std::move(loss));
  }

  const std::vector<MeasuredTerm>& terms_;
  Seconds step_;
  const LossContext& x_;
  std::vector<TimeLoss> all_;
};

}  // namespace

std::vector<TimeLoss> log_losses_of(const std::vector<MeasuredTerm>& terms, Seconds measured_step,
                                    const ModelSpec& m, const ClusterSpec& c,
                                    const PlanCost& plan) {
  const TraceComparison none;
  const LossContext x{none, m, c, plan, measured_step * 0.01};
  return LogLosses(terms, measured_step, x).all();
}

}  // namespace meshplan

#include "study/goodput.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "cost/memory.hpp"
#include "model/parameters.hpp"

namespace meshplan {
namespace {

constexpr double kSecondsPerHour = 3600;

// Whole steps nearest to the interval, of the two the one that wastes less.
std::int64_t whole_steps(const PlanCost& plan, const Goodput& g, Seconds restart) {
  const double exact = g.daly / plan.step_time;
  constexpr double kMost = 1e15;  // a job that never fails
  const auto below = static_cast<std::int64_t>(std::clamp(std::floor(exact), 1.0, kMost));
  const auto useful = [&](std::int64_t steps) {
    return wall_shares(plan.step_time * static_cast<double>(steps), g.checkpoint_time, restart,
                       g.between_failures)
        .useful;
  };
  return useful(below + 1) > useful(below) ? below + 1 : below;
}

}  // namespace

Seconds time_between_failures(double failures_per_gpu_hour, std::int64_t gpus) {
  PLAN_CHECK(failures_per_gpu_hour > 0 && gpus > 0);
  return Seconds{kSecondsPerHour / (failures_per_gpu_hour * static_cast<double>(gpus))};
}

Seconds young_interval(Seconds checkpoint, Seconds between_failures) {
  return Seconds{std::sqrt(2 * checkpoint.si() * between_failures.si())};
}

Seconds daly_interval(Seconds checkpoint, Seconds between_failures) {
  if (checkpoint >= 2 * between_failures) return between_failures;
  const double x = checkpoint / (2 * between_failures);
  return young_interval(checkpoint, between_failures) * (1 + std::sqrt(x) / 3 + x / 9) - checkpoint;
}

WallShares wall_shares(Seconds interval, Seconds checkpoint, Seconds restart,
                       Seconds between_failures) {
  const double m = between_failures.si();
  const double wall = m * std::exp(restart.si() / m) * std::expm1((interval + checkpoint).si() / m);
  WallShares shares;
  shares.useful = interval.si() / wall;  // 0 where no interval is ever survived
  shares.checkpoint = checkpoint.si() / wall;
  shares.lost = std::max(0.0, 1 - shares.useful - shares.checkpoint);
  return shares;
}

// Of adapters beside frozen weights, the adapters alone: they are split by tensor parallelism. Of
// parts that are frozen without adapters, the weights.
Bytes checkpoint_bytes(const ModelSpec& m, const PlanCost& plan) {
  const Strategy& s = plan.strategy;
  Strategy whole = s;
  whole.zero = 0;
  whole.offload.optimizer = false;
  const ParameterCount count = parameter_count(m);
  const std::int64_t all = count.total + count.mtp;
  std::int64_t trained = all;
  if (has_adapters(s)) {
    trained = 0;
    for (const StageCost& stage : plan.stages) trained += stage.trained_parameters * s.tp;
  } else {
    trained -= frozen_parameters(m, s);
  }
  const Bytes frozen{has_adapters(s) ? 0 : (all - trained) * storage_size(s.precision)};
  whole.loss = Loss::kLm;  // a reference model is not trained
  const StateBytes states = state_bytes(whole, BlockParameters{trained, 0}, m.hidden_size);
  return frozen + states.weights + states.optimizer + states.paged;
}

Goodput goodput(const ModelSpec& m, const PlanCost& plan, const FailureModel& f) {
  PLAN_CHECK(f.checkpoint_time.has_value() != f.checkpoint_bandwidth.has_value());
  Goodput g;
  g.between_failures = time_between_failures(f.failures_per_gpu_hour, num_gpus(plan.strategy));
  g.checkpoint_bytes = checkpoint_bytes(m, plan);
  g.checkpoint_time =
      f.checkpoint_time ? *f.checkpoint_time : g.checkpoint_bytes / *f.checkpoint_bandwidth;
  g.young = young_interval(g.checkpoint_time, g.between_failures);
  g.daly = daly_interval(g.checkpoint_time, g.between_failures);
  g.steps_per_checkpoint = whole_steps(plan, g, f.restart_time);
  g.shares = wall_shares(plan.step_time * static_cast<double>(g.steps_per_checkpoint),
                         g.checkpoint_time, f.restart_time, g.between_failures);
  g.tokens_per_s = plan.tokens_per_step / plan.step_time.si() * g.shares.useful;
  return g;
}

}  // namespace meshplan

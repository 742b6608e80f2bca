#include "validate/validate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/text.hpp"
#include "cost/step.hpp"

namespace meshplan {

double OperationCheck::ratio() const {
  return measured && subset.predicted > Seconds{} ? *measured / subset.predicted : 1.0;
}

bool PlanCheck::is_host_bound() const {
  constexpr double kWorthASentence = 0.005;  // of the step
  return std::abs(hidden / predicted) >= kWorthASentence;
}

bool Validation::within_tolerance() const {
  return std::all_of(plans.begin(), plans.end(),
                     [&](const PlanCheck& p) { return std::abs(p.deviation()) <= tolerance; });
}

namespace {

// One thing to run, whoever needs it.
struct Measurement {
  Operation operation;
  double share = 0;  // of the step that depends on it most
  std::optional<Sample> sample;
  std::string failure;  // why there is no sample
};

Measurement& measurement_of(std::vector<Measurement>& all, const Operation& op) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Measurement& m) { return m.operation == op; });
  if (found != all.end()) return *found;
  all.push_back({op, 0, std::nullopt, {}});
  return all.back();
}

PlanCheck predicted_check(const ModelSpec& m, const ClusterSpec& c, const PlanToValidate& plan,
                          const Backend& backend) {
  const PlanCost cost = cost_of(m, c, plan.strategy);
  PlanCheck check;
  check.rank = plan.rank;
  check.strategy = plan.strategy;
  check.predicted = check.step_time = cost.step_time;
  for (PlannedOperation& planned : planned_operations(m, c, cost)) {
    OperationCheck op;
    op.subset = subset_for(planned, c, backend.machine());
    op.share = planned.exposed / cost.step_time;
    op.planned = std::move(planned);
    if (op.subset.operation) {
      if (auto reason = backend.why_not(*op.subset.operation)) {
        op.subset = Subset{};
        op.subset.reason = std::move(*reason);
      }
    }
    check.operations.push_back(std::move(op));
  }
  return check;
}

// What a message says behind the operation that it is about: the same for all that fail alike.
std::string cause(const std::string& message, const Operation& op) {
  const std::string what = describe(op) + ": ";
  const std::size_t at = message.find(what);
  return at == std::string::npos ? message : message.substr(at + what.size());
}

class Stopwatch {
 public:
  [[nodiscard]] Seconds elapsed() const {
    return Seconds{std::chrono::duration<double>(Clock::now() - start_).count()};
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Long enough for the power limit to show: what profiles hold of such kernels are rates that last.
bool draws_power(const Operation& op) {
  constexpr double kFlops = 1e11;  // a tenth of a millisecond of an H100
  const auto real = [](std::int64_t i) { return static_cast<double>(i); };
  if (const auto* g = std::get_if<GemmOperation>(&op)) {
    return 2 * real(g->m) * real(g->n) * real(g->k) >= kFlops;
  }
  if (const auto* a = std::get_if<AttentionOperation>(&op)) {
    const double scores = real(a->batch) * real(a->heads) * real(a->queries) * real(a->keys);
    return 2 * scores * real(a->qk_dim + a->v_dim) >= kFlops;
  }
  return false;
}

MeasureOptions options_for(const Operation& op, const ValidateRequest& request, Seconds elapsed) {
  MeasureOptions options = request.measure;
  const bool time =
      !options.steady || !request.budget || elapsed + options.steady->most <= *request.budget;
  if (!time || !draws_power(op)) options.steady.reset();
  return options;
}

void measure_all(std::vector<Measurement>& all, const ValidateRequest& request, Backend& backend,
                 const ValidateProgress& progress, Validation& result) {
  const Stopwatch watch;
  std::string ended;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Measurement& one = all[i];
    if (ended.empty() && request.budget && watch.elapsed() > *request.budget) {
      ended = "the time was up";
    }
    if (ended.empty() && request.interrupted && request.interrupted()) ended = "interrupted";
    if (!ended.empty()) {
      ++result.not_reached;
      one.failure = ended;
      continue;
    }
    if (progress) {
      progress(static_cast<double>(i) / static_cast<double>(all.size()), one.operation);
    }
    Result<Sample> sample =
        backend.measure(one.operation, options_for(one.operation, request, watch.elapsed()));
    if (!sample) {
      const bool failed = has_errors(sample.errors());
      if (failed)
        result.failures.insert(result.failures.end(), sample.errors().begin(),
                               sample.errors().end());
      one.failure = (failed ? "it failed: " : "it cannot run here: ") +
                    cause(sample.errors().front().message, one.operation);
      if (!backend.alive()) ended = "the machine was lost before it";
    } else if (sample->correctness == Correctness::kWrong) {
      one.failure = "its result was wrong";
      result.failures.push_back(error("wrong result of " + describe(one.operation) +
                                      (sample->note.empty() ? "" : ": " + sample->note)));
    } else if (!(sample->median > Seconds{})) {
      one.failure = "its time was too short to measure";
    } else {
      one.sample = std::move(sample).value();
      ++result.samples;
    }
  }
}

void take_over(OperationCheck& op, const Measurement& m) {
  if (!m.sample) {
    op.subset.fidelity = Fidelity::kPredicted;
    op.subset.reason = m.failure;
    return;
  }
  op.measured = m.sample->steady ? m.sample->steady->median : m.sample->median;
  op.spread = m.sample->steady ? m.sample->steady->spread : m.sample->spread;
  if (is_noisy(*m.sample)) op.notes.emplace_back("noisy");
  if (m.sample->throttled) op.notes.emplace_back("throttled");
}

// The plan's step if issuing kernels took the host no time.
Seconds device_time(const ModelSpec& m, ClusterSpec c, const Strategy& s) {
  c.device.launch_gap = Seconds{};
  return cost_of(m, c, s).step_time;
}

// The plan's step over what is believed of each of its operations.
void assemble(const ModelSpec& m, const ClusterSpec& c, PlanCheck& plan) {
  ClusterSpec measured = c;
  for (const OperationCheck& op : plan.operations) {
    if (!op.measured) continue;
    if (op.planned.kernel) measured.device.exact_kernels[*op.planned.kernel] = op.believed();
    if (op.planned.collective) measured.exact_collectives[*op.planned.collective] = op.believed();
  }
  plan.step_time = cost_of(m, measured, plan.strategy).step_time;
  const Seconds device = device_time(m, c, plan.strategy);
  plan.host = plan.predicted - device;
  plan.hidden =
      (device_time(m, measured, plan.strategy) - device) - (plan.step_time - plan.predicted);

  const double bubble = cost_of(m, c, plan.strategy).bubble_fraction;
  for (const OperationCheck& op : plan.operations) {
    const double share = op.share / (1 - bubble);
    if (op.subset.fidelity == Fidelity::kMeasured) plan.coverage += share;
    if (op.subset.fidelity == Fidelity::kExtrapolated) plan.extrapolated += share;
  }
  plan.unmeasured = std::max(0.0, 1 - plan.coverage - plan.extrapolated);
}

void rank_again(std::vector<PlanCheck>& plans) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plans[a].step_time < plans[b].step_time;
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    plans[order[i]].new_rank = static_cast<std::int64_t>(i) + 1;
  }
}

}  // namespace

Validation outline(const ModelSpec& m, const ClusterSpec& c, const ValidateRequest& request,
                   const Backend& backend) {
  Validation result;
  result.tolerance = request.tolerance;
  for (const PlanToValidate& plan : request.plans) {
    result.plans.push_back(predicted_check(m, c, plan, backend));
  }
  return result;
}

Validation validate_plans(const ModelSpec& m, const ClusterSpec& c, const ValidateRequest& request,
                          Backend& backend, const ValidateProgress& progress) {
  Validation result = outline(m, c, request, backend);
  std::vector<Measurement> all;
  for (const PlanCheck& plan : result.plans) {
    for (const OperationCheck& op : plan.operations) {
      if (!op.subset.operation) continue;
      Measurement& needed = measurement_of(all, *op.subset.operation);
      needed.share = std::max(needed.share, op.share);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Measurement& a, const Measurement& b) { return a.share > b.share; });
  measure_all(all, request, backend, progress, result);
  for (PlanCheck& plan : result.plans) {
    for (OperationCheck& op : plan.operations) {
      if (op.subset.operation) take_over(op, measurement_of(all, *op.subset.operation));
    }
    assemble(m, c, plan);
  }
  rank_again(result.plans);
  return result;
}

}  // namespace meshplan

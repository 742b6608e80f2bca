#include "cost/uncertainty.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.hpp"

namespace meshplan {
namespace {

double waiting(const TimeTerms& t) {
  return (t.tp_comm_exposed + t.cp_comm_exposed + t.ep_comm_exposed + t.pp_comm_exposed +
          t.dp_comm_exposed + t.pp_bubble)
      .si();
}

double probability_at(std::size_t i) {
  return (static_cast<double>(i) + 0.5) / static_cast<double>(kMemoryQuantiles);
}

using Quantiles = std::array<double, kMemoryQuantiles>;

// Of an error above `x`.
double share_above(const Quantiles& q, double x) {
  constexpr double kFlat = 1e-6;  // of neighbours that are the same
  const double outer = probability_at(0);
  if (x <= q.front()) {
    const double scale = std::max(q[1] - q[0], kFlat);
    return 1 - outer * std::exp((x - q.front()) / scale);
  }
  if (x >= q.back()) {
    const double scale = std::max(q[kMemoryQuantiles - 1] - q[kMemoryQuantiles - 2], kFlat);
    return outer * std::exp((q.back() - x) / scale);
  }
  const auto above = static_cast<std::size_t>(std::upper_bound(q.begin(), q.end(), x) - q.begin());
  const double width = q[above] - q[above - 1];
  const double part = width > 0 ? (x - q[above - 1]) / width : 0.5;
  return 1 - (probability_at(above - 1) + part / static_cast<double>(kMemoryQuantiles));
}

double probability_above(const MemoryBreakdown& m, double capacity, const MeasuredErrors& errors) {
  const double unseen = (m.context + m.communicators).si();
  const auto part = [](const MemoryErrors& all, double room, double need) {
    if (all.sources == 0) return 0.0;
    const double share = room > 0 ? share_above(all.quantiles, std::log(room / need)) : 1;
    return static_cast<double>(all.sources) * share;
  };
  const double sum = part(errors.device_memory, capacity, m.peak.si()) +
                     part(errors.allocator_memory, capacity - unseen, m.peak.si() - unseen);
  return sum / static_cast<double>(errors.device_memory.sources + errors.allocator_memory.sources);
}

// The capacity that is exceeded with probability `p`, between a tenth and ten times the peak.
double exceeded_with(double p, const MemoryBreakdown& m, const MeasuredErrors& errors) {
  double low = m.peak.si() / 10, high = m.peak.si() * 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (probability_above(m, middle, errors) > p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

std::string_view name_of(Regime r) {
  constexpr std::array<std::string_view, kNumRegimes> kNames{"moe", "launch_bound", "waiting",
                                                             "steady"};
  return kNames[static_cast<std::size_t>(r)];
}

std::string_view description_of(Regime r) {
  constexpr std::array<std::string_view, kNumRegimes> kTexts{
      "runs that exchange tokens between experts", "launch-bound runs",
      "runs that wait for links or the pipeline", "runs that mostly compute"};
  return kTexts[static_cast<std::size_t>(r)];
}

Regime regime_of(const PlanCost& p) {
  if (p.strategy.ep > 1) return Regime::kMoe;
  const double step = p.step_time.si();
  const double launches = p.time.other.si();
  // Hosts that also serve messages between nodes are slower by what only their own code shows.
  const bool apart = std::any_of(
      p.communication.begin(), p.communication.end(),
      [](const CommEntry& e) { return e.dimension == CommDimension::kPp && e.level > 0; });
  if (launches > kLaunchBoundShare * step && !apart) return Regime::kLaunchBound;
  return waiting(p.time) + launches > kWaitingShare * step ? Regime::kWaiting : Regime::kSteady;
}

Extrapolation extrapolation_of(const std::string& device, const std::string& framework,
                               std::int64_t gpus, const MeasuredErrors& errors) {
  const auto missing = [](const auto& all, const auto& one) {
    return std::find(all.begin(), all.end(), one) == all.end();
  };
  const auto most = static_cast<double>(std::max<std::int64_t>(1, errors.most_gpus));
  return {.device = missing(errors.devices, device),
          .framework = missing(errors.frameworks, framework),
          .doublings = std::max(0.0, std::log2(static_cast<double>(gpus) / most))};
}

Extrapolation extrapolation_of(const ClusterSpec& c, const PlanCost& p,
                               const MeasuredErrors& errors) {
  const std::string name(p.strategy.framework.text());
  const std::string release = name + " " + std::string(p.strategy.release.text());
  const bool own = std::find(errors.frameworks.begin(), errors.frameworks.end(), release) !=
                   errors.frameworks.end();
  return extrapolation_of(c.device.name, own ? release : name, num_gpus(p.strategy), errors);
}

ErrorBand error_band(Regime regime, const Extrapolation& beyond, const MeasuredErrors& errors) {
  double wider = 1 + kPerDoubling * beyond.doublings;
  if (beyond.device) wider *= errors.unseen_device;
  if (beyond.framework) wider *= errors.unseen_framework;
  ErrorBand band = errors.step_time[static_cast<std::size_t>(regime)];
  band.below *= wider;
  band.above *= wider;
  return band;
}

ErrorBand learnt_band(ErrorBand band, const LikeRuns& runs) {
  band.centre *= runs.widening;
  band.below *= runs.widening;
  band.above *= runs.widening;
  return band;
}

StepTimeInterval interval_around(Seconds predicted, const ErrorBand& band) {
  return {predicted * std::exp(std::min(0.0, band.centre - band.below)),
          predicted * std::exp(std::max(0.0, band.centre + band.above))};
}

StepTimeInterval step_time_interval(const ClusterSpec& c, const PlanCost& p,
                                    const MeasuredErrors& errors) {
  const Extrapolation beyond = extrapolation_of(c, p, errors);
  return interval_around(p.expected_time(),
                         learnt_band(error_band(regime_of(p), beyond, errors), p.like_runs));
}

MemoryInterval memory_interval(const MemoryBreakdown& m, const MeasuredErrors& errors) {
  return {std::min(m.peak, ceil_bytes(exceeded_with(0.9, m, errors))),
          std::max(m.peak, ceil_bytes(exceeded_with(0.1, m, errors)))};
}

double out_of_memory_probability(const MemoryBreakdown& m, const MeasuredErrors& errors) {
  PLAN_CHECK(m.peak.count() > 0 && m.capacity.count() > 0);
  return probability_above(m, m.capacity.si(), errors);
}

Bytes safe_peak(Bytes unseen, Bytes capacity, double risk, const MeasuredErrors& errors) {
  MemoryBreakdown m;
  m.context = unseen;  // whichever of the two that are unseen
  m.capacity = capacity;
  const auto is_safe = [&](std::int64_t peak) {
    m.peak = Bytes{peak};
    return probability_above(m, capacity.si(), errors) <= risk;
  };
  std::int64_t safe = unseen.count() + 1, most = capacity.count();
  if (safe > most || !is_safe(safe)) return Bytes{};
  if (is_safe(most)) return capacity;
  while (most - safe > 1) {
    const std::int64_t middle = safe + (most - safe) / 2;
    (is_safe(middle) ? safe : most) = middle;
  }
  return Bytes{safe};
}

TippingTerm tipping_term(const MemoryBreakdown& m) {
  constexpr std::array kEstimated{&MemoryBreakdown::activations, &MemoryBreakdown::buffers,
                                  &MemoryBreakdown::communicators, &MemoryBreakdown::context,
                                  &MemoryBreakdown::fragmentation};
  TippingTerm tipping;
  for (const auto term : kEstimated) {
    if (tipping.term == nullptr || m.*term > m.*tipping.term) tipping.term = term;
  }
  const double size = std::max(1.0, (m.*tipping.term).si());
  tipping.growth = (m.capacity - m.peak).si() / size;
  return tipping;
}

}  // namespace meshplan

#include "cost/uncertainty.hpp"

#include <cmath>

#include "cost/order.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

// Bands of round factors: measured over predicted from 0.8 to 1.25 where runs mostly compute.
MeasuredErrors errors() {
  MeasuredErrors e;
  e.step_time = {ErrorBand{0, std::log(2.0), std::log(2.0), 1, 10},
                 ErrorBand{std::log(1.5), std::log(1.5), std::log(2.0), 2, 20},
                 ErrorBand{std::log(1.1), std::log(1.1) / 2, std::log(1.1), 3, 30},
                 ErrorBand{0, std::log(1.25), std::log(1.25), 4, 40}};
  e.unseen_device = 2;
  e.unseen_framework = 3;
  e.devices = {"seen"};
  e.frameworks = {"megatron"};
  e.most_gpus = 8;
  e.order_floor = 0.1;
  e.order_spread = 0.5;
  return e;
}

// Ten seconds on eight devices, all of it compute but for what a test moves.
PlanCost plan() {
  PlanCost p;
  p.strategy.dp = 8;
  p.time.compute = Seconds{10};
  p.step_time = Seconds{10};
  return p;
}

PlanCost plan_with(Seconds TimeTerms::*term, double seconds) {
  PlanCost p = plan();
  p.time.*term = Seconds{seconds};
  p.time.compute = Seconds{10 - seconds};
  return p;
}

ClusterSpec cluster(const std::string& device) {
  ClusterSpec c;
  c.device.name = device;
  return c;
}

// Errors of memory from ln 0.905 to ln 1.095 in even steps of the logarithm; measured peaks of the
// whole device.
MeasuredErrors memory_errors() {
  MeasuredErrors e = errors();
  e.device_memory.sources = 1;
  for (std::size_t i = 0; i < kMemoryQuantiles; ++i)
    e.device_memory.quantiles[i] = -0.095 + 0.01 * static_cast<double>(i);
  return e;
}

MemoryBreakdown memory(double peak_gib, double capacity_gib) {
  const auto gib = [](double x) { return ceil_bytes(x * static_cast<double>(kGiB)); };
  MemoryBreakdown m;
  m.context = gib(1);
  m.communicators = gib(1);
  m.activations = gib(4);
  m.weights = gib(peak_gib - 6);
  m.reserved = m.context + m.communicators;
  m.peak = gib(peak_gib);
  m.capacity = gib(capacity_gib);
  return m;
}

}  // namespace

TEST_CASE("the regime is the first that holds of a plan") {
  CHECK(regime_of(plan()) == Regime::kSteady);
  CHECK(regime_of(plan_with(&TimeTerms::pp_bubble, 2.4)) == Regime::kSteady);
  CHECK(regime_of(plan_with(&TimeTerms::pp_bubble, 2.6)) == Regime::kWaiting);
  CHECK(regime_of(plan_with(&TimeTerms::dp_comm_exposed, 2.6)) == Regime::kWaiting);
  CHECK(regime_of(plan_with(&TimeTerms::other, 0.9)) == Regime::kSteady);
  CHECK(regime_of(plan_with(&TimeTerms::other, 1.1)) == Regime::kLaunchBound);
  PlanCost p = plan_with(&TimeTerms::other, 1.1);
  CommEntry message{};
  message.dimension = CommDimension::kPp;
  p.communication.push_back(message);
  CHECK(regime_of(p) == Regime::kLaunchBound);
  p.communication.back().level = 1;  // to another node
  CHECK(regime_of(p) == Regime::kSteady);
  p.time.other = p.time.other * 2.5;
  CHECK(regime_of(p) == Regime::kWaiting);
  p.strategy.ep = 8;
  CHECK(regime_of(p) == Regime::kMoe);
  CHECK(name_of(Regime::kLaunchBound) == "launch_bound");
}

TEST_CASE("[F-UNC-1] ten seconds that mostly compute take 8 to 12.5 in four runs of five") {
  const StepTimeInterval seen = step_time_interval(cluster("seen"), plan(), errors());
  CHECK(seen.low.si() == Approx(8));
  CHECK(seen.high.si() == Approx(12.5));
  // The band of waiting runs lies above the prediction: the interval is taken down to it.
  const StepTimeInterval late =
      step_time_interval(cluster("seen"), plan_with(&TimeTerms::pp_bubble, 4), errors());
  CHECK(late.low.si() == Approx(10));
  CHECK(late.high.si() == Approx(12.1));
}

TEST_CASE("[F-UNC-1] what no run was seen with widens the interval") {
  // Twice the logarithm on another device: 10 / 1.25^2 to 10 x 1.25^2.
  const StepTimeInterval device = step_time_interval(cluster("other"), plan(), errors());
  CHECK(device.low.si() == Approx(6.4));
  CHECK(device.high.si() == Approx(15.625));
  PlanCost p = plan();
  p.strategy.framework = Framework::kTorchtitan;
  CHECK(step_time_interval(cluster("seen"), p, errors()).high.si() == Approx(10 * 1.953125));
  // 128 devices are four doublings beyond 8, each a quarter more: twice as wide.
  p = plan();
  p.strategy.dp = 128;
  CHECK(extrapolation_of(cluster("seen"), p, errors()).doublings == Approx(4));
  CHECK(step_time_interval(cluster("seen"), p, errors()).high.si() == Approx(15.625));
  CHECK_FALSE(extrapolation_of(cluster("seen"), plan(), errors()).any());
}

TEST_CASE("[F-CAL-12] runs like a plan move its interval and widen it, not its terms") {
  PlanCost p = plan();
  p.like_runs = {1.1, 0.5};
  const StepTimeInterval learnt = step_time_interval(cluster("seen"), p, errors());
  // Half of the logarithms of 8 to 12.5, around 11.
  CHECK(learnt.low.si() == Approx(11 * std::sqrt(0.8)));
  CHECK(learnt.high.si() == Approx(11 * std::sqrt(1.25)));
  CHECK(p.expected_time().si() == Approx(11));
  CHECK(p.step_time.si() == Approx(10));
}

TEST_CASE("[F-UNC-3] a peak at its capacity runs out of memory in every second run") {
  CHECK(out_of_memory_probability(memory(80, 80), memory_errors()) == Approx(0.5));
  // Five in a hundred lie above exp(0.09).
  CHECK(out_of_memory_probability(memory(80, 80 * std::exp(0.09)), memory_errors()) ==
        Approx(0.05));
  CHECK(out_of_memory_probability(memory(80, 80 * std::exp(-0.05)), memory_errors()) ==
        Approx(0.75));
  // Beyond the outermost quantile, 2.5 %, the tail falls by e every 0.01.
  CHECK(out_of_memory_probability(memory(80, 80 * std::exp(0.115)), memory_errors()) ==
        Approx(0.025 * std::exp(-2.0)));
}

TEST_CASE("[F-UNC-3] what the allocator does not see does not grow with its errors") {
  MeasuredErrors e = errors();
  e.allocator_memory = memory_errors().device_memory;
  // 78 GiB of 80 are the allocator's; exp(0.09) times those and 2 are the capacity.
  CHECK(out_of_memory_probability(memory(80, 2 + 78 * std::exp(0.09)), e) == Approx(0.05));
  // Two sources of each kind weigh alike; 0.3 lies far in the tail of the other.
  e.device_memory = memory_errors().device_memory;
  e.device_memory.sources = e.allocator_memory.sources = 2;
  const double mean = out_of_memory_probability(memory(80, 80), e);
  CHECK(mean == Approx(0.5).margin(1e-6));
  CHECK(out_of_memory_probability(memory(80, 1.5), e) == Approx(1).margin(1e-6));
}

TEST_CASE("[F-UNC-5] a safe peak is the largest that keeps the risk") {
  MeasuredErrors e = errors();
  e.device_memory = e.allocator_memory = memory_errors().device_memory;
  e.device_memory.sources = 1, e.allocator_memory.sources = 3;
  const Bytes capacity{80 * kGiB};
  Bytes before;
  for (const std::int64_t unseen : {1, 2, 5, 20}) {
    for (const double risk : {0.01, 0.05, 0.1, 0.4}) {
      CAPTURE(unseen, risk);
      MemoryBreakdown m;
      m.context = Bytes{unseen * kGiB - kMiB};
      m.communicators = Bytes{kMiB};
      m.capacity = capacity;
      m.peak = safe_peak(m.context + m.communicators, capacity, risk, e);
      REQUIRE(m.peak < capacity);
      CHECK(out_of_memory_probability(m, e) <= risk);
      m.peak += Bytes{1};
      CHECK(out_of_memory_probability(m, e) > risk);
    }
    // The more of it is unseen the larger it may be, but not by as much.
    const Bytes safe = safe_peak(Bytes{unseen * kGiB}, capacity, 0.1, e);
    if (unseen > 1) {
      CHECK(safe > before);
      CHECK(safe - Bytes{unseen * kGiB} < before);
    }
    before = safe;
  }
  CHECK(safe_peak(Bytes{kGiB}, capacity, 0.6, e) == capacity);
  CHECK(safe_peak(capacity, capacity, 0.1, e) == Bytes{});
}

TEST_CASE("[F-UNC-2] the memory interval leaves out a tenth on either side") {
  const MemoryInterval interval = memory_interval(memory(80, 100), memory_errors());
  const double gib = 1.0 / static_cast<double>(kGiB);
  CHECK(interval.low.si() * gib == Approx(80 * std::exp(-0.08)).epsilon(1e-6));
  CHECK(interval.high.si() * gib == Approx(80 * std::exp(0.08)).epsilon(1e-6));
}

TEST_CASE("the largest estimated part tips the memory, not the weights") {
  const TippingTerm tipping = tipping_term(memory(80, 81));
  CHECK(tipping.term == &MemoryBreakdown::activations);
  CHECK(tipping.growth == Approx(0.25));
  CHECK(tipping_term(memory(80, 79)).growth == Approx(-0.25));
}

TEST_CASE("[F-UNC-4] plans that share everything but a bubble are ordered by the bubble") {
  PlanCost b = plan();
  b.time.pp_bubble = Seconds{2};
  b.step_time = Seconds{12};
  // Half of the two seconds in a mean step of eleven.
  CHECK(differing_share(plan(), b) == Approx(1.0 / 11));
  const double scale = 0.1 + 0.5 / 11;
  const double sure = 1 / (1 + std::exp(-std::log(1.2) / scale));
  CHECK(probability_faster(plan(), b, errors()) == Approx(sure));
  CHECK(probability_faster(b, plan(), errors()) == Approx(1 - sure));
  CHECK(practically_tied(plan(), b, errors()) == (sure < 0.8));
  CHECK(separating_term(plan(), b) == &TimeTerms::pp_bubble);
}

TEST_CASE("[F-UNC-4] the same step time from other terms is no order at all") {
  const PlanCost b = plan_with(&TimeTerms::tp_comm_exposed, 4);
  CHECK(differing_share(plan(), b) == Approx(0.4));
  CHECK(probability_faster(plan(), b, errors()) == Approx(0.5));
  CHECK(practically_tied(plan(), b, errors()));
  CHECK(differing_share(plan(), plan()) == 0);
}

TEST_CASE("the table that ships is whole") {
  const MeasuredErrors& e = shipped_errors();
  for (const ErrorBand& band : e.step_time) {
    CHECK(band.below > 0);
    CHECK(band.above > 0);
  }
  CHECK(e.unseen_device >= 1);
  CHECK(e.unseen_framework >= 1);
  CHECK(e.device_memory.sources + e.allocator_memory.sources > 0);
  CHECK(e.order_floor > 0);
  CHECK(e.sources.size() >= 10);
}

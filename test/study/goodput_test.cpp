#include "study/goodput.hpp"

#include <cmath>
#include <random>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "model/parameters.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

Seconds minutes(double n) { return Seconds{60 * n}; }

// One long job, event by event: failures strike whenever they like, also during checkpoints and
// restarts. Returns the share of the wall time that went into intervals that were completed.
double simulated_useful_share(Seconds interval, Seconds checkpoint, Seconds restart,
                              Seconds between_failures, int intervals) {
  std::mt19937_64 engine(7);
  double clock = 0, next_failure = 0;
  const auto draw = [&] {
    const double uniform = (static_cast<double>(engine() >> 11) + 0.5) / 9007199254740992.0;
    next_failure = clock - between_failures.si() * std::log(uniform);
  };
  // True if nothing fails for that long; else the clock stands at the failure.
  const auto survives = [&](double duration) {
    if (clock + duration < next_failure) {
      clock += duration;
      return true;
    }
    clock = next_failure;
    draw();
    return false;
  };
  draw();
  for (int done = 0; done < intervals; ++done) {
    while (!survives((interval + checkpoint).si())) {
      while (!survives(restart.si())) {
      }
    }
  }
  return intervals * interval.si() / clock;
}

}  // namespace

TEST_CASE("[F-GOOD-1] failures of independent devices add up") {
  // 16,384 GPUs at 2.2e-5 failures an hour each fail every 2.77 hours.
  CHECK(time_between_failures(2.2e-5, 16'384).si() == Approx(3600 / 0.360448));
  CHECK(time_between_failures(1, 1) == Seconds{3600});
}

TEST_CASE("[F-GOOD-2] Young's interval is the root of twice checkpoint times failure time") {
  CHECK(young_interval(minutes(5), minutes(24 * 60)).si() == Approx(minutes(120).si()));
  CHECK(young_interval(minutes(2), minutes(4)).si() == Approx(minutes(4).si()));
}

// Daly 2006, figures 3 to 5: checkpoints of 5 minutes, failures every 24 h, 6 h and 15 min.
TEST_CASE("[F-GOOD-3] Daly's interval has the values that he published") {
  CHECK(std::round(daly_interval(minutes(5), minutes(24 * 60)).si() / 60) == 117);
  CHECK(std::round(daly_interval(minutes(5), minutes(6 * 60)).si() / 60) == 57);
  CHECK(std::round(daly_interval(minutes(5), minutes(15)).si() / 6) == 91);  // 9.1 minutes
}

TEST_CASE("[F-GOOD-3] where checkpoints outlast failures the interval is the failure time") {
  CHECK(daly_interval(minutes(31), minutes(15)) == minutes(15));
  // By hand at d = M / 2: M (1 + 1/6 + 1/36) - M / 2.
  CHECK(daly_interval(minutes(6), minutes(12)).si() ==
        Approx(60 * (12 * (1 + 1.0 / 6 + 1.0 / 36) - 6)));
}

TEST_CASE("[F-GOOD-4] wall time of an interval by hand") {
  // t + d = M ln 2 makes exp((t + d) / M) - 1 one: the interval takes M, or 2 M if R = M ln 2.
  const double ln2 = std::log(2.0);
  const WallShares free = wall_shares(Seconds{60}, Seconds{100 * ln2 - 60}, {}, Seconds{100});
  CHECK(free.useful == Approx(0.6));
  CHECK(free.checkpoint == Approx(ln2 - 0.6));
  CHECK(free.lost == Approx(1 - ln2));
  const WallShares slow =
      wall_shares(Seconds{60}, Seconds{100 * ln2 - 60}, Seconds{100 * ln2}, Seconds{100});
  CHECK(slow.useful == Approx(0.3));
  CHECK(slow.lost == Approx(1 - ln2 / 2));
}

TEST_CASE("[F-GOOD-4] the useful share is that of a simulated job") {
  struct Job {
    double interval, checkpoint, restart, between_failures;
  };
  const Job job =
      GENERATE(Job{117, 5, 10, 1440}, Job{57, 5, 10, 360}, Job{9.1, 5, 10, 15}, Job{30, 1, 30, 60});
  const auto [t, d, r, m] = job;
  CAPTURE(t, d, r, m);
  const double simulated =
      simulated_useful_share(minutes(t), minutes(d), minutes(r), minutes(m), 200'000);
  CHECK(wall_shares(minutes(t), minutes(d), minutes(r), minutes(m)).useful ==
        Approx(simulated).epsilon(0.01));
}

TEST_CASE("[F-GOOD-3] no other interval is noticeably better than Daly's") {
  const double checkpoint = GENERATE(1.0, 5.0, 20.0, 60.0);
  const Seconds m = minutes(120), d = minutes(checkpoint), r = minutes(10);
  const auto useful = [&](Seconds t) { return wall_shares(t, d, r, m).useful; };
  double best = 0;
  for (double t = 1; t < 600; t += 0.25) best = std::max(best, useful(minutes(t)));
  CHECK(useful(daly_interval(d, m)) >= 0.999 * best);
}

TEST_CASE("a job that no interval survives keeps finite numbers") {
  const WallShares shares = wall_shares(Seconds{1e6}, Seconds{1e6}, Seconds{1e6}, Seconds{1});
  CHECK(shares.useful == 0);
  CHECK(shares.checkpoint == 0);
  CHECK(shares.lost == 1);
}

TEST_CASE("a plan's goodput counts whole steps and its own checkpoint") {
  const ModelSpec m = small_model(4, 2048);
  const ClusterSpec c = small_cluster(1, 4, Bytes{80 * kGiB});
  Strategy s = framework_preset(Framework::kMegatron);
  s.dp = 0, s.global_batch = 64, s.seq_len = 2048;
  const Verdict verdict = evaluate(m, c, s);
  REQUIRE(verdict.feasible());
  const PlanCost& plan = verdict.cost();
  FailureModel f;
  f.failures_per_gpu_hour = 0.5;
  f.checkpoint_bandwidth = BytesPerSecond{1e9};
  f.restart_time = Seconds{30};
  const Goodput g = goodput(m, plan, f);
  // bf16 weights, fp32 master weights and two fp32 moments: 14 bytes a parameter.
  CHECK(g.checkpoint_bytes.count() == 14 * parameter_count(m).total);
  CHECK(g.checkpoint_time.si() == Approx(g.checkpoint_bytes.si() / 1e9));
  CHECK(g.between_failures == Seconds{1800});
  CHECK(g.daly == daly_interval(g.checkpoint_time, Seconds{1800}));
  const double steps = g.daly / plan.step_time;
  CHECK(std::abs(static_cast<double>(g.steps_per_checkpoint) - steps) < 1);
  CHECK(g.shares.useful + g.shares.checkpoint + g.shares.lost == Approx(1));
  CHECK(g.tokens_per_s == Approx(64 * 2048 / plan.step_time.si() * g.shares.useful));

  f.checkpoint_bandwidth.reset();
  f.checkpoint_time = Seconds{1e-9};  // nearly free: still at least one step
  CHECK(goodput(m, plan, f).steps_per_checkpoint == 1);
}

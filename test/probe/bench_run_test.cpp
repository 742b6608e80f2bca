#include "probe/bench_run.hpp"

#include "probe/agenda.hpp"
#include "probe/fake_backend.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

Operation all_reduce(std::int64_t bytes) {
  return CollectiveOperation{.bytes = Bytes{bytes}, .group = {.size = 2}};
}

// Time passes as operations are measured, 30 calls each.
struct Bench {
  Seconds time;
  FakeBackend backend{fake_machine(2, 2), [this](const Operation& op) -> Result<Seconds> {
                        const Seconds once{buffer_bytes(op).si() * 1e-9};
                        time += once * 30;
                        return once;
                      }};
  BenchOptions options;

  Bench() {
    options.clock = [this] { return time; };
    options.budget = Seconds{1000};
  }
  BenchOutcome run(const std::vector<Operation>& all, SamplesFile before = {},
                   const BenchEvents& events = {}) {
    return run_bench(backend, all, std::move(before), options, events);
  }
};

TEST_CASE("an agenda is measured whole while there is time") {
  Bench b;
  const BenchOutcome o = b.run({all_reduce(8), all_reduce(16)});
  CHECK(o.end == BenchEnd::kComplete);
  CHECK(o.file.samples.size() == 2);
  CHECK(o.file.machine == b.backend.machine());
}

TEST_CASE("the budget ends the measurements and says how many are left") {
  Bench b;
  b.options.budget = Seconds{3};
  // 0.06 ns x 30 for 1 B; 1e7 bytes take 0.6 s each.
  std::vector<Operation> all;
  for (int i = 0; i < 20; ++i) all.push_back(CopyOperation{.bytes = Bytes{10'000'000 + i}});
  const BenchOutcome o = b.run(all);
  CHECK(o.end == BenchEnd::kOutOfTime);
  CHECK(o.file.samples.size() == 5);
  CHECK(o.not_reached == 15);
}

TEST_CASE("messages that would take too much of the time are left out") {
  Bench b;
  b.options.budget = Seconds{10};
  // 1e6 bytes take 2 ms a call; 1e9 would take 2 s a call, ten calls 20 s.
  const BenchOutcome o = b.run({all_reduce(1'000'000), all_reduce(1'000'000'000)});
  CHECK(o.end == BenchEnd::kComplete);
  CHECK(o.file.samples.size() == 1);
  REQUIRE(o.skipped.size() == 1);
  CHECK(o.skipped[0].operation == all_reduce(1'000'000'000));
}

TEST_CASE("what was measured before is not measured again") {
  Bench b;
  const BenchOutcome first = b.run({all_reduce(8)});
  REQUIRE(b.backend.measured() == 1);
  const BenchOutcome second = b.run({all_reduce(8), all_reduce(16)}, first.file);
  CHECK(b.backend.measured() == 2);
  CHECK(second.resumed == 1);
  CHECK(second.file.samples.size() == 2);
}

TEST_CASE("what was too long for all repetitions is measured again while time is left") {
  Bench b;
  b.options.measure.time_limit = Seconds{0.3};
  // 20 ms a call: 15 repetitions in 0.3 s. 200 ms a call: 5, and 20 of them take 4 s.
  const std::vector<Operation> all{CopyOperation{.bytes = Bytes{100'000'000}},
                                   CopyOperation{.bytes = Bytes{10'000'000}}, all_reduce(8)};
  b.options.budget = Seconds{100};
  std::size_t kept = 0;
  BenchEvents events;
  events.keep = [&](const SamplesFile&) -> Result<bool> { return ++kept > 0; };
  const BenchOutcome whole = b.run(all, {}, events);
  CHECK(whole.end == BenchEnd::kComplete);
  CHECK(b.backend.measured() == 5);
  CHECK(kept == 5);
  CHECK(whole.short_samples == 0);
  for (const Sample& s : whole.file.samples) {
    CHECK(s.taken == 20);
    CHECK(s.correctness == Correctness::kCorrect);  // of the first time
  }
  // Time for the quicker one alone: 6.6 s until both are measured, then 0.6 s of 0.6 s.
  Bench hasty;
  hasty.options.measure.time_limit = Seconds{0.3};
  hasty.options.budget = Seconds{8};
  const BenchOutcome some = hasty.run(all);
  CHECK(some.end == BenchEnd::kComplete);
  CHECK(some.short_samples == 1);
  CHECK(some.file.samples[0].taken == 5);
  CHECK(some.file.samples[1].taken == 20);
}

TEST_CASE("kernels that fill the device run until their rate lasts, for a third of the time") {
  Seconds time;
  FakeBackend backend(
      fake_machine(1, 1), [](const Operation&) { return Seconds{1e-3}; },
      [&time](const Operation&, Seconds busy) {
        time += Seconds{0.125};
        return Seconds{busy < Seconds{0.45} ? 1e-3 : 1.25e-3};
      });
  BenchOptions options;
  options.clock = [&time] { return time; };
  options.budget = Seconds{12};
  options.measure.steady = SteadyLimits{};
  std::vector<Operation> all{GemmOperation{64, 64, 64}};
  for (std::int64_t n = 8192; n < 8192 + 6; ++n) all.push_back(GemmOperation{8192, n, 8192});
  const BenchOutcome o = run_bench(backend, all, {}, options, {});
  REQUIRE(o.file.samples.size() == all.size());
  CHECK_FALSE(o.file.samples[0].steady);
  REQUIRE(o.file.samples[1].steady);
  CHECK(o.file.samples[1].median.si() == Approx(1e-3));
  CHECK(o.file.samples[1].steady->median.si() == Approx(1.25e-3));
  // A second each, and room for two more: up to 4 s.
  CHECK(o.file.samples[3].steady);
  CHECK_FALSE(o.file.samples[4].steady);
}

TEST_CASE("a lost rank ends the measurements and keeps what there is") {
  Bench b;
  std::size_t kept = 0;
  BenchEvents events;
  events.keep = [&](const SamplesFile& f) -> Result<bool> {
    kept = f.samples.size();
    if (kept == 2) b.backend.lose_rank();
    return true;
  };
  const BenchOutcome o =
      b.run({all_reduce(8), all_reduce(16), all_reduce(32), all_reduce(64)}, {}, events);
  CHECK(o.end == BenchEnd::kFailed);
  CHECK(o.file.samples.size() == 2);
  CHECK(kept == 2);
  CHECK(o.not_reached == 2);
  REQUIRE(o.problems.size() == 1);
  CHECK(o.problems[0].message == "a rank was lost before all-reduce of 32.0 B bf16 in groups of 2");
}

TEST_CASE("an operation that fails alone is left out with its reason") {
  FakeBackend backend(fake_machine(2, 2), [](const Operation& op) -> Result<Seconds> {
    if (buffer_bytes(op) > Bytes{100}) return error("out of memory");
    return Seconds{1e-6};
  });
  BenchOptions options;
  options.clock = [] { return Seconds{0}; };
  const BenchOutcome o =
      run_bench(backend, {all_reduce(8), all_reduce(64), all_reduce(16)}, {}, options, {});
  CHECK(o.end == BenchEnd::kComplete);
  CHECK(o.file.samples.size() == 2);
  REQUIRE(o.skipped.size() == 1);
  CHECK(o.skipped[0].reason == "out of memory");
}

TEST_CASE("a file that cannot be kept ends the measurements") {
  Bench b;
  BenchEvents events;
  events.keep = [](const SamplesFile&) -> Result<bool> { return error("disk full"); };
  const BenchOutcome o = b.run({all_reduce(8), all_reduce(16)}, {}, events);
  CHECK(o.end == BenchEnd::kFailed);
  REQUIRE(o.problems.size() == 1);
  CHECK(o.problems[0].message == "disk full");
}

TEST_CASE("measurements are continued on the same machine alone") {
  const Machine m = fake_machine(4, 2);
  CHECK_FALSE(why_not_resume(m, m));
  Machine other = m;
  other.backend = "mpi";
  CHECK(why_not_resume(m, other) == "it was measured with the backend 'fake', this is 'mpi'");
  other = m;
  other.ranks.pop_back();
  CHECK(why_not_resume(m, other) == "it was measured with 4 ranks on 2 nodes, these are 3 on 2");
  other = m;
  other.ranks[3].device = "another";
  CHECK(why_not_resume(m, other) == "it was measured on fake device, this is another");
  other = m;
  other.versions["fake"] = "2";
  CHECK(why_not_resume(m, other) == "it was measured with another version of fake");
}

}  // namespace
}  // namespace meshplan

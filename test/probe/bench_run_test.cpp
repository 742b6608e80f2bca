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

#include "io/log_timers.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

// As Megatron-LM's core/timers.py prints them, with the rank that torchrun puts before every line.
TEST_CASE("timers of Megatron-LM: the fastest and the slowest rank, warm-up left out") {
  const auto timers = parse_log_timers(
      "(min, max) time across ranks (ms):\n"
      "    forward-compute ................................: (900.00, 990.00)\n"
      "    optimizer ......................................: (50.00, 51.00)\n"
      " iteration 2/10 | elapsed time per iteration (ms): 1000.0 |\n"
      "    backward-compute ...............................: (1.00, 2.00)\n"
      "(min, max) time across ranks (ms):\n"
      "[default0]:    forward-compute ................................: (100.00, 120.00)\n"
      "(min, max) time across ranks (ms):\n"
      "    forward-compute ................................: (102.00, 126.00)\n"
      "    save-checkpoint ................................: (3000.00, 3000.50)\n");
  REQUIRE(timers.size() == 3);
  CHECK(timers[0].name == "forward-compute");
  CHECK(timers[0].least.si() == Approx(0.101));
  CHECK(timers[0].most.si() == Approx(0.123));
  CHECK(timers[0].reports == 2);
  CHECK(timers[1].name == "optimizer");
  CHECK(timers[1].most.si() == Approx(0.051));  // one report: nothing is left out
  CHECK(timers[2].name == "save-checkpoint");
}

// DeepSpeed's utils/timer.py, and Megatron-LM before 2022.
TEST_CASE("timers in one row") {
  const auto timers = parse_log_timers(
      "[2023-06-21 07:39:09,443] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | "
      "forward: 27.5 | backward: 73.44 | backward_allreduce: nan | step: 72.82\n");
  REQUIRE(timers.size() == 3);
  CHECK(timers[0].name == "forward");
  CHECK(timers[0].least.si() == Approx(0.0275));
  CHECK(timers[2].name == "step");
}

TEST_CASE("a log without timers, and one that breaks off inside of them") {
  CHECK(parse_log_timers("iteration 1/2 | elapsed time per iteration (ms): 10 |\n").empty());
  CHECK(parse_log_timers("(min, max) time across ranks (ms):\n    forward-comp").empty());
  CHECK(parse_log_timers("(min, max) time across ranks (ms):\n    f ....: (-1.0, x)\n").empty());
  CHECK(parse_log_timers("time (ms) | : 3 | x").empty());
}

}  // namespace
}  // namespace meshplan

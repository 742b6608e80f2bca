#include "compare/log_step.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

TrainingLog log_of(std::initializer_list<double> seconds) {
  TrainingLog log;
  log.file = "x.log";
  for (const double s : seconds) log.reports.push_back({.time = Seconds{s}});
  return log;
}

TEST_CASE("far slower steps are left out and said, what they cost is spread over all") {
  // The first one is warm-up; of the others 1.0, 1.01, 0.99, 1.0 count and 3.0 does not.
  const auto steps = steady_steps(log_of({9, 1.0, 1.01, 0.99, 3.0, 1.0}), 1, 1, 1);
  REQUIRE(steps.ok());
  CHECK(steps->median.si() == Approx(1.0));
  CHECK(steps->reports == 4);
  CHECK(steps->warm_up == 1);
  CHECK(steps->outliers == 1);
  CHECK(steps->stalls.si() == Approx(2.0 / 5));
}

TEST_CASE("steps that scatter evenly are all kept") {
  const auto steps = steady_steps(log_of({9, 1.0, 1.1, 1.2, 1.3, 1.4}), 1, 1, 1);
  REQUIRE(steps.ok());
  CHECK(steps->reports == 5);
  CHECK(steps->outliers == 0);
  CHECK(steps->stalls.si() == 0);
  CHECK_FALSE(steady_steps(log_of({9}), 1, 1, 1).ok());
}

LogTimer timer(const char* name, double most) {
  return {name, Seconds{most / 2}, Seconds{most}, 1};
}

const MeasuredTerm* find(const std::vector<MeasuredTerm>& terms, StepTerm term) {
  for (const MeasuredTerm& t : terms) {
    if (t.term == term) return &t;
  }
  return nullptr;
}

TEST_CASE("timers inside of others count once") {
  const auto terms = terms_of({timer("forward-backward", 9), timer("forward-compute", 3),
                               timer("backward-compute", 6), timer("all-grads-sync", 0.4),
                               timer("layernorm-grads-all-reduce", 0.1),
                               timer("params-all-gather", 0.2), timer("optimizer-inner-step", 0.1),
                               timer("optimizer", 0.5), timer("unheard-of", 1)});
  REQUIRE(find(terms, StepTerm::kOptimizer) != nullptr);
  CHECK(find(terms, StepTerm::kOptimizer)->time.most.si() == Approx(0.3));
  CHECK(find(terms, StepTerm::kDataParallel)->time.most.si() == Approx(0.6));
  CHECK(find(terms, StepTerm::kDataParallel)->source == "all-grads-sync + params-all-gather");
  CHECK(find(terms, StepTerm::kForward)->time.least.si() == Approx(1.5));
  CHECK(find(terms, StepTerm::kBubble) == nullptr);
  CHECK(terms.size() == 5);
}

TEST_CASE("single reductions count where no timer surrounds them") {
  const auto terms = terms_of({timer("grads-reduce-scatter", 0.4), timer("params-all-gather", 0.2),
                               timer("layernorm-grads-all-reduce", 0.1)});
  REQUIRE(terms.size() == 1);
  CHECK(terms.front().time.most.si() == Approx(0.7));
}

TEST_CASE("DeepSpeed's timers of a step, not those of a microbatch") {
  const auto terms = terms_of({timer("fwd_microstep", 1), timer("fwd", 4), timer("bwd", 9),
                               timer("bwd_inner", 8), timer("bwd_allreduce", 1), timer("step", 2)});
  REQUIRE(terms.size() == 4);
  CHECK(find(terms, StepTerm::kForward)->time.most.si() == 4);
  CHECK(find(terms, StepTerm::kBackward)->time.most.si() == 8);
  CHECK(find(terms, StepTerm::kDataParallel)->time.most.si() == 1);
  CHECK(find(terms, StepTerm::kOptimizer)->time.most.si() == 2);
}

}  // namespace
}  // namespace meshplan

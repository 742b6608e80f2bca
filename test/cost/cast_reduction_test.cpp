// DeepSpeed's optimizer of bf16 weights under its pipeline engine.
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE("[F-DP-9][F-MEM-19] sums in fp32 travel as one copy in 16 bits, which has its own room") {
  const ModelSpec m = plain_gpt(4);
  Strategy s = plain_strategy(1, 1, 64);
  s.zero = 1;
  s.precision = Precision::kBf16;
  s.grad_dtype = Dtype::kFp32;
  s.overlap.grad_reduce = true;
  const ClusterSpec c = plain_cluster(64);
  const PlanCost before = cost_of(m, c, complete(s, m, c));
  s.runtime.cast_reduction = true;
  const PlanCost plan = cost_of(m, c, complete(s, m, c));
  const auto parameters = static_cast<double>(parameter_count(m).total);
  for (const CommEntry& e : plan.communication) {
    if (e.dimension != CommDimension::kDp || e.operation == Collective::kAllGather) continue;
    CHECK(e.operation == Collective::kAllReduce);
    CHECK(e.dtype == Dtype::kBf16);
    CHECK(e.exposed == e.time_each);  // whatever overlap.grad_reduce says
    CHECK(e.bytes.si() == Approx(2 * parameters));
  }
  CHECK((plan.memory().gradients - before.memory().gradients).si() == Approx(2 * parameters));
  const double rate = c.device.memory_bandwidth.si();
  CHECK((plan.time.optimizer - before.time.optimizer).si() > 24 * parameters / rate);
  s.precision = Precision::kFp16;  // its gradients are summed in fp16
  CHECK_FALSE(casts_reduction(s));
}

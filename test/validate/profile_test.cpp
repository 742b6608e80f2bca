#include "validate/profile.hpp"

#include "comm/collectives.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "probe/fake_backend.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

OperationCheck kernel_check(KernelKind kind, double ratio, double exposed, bool backward = false) {
  OperationCheck op;
  op.planned.kernel = KernelKey{kind, backward, Precision::kBf16, {}};
  op.planned.predicted = Seconds{1};
  op.planned.exposed = Seconds{exposed};
  op.subset = {Fidelity::kMeasured, Operation{GemmOperation{1, 1, 1}}, Seconds{1}, {}, {}};
  op.measured = Seconds{ratio};
  return op;
}

Validation of(std::vector<OperationCheck> operations) {
  PlanCheck plan;
  plan.operations = std::move(operations);
  Validation v;
  v.plans.push_back(std::move(plan));
  return v;
}

double rate(const ClusterSpec& c, Precision p) {
  return c.device.gemm.sustained[static_cast<std::size_t>(p)];
}

}  // namespace

TEST_CASE("[F-VAL-2] rates fall as the steps' measured kernels take longer") {
  const ClusterSpec before = plain_cluster(8);
  // 3 s at 2 x and 1 s as predicted: 4 s become 7.
  const ClusterSpec after = with_measurements(
      before, of({kernel_check(KernelKind::kGemm, 2, 3), kernel_check(KernelKind::kGemm, 1, 1),
                  kernel_check(KernelKind::kAttention, 0.5, 1),
                  kernel_check(KernelKind::kAttention, 1.25, 1, true),
                  kernel_check(KernelKind::kNorm, 1.7, 1)}));
  CHECK(rate(after, Precision::kBf16) == Approx(0.8 * 4 / 7));
  CHECK(rate(after, Precision::kFp16) == rate(before, Precision::kFp16));
  CHECK(after.device.attention.forward == 1);  // 1.2 of the peak is not believed
  CHECK(after.device.attention.backward == Approx(0.5 / 1.25));
  CHECK(after.device.memory_efficiency == Approx(0.85 / 1.7));
}

TEST_CASE("nothing measured changes nothing") {
  const ClusterSpec c = plain_cluster(8);
  CHECK(with_measurements(c, of({})) == c);
}

TEST_CASE(
    "[F-VAL-2] measured collectives join the curve of their group, and prediction reads them") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  ValidateRequest request;
  request.plans.push_back({1, complete(plain_strategy(2, 1, 4), m, c)});
  FakeBackend backend(fake_machine(8, 8), [](const Operation& op) -> Result<Seconds> {
    if (std::holds_alternative<CollectiveOperation>(op)) return Seconds{0.25};
    return error("not now");
  });
  const Validation v = validate_plans(m, c, request, backend);
  const ClusterSpec after = with_measurements(c, v);
  REQUIRE_FALSE(after.collectives.empty());
  CHECK(validate(after).empty());
  std::size_t checked = 0;
  for (const OperationCheck& op : v.plans.front().operations) {
    if (!op.planned.collective) continue;
    const CollectiveKey& key = *op.planned.collective;
    CHECK(collective_time(after, key.operation, key.bytes, *op.planned.group, key.bidirectional)
              .total == Seconds{0.25});
    ++checked;
  }
  CHECK(checked >= 4);
}

// Bytes as a model, a cluster and a strategy: the estimate keeps every invariant.
#include "fuzz/fuzz.hpp"
#include "fuzz/invariants.hpp"

MESHPLAN_FUZZ_TARGET(estimate) {
  using namespace meshplan::fuzz;
  Choices choices(data, size);
  Case c;
  if (make_case(choices, Size::kAny, c)) static_cast<void>(check_estimate(c));
  return 0;
}

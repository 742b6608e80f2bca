// Bytes as a small model, a small cluster and a search: the plans keep every invariant.
#include "fuzz/fuzz.hpp"
#include "fuzz/invariants.hpp"

MESHPLAN_FUZZ_TARGET(search) {
  using namespace meshplan::fuzz;
  Choices choices(data, size);
  Case c;
  if (make_case(choices, Size::kSmall, c)) static_cast<void>(check_search(choices, c));
  return 0;
}

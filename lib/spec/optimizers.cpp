#include "spec/optimizers.hpp"

#include <algorithm>

namespace meshplan {

OptimizerStates optimizer_states(const Strategy& s, std::int64_t hidden_size) {
  const double moment = size_of(s.optimizer_dtype);
  constexpr double kBlock = 256, kScale = 4, kWhole = 4;
  switch (s.optimizer) {
    case Optimizer::kAdam:
      return {2 * moment, 0, 0};
    case Optimizer::kPagedAdam:
      return {2 * kWhole, 0, 0};
    case Optimizer::kAdam8bit:
    case Optimizer::kPagedAdam8bit: {
      const double each = 2 * (1 + kScale / kBlock);
      return {each, 2 * kWhole - each, 0};
    }
    case Optimizer::kAdafactor:
      return {2 * kWhole / static_cast<double>(std::max<std::int64_t>(1, hidden_size)), 0, 0};
    case Optimizer::kSgd:
      return {moment, 0, 0};
    case Optimizer::kMuon:
      return {moment, moment, moment};
  }
  return {};
}

bool is_paged(Optimizer o) { return o == Optimizer::kPagedAdam || o == Optimizer::kPagedAdam8bit; }

}  // namespace meshplan

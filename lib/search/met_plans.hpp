#pragma once
// The best plan that a search met of every value of the keys that people weigh: what the
// recommended plan is compared with costs nothing then, and a search for better ones begins there.
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "spec/strategy.hpp"

namespace meshplan {

struct MetPlan {
  Strategy strategy;  // complete
  Seconds step_time;
};

class MetPlans {
 public:
  void add(const Strategy& s, Seconds step_time);
  // Each once, by value; in the order of the keys.
  [[nodiscard]] std::vector<MetPlan> all() const;

 private:
  static constexpr std::size_t kKeys = 10;
  std::array<std::vector<std::pair<std::int64_t, MetPlan>>, kKeys> best_;  // by value
};

}  // namespace meshplan

#include "search/fewest_offloaded.hpp"

#include <algorithm>
#include <numeric>

namespace meshplan {

bool offloads_fewest(const SearchRequest& request, const Strategy& s) {
  return s.offload.activations && s.offload.activation_layers == 0 &&
         std::none_of(request.limits.begin(), request.limits.end(),
                      [](const Limit& l) { return l.key == "offload.activation_layers"; });
}

std::int64_t fewest_offloaded(std::int64_t num_layers,
                              const std::function<bool(std::int64_t)>& fits) {
  std::int64_t too_few = 0, enough = num_layers;
  while (enough - too_few > 1) {
    const std::int64_t layers = std::midpoint(too_few, enough);
    (fits(layers) ? enough : too_few) = layers;
  }
  return enough < num_layers ? enough : 0;
}

}  // namespace meshplan

#include "space/base_copies.hpp"

#include <utility>

#include "space/adapter_ways.hpp"
#include "space/dispatch_ways.hpp"
#include "space/fixed_keys.hpp"

namespace meshplan {

std::vector<BaseCopy> add_copies(const SpaceRequest& request, const ModelSpec& m,
                                 const ClusterSpec& c, std::vector<Strategy>& bases) {
  std::vector<BaseCopy> copies(bases.size());
  const auto is_of_use = [&](const Strategy& s) {
    return hopeless_keys(request.space, s, m, c).empty();
  };
  const auto add = [&](Strategy s, BaseCopy copy) {
    bases.push_back(std::move(s));
    copies.push_back(copy);
  };
  for (Strategy& s : with_other_dispatcher(bases, m, c, request.limits)) {
    add(std::move(s), {.of_dispatch = true});
  }
  for (Strategy& s : with_overlapped_dispatch(bases, m, request.limits)) {
    if (is_of_use(s)) add(std::move(s), {.of_dispatch = true});
  }
  for (std::size_t b = 0, n = bases.size(); b < n; ++b) {
    Strategy s = bases[b];
    if (!set_regathered_input(request.limits, s) || !is_of_use(s)) continue;
    add(std::move(s), {.of_dispatch = copies[b].of_dispatch, .of_inputs = true});
  }
  return copies;
}

}  // namespace meshplan

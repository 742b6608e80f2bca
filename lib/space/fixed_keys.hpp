#pragma once
// Keys of a strategy that a request fixes although no search varies them.
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "space/request.hpp"
#include "spec/cluster.hpp"
#include "spec/limits.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Whether the search chooses this key itself.
[[nodiscard]] bool is_searched(std::string_view key);

// The strategies that `base` becomes under the limits on keys that no search varies: one per
// combination of the values that they allow; of lists of modules those that the model has. Fails
// where a limit excludes what is stated.
[[nodiscard]] Result<std::vector<Strategy>> fixed_bases(const Strategy& base,
                                                        const std::vector<Limit>& limits,
                                                        const ModelSpec& m);

// What is wrong with the keys of `base` that no search of the space varies: no value of the others
// mends it.
[[nodiscard]] Diagnostics hopeless_keys(Space space, const Strategy& base, const ModelSpec& m,
                                        const ClusterSpec& c);

}  // namespace meshplan

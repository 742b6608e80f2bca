#pragma once
// One line for every key of model, cluster and device files.
#include <span>

#include "spec/key_meanings.hpp"

namespace meshplan {

[[nodiscard]] std::span<const KeyMeaning> model_key_meanings();
[[nodiscard]] std::span<const KeyMeaning> cluster_key_meanings();
[[nodiscard]] std::span<const KeyMeaning> device_key_meanings();

}  // namespace meshplan

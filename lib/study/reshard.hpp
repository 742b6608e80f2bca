#pragma once
// Whether a checkpoint of one strategy loads under another, framework by framework.
#include <string>
#include <string_view>
#include <vector>

#include "frameworks/preset.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct Reshard {
  ReshardKind kind = ReshardKind::kUnchanged;
  std::vector<std::string> keys;  // what changes the shards
  std::string how;                // what to do; empty if nothing
  std::string source;             // documentation or code that says so; empty if nothing changes
};

// Same framework on both sides. Shards follow tp, the layers of the pipeline ranks, ep, etp, the
// ZeRO stage and the number of ranks that share states; context parallelism has none of its own.
[[nodiscard]] Reshard reshard(const Strategy& from, const Strategy& to);

}  // namespace meshplan

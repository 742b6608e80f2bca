#pragma once
// Measured times of collectives -> the `collectives:` of a cluster file.
#include <span>
#include <vector>

#include "calibrate/curve.hpp"

namespace meshplan {

// One measurement. Bytes as nccl-tests counts them (comm/collectives.hpp).
struct CollectiveSample {
  Collective operation = Collective::kAllReduce;
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;  // that the group spreads over, as many members on each
  std::string level;       // of the cluster; empty: the level that so many neighbours cross
  Bytes bytes;
  Seconds time;
  bool bidirectional = false;  // send-recv, as CollectiveFit has it

  bool operator==(const CollectiveSample&) const = default;
};

struct CollectiveFits {
  std::vector<CollectiveFit> fits;    // by operation, level, nodes and ranks
  std::vector<std::string> warnings;  // what was left out, and why
};

// One curve per operation, level and group shape. Groups with too few sizes are left out with a
// warning; fails if none is left, or if a group does not fit into the cluster.
[[nodiscard]] Result<CollectiveFits> fit_collectives(std::span<const CollectiveSample> samples,
                                                     const ClusterSpec& c);

// The outermost level that a group of neighbouring devices, `ranks` of them on `nodes` nodes,
// crosses; nothing where the cluster has no room for it.
[[nodiscard]] std::optional<std::size_t> level_of_group(const ClusterSpec& c, std::int64_t ranks,
                                                        std::int64_t nodes);

// The cluster with `fits` in place of its curves of the same operation, level and group shape.
[[nodiscard]] ClusterSpec with_collectives(ClusterSpec c, std::span<const CollectiveFit> fits);

struct Comparison {
  CollectiveSample sample;
  Seconds predicted;
  bool measured = false;  // predicted from a measured curve
};

// What the cluster predicts for each sample, with collective_time(): a cross-check of a profile
// against somebody else's log. Fails where a group does not fit into the cluster.
[[nodiscard]] Result<std::vector<Comparison>> compare(std::span<const CollectiveSample> samples,
                                                      const ClusterSpec& c);

}  // namespace meshplan

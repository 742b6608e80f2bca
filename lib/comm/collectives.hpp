#pragma once
// Time of one collective operation on a group. The one place where such times come from:
// prediction, fitting and validation all call collective_time().
#include <cstdint>
#include <optional>

#include "base/units.hpp"
#include "layout/groups.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

enum class Algorithm { kMeasured, kRing, kTree, kNvls, kNvlsTree, kPat, kPairwise, kHierarchical };
enum class Protocol { kLl, kLl128, kSimple };

struct CollectiveTime {
  Seconds total;
  Seconds latency;  // the part that does not depend on the size
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
};

// Time of `op` over `bytes` in a group of shape `g` on `c`, all sibling groups of the same shape
// running at once (training's pattern: they share the node's network cards).
// bytes follow nccl-tests: all-reduce, broadcast and send-recv: the buffer of one rank; all-gather,
// reduce-scatter and all-to-all: ranks x the part of one rank. Groups of one rank and zero bytes
// take no time. Measured curves of the cluster are used where one covers op, level and size.
// What was measured for this very operation and group stands in place of them.
// `bidirectional`, of send-recv: every member sends while it receives; read off a curve of such
// sends where there is one, else predicted like a send one way (links carry as much each way at
// once).
[[nodiscard]] CollectiveTime collective_time(const ClusterSpec& c, Collective op, Bytes bytes,
                                             const GroupShape& g, bool bidirectional = false);

// Whether any two groups of as many devices are equally fast, wherever their ranks are: one level
// of links joins all devices and does not halve them between two sockets, as PCIe does.
[[nodiscard]] bool is_uniform(const ClusterSpec& c);

// How c.exact_collectives names an operation.
[[nodiscard]] CollectiveKey exact_key(Collective op, Bytes bytes, const GroupShape& g,
                                      bool bidirectional = false);

}  // namespace meshplan

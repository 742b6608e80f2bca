#include "comm/collectives.hpp"

#include <algorithm>
#include <array>

#include "comm/algorithms.hpp"
#include "comm/measured.hpp"

namespace meshplan {
namespace {

constexpr std::array kProtocols{Protocol::kLl, Protocol::kLl128, Protocol::kSimple};

// The fastest so far; the first of equals stays.
class Fastest {
 public:
  void consider(const std::optional<AlgorithmTime>& t, Algorithm a, Protocol p) {
    if (!t || (found_ && t->total() >= best_.total)) return;
    best_ = {t->total(), t->latency, a, p};
    found_ = true;
  }
  [[nodiscard]] const CollectiveTime& time() const { return best_; }

 private:
  CollectiveTime best_;
  bool found_ = false;
};

// [F-COMM-21] Time of an operation: the least over the algorithms and protocols that exist for it,
// as NCCL itself chooses (enqueue.cc, topoGetAlgoInfo). Each grows with the size, falls with the
// links' bandwidth and grows with their latency; so does the least.
CollectiveTime fastest(const Route& r, Collective op, Bytes bytes) {
  Fastest best;
  for (const Protocol p : kProtocols) {
    switch (op) {
      case Collective::kAllReduce:
        best.consider(tree_time(r, bytes, p), Algorithm::kTree, p);
        [[fallthrough]];
      case Collective::kAllGather:
      case Collective::kReduceScatter:
      case Collective::kBroadcast:
        best.consider(ring_time(r, op, bytes, p), Algorithm::kRing, p);
        break;
      case Collective::kAllToAll:
        best.consider(pairwise_time(r, bytes, p), Algorithm::kPairwise, p);
        best.consider(hierarchical_time(r, bytes, p), Algorithm::kHierarchical, p);
        break;
      case Collective::kSendRecv:
        best.consider(send_recv_time(r, bytes, p), Algorithm::kPairwise, p);
        break;
    }
  }
  const bool gathers = op == Collective::kAllGather || op == Collective::kReduceScatter;
  if (op == Collective::kAllReduce || gathers) {
    best.consider(nvls_time(r, op, bytes), Algorithm::kNvls, Protocol::kSimple);
  }
  if (op == Collective::kAllReduce) {
    best.consider(nvls_tree_time(r, bytes), Algorithm::kNvlsTree, Protocol::kSimple);
  }
  if (gathers) best.consider(pat_time(r, bytes), Algorithm::kPat, Protocol::kSimple);
  return best.time();
}

}  // namespace

CollectiveKey exact_key(Collective op, Bytes bytes, const GroupShape& g, bool bidirectional) {
  return {op, bytes, g.size, g.stride, static_cast<std::int64_t>(g.level), bidirectional};
}

CollectiveTime collective_time(const ClusterSpec& c, Collective op, Bytes bytes,
                               const GroupShape& g, bool bidirectional) {
  if (g.size <= 1 || bytes.count() <= 0) return {};
  if (!c.exact_collectives.empty()) {
    const auto exact = c.exact_collectives.find(exact_key(op, bytes, g, bidirectional));
    if (exact != c.exact_collectives.end()) {
      return {exact->second, Seconds{}, Algorithm::kMeasured, Protocol::kSimple};
    }
  }
  if (const auto measured = measured_time(c, op, bytes, g, bidirectional)) {
    return {measured->total, measured->latency, Algorithm::kMeasured, Protocol::kSimple};
  }
  return fastest(route_of(c, g), op, bytes);
}

bool is_uniform(const ClusterSpec& c) {
  const LinkLevel& inner = c.levels.front();
  const bool joins_all = c.levels.size() == 1 || inner.span == 0 || inner.span >= num_gpus(c);
  return joins_all && inner.kind != LinkKind::kPcie;
}

}  // namespace meshplan

#include "validate/profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "comm/route.hpp"

namespace meshplan {
namespace {

std::int64_t nodes_of(const ClusterSpec& c, const GroupShape& g) {
  const Route route = route_of(c, g);
  return static_cast<std::int64_t>(route.nodes);
}

CollectiveFit& curve_for(ClusterSpec& c, const CollectiveOperation& op, const GroupShape& g) {
  const std::string& level = c.levels[g.level].name;
  const std::int64_t nodes = nodes_of(c, g);
  const auto found =
      std::find_if(c.collectives.begin(), c.collectives.end(), [&](const CollectiveFit& fit) {
        return fit.operation == op.collective && fit.level == level && fit.ranks == g.size &&
               fit.nodes == nodes && fit.bidirectional == op.bidirectional;
      });
  if (found != c.collectives.end()) return *found;
  CollectiveFit fit;
  fit.operation = op.collective;
  fit.level = level;
  fit.ranks = g.size;
  fit.nodes = nodes;
  fit.bidirectional = op.bidirectional;
  c.collectives.push_back(std::move(fit));
  return c.collectives.back();
}

void add_point(CollectiveFit& fit, Bytes bytes, Seconds time) {
  constexpr double kNear = 1.1;
  std::erase_if(fit.points, [&](const auto& point) {
    const double ratio = point.first.si() / bytes.si();
    return ratio > 1 / kNear && ratio < kNear;
  });
  const auto after = std::find_if(fit.points.begin(), fit.points.end(),
                                  [&](const auto& point) { return point.first > bytes; });
  fit.points.insert(after, {bytes, time});
}

// Of all measured kernels of one kind: what the steps were predicted to spend on them over what
// they would.
class Speed {
 public:
  void add(const OperationCheck& op) {
    predicted_ += op.planned.exposed;
    measured_ += op.planned.exposed * op.ratio();
  }
  // The rate, times how much faster the kernels were.
  void apply(double& rate) const {
    if (measured_ > Seconds{}) rate = std::min(1.0, rate * (predicted_ / measured_));
  }

 private:
  Seconds predicted_, measured_;
};

bool is_memory_bound(KernelKind kind) {
  return kind != KernelKind::kGemm && kind != KernelKind::kAttention && kind != KernelKind::kOther;
}

}  // namespace

ClusterSpec with_measurements(ClusterSpec c, const Validation& v) {
  std::array<Speed, kNumPrecisions> products;
  Speed forward, backward, memory;
  for (const PlanCheck& plan : v.plans) {
    for (const OperationCheck& op : plan.operations) {
      if (!op.measured) continue;
      if (const auto* run = std::get_if<CollectiveOperation>(&*op.subset.operation)) {
        add_point(curve_for(c, *run, *op.subset.group), run->bytes, *op.measured);
      } else if (op.planned.kernel && op.planned.kernel->kind == KernelKind::kGemm) {
        products[static_cast<std::size_t>(op.planned.kernel->precision)].add(op);
      } else if (op.planned.kernel && op.planned.kernel->kind == KernelKind::kAttention) {
        (op.planned.kernel->backward ? backward : forward).add(op);
      } else if (op.planned.kernel && is_memory_bound(op.planned.kernel->kind)) {
        memory.add(op);
      }
    }
  }
  for (std::size_t p = 0; p < kNumPrecisions; ++p) products[p].apply(c.device.gemm.sustained[p]);
  forward.apply(c.device.attention.forward);
  backward.apply(c.device.attention.backward);
  memory.apply(c.device.memory_efficiency);
  return c;
}

}  // namespace meshplan

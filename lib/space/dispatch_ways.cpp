#include "space/dispatch_ways.hpp"

#include <algorithm>

#include "comm/collectives.hpp"
#include "model/rules.hpp"
#include "space/reason.hpp"
#include "spec/findings.hpp"

namespace meshplan {

std::vector<Strategy> with_other_dispatcher(const std::vector<Strategy>& bases, const ModelSpec& m,
                                            const ClusterSpec& c,
                                            const std::vector<Limit>& limits) {
  const auto of_dispatch = [](const Limit& l) { return l.key.ends_with("_dispatcher"); };
  const bool stated = std::any_of(limits.begin(), limits.end(), of_dispatch);
  if (!m.moe || !has_token_proxies(c) || stated) return {};
  std::vector<Strategy> all = bases;
  for (Strategy& s : all) s.runtime.flex_dispatcher = !s.runtime.flex_dispatcher;
  return all;
}

std::vector<Strategy> with_overlapped_dispatch(const std::vector<Strategy>& bases,
                                               const ModelSpec& m,
                                               const std::vector<Limit>& limits) {
  std::vector<Strategy> all;
  const auto of_overlap = [](const Limit& l) { return l.key == "overlap.ep"; };
  if (!m.moe || std::any_of(limits.begin(), limits.end(), of_overlap)) return all;
  for (const Strategy& s : bases) {
    const bool has_it = s.framework == Framework::kMegatron && !s.overlap.ep;
    if (!has_it || s.overlap.shared_experts || s.runtime.allgather_dispatcher) continue;
    all.push_back(s);
    all.back().overlap.ep = true;
  }
  return all;
}

void set_overlapped_dispatch(const Strategy& from, Strategy& s) {
  s.overlap.ep = from.overlap.ep;
  s.overlap.delay_wgrad_compute = from.overlap.delay_wgrad_compute;
  s.runtime.single_device_connection = from.runtime.single_device_connection;
}

bool may_overlap(const MemoryOption& option) {
  return option.recompute != Recompute::kFull && !option.offload_activations;
}

std::string broken_overlap(const Strategy& base, Strategy s, JudgedKeys judged, const ModelSpec& m,
                           const ClusterSpec& c) {
  constexpr std::int64_t kOverOne = 2;
  if (!base.overlap.ep) return {};
  set_overlapped_dispatch(base, s);
  if (!judged.ep) s.ep = kOverOne;
  if (!judged.schedule && s.pp > 1) s.schedule = Schedule::kInterleaved, s.vp = kOverOne;
  for (const Finding& finding : findings(s, m, c).all()) {
    const bool of_overlap =
        std::find(finding.keys.begin(), finding.keys.end(), "overlap.ep") != finding.keys.end();
    if (of_overlap && finding.diagnostic.severity == Severity::kError) return reason_of(finding);
  }
  return {};
}

}  // namespace meshplan

#include <algorithm>

#include "launch/targets.hpp"

namespace meshplan {

EnvironmentVariables plan_environment(const LaunchPlan& plan) {
  const ClusterSpec& c = plan.cluster;
  EnvironmentVariables all;
  // PyTorch 2.9 calls it PYTORCH_ALLOC_CONF and reads the old name as well.
  const Runtime& runtime = plan.strategy.runtime;
  if (runtime.expandable_segments) {
    all.emplace_back("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
    // NCCL would register buffers of graphs by addresses whose pages may change (Megatron-Core
    // core/transformer/cuda_graphs.py and training/arguments.py refuse it).
    if (runtime.cuda_graph != CudaGraph::kNone) all.emplace_back("NCCL_GRAPH_REGISTER", "0");
  }
  const auto spans_nodes = [&](const LinkLevel& level) {
    return c.nodes > 1 && (level.span == 0 || level.span > c.gpus_per_node);
  };
  const auto any = [&](auto is_kind) {
    return std::any_of(c.levels.begin(), c.levels.end(), [&](const LinkLevel& level) {
      return spans_nodes(level) && is_kind(level.kind);
    });
  };
  // NCCL documentation, environment variables: without verbs it would look for them in vain and may
  // pick management ports; NVLink across nodes must not silently fall back to the network.
  const bool verbs =
      any([](LinkKind k) { return k == LinkKind::kInfiniband || k == LinkKind::kRoce; });
  if (!verbs && any([](LinkKind k) { return k == LinkKind::kEthernet; })) {
    all.emplace_back("NCCL_IB_DISABLE", "1");
  }
  if (any([](LinkKind k) { return k == LinkKind::kNvswitch || k == LinkKind::kNvlink; })) {
    all.emplace_back("NCCL_MNNVL_ENABLE", "1");
  }
  return all;
}

}  // namespace meshplan

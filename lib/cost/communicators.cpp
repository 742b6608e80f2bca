// What NCCL holds on a device for the process groups of a strategy.
#include "cost/memory.hpp"
#include "layout/groups.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Per channel and peer NCCL holds 8 x 512 x 8 x 16 bytes (LL), 120 x 640 x 8 x 8 (LL128) and 4 MiB
// (Simple): 9.19 MiB (nccl src/init.cc, src/include/device.h). A communicator connects its ring and
// the two peers of its trees on 24 channels inside a node, 16 across nodes: 662 and 441 MiB (688 MB
// measured in nccl issue 964; 7 to 10 GB for the ten groups of a Megatron job with experts in verl
// issue 6266). Frameworks also create the world group, and the model-parallel group for gradient
// norms; pipeline neighbours use two channels each way and only the Simple buffer.
Bytes communicator_bytes(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  constexpr std::int64_t kPerConnection = 8LL * 512 * 8 * 16 + 120LL * 640 * 8 * 8 + 4 * kMiB;
  constexpr std::int64_t kInsideNode = 24, kAcrossNodes = 16, kRingAndTree = 3;
  Bytes bytes;
  const auto add_sized = [&](std::int64_t ranks, bool inside) {
    if (ranks <= 1) return;
    bytes += Bytes{(inside ? kInsideNode : kAcrossNodes) * kRingAndTree * kPerConnection};
  };
  const auto add = [&](Group kind) {
    const GroupShape g = group_shape(s, c, kind);
    add_sized(g.size, g.level == 0);
  };
  const bool one_node = num_gpus(s) <= c.gpus_per_node;
  add_sized(num_gpus(s), one_node);
  add(Group::kTp);
  add(Group::kCp);
  add(Group::kDpCp);
  if (s.zero_group > 0) add(Group::kZeroReplica);
  if (m.moe) {
    if (s.runtime.allgather_dispatcher) {
      add(Group::kEtpEp);
    } else {
      add(Group::kEp);
      if (s.etp > 1) add(Group::kEtp);
    }
    add(Group::kExpertDp);
  }
  if (s.pp > 1) {
    const std::int64_t peers = 2, channels = 2, directions = 2;
    bytes += Bytes{peers * channels * directions * 4 * kMiB};
    add_sized(s.tp * s.pp, s.tp * s.pp * s.dp * s.cp <= c.gpus_per_node);
    if (m.tied_embeddings || m.mtp_layers > 0) add(Group::kEmbedding);
  }
  return bytes;
}

}  // namespace meshplan

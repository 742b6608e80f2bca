#include "compare/trace_dimensions.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "layout/groups.hpp"

namespace meshplan {
namespace {

struct GroupRow {
  Group group;
  CommDimension dimension;
};
// Groups of one member join nobody; the first row of the same ranks decides.
constexpr std::array kGroups{GroupRow{Group::kTp, CommDimension::kTp},
                             GroupRow{Group::kCp, CommDimension::kCp},
                             GroupRow{Group::kDpCp, CommDimension::kDp},
                             GroupRow{Group::kDp, CommDimension::kDp},
                             GroupRow{Group::kEp, CommDimension::kEp},
                             GroupRow{Group::kEtp, CommDimension::kTp},
                             GroupRow{Group::kExpertDp, CommDimension::kDp},
                             GroupRow{Group::kPp, CommDimension::kPp},
                             GroupRow{Group::kZeroShard, CommDimension::kDp},
                             GroupRow{Group::kZeroReplica, CommDimension::kDp},
                             GroupRow{Group::kTpCp, CommDimension::kTp},
                             GroupRow{Group::kPpNeighbour, CommDimension::kPp},
                             GroupRow{Group::kEtpEp, CommDimension::kEp}};

struct Word {
  std::string_view word;  // of a process group's description, in lower case
  CommDimension dimension;
};
// Megatron-Core parallel_state.py, torchtitan's meshes; "expert" before "data" and "tensor".
constexpr std::array kWords{
    Word{"expert_data", CommDimension::kDp}, Word{"expert_dp", CommDimension::kDp},
    Word{"expert", CommDimension::kEp},      Word{"mesh_ep", CommDimension::kEp},
    Word{"context", CommDimension::kCp},     Word{"mesh_cp", CommDimension::kCp},
    Word{"pipeline", CommDimension::kPp},    Word{"mesh_pp", CommDimension::kPp},
    Word{"embedding", CommDimension::kDp},   Word{"tensor", CommDimension::kTp},
    Word{"mesh_tp", CommDimension::kTp},     Word{"data", CommDimension::kDp},
    Word{"mesh_dp", CommDimension::kDp},     Word{"fsdp", CommDimension::kDp}};

std::optional<CommDimension> by_ranks(const CommGroup& group, const Strategy& s,
                                      std::int64_t rank) {
  if (group.ranks.size() < 2) return std::nullopt;
  const std::int64_t one = rank >= 0 ? rank : group.ranks.front();
  if (one < 0 || one >= num_gpus(s)) return std::nullopt;
  for (const GroupRow& row : kGroups) {
    const std::vector<std::int64_t> members = group_members(s, row.group, one);
    if (members.size() > 1 && members == group.ranks) return row.dimension;
  }
  return std::nullopt;
}

std::optional<CommDimension> by_description(const CommGroup& group) {
  std::string lower = group.description;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Word& w : kWords) {
    if (lower.find(w.word) != std::string::npos) return w.dimension;
  }
  return std::nullopt;
}

bool is_of_kind(CommKind kind, Collective c) {
  switch (kind) {
    case CommKind::kAllReduce:
      return c == Collective::kAllReduce;
    case CommKind::kReduceScatter:
      return c == Collective::kReduceScatter;
    case CommKind::kAllGather:
      return c == Collective::kAllGather;
    case CommKind::kAllToAll:
      return c == Collective::kAllToAll;
    case CommKind::kSendRecv:  // NCCL sends the parts of an all-to-all
      return c == Collective::kSendRecv || c == Collective::kAllToAll;
    case CommKind::kBroadcast:
    case CommKind::kNone:
      return false;
  }
  return false;
}

}  // namespace

CommDimension whose_ranks(CommDimension d) {
  if (d == CommDimension::kEmbedding) return CommDimension::kDp;
  return d == CommDimension::kLoss ? CommDimension::kTp : d;
}

TraceDimensions::TraceDimensions(const PlanCost& plan, const DeviceTrace& trace)
    : plan_(plan), trace_(trace) {
  for (const CommGroup& group : trace.groups) {
    std::optional<CommDimension> found = by_ranks(group, plan.strategy, trace.rank);
    by_group_.push_back(found ? found : by_description(group));
  }
}

std::optional<CommDimension> TraceDimensions::of(const DeviceOp& op) const {
  if (op.group < by_group_.size() && by_group_[op.group]) return by_group_[op.group];
  const std::int64_t size = trace_.groups[op.group].size;
  // Of the plan's messages of this kind and size the one whose bytes are nearest.
  const CommEntry* best = nullptr;
  double nearest = 0;
  for (const CommEntry& entry : plan_.communication) {
    if (!is_of_kind(op.comm, entry.operation)) continue;
    if (size > 0 && entry.group_size != size && entry.operation != Collective::kSendRecv) continue;
    const double far =
        op.bytes > 0 ? std::abs(std::log(op.bytes / std::max(entry.bytes.si(), 1.0))) : 0.0;
    if (best != nullptr && far >= nearest) continue;
    best = &entry;
    nearest = far;
  }
  if (best == nullptr) return std::nullopt;
  return whose_ranks(best->dimension);
}

std::int64_t pipeline_rank_of(const Strategy& s, std::int64_t rank) {
  if (s.pp <= 1 || rank < 0 || rank >= num_gpus(s)) return 0;
  const std::vector<std::int64_t> pipeline = group_members(s, Group::kPp, rank);
  const auto at = std::find(pipeline.begin(), pipeline.end(), rank);
  return at == pipeline.end() ? 0 : at - pipeline.begin();
}

}  // namespace meshplan

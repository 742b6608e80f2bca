#pragma once
// What results and launch files call the groups of ranks.
#include <array>

#include "layout/groups.hpp"

namespace meshplan {

struct GroupName {
  Group group;
  const char* name;
};
inline constexpr std::array kGroupNames{GroupName{Group::kTp, "tp"},
                                        GroupName{Group::kCp, "cp"},
                                        GroupName{Group::kTpCp, "tp_cp"},
                                        GroupName{Group::kDp, "dp"},
                                        GroupName{Group::kDpCp, "dp_cp"},
                                        GroupName{Group::kZeroShard, "zero_shard"},
                                        GroupName{Group::kZeroReplica, "zero_replica"},
                                        GroupName{Group::kEp, "ep"},
                                        GroupName{Group::kEtp, "etp"},
                                        GroupName{Group::kEtpEp, "etp_ep"},
                                        GroupName{Group::kExpertDp, "expert_dp"},
                                        GroupName{Group::kPp, "pp"},
                                        GroupName{Group::kPpNeighbour, "pp_neighbour"},
                                        GroupName{Group::kEmbedding, "embedding"}};

}  // namespace meshplan

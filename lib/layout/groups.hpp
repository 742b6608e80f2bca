#pragma once
// Which ranks talk to each other, and how far apart they sit: strategy x cluster -> group shapes.
//
// Ranks are numbered by the strategy's order, innermost axis first (Megatron-Core
// parallel_state.py, RankGenerator): dense groups use tp, cp, dp, pp; expert groups use etp, ep,
// expert-dp, pp over the same ranks. Device r sits in block r / span of a level of that span.
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "spec/cluster.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

enum class Group {
  kTp,           // tensor parallel
  kCp,           // context parallel
  kTpCp,         // tensor x context parallel: sequence-sharded statistics, MoE routing
  kDp,           // data parallel without context parallel
  kDpCp,         // ranks that hold the same dense parameters: gradient reduction
  kZeroShard,    // ranks that share one copy of the sharded dense states (zero_group of kDpCp)
  kZeroReplica,  // ranks that hold the same shard (HSDP)
  kEp,           // expert parallel: token dispatch
  kEtp,          // expert tensor parallel
  kEtpEp,        // expert tensor x expert parallel: ranks that share the experts of a layer
  kExpertDp,     // ranks that hold the same experts
  kPp,           // a whole pipeline
  kPpNeighbour,  // two neighbouring pipeline ranks
  kEmbedding,    // first and last pipeline rank (tied embedding gradients)
};

inline constexpr std::size_t kMaxLevels = 6;

// Shape of the worst-placed group of one kind: the one whose ring has the least bandwidth, then the
// one that reaches farthest, then the one in the most blocks. Training waits for the slowest group,
// so where sizes do not divide (tp = 6 on nodes of 8) the group that straddles a boundary counts.
struct GroupShape {
  std::int64_t size = 1;
  std::int64_t stride = 1;  // distance of neighbouring members
  // Members inside one block of each level, in the fullest block (innermost level first);
  // entries at and above the level where the whole group sits equal `size`.
  std::array<std::int64_t, kMaxLevels> within{};
  // Blocks of each level that the group touches (1: the group sits inside one block).
  std::array<std::int64_t, kMaxLevels> blocks{};
  // Members inside one block of each level, in the emptiest block that the group touches: their
  // links out of that block are all that a ring through it can use. Zero: the same as `within`.
  std::array<std::int64_t, kMaxLevels> fewest{};
  std::size_t num_levels = 0;
  std::size_t level = 0;  // innermost level that connects the whole group

  bool operator==(const GroupShape&) const = default;
};

// `c` must satisfy num_gpus(c) >= num_gpus(s). Never fails on a valid strategy.
[[nodiscard]] GroupShape group_shape(const Strategy& s, const ClusterSpec& c, Group g);

// Shape of the one group of these ranks, increasing, none of them beyond the cluster's devices.
[[nodiscard]] GroupShape shape_of(std::span<const std::int64_t> ranks, const ClusterSpec& c);

// Members of the group of kind `g` that contains `rank`, increasing. For exports and validation.
// kPpNeighbour: `rank` and the next pipeline rank, the last one's next being the first (interleaved
// schedules send there). kEmbedding: empty for ranks of neither the first nor the last stage.
// Of a group with more members the first `most`; a group may have millions.
[[nodiscard]] std::vector<std::int64_t> group_members(
    const Strategy& s, Group g, std::int64_t rank,
    std::int64_t most = std::numeric_limits<std::int64_t>::max());

// [F-LAY-5] The same for all groups of a kind at once, without a list of ranks: members come in
// runs of `run` which are `stride` apart, the runs' first members are `jump` apart; run 0: one
// evenly spaced run. Each group lies within one block of `period` ranks; 0: of as many as the
// members span.
struct MemberPattern {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t run = 0;
  std::int64_t jump = 0;
  std::int64_t period = 0;

  bool operator==(const MemberPattern&) const = default;
};

// Nothing where the members follow no such pattern: zero_group cuts some axis unevenly
// (cp = 3, zero_group = 2).
[[nodiscard]] std::optional<MemberPattern> member_pattern(const Strategy& s, Group g);

}  // namespace meshplan

#pragma once
// What a pipeline schedule is: everything that the rest of the program asks about one. Each
// schedule fills in one ScheduleTraits in its own file, and traits_of() finds it; no code elsewhere
// names a schedule but the tables of what frameworks call them.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace meshplan {

using TaskOrder = std::vector<Task>;
struct InFlight;  // schedule/in_flight.hpp
struct Chain;     // schedule/chains.hpp
struct ChainTimes;
struct RankPaths;
struct DividedRank;  // schedule/divided.hpp

// Which rank holds which chunk of the model (schedule/chunk_map.hpp).
enum class ChunkLayout : std::uint8_t {
  kRounds,         // over all ranks in order, once or in several rounds
  kV,              // over all ranks in order and back: the first rank holds both ends of the model
  kBidirectional,  // one chunk per rank, and each once more on the rank as far from the other end
};

// How many chunks a rank may hold.
enum class ChunksPerRank : std::uint8_t { kOne, kTwo, kSeveral };

struct ScheduleTraits {
  // Shown by `list schedules`: what it does and costs, and who published it.
  std::string_view fact;
  std::string_view source;

  ChunkLayout layout = ChunkLayout::kRounds;
  ChunksPerRank chunks = ChunksPerRank::kOne;
  // The weight gradient of a chunk is a task of its own.
  bool splits_backward = false;
  // Every forward pass comes before any backward pass: a rank holds all microbatches at once.
  bool forwards_first = false;
  // Runs without a pipeline too, where it is no more than gradient accumulation.
  bool runs_on_one_rank = false;
  // Every framework that has pipelines of such chunks runs it.
  bool widely_available = false;
  // Part of a search whose space leaves the schedule open.
  bool searched = true;

  // What rank `rank` does, in order; the shape is legal.
  TaskOrder (*order)(const PipelineShape& s, std::int64_t rank) = nullptr;
  // What is wrong with the ranks or microbatches of a shape that is legal otherwise, without the
  // schedule's name; none: it runs any.
  std::string (*illegal_reason)(const PipelineShape& s) = nullptr;
  // A rank's order for microbatches + period is its order for microbatches with one more steady
  // round in the middle; none: 1.
  std::int64_t (*period)(const PipelineShape& s) = nullptr;
  // Whether the forward order[i] and the backward after it run as one; none: never.
  bool (*starts_pair)(const PipelineShape& s, std::int64_t rank, const TaskOrder& order,
                      std::size_t i) = nullptr;

  // What a rank holds at its fullest moments; none: found by a walk through its order.
  InFlight (*in_flight)(const PipelineShape& s, std::int64_t rank) = nullptr;
  // [F-PIPE-9] The longest path through a rank; none: counted in its order.
  RankPaths (*paths)(const PipelineShape& s, std::int64_t rank, const Chain& chain) = nullptr;
  // Work that certainly follows a chunk's last backward on its rank; none: its weight gradient
  // where that is a task of its own.
  double (*work_after)(const PipelineShape& s, std::int64_t chunk,
                       const std::vector<ChainTimes>& chunks) = nullptr;
  // [F-SEARCH-4] The longest chain through a rank of any division of the layers; none: the forwards
  // before its first task, and all its work.
  double (*chain)(const DividedRank& rank) = nullptr;
  // The longest of those that end with the rank's last task, where the backward is split; none: the
  // forwards before its first task, and all its work.
  double (*until_last)(const DividedRank& rank) = nullptr;
  // The same of a chain that passes the rank once for as many microbatches as the rank holds; null
  // where none says more.
  double (*loop)(const DividedRank& rank) = nullptr;

  // Ranks that hold a copy of each chunk.
  [[nodiscard]] constexpr int copies() const {
    return layout == ChunkLayout::kBidirectional ? 2 : 1;
  }
  // The part of the microbatches that runs through one copy.
  [[nodiscard]] constexpr double share() const { return 1.0 / copies(); }
  // The first rank holds the first and the last chunk of the model.
  [[nodiscard]] constexpr bool shares_both_ends() const { return layout != ChunkLayout::kRounds; }
  // One chunk per rank and whole backward passes: GPipe and 1F1B.
  [[nodiscard]] constexpr bool is_plain() const {
    return chunks == ChunksPerRank::kOne && !splits_backward;
  }
};

inline constexpr std::size_t kNumSchedules = NameTable<Schedule>::rows.size();

// In the order of the enumerators.
extern const std::array<const ScheduleTraits*, kNumSchedules> kScheduleTraits;

[[nodiscard]] inline const ScheduleTraits& traits_of(Schedule s) {
  return *kScheduleTraits[static_cast<std::size_t>(s)];
}

}  // namespace meshplan

#pragma once
// A node of the search tree: the choices of keys that share what it has decided.
#include <cstdint>
#include <limits>
#include <vector>

#include "search/candidate.hpp"
#include "space/space.hpp"

namespace meshplan {

// Levels of the tree, each deciding more keys than the one before.
enum class Level : std::uint8_t { kMesh, kSplit, kSchedule, kSharding };

inline constexpr double kNothingMade = -1;

// Indices into the lists of the space; 0 where not decided yet.
struct Node {
  double bound = 0;
  double pipeline = 0;            // kSchedule, kSharding: the part of it that the layers take
  double made_to = kNothingMade;  // children with bounds up to this were made before
  Bytes memory;                   // that what is below needs at least, as far as known
  Bytes communicators;            // kSchedule, where plans only are wanted: of all shardings
  std::uint64_t number = 0;       // in order of creation: breaks ties
  std::uint32_t mesh = 0;
  std::uint32_t micro_batch = 0, cp_kind = 0, split = 0, schedule = 0, sharding = 0;
  std::uint32_t parent = 0;  // of kSharding: the schedule, where nodes are kept
  Level level = Level::kMesh;
  RecomputeModes recompute_modes;
};

// A leaf of which other divisions of the layers may be as good as what is wanted.
struct Undivided {
  Node node;
  double least = 0;         // time of any division
  std::int64_t costed = 0;  // of its options
  bool divided = false;     // in every way, while the tree was opened
};

// What opening one node gave.
struct Expansion {
  std::vector<Node> children;
  Examined examined;
  // A score that nothing undercuts of what was left out, or may be found below a leaf with less
  // memory than now; infinite where nothing can be.
  double later = std::numeric_limits<double>::infinity();
};

// Which of two nodes waits longer. Where memory is the objective deeper nodes go first: its bounds
// say little before the last levels, and far fewer nodes are kept waiting.
struct Later {
  bool deepest_first = false;
  bool operator()(const Node& a, const Node& b) const {
    if (deepest_first && a.level != b.level) return a.level < b.level;
    return a.bound != b.bound ? a.bound > b.bound : a.number > b.number;
  }
};

// What the node has decided; other keys as the space's first strategy has them.
[[nodiscard]] PartialStrategy partial_of(const SearchSpace& space, const Node& node);

}  // namespace meshplan

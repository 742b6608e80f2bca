#pragma once
// A node of the search tree: the choices of keys that share what it has decided.
#include <cstdint>
#include <vector>

#include "search/candidate.hpp"
#include "search/space.hpp"

namespace meshplan {

// Levels of the tree, each deciding more keys than the one before.
enum class Level : std::uint8_t { kMesh, kSplit, kSchedule, kSharding };

// Indices into the lists of the space; 0 where not decided yet.
struct Node {
  double bound = 0;
  double pipeline = 0;       // kSharding: the part of it that the layers take
  std::uint64_t number = 0;  // in order of creation: breaks ties
  std::uint32_t mesh = 0;
  std::uint32_t micro_batch = 0, cp_kind = 0, split = 0, schedule = 0, sharding = 0;
  Level level = Level::kMesh;
  Recomputing worth;
};

// A leaf of which other divisions of the layers may be as good as what is wanted.
struct Undivided {
  Node node;
  double least = 0;         // time of any division
  std::int64_t costed = 0;  // of its options
};

// What opening one node gave.
struct Opened {
  std::vector<Node> children;
  Examined examined;
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
[[nodiscard]] Choice choice_of(const SearchSpace& space, const Node& node);

}  // namespace meshplan

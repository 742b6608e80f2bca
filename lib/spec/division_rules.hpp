#pragma once
// What a search may do with layers: which of them pipeline ranks may hold, and how many of a rank's
// are recomputed.
#include <cstdint>
#include <vector>

namespace meshplan {

// Which layers the pipeline ranks may hold.
enum class PartitionRule {
  kAny,    // any division
  kEven,   // as even as can be
  kGiven,  // lists that a request fixes
};

struct DivisionRules {
  PartitionRule partition = PartitionRule::kAny;
  std::vector<std::vector<std::int64_t>> given;  // kGiven: layers per rank; empty: even
};

// How many layers each pipeline rank recomputes.
enum class CountRule {
  kNone,     // none, whatever `recompute` says of the rest
  kFewest,   // the fewest that fit, rank by rank, and at least one somewhere
  kUniform,  // the same number on every rank, the fewest that fit, at least one
  kAll,      // every layer
  kGiven,    // a list that the request fixes
};

}  // namespace meshplan

#pragma once
// The largest part of a planned operation that the machine at hand can run, and how faithful it is.
#include <string>
#include <vector>

#include "probe/sample.hpp"
#include "validate/operations.hpp"

namespace meshplan {

enum class Fidelity {
  kMeasured,      // run as planned
  kExtrapolated,  // a smaller group of the same kind was run; the formula carries it over
  kPredicted      // not run: the prediction stays
};

struct Subset {
  Fidelity fidelity = Fidelity::kPredicted;
  std::optional<Operation> operation;  // what to run
  // Predicted time of what is run: over the planned operation's own where that is what is run.
  Seconds predicted;
  std::string reason;               // why not as planned
  std::optional<GroupShape> group;  // of a collective that is run, on the planned cluster
};

// A group runs as planned if it crosses the same levels with as many members in each block and the
// machine's nodes hold as many of them; else the largest group that fits and that stays inside of
// nodes, or crosses them, as the planned one does. Everything else stays predicted.
[[nodiscard]] Subset subset_for(const PlannedOperation& p, const ClusterSpec& c, const Machine& m);

MESHPLAN_NAMES(Fidelity, {{Fidelity::kMeasured, "measured"},
                          {Fidelity::kExtrapolated, "extrapolated"},
                          {Fidelity::kPredicted, "predicted"}});

}  // namespace meshplan

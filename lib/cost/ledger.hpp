#pragma once
// Everything that a pipeline rank's device holds, by name, with the moments of a step at which it
// is there. The sums of plan_cost.hpp are those of the fullest moment; the report prints these
// entries and computes nothing of its own.
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "base/units.hpp"

namespace meshplan {

// When in a step an entry is allocated.
enum class Lifetime {
  kPersistent,   // from step to step
  kSaved,        // from a microbatch's forward pass to its backward pass
  kBackward,     // within a backward pass (forward for the head)
  kHead,         // of the output layer, until its backward pass ends
  kLayers,       // layers' backward pass, where the output layer's comes before it
  kGradients,    // from the backward pass to the end of the step
  kLastLayer,    // while the backward pass of the last layer still needs it
  kUpdate,       // within the optimizer's step
  kUntilZeroed,  // from the optimizer's step to the beginning of the next one
  kInputs,       // from a chunk's last backward pass to its next forward pass
  kMoments,      // from the first update on
  kCapture,  // while CUDA graphs are captured, then in their pool: the allocator counts it no more
  kOutside,  // from step to step, and not the allocator's: at no moment of its sums
};
MESHPLAN_NAMES(Lifetime, {{Lifetime::kPersistent, "persistent"},
                          {Lifetime::kSaved, "forward to backward"},
                          {Lifetime::kBackward, "within backward"},
                          {Lifetime::kHead, "head's backward"},
                          {Lifetime::kLayers, "layers' backward"},
                          {Lifetime::kGradients, "backward to optimizer step"},
                          {Lifetime::kLastLayer, "last layer's backward"},
                          {Lifetime::kUpdate, "within optimizer step"},
                          {Lifetime::kUntilZeroed, "optimizer step to next step"},
                          {Lifetime::kInputs, "backward to next forward"},
                          {Lifetime::kMoments, "from the first update on"},
                          {Lifetime::kCapture, "capture of CUDA graphs, then their pool"},
                          {Lifetime::kOutside, "outside the allocator"}});

struct LedgerEntry {
  std::string_view name;
  std::string_view formula;  // its tag in lib/formulas.md
  std::string_view source;
  Lifetime lifetime = Lifetime::kPersistent;
  Bytes bytes;
  bool operator==(const LedgerEntry&) const = default;
};

// In the order of a step, behind what comes before the first one.
enum class Moment { kCapture, kBackward, kLayers, kLastLayer, kUpdate, kBetweenSteps };
MESHPLAN_NAMES(Moment, {{Moment::kCapture, "CUDA graphs captured"},
                        {Moment::kBackward, "backward begins"},
                        {Moment::kLayers, "layers' backward"},
                        {Moment::kLastLayer, "last layer's backward"},
                        {Moment::kUpdate, "optimizer step"},
                        {Moment::kBetweenSteps, "between steps"}});
[[nodiscard]] bool is_there(Lifetime l, Moment m);

struct MomentBytes {
  Moment moment = Moment::kBackward;
  Bytes allocated;  // sum of the entries that are there
  bool operator==(const MomentBytes&) const = default;
};

struct Ledger {
  std::vector<LedgerEntry> entries;  // of more than no byte
  std::vector<MomentBytes> moments;  // in the order of a step
  Moment fullest = Moment::kBackward;
  bool operator==(const Ledger&) const = default;
};

}  // namespace meshplan

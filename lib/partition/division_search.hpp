#pragma once
// The fastest division of a candidate's layers by the step time itself: [F-SEARCH-9].
#include <cstdint>
#include <optional>
#include <vector>

#include "partition/division_cuts.hpp"
#include "partition/stages.hpp"
#include "partition/step_models.hpp"
#include "spec/division_rules.hpp"

namespace meshplan {

// What a search over divisions is asked.
enum class DivisionAsk {
  kFastest,      // the fastest
  kAnySharding,  // whether there is none, whatever the messages and the ends of the step
  // [F-SEARCH-15] Whether there is none where each rank recomputes as few layers as fit, but the
  // context's `uniform` at least: no step takes less where all recompute that many, or more, alike.
  kAnyCounts,
};

struct DivisionQuery {
  const StageContext& context;
  const DivisionRules& rules;
  StepModelPool& models;
  const Placement& placement;      // of the strategy
  double most = 0;                 // seconds; no division that takes longer is wanted
  double end = 0;                  // that the step takes at least after the pipeline
  bool require_recompute = false;  // divisions that recompute nothing are not wanted
  std::int64_t effort = 0;         // partial divisions looked at before giving up
  const std::vector<std::int64_t>* known = nullptr;  // layers per rank of a good division
  const KnownChains* chains = nullptr;               // of a strategy of the same pipeline shape
  DivisionAsk ask = DivisionAsk::kFastest;
};

struct FastestDivision {
  std::optional<Stages::Lists> lists;  // nothing: none within `most` was found
  double step_time = 0;
  bool every = true;  // each division was costed, or ruled out by a bound
  double least = 0;   // if not: a time that none of the others undercuts
  std::int64_t effort_left = 0;
  std::int64_t work = 0;  // what was done, past the effort too: in partial divisions as long
  KnownChains chains;     // that say most of all divisions; none where none were looked for
};

// [F-SEARCH-13] Whether each division's layers and recomputation alone, without messages and the
// ends of the step, take a pipeline longer than `most` seconds: then no strategy whose ranks have
// no more memory, and whose blocks no less to do, does it faster. False also where the effort is
// too little to say, or only some divisions are allowed. `effort`: as of a query; what is left of
// it is given back. `chains`: taken, and given back for the next one.
[[nodiscard]] bool takes_longer(const StageContext& context, const DivisionRules& rules,
                                StepModelPool& models, const Placement& placement, double most,
                                std::int64_t& effort, KnownChains& chains);

// [F-SEARCH-23] Whether every division takes a step of the query's strategy longer than it wants,
// whatever a rank can hold: then so does every division that recomputes some of it. False also
// where the effort is too little to say. `work`: grows by what was done.
[[nodiscard]] bool takes_longer_in_any_memory(DivisionQuery query, std::int64_t& work);

// Of divisions that differ in the last digits only, the one that [F-SEARCH-1] ranks first.
//
// Where any division is allowed the search goes from the first stage on, each with every number of
// layers that fits. A start is dropped if one of the chains of [F-SEARCH-4] through the stages
// divided so far exceeds the best time known, or if the later stages cannot take the rest within
// it. Where the first ranks hold both ends of the model, or once a few starts do not decide it,
// every division that is costed bounds all others instead [F-SEARCH-11], in a tree of branches.
// When `effort` runs out, the best division known is improved by moving layers from one stage to
// another until no single move helps.
[[nodiscard]] FastestDivision fastest_division(const DivisionQuery& query);

}  // namespace meshplan

#pragma once
// What a search was asked for beyond its best plans; each where it was asked for.
#include <cstdint>
#include <optional>
#include <vector>

#include "search/rivals.hpp"
#include "study/alternatives.hpp"
#include "study/fallback.hpp"
#include "study/goodput.hpp"
#include "study/maximise.hpp"
#include "study/pareto.hpp"
#include "study/runnable.hpp"
#include "study/sensitivity.hpp"
#include "study/sweep.hpp"

namespace meshplan {

struct StudyRequest {
  bool pareto = false, sensitivity = false, fallback = false;
  std::optional<FailureModel> failures;
  std::vector<std::int64_t> sizes;  // devices of a sweep, increasing; empty: the cluster as it is
  // Decisions to rank, each with its variants; none: as many plans as the request says, whatever
  // they decide. More than one are looked for among so many plans for each of them.
  std::optional<std::size_t> decisions;
  static constexpr std::size_t kPlansPerDecision = 3;
};

struct GoodputStudy {
  FailureModel failures;
  std::vector<Goodput> plans;  // of each ranked plan
};

struct Studies {
  std::vector<Rival> rivals;  // of the first plan
  Alternatives alternatives;
  std::optional<RunnablePlan> runnable;
  std::optional<Sweep> sweep;
  std::optional<ParetoFront> pareto;
  std::optional<Sensitivity> sensitivity;
  std::optional<FallbackBook> fallback;
  std::optional<GoodputStudy> goodput;
  std::optional<Maximum> maximum;  // whose plans these are
};

// What was found, on the cluster that it was found for.
struct Answer {
  ClusterSpec cluster;
  SearchResult result;
  Studies studies;
};

// The search, or the sweep, and every study that is asked for. Of a sweep: the plans of the
// recommended size, or of the largest where nothing fits anywhere. Fails if a size is no cluster,
// or the request is invalid.
[[nodiscard]] Result<Answer> answer(const ModelSpec& m, const ClusterSpec& c,
                                    const SearchRequest& request, const StudyRequest& wanted,
                                    const Progress& progress = {});

}  // namespace meshplan

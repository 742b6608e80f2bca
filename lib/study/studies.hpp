#pragma once
// What a search was asked for beyond its best plans; each where it was asked for.
#include <optional>
#include <vector>

#include "study/fallback.hpp"
#include "study/goodput.hpp"
#include "study/pareto.hpp"
#include "study/runnable.hpp"
#include "study/safer.hpp"
#include "study/sensitivity.hpp"
#include "study/sweep.hpp"

namespace meshplan {

struct GoodputStudy {
  FailureModel failures;
  std::vector<Goodput> plans;  // of each ranked plan
};

struct Studies {
  std::optional<RunnablePlan> runnable;
  std::optional<SaferPlan> safer;  // of the runnable plan where there is one, else of the best
  std::optional<Sweep> sweep;
  std::optional<ParetoFront> pareto;
  std::optional<Sensitivity> sensitivity;
  std::optional<FallbackBook> fallback;
  std::optional<GoodputStudy> goodput;
};

}  // namespace meshplan

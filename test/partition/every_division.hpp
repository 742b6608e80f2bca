#pragma once
// Every division of a small pipeline's layers, one by one, and what a search among them must say.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "partition/division_search.hpp"
#include "search/brute_force.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

namespace meshplan::search_test {

struct Best {
  double cost = 1e300;       // sum of stage times + (m v - 1) x the largest, seconds
  double step_time = 1e300;  // of any division
};

class EveryDivision {
 public:
  EveryDivision(const Case& c, Strategy s)
      : case_(c),
        brute_(c, false),
        s_(std::move(s)),
        blocks_(block_costs(c.model, c.cluster, s_)) {}

  // With every number of recomputed layers on each rank.
  Best best() {
    for_each_division([&] { recompute_from(0); });
    return best_;
  }

  // Of the divisions that fit, nothing recomputed.
  Best best_plain() {
    for_each_division([&] { take_if_fits(); });
    return best_;
  }

  // With the same number recomputed in every chunk that has so many layers, and at least one.
  Best best_uniform() {
    for_each_division([&] {
      const std::int64_t most = *std::max_element(s_.stage_layers.begin(), s_.stage_layers.end());
      for (std::int64_t n = s_.vp; n < most + s_.vp; n += s_.vp) {
        for (std::size_t r = 0; r < s_.stage_layers.size(); ++r) {
          s_.recompute_layers[r] = std::min(n, s_.stage_layers[r]);
        }
        take_if_fits();
      }
    });
    return best_;
  }

  // Step times of all divisions that recompute nothing, the least first.
  std::vector<double> plain_times() {
    std::vector<double> times;
    for_each_division([&] { times.push_back(step_time(s_)); });
    std::sort(times.begin(), times.end());
    return times;
  }

  [[nodiscard]] double cost(const Strategy& s) const {
    std::vector<double> times = brute_.stage_times(s, blocks_);
    if (s.schedule == Schedule::kDualPipe) times.resize(times.size() / 2);
    const auto weight = static_cast<double>(num_microbatches(s) * s.vp - 1);
    return std::accumulate(times.begin(), times.end(), 0.0) +
           weight * *std::max_element(times.begin(), times.end());
  }
  [[nodiscard]] double step_time(const Strategy& s) const {
    return cost_of(case_.model, case_.cluster, s, blocks_).step_time.si();
  }

 private:
  // Visits the legal ones that the space has, in `s_`, with nothing recomputed.
  void for_each_division(const std::function<void()>& visit) {
    std::vector<List> divisions;
    List begun;
    compositions(case_.model.num_layers, s_.pp, begun, divisions);
    for (const List& layers : divisions) {
      s_.stage_layers = layers;
      s_.recompute_layers.clear();
      if (has_errors(validate(s_, case_.model, case_.cluster))) continue;
      s_.recompute_layers.assign(layers.size(), 0);
      if (is_in_space(s_, case_.model)) visit();
    }
  }

  void recompute_from(std::size_t rank) {
    if (rank == s_.stage_layers.size()) return take_if_fits();
    std::int64_t& n = s_.recompute_layers[rank];
    for (n = 0; n <= s_.stage_layers[rank]; ++n) recompute_from(rank + 1);
    n = 0;
  }

  void take_if_fits() {
    if (!brute_.fits(s_, blocks_)) return;
    best_.cost = std::min(best_.cost, cost(s_));
    best_.step_time = std::min(best_.step_time, step_time(s_));
  }

  const Case& case_;
  Brute brute_;
  Strategy s_;
  BlockCosts blocks_;
  Best best_;
};

inline Strategy strategy_of(const SearchSpace& space, const Mesh& mesh,
                            const ScheduleChoice& schedule) {
  PartialStrategy choice;
  choice.pp = mesh.pp, choice.dp = mesh.dp;
  choice.schedule = schedule.schedule, choice.vp = schedule.vp;
  return with_partial(space.bases()[mesh.base], choice);
}

// `s` and `x` must outlive it.
inline StageContext stages_of(SearchContext& x, const Strategy& s, std::size_t base,
                              CountRule counts) {
  return {x.model,
          x.cluster,
          s,
          x.blocks(s, base),
          x.prefix(s),
          x.in_flight.of(pipeline_shape(s)),
          x.placement(s, base).communicators(),
          x.capacity(),
          x.host_capacity(),
          false,
          Measure::kTime,
          counts,
          0,
          nullptr};
}

// Visits each schedule of the case's pipelines: visit(SearchContext&, const SearchSpace&, Strategy,
// base of its mesh).
template <class Visit>
void for_each_pipeline(const Case& c, const Visit& visit) {
  const Result<SearchSpace> space = SearchSpace::make(c.model, c.cluster, c.request);
  REQUIRE(space.ok());
  SearchContext x(c.model, c.cluster, c.request, *space);
  for (const Mesh& mesh : space->meshes()) {
    for (const ScheduleChoice& schedule : space->schedules(mesh, 1)) {
      visit(x, *space, strategy_of(*space, mesh, schedule), mesh.base);
    }
  }
}

// [F-SEARCH-23] Of a strategy whose fastest division that fits, however much of it is recomputed,
// takes `best` seconds: nothing says that all divisions take longer. `slow` counts that of much
// less than that it is said.
inline void check_any_memory(SearchContext& x, const SearchSpace& space, Strategy s,
                             std::size_t base, double best, int& slow) {
  s.recompute = Recompute::kNone;
  const StageContext context = stages_of(x, s, base, CountRule::kNone);
  const auto longer = [&](double most) {
    std::int64_t work = 0;
    const bool all = takes_longer_in_any_memory(
        {context, space.divisions(), x.models, x.placement(s, base), most, 0, false, 512}, work);
    REQUIRE(work >= 0);
    return all;
  };
  REQUIRE_FALSE(longer(best * (1 + 1e-9)));
  slow += longer(0.6 * best) ? 1 : 0;
}

struct Efforts {
  int decided = 0, undecided = 0;
};

// Whatever the effort and whatever is wanted, what is decided is right, and what is not is bounded
// from below, also by chains that others left. `best`: step time of the fastest of all divisions,
// s.
inline void compare_efforts(DivisionQuery query, double best, Efforts& n) {
  KnownChains known_chains;
  for (const double most : {query.most, best * (1 + 1e-7), best * (1 - 1e-7)}) {
    const bool wanted = most > best;
    query.most = most;
    for (const std::int64_t effort : {8, 16, 32, 128}) {
      query.effort = effort;
      const FastestDivision found = fastest_division(query);
      CAPTURE(effort, most, found.least, found.step_time, best);
      ++(found.every ? n.decided : n.undecided);
      if (found.lists) REQUIRE(found.step_time > best * (1 - 1e-9));
      if (found.every) {
        REQUIRE(found.lists.has_value() == wanted);
        if (wanted) REQUIRE(found.step_time < best * (1 + 1e-9));
      } else {
        const double known = found.lists ? found.step_time : 1e300;
        REQUIRE(std::min(found.least, known) < best * (1 + 1e-9));
      }
      if (found.chains.chains.empty()) continue;
      known_chains = found.chains;
      query.chains = &known_chains;
    }
  }
}

}  // namespace meshplan::search_test

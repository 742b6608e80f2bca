#include "search/survey.hpp"

#include <algorithm>
#include <optional>

#include "cost/step.hpp"
#include "cost/step_model.hpp"
#include "schedule/traits.hpp"
#include "search/worker_pool.hpp"
#include "space/space.hpp"

namespace meshplan {
namespace {

// Positions of a list that are taken in turn: the golden ratio's multiples leave no value out for
// long and prefer none (Knuth, The Art of Computer Programming 3, sec. 6.4, Fibonacci hashing).
class Turns {
 public:
  explicit Turns(std::size_t draw) : state_(draw + 1) {}

  template <class T>
  const T& of(const std::vector<T>& list) {
    state_ = state_ * 0x9e3779b97f4a7c15ULL + 0x7f4a7c15ULL;
    return list[(state_ >> 33) % list.size()];
  }

 private:
  std::uint64_t state_;
};

// What most people would try: no unusual order of ranks, sequence parallelism with tensor
// parallelism, schedules that every framework has.
bool is_usual(const Strategy& s) {
  return traits_of(s.schedule).widely_available && s.etp == 1 && s.order == kDefaultOrder &&
         s.zero_group == 0 && s.sequence_parallel == (s.tp > 1) && !s.offload.optimizer &&
         !s.offload.activations;
}

std::optional<Strategy> draw(const SearchSpace& space, const Mesh& mesh, std::size_t number) {
  Turns turns(number);
  // A mesh may leave no legal value of a key.
  if (space.micro_batches(mesh).empty() || space.splits(mesh).empty() ||
      space.shardings(mesh).empty() || space.cp_kinds(mesh).empty()) {
    return std::nullopt;
  }
  const std::int64_t micro_batch = turns.of(space.micro_batches(mesh));
  const auto& schedules = space.schedules(mesh, micro_batch);
  const auto& options = space.options(mesh);
  if (schedules.empty() || options.empty()) return std::nullopt;
  const Split& split = turns.of(space.splits(mesh));
  const ScheduleChoice& schedule = turns.of(schedules);
  const Sharding& sharding = turns.of(space.shardings(mesh));
  PartialStrategy choice{mesh.tp,  mesh.pp,   schedule.vp, mesh.cp,
                         split.ep, split.etp, mesh.dp,     micro_batch};
  choice.zero_group = sharding.zero_group;
  choice.cp_kind = turns.of(space.cp_kinds(mesh));
  choice.schedule = schedule.schedule;
  choice.zero = sharding.zero;
  choice.sequence_parallel = split.sequence_parallel;
  choice.order = sharding.order;
  choice.base = mesh.base;
  const MemoryOption& option = turns.of(options);
  Strategy s = with_option(with_partial(space.bases()[mesh.base], choice), option);
  if (option.counts == CountRule::kGiven) s.recompute_layers = option.given;
  return s;
}

// Each mesh in turn; of a few draws the first usual one, every fourth time any at all.
std::vector<Strategy> spread(const SearchSpace& space, std::size_t most) {
  constexpr std::size_t kTries = 12, kAnyEvery = 4;
  std::vector<Strategy> all;
  const auto& meshes = space.meshes();
  if (meshes.empty()) return all;
  for (std::size_t i = 0; i < most; ++i) {
    // Evenly over the meshes where they are more than `most`, else round after round.
    const std::size_t at = meshes.size() > most ? i * meshes.size() / most : i % meshes.size();
    std::optional<Strategy> kept;
    for (std::size_t k = 0; k < kTries; ++k) {
      const std::optional<Strategy> drawn = draw(space, meshes[at], i * kTries + k);
      if (!drawn) break;
      if (!kept || is_usual(*drawn)) kept = drawn;
      if (i % kAnyEvery == 0 || is_usual(*drawn)) break;
    }
    if (kept) all.push_back(std::move(*kept));
  }
  return all;
}

// The value alone: where a step's time goes is not shown of these.
std::optional<SurveyedPlan> surveyed(const ModelSpec& m, const ClusterSpec& c, Strategy s) {
  s = complete(std::move(s), m, c);
  if (!is_legal(s, m, c)) return std::nullopt;
  const BlockCosts blocks = block_costs(m, c, s);
  OneStep step(m, c, s, blocks);
  const StepValue value = step.model().evaluate(s);
  SurveyedPlan plan{s, value.step_time, value.peak};
  plan.fits = value.peak <= c.device.memory;
  if (s.offload.optimizer || s.offload.activations) plan.fits = value.fits;
  return plan;
}

// The ranked plans, then those of `drawn` that are legal and new.
std::vector<SurveyedPlan> merged(const SearchResult& result,
                                 const std::vector<std::optional<SurveyedPlan>>& drawn) {
  std::vector<SurveyedPlan> all;
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const PlanCost& p = result.plans[i];
    const bool fits = p.memory().peak <= p.memory().capacity;
    all.push_back({p.strategy, p.step_time, p.memory().peak, fits, false, i + 1});
  }
  for (const std::optional<SurveyedPlan>& plan : drawn) {
    if (!plan) continue;
    const bool known = std::any_of(all.begin(), all.end(), [&](const SurveyedPlan& other) {
      return other.step_time == plan->step_time && other.strategy == plan->strategy;
    });
    if (!known) all.push_back(*plan);
  }
  return all;
}

// Sorted by time, a plan is on the front if it is smaller than everything before it.
void mark_front(std::vector<SurveyedPlan>& all) {
  std::optional<Bytes> least;
  for (SurveyedPlan& plan : all) {
    if (!plan.fits || (least && plan.peak_memory >= *least)) continue;
    plan.pareto = true;
    least = plan.peak_memory;
  }
}

}  // namespace

std::vector<SurveyedPlan> survey(const ModelSpec& m, const ClusterSpec& c,
                                 const SearchRequest& request, const SearchResult& result,
                                 std::size_t most) {
  std::optional<SearchSpace> made;
  if (result.space == nullptr) {
    Result<SearchSpace> space = SearchSpace::make(m, c, request);
    if (!space) return {};
    made = std::move(space).value();
  }
  const std::vector<Strategy> strategies = spread(made ? *made : *result.space, most);
  std::vector<std::optional<SurveyedPlan>> drawn(strategies.size());
  WorkerPool pool(request.threads);
  pool.run(strategies.size(), [&](std::size_t i) { drawn[i] = surveyed(m, c, strategies[i]); });
  std::vector<SurveyedPlan> all = merged(result, drawn);
  std::stable_sort(all.begin(), all.end(), [](const SurveyedPlan& a, const SurveyedPlan& b) {
    return a.step_time != b.step_time ? a.step_time < b.step_time : a.peak_memory < b.peak_memory;
  });
  mark_front(all);
  return all;
}

}  // namespace meshplan

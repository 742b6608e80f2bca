// The whole equals the best of its parts: a search that is split by the values of one key finds,
// in one of the parts, exactly what the undivided search finds.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/preset.hpp"
#include "schedule/traits.hpp"
#include "search/cases.hpp"
#include "search/search.hpp"
#include "space/lists.hpp"
#include "space/target.hpp"
#include "spec/module_lists.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

std::vector<std::string> texts(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> all;
  for (const std::int64_t n : numbers) all.push_back(std::to_string(n));
  return all;
}

std::vector<std::string> searched_schedules() {
  std::vector<std::string> all;
  for (const auto& row : NameTable<Schedule>::rows) {
    if (traits_of(row.value).searched) all.emplace_back(row.name);
  }
  return all;
}

struct SplitKey {
  std::string key;
  std::vector<std::string> values;  // every one that the space has
};

std::vector<SplitKey> split_keys(const Case& c) {
  const std::vector<std::string> degrees = texts(divisors(num_gpus(c.cluster)));
  return {{"tp", degrees},
          {"pp", degrees},
          {"cp", degrees},
          {"ep", degrees},
          {"micro_batch", texts(divisors(c.request.base.global_batch))},
          {"zero", {"0", "1", "2", "3"}},
          {"order", {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}},
          {"schedule", searched_schedules()},
          {"recompute", {"none", "selective", "full"}},
          {"offload.optimizer", {"false", "true"}},
          {"offload.activations", {"false", "true"}},
          {"overlap.ep", {"false", "true"}},
          {"lora.input_regather", {"false", "true"}}};
}

// One node or several, of few GPUs, whose links are alike or halved between two sockets; models
// that need all of the memory, and models that need little; all weights trained, or adapters.
Case split_case(unsigned seed, Space space) {
  Dice dice(seed);
  Case c;
  c.model = random_model(dice);
  c.model.mtp_layers = 0;
  c.cluster = random_cluster(dice);
  if (dice.once_in(2)) c.cluster.levels.front().kind = LinkKind::kPcie;
  if (dice.once_in(3)) c.cluster.device.memory = Bytes{dice.between(1, 6) * kGiB};
  SearchRequest& r = c.request;
  r.space = space;
  r.base = framework_preset(framework_of(space).value_or(Framework::kMegatron));
  r.base.global_batch = num_gpus(c.cluster) * dice.one_of<std::int64_t>({1, 2, 4});
  r.base.seq_len = dice.one_of<std::int64_t>({512, 2048, 8192});
  r.threads = 1, r.top = 1;
  r.with_closest_miss = false;
  if (dice.once_in(3)) r.base.lora.rank = dice.one_of<std::int64_t>({8, 64});
  return c;
}

// Of the best plan. Nothing if no plan fits, or if the search has none of the key's value.
std::optional<double> best_time(const Case& c) {
  const Result<SearchResult> result = search(c.model, c.cluster, c.request);
  if (!result.ok() || result.value().plans.empty()) return std::nullopt;
  REQUIRE(result.value().proof.exact);
  return result.value().plans.front().step_time.si();
}

}  // namespace

TEST_CASE("the best plan is the best of all values of any one key") {
  const Space space = GENERATE(Space::kFull, Space::kMegatron, Space::kDeepspeed, Space::kFsdp);
  int split = 0, found = 0;
  for (unsigned seed = 9'000; seed < 9'016; ++seed) {
    Case c = split_case(seed, space);
    const std::optional<double> whole = best_time(c);
    for (const SplitKey& key : split_keys(c)) {
      CAPTURE(name_of(space), seed, key.key, to_text(c.request.base));
      std::optional<double> best;
      for (const std::string& value : key.values) {
        Case part = c;
        part.request.limits.push_back(only(key.key, {value}));
        const std::optional<double> time = best_time(part);
        if (time && (!best || *time < *best)) best = time;
      }
      REQUIRE(best.has_value() == whole.has_value());
      if (best) CHECK(*best == Approx(*whole).epsilon(1e-9));
      ++split, found += best ? 1 : 0;
    }
  }
  CHECK(split == 16 * 13);
  CHECK(found > split / 3);  // not only questions that nothing answers
}

TEST_CASE("a free list of offloaded modules finds the best of the lists that can be stated") {
  int better = 0, found = 0;
  for (unsigned seed = 9'000; seed < 9'012; ++seed) {
    Case c = split_case(seed, Space::kMegatron);
    const auto best_with = [&](const Limit& limit) {
      Case stated = c;
      stated.request.limits.push_back(limit);
      return best_time(stated);
    };
    const auto free = best_with(any("offload.modules"));
    std::optional<double> best;
    for (const OffloadModules& list : offload_lists(c.model, c.request.base.runtime)) {
      const auto one = best_with({"offload.modules", LimitOp::kEqual, {list}});
      if (one && (!best || *one < *best)) best = one;
    }
    INFO("seed " << seed);
    CHECK(free == best);
    if (!best) continue;
    ++found;
    const auto none = best_with({"offload.modules", LimitOp::kEqual, {OffloadModules{}}});
    if (!none || *best < *none) ++better;
  }
  CHECK(found > 0);
  CHECK(better > 0);  // not only questions that it makes no difference to
}

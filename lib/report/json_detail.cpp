#include "report/json_detail.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "cost/step.hpp"
#include "layout/digits.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

std::int64_t microseconds(Seconds t) { return std::llround(t.si() * 1e6); }

char letter(TaskKind kind) {
  switch (kind) {
    case TaskKind::kForward:
      return 'F';
    case TaskKind::kBackward:
      return 'B';
    case TaskKind::kBackwardInput:
      return 'I';
    case TaskKind::kBackwardWeight:
      return 'W';
  }
  return '?';
}

// The stretch in the middle of a step that is left out.
struct Cut {
  Span span;
  template <class Entry>
  [[nodiscard]] bool holds(const Entry& e) const {
    return e.start >= span.start && e.end <= span.end;
  }
};

std::size_t kept_tasks(const StepTimeline& t, const Cut& cut) {
  std::size_t n = 0;
  for (const RankTimeline& rank : t.ranks) {
    n += static_cast<std::size_t>(
        std::count_if(rank.tasks.begin(), rank.tasks.end(),
                      [&](const TimelineEntry& e) { return !cut.holds(e); }));
  }
  return n;
}

// The shortest cut around the middle that leaves at most `most` tasks; empty if nothing must go.
Cut cut_for(const StepTimeline& t, std::size_t most) {
  Seconds end;
  for (const RankTimeline& rank : t.ranks) end = std::max(end, rank.reduction.start);
  const auto around = [&](double share) {
    return Cut{{end * ((1 - share) / 2), end * ((1 + share) / 2)}};
  };
  if (kept_tasks(t, around(0)) <= most) return around(0);
  double low = 0, high = 1;
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (kept_tasks(t, around(middle)) <= most ? high : low) = middle;
  }
  return around(high);
}

Json span_json(const Span& span) {
  if (span.end <= span.start) return nullptr;
  return {{"start_us", microseconds(span.start)}, {"end_us", microseconds(span.end)}};
}

template <class Entry, class Value>
Json column(const std::vector<Entry>& entries, const Cut& cut, const Value& value) {
  Json json = Json::array();
  for (const Entry& e : entries) {
    if (!cut.holds(e)) json.push_back(value(e));
  }
  return json;
}

Json allocated_json(const std::vector<AllocatedAt>& allocated, const Cut& cut) {
  Json times = Json::array(), bytes = Json::array();
  for (const AllocatedAt& a : allocated) {
    if (cut.span.start < a.time && a.time < cut.span.end) continue;
    times.push_back(microseconds(a.time)), bytes.push_back(a.bytes.count());
  }
  return {{"times_us", std::move(times)}, {"bytes", std::move(bytes)}};
}

Json rank_json(const RankTimeline& rank, const Cut& cut) {
  std::string kinds;
  for (const TimelineEntry& e : rank.tasks) {
    if (!cut.holds(e)) kinds += letter(e.task.kind);
  }
  const auto start = [](const auto& e) { return microseconds(e.start); };
  const auto end = [](const auto& e) { return microseconds(e.end); };
  return {
      {"tasks",
       {{"kinds", kinds},
        {"chunks", column(rank.tasks, cut, [](const auto& e) { return e.task.chunk; })},
        {"microbatches", column(rank.tasks, cut, [](const auto& e) { return e.task.microbatch; })},
        {"starts_us", column(rank.tasks, cut, start)},
        {"ends_us", column(rank.tasks, cut, end)}}},
      {"sends",
       {{"to", column(rank.sends, cut, [](const TimedMessage& e) { return e.to; })},
        {"backward", column(rank.sends, cut, [](const TimedMessage& e) { return e.backward; })},
        {"microbatches",
         column(rank.sends, cut, [](const TimedMessage& e) { return e.microbatch; })},
        {"starts_us", column(rank.sends, cut, start)},
        {"ends_us", column(rank.sends, cut, end)}}},
      {"allocated", allocated_json(rank.allocated, cut)},
      {"gradient_reduction", span_json(rank.reduction)}};
}

}  // namespace

Json timeline_json(const StepTimeline& t, std::size_t most_tasks) {
  const Cut cut = cut_for(t, most_tasks);
  Json ranks = Json::array();
  for (const RankTimeline& rank : t.ranks) ranks.push_back(rank_json(rank, cut));
  return {{"plan_rank", 1},
          {"schedule", std::string(name_of(t.shape.schedule))},
          {"microbatches", t.shape.microbatches},
          {"chunks", num_chunks(t.shape)},
          {"step_time_s", number(t.step_time.si())},
          {"ranks", std::move(ranks)},
          {"omitted", span_json(cut.span)},
          {"unpaired_passes", span_json(t.unpaired)},
          {"embedding_reduction", span_json(t.tied_embedding)},
          {"optimizer", span_json(t.optimizer)},
          {"offload", span_json(t.offload)}};
}

namespace {

struct AxisRow {
  const char* name;
  Group group;
};
constexpr std::array kAxes{AxisRow{"tp", Group::kTp}, AxisRow{"cp", Group::kCp},
                           AxisRow{"ep", Group::kEp}, AxisRow{"dp", Group::kDp},
                           AxisRow{"pp", Group::kPp}};

// Where a rank sits along an axis: its number in its group, and the group's first rank.
struct Position {
  std::int64_t number = 0;
  std::int64_t first = 0;
};

Position position(const RankDigits& d, std::int64_t rank) {
  Position p{0, rank};
  std::int64_t weight = 1;
  for (std::size_t i = 0; i < d.count; ++i) {
    if (!d.digits[i].member) continue;
    const std::int64_t value = rank / d.digits[i].stride % d.digits[i].size;
    p.number += value * weight;
    p.first -= value * d.digits[i].stride;
    weight *= d.digits[i].size;
  }
  return p;
}

// Nodes to show: all if they are few, else those of the groups of rank 0, nearest first.
std::set<std::int64_t> shown_nodes(const Strategy& s, const ClusterSpec& c, std::int64_t nodes) {
  constexpr std::int64_t kMostNodes = 32;
  std::set<std::int64_t> shown;
  for (std::int64_t n = 0; nodes <= kMostNodes && n < nodes; ++n) shown.insert(n);
  for (const Group g : {Group::kTp, Group::kCp, Group::kPp, Group::kEp, Group::kDp}) {
    // So many lie in more nodes than are shown.
    for (const std::int64_t rank : group_members(s, g, 0, (kMostNodes + 1) * c.gpus_per_node)) {
      if (static_cast<std::int64_t>(shown.size()) >= kMostNodes) return shown;
      shown.insert(rank / c.gpus_per_node);
    }
  }
  return shown;
}

}  // namespace

Json rank_map_json(const Strategy& s, const ClusterSpec& c) {
  const std::int64_t gpus = num_gpus(s);
  const std::int64_t nodes = ceil_div(gpus, c.gpus_per_node);
  Json axes = Json::array();
  for (const AxisRow& axis : kAxes) {
    const GroupShape shape = group_shape(s, c, axis.group);
    if (shape.size == 1) continue;
    axes.push_back(
        {{"name", axis.name}, {"size", shape.size}, {"level", c.levels[shape.level].name}});
  }
  Json shown = Json::array();
  for (const std::int64_t node : shown_nodes(s, c, nodes)) {
    const std::int64_t first = node * c.gpus_per_node;
    const std::int64_t count = std::min(c.gpus_per_node, gpus - first);
    Json positions = Json::object(), groups = Json::object();
    for (const Json& axis : axes) {
      const std::string& name = axis.at("name").get_ref<const std::string&>();
      const auto row = std::find_if(kAxes.begin(), kAxes.end(),
                                    [&](const AxisRow& other) { return name == other.name; });
      const RankDigits digits = rank_digits(s, row->group);
      for (std::int64_t i = 0; i < count; ++i) {
        const Position p = position(digits, first + i);
        positions[name].push_back(p.number);
        groups[name].push_back(p.first);
      }
    }
    shown.push_back({{"node", node},
                     {"first_rank", first},
                     {"gpus", count},
                     {"positions", std::move(positions)},
                     {"groups", std::move(groups)}});
  }
  return {
      {"plan_rank", 1}, {"nodes", nodes}, {"axes", std::move(axes)}, {"shown", std::move(shown)}};
}

namespace {

// Values of one key over all plans, as indices into the list of those that occur.
Json key_json(std::span<const SurveyedPlan> all, std::string_view key) {
  std::vector<std::string> choices;
  Json values = Json::array();
  for (const SurveyedPlan& plan : all) {
    const std::string text = value_text(plan.strategy, key);
    const auto at = std::find(choices.begin(), choices.end(), text);
    values.push_back(at - choices.begin());
    if (at == choices.end()) choices.push_back(text);
  }
  return {
      {"key", std::string(key)}, {"choices", std::move(choices)}, {"values", std::move(values)}};
}

}  // namespace

Json evaluated_plans_json(std::span<const SurveyedPlan> all, Bytes capacity) {
  Json json{{"count", all.size()}, {"capacity_bytes", capacity.count()}};
  for (const char* list : {"step_times_s", "peaks_bytes", "fits", "pareto", "ranks", "keys"}) {
    json[list] = Json::array();
  }
  for (const SurveyedPlan& plan : all) {
    json["step_times_s"].push_back(number(plan.step_time.si()));
    json["peaks_bytes"].push_back(plan.peak_memory.count());
    json["fits"].push_back(plan.fits);
    json["pareto"].push_back(plan.pareto);
    json["ranks"].push_back(plan.rank);
  }
  for (const std::string_view key : strategy_keys()) {
    // Lists per pipeline rank are as many as plans: they tell plans apart, not kinds of plans.
    if (key == "stage_layers" || key == "chunk_layers" || key == "recompute_layers") continue;
    Json values = key_json(all, key);
    if (values["choices"].size() > 1) json["keys"].push_back(std::move(values));
  }
  return json;
}

}  // namespace meshplan

#include "space/lists.hpp"

#include <algorithm>

#include "comm/collectives.hpp"
#include "schedule/traits.hpp"
#include "space/target.hpp"
#include "spec/module_lists.hpp"

namespace meshplan {
namespace {

// Of the ranks that hold the same parameters as rank 0, those in its node.
std::int64_t replicas_in_node(const Strategy& mesh, std::int64_t gpus_per_node) {
  std::int64_t cp_stride = 1, dp_stride = 1, stride = 1;
  for (const Axis axis : mesh.order) {
    if (axis == Axis::kCp) cp_stride = stride;
    if (axis == Axis::kDp) dp_stride = stride;
    if (axis == Axis::kTp) stride *= mesh.tp;
    if (axis == Axis::kCp) stride *= mesh.cp;
    if (axis == Axis::kDp) stride *= mesh.dp;
    if (axis == Axis::kPp) stride *= mesh.pp;
  }
  std::int64_t n = 0;
  for (std::int64_t c = 0; c < mesh.cp && c * cp_stride < gpus_per_node; ++c) {
    n += std::min(mesh.dp, ceil_div(gpus_per_node - c * cp_stride, dp_stride));
  }
  return n;
}

// Whether tensor and context ranks fill whole blocks of every level of links but the one that joins
// all devices: then data-parallel and pipeline ranks are as far from each other in either order.
bool fill_inner_levels(const Strategy& mesh, const ClusterSpec& c) {
  const auto joins_all = [&](const LinkLevel& l) { return l.span == 0 || l.span >= num_gpus(c); };
  const auto outer = std::find_if(c.levels.begin(), c.levels.end(), joins_all);
  if (outer == c.levels.begin() || outer == c.levels.end()) return false;
  return (mesh.tp * mesh.cp) % std::prev(outer)->span == 0;
}

std::int64_t number_of(const RankOrder& order) {
  std::int64_t number = 0;
  for (const Axis axis : order) number = number * 8 + static_cast<std::int64_t>(axis);
  return number;
}

// The orders of ranks that differ: axes of one rank, and that of experts, which share the ranks of
// others, stay where they are.
std::vector<RankOrder> every_order(const Strategy& mesh) {
  const auto size = [&](Axis axis) {
    return axis == Axis::kTp   ? mesh.tp
           : axis == Axis::kCp ? mesh.cp
           : axis == Axis::kDp ? mesh.dp
           : axis == Axis::kPp ? mesh.pp
                               : 1;
  };
  std::vector<Axis> moving;
  for (const Axis axis : kDefaultOrder) {
    if (size(axis) > 1) moving.push_back(axis);
  }
  std::sort(moving.begin(), moving.end());
  std::vector<RankOrder> all;
  do {
    RankOrder order = kDefaultOrder;
    std::size_t next = 0;
    for (Axis& axis : order) {
      if (size(axis) > 1) axis = moving[next++];
    }
    all.push_back(order);
  } while (std::next_permutation(moving.begin(), moving.end()));
  std::iter_swap(all.begin(), std::find(all.begin(), all.end(), kDefaultOrder));
  return all;
}

}  // namespace

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

SpaceLists::SpaceLists(const ModelSpec& m, const ClusterSpec& c, const SpaceRequest& request,
                       SpaceMemo* memo)
    : model_(m), cluster_(c), request_(request), target_(request.space, m, c), memo_(memo) {
  if (const std::optional<Target> target = target_of(request.space)) {
    layers_ = target_layers(*target, m);
  }
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    const std::span<const std::string_view> keys = keys_of(static_cast<List>(i));
    for (const Limit& limit : request_.limits) {
      if (std::find(keys.begin(), keys.end(), limit.key) != keys.end())
        limits_[i].push_back(&limit);
    }
  }
}

bool SpaceLists::keeps(const Strategy& s, List list) const {
  const std::vector<const Limit*>& limits = limits_[static_cast<std::size_t>(list)];
  return std::all_of(limits.begin(), limits.end(),
                     [&](const Limit* limit) { return satisfies(s, *limit); });
}

std::span<const std::string_view> SpaceLists::keys_of(List list) {
  static constexpr std::array<std::string_view, 4> kMesh{"tp", "pp", "cp", "dp"};
  static constexpr std::array<std::string_view, 1> kCpKind{"cp_kind"}, kOrder{"order"},
      kMicroBatch{"micro_batch"};
  static constexpr std::array<std::string_view, 3> kSplit{"sequence_parallel", "ep", "etp"};
  static constexpr std::array<std::string_view, 3> kSharding{"zero", "zero_group", "order"};
  static constexpr std::array<std::string_view, 2> kSchedule{"schedule", "vp"};
  static constexpr std::array<std::string_view, 4> kOption{
      "offload.activations", "offload.optimizer", "recompute", "recompute_modules"};
  switch (list) {
    case List::kMesh:
      return kMesh;
    case List::kCpKind:
      return kCpKind;
    case List::kSplit:
      return kSplit;
    case List::kOrder:
      return kOrder;
    case List::kSharding:
      return kSharding;
    case List::kSchedule:
      return kSchedule;
    case List::kOffload:
      return std::span(kOption).first(2);
    case List::kRecompute:
      return std::span(kOption).last(2);
    case List::kOption:
      return kOption;
    case List::kMicroBatch:
      return kMicroBatch;
    case List::kCount:
      break;
  }
  return {};
}

SpaceLists::Values SpaceLists::values_of(const Split& split) {
  return {split.sequence_parallel ? 1 : 0, split.ep, split.etp};
}
SpaceLists::Values SpaceLists::values_of(const Sharding& sharding) {
  return {sharding.zero, sharding.zero_group, number_of(sharding.order)};
}
SpaceLists::Values SpaceLists::values_of(const ScheduleChoice& choice) {
  return {static_cast<std::int64_t>(choice.schedule), choice.vp};
}
SpaceLists::Values SpaceLists::values_of(const MemoryOption& option) {
  return {(option.offload_activations ? 2 : 0) + (option.offload_optimizer ? 1 : 0),
          static_cast<std::int64_t>(option.recompute), option.modules.id()};
}

IntegerKey<8> SpaceLists::key_of(const Strategy& mesh, List list, const Values& values) const {
  return {base_,     mesh.tp,   mesh.pp,  mesh.cp, static_cast<std::int64_t>(list),
          values[0], values[1], values[2]};
}

bool SpaceLists::admits(const Strategy& s, List list, const Values& values) const {
  if (!keeps(s, list)) return false;
  if (request_.space == Space::kFull) return true;
  if (memo_ == nullptr || !remembers_) return !is_refused(s, keys_of(list));
  return !memo_->refused.get(key_of(s, list, values), [&] { return is_refused(s, keys_of(list)); });
}

bool SpaceLists::is_refused(const Strategy& s, std::span<const std::string_view> keys) const {
  std::vector<std::string_view> settled{"tp", "pp", "cp", "dp"};
  settled.insert(settled.end(), keys.begin(), keys.end());
  if (!model_.moe) settled.insert(settled.end(), {"ep", "etp"});
  if (layers_.stages == PartitionRule::kEven) settled.emplace_back("stage_layers");
  return target_.is_refused(s, settled);
}

std::vector<KeyValue> SpaceLists::stated(std::string_view key) const {
  for (const Limit& limit : request_.limits) {
    if (limit.key == key && limit.op == LimitOp::kEqual) return limit.values;
  }
  return {};
}

bool SpaceLists::freed(std::string_view key) const {
  return std::any_of(request_.limits.begin(), request_.limits.end(), [&](const Limit& limit) {
    return limit.key == key && limit.op == LimitOp::kFree;
  });
}

std::vector<MeshSizes> SpaceLists::meshes(const Strategy& base) const {
  std::vector<MeshSizes> all;
  const std::int64_t gpus = num_gpus(cluster_);
  for (const std::int64_t tp : divisors(gpus)) {
    for (const std::int64_t pp : divisors(gpus / tp)) {
      for (const std::int64_t cp : divisors(gpus / (tp * pp))) {
        Strategy s = base;
        s.tp = tp, s.pp = pp, s.cp = cp, s.dp = gpus / (tp * pp * cp);
        if (admits(s, List::kMesh, {})) all.push_back({tp, pp, cp});
      }
    }
  }
  return all;
}

std::vector<std::int64_t> SpaceLists::micro_batches(const Strategy& base, std::int64_t dp) const {
  const bool whole = base.global_batch % dp == 0;
  std::vector<std::int64_t> all =
      whole ? divisors(base.global_batch / dp) : std::vector<std::int64_t>{1};
  std::erase_if(all, [&](std::int64_t n) {
    Strategy s = base;
    s.micro_batch = n;
    return !keeps(s, List::kMicroBatch);
  });
  return all;
}

std::vector<CpKind> SpaceLists::cp_kinds(const Strategy& mesh) const {
  std::vector<CpKind> all;
  for (const auto& row : NameTable<CpKind>::rows) {
    Strategy s = mesh;
    s.cp_kind = row.value;
    if (!admits(s, List::kCpKind, {static_cast<std::int64_t>(row.value)})) continue;
    all.push_back(row.value);
    if (mesh.cp == 1) break;  // no kind differs from another
  }
  return all;
}

std::vector<Split> SpaceLists::splits(const Strategy& mesh) const {
  std::vector<Split> all;
  const bool moe = model_.moe.has_value();
  for (const bool sequence_parallel : {false, true}) {
    if (sequence_parallel && mesh.tp == 1) continue;
    for (const std::int64_t etp : moe ? divisors(mesh.tp) : divisors(1)) {
      for (const std::int64_t ep :
           moe ? divisors(mesh.tp * mesh.cp * mesh.dp / etp) : divisors(1)) {
        Strategy s = mesh;
        s.sequence_parallel = sequence_parallel;
        s.ep = ep, s.etp = etp;
        if (!admits(s, List::kSplit, values_of(Split{sequence_parallel, ep, etp}))) continue;
        all.push_back({sequence_parallel, ep, etp});
      }
    }
  }
  return all;
}

std::vector<RankOrder> SpaceLists::orders(const Strategy& mesh) const {
  const bool all_alike = is_uniform(cluster_);  // then no order differs from another
  std::vector<RankOrder> all{kDefaultOrder, kPipelineInside};
  const auto refused = [&](const RankOrder& order) {
    Strategy s = mesh;
    s.order = order;
    return !admits(s, List::kOrder, {number_of(order)});
  };
  if (const std::vector<KeyValue> values = stated("order"); !values.empty()) {
    all.clear();
    for (const KeyValue& value : values) {
      const auto& order = std::get<RankOrder>(value);
      if (std::find(all.begin(), all.end(), order) == all.end()) all.push_back(order);
    }
    std::erase_if(all, refused);
    if (all_alike && all.size() > 1) all.resize(1);
    return all;
  }
  if (freed("order")) all = every_order(mesh);
  std::erase_if(all, refused);
  const bool no_choice = mesh.pp == 1 || mesh.dp == 1 || fill_inner_levels(mesh, cluster_);
  const bool same = all_alike || (!freed("order") && no_choice);
  if (same && all.size() > 1) all.resize(1);
  return all;
}

std::vector<std::int64_t> SpaceLists::zero_groups(const Strategy& mesh) const {
  std::vector<std::int64_t> all{0};
  if (const std::vector<KeyValue> values = stated("zero_group"); !values.empty()) {
    all.clear();
    for (const KeyValue& value : values) all.push_back(std::get<std::int64_t>(value));
    return all;
  }
  const std::int64_t node = replicas_in_node(mesh, cluster_.gpus_per_node);
  const std::int64_t replicas = mesh.dp * mesh.cp;
  if (freed("zero_group")) {
    for (const std::int64_t group : divisors(replicas)) {
      if (group > 1 && group < replicas) all.push_back(group);
    }
    return all;
  }
  if (node > 1 && node < replicas && replicas % node == 0) all.push_back(node);
  return all;
}

std::vector<Sharding> SpaceLists::shardings(const Strategy& mesh) const {
  std::vector<Sharding> all;
  const bool one_replica = has_one_replica(mesh, model_);
  for (const RankOrder& order : orders(mesh)) {
    bool first = true;  // of this order
    for (int zero = 0; zero <= 3; ++zero) {
      Strategy s = mesh;
      s.order = order, s.zero = zero;
      for (const std::int64_t group : zero_groups(s)) {
        s.zero_group = group;
        if (zero == 0 && group > 0) continue;
        if (!admits(s, List::kSharding, values_of(Sharding{zero, group, order}))) continue;
        if (one_replica && !first) continue;
        first = false;
        all.push_back({zero, group, order});
      }
    }
  }
  return all;
}

std::vector<ScheduleChoice> SpaceLists::schedules(const Strategy& mesh) const {
  std::vector<ScheduleChoice> candidates;
  const bool asked_for = freed("schedule") || !stated("schedule").empty();
  const auto add = [&](Schedule schedule) {
    const ScheduleTraits& traits = traits_of(schedule);
    if (!traits.searched && !asked_for) return;
    if (mesh.pp == 1 && !traits.runs_on_one_rank) return;
    switch (traits.chunks) {
      case ChunksPerRank::kOne:
        candidates.push_back({schedule, 1});
        return;
      case ChunksPerRank::kTwo:
        candidates.push_back({schedule, 2});
        return;
      case ChunksPerRank::kSeveral:
        break;
    }
    // Chunks of any size: the embedding and the head may be alone in theirs.
    const std::int64_t most = (model_.num_layers + 2) / mesh.pp;
    for (std::int64_t vp = 2; vp <= most; ++vp) candidates.push_back({schedule, vp});
  };
  add(kPlainSchedule);
  for (const auto& row : NameTable<Schedule>::rows) {
    if (row.value != kPlainSchedule) add(row.value);
  }
  std::vector<ScheduleChoice> all;
  for (const ScheduleChoice& choice : candidates) {
    Strategy s = mesh;
    s.schedule = choice.schedule, s.vp = choice.vp;
    if (!admits(s, List::kSchedule, values_of(choice))) continue;
    if (mesh.pp == 1 && !all.empty()) continue;  // without a pipeline no schedule differs
    all.push_back(choice);
  }
  return all;
}

DivisionRules SpaceLists::divisions() const {
  DivisionRules rules;
  rules.partition = layers_.stages;
  for (const KeyValue& value : stated("stage_layers")) {
    rules.partition = PartitionRule::kGiven;
    const auto& layers = std::get<std::vector<std::int64_t>>(value);
    const bool alike =
        std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) == layers.end();
    if (alike || layers_.stages == PartitionRule::kAny) rules.given.push_back(layers);
  }
  return rules;
}

// Lists of modules of selective recomputation: those that are stated, all that differ of a freed
// key, else what the framework of the space repeats.
std::vector<RecomputeModules> SpaceLists::listed_modules(const Strategy& mesh) const {
  std::vector<RecomputeModules> all;
  for (const KeyValue& value : stated("recompute_modules")) {
    all.push_back(std::get<RecomputeModules>(value));
  }
  if (!all.empty()) return all;
  if (freed("recompute_modules")) return module_lists(model_, mesh.runtime);
  const std::optional<Target> target = target_of(request_.space);
  return target ? target_modules(*target, model_, mesh) : std::vector{RecomputeModules{}};
}

void SpaceLists::add_options(std::vector<MemoryOption>& all, const Strategy& mesh, bool activations,
                             bool optimizer) const {
  Strategy s = mesh;
  s.offload.activations = activations, s.offload.optimizer = optimizer;
  const std::int64_t offload = (activations ? 2 : 0) + (optimizer ? 1 : 0);
  if (!admits(s, List::kOffload, {offload})) return;
  const auto add_listed = [&](Recompute recompute, CountRule counts,
                              const std::vector<std::int64_t>& given, RecomputeModules modules) {
    const MemoryOption option{recompute, counts, optimizer, activations, given, modules};
    if (admits(with_option(s, option), List::kOption, values_of(option))) all.push_back(option);
  };
  const std::vector<RecomputeModules> listed = listed_modules(mesh);
  const auto add = [&](Recompute recompute, CountRule counts,
                       const std::vector<std::int64_t>& given) {
    if (recompute != Recompute::kSelective) return add_listed(recompute, counts, given, {});
    for (const RecomputeModules& modules : listed) add_listed(recompute, counts, given, modules);
  };
  bool stated_any = false;
  for (const KeyValue& value : stated("recompute_layers")) {
    const auto& given = std::get<std::vector<std::int64_t>>(value);
    if (given.empty()) continue;
    stated_any = true;
    const bool some = std::any_of(given.begin(), given.end(), [](std::int64_t n) { return n > 0; });
    add(some ? Recompute::kFull : Recompute::kNone, CountRule::kGiven, given);
    add(Recompute::kSelective, CountRule::kGiven, given);
  }
  if (stated_any) return;
  Strategy plain = s;
  plain.recompute = Recompute::kNone;
  const bool none = admits(plain, List::kRecompute, {offload});
  add(Recompute::kNone, CountRule::kNone, {});
  if (request_.ignore_activations && none) return;
  add(Recompute::kSelective, CountRule::kNone, {});
  const bool fewest = request_.objective != Objective::kMemory;
  const bool all_only = layers_.recomputed == CountRule::kAll;
  if (fewest && !all_only) add(Recompute::kFull, layers_.recomputed, {});
  if (!fewest || !none || all_only) add(Recompute::kFull, CountRule::kAll, {});
}

std::vector<MemoryOption> SpaceLists::options(const Strategy& mesh) const {
  std::vector<MemoryOption> all;
  for (const bool optimizer : {false, true}) {
    add_options(all, mesh, false, optimizer);
    if (!request_.ignore_activations || all.empty()) add_options(all, mesh, true, optimizer);
  }
  return all;
}

}  // namespace meshplan

#include "space/space.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

#include "model/rules.hpp"
#include "space/adapter_ways.hpp"
#include "space/base_copies.hpp"
#include "space/dispatch_ways.hpp"
#include "space/fixed_keys.hpp"
#include "space/lists.hpp"
#include "space/reason.hpp"
#include "space/space_memo.hpp"
#include "space/target.hpp"
#include "spec/axes.hpp"
#include "spec/findings.hpp"

namespace meshplan {
namespace {

template <class T, class Key>
std::size_t remember(std::map<Key, std::size_t>& known, std::vector<LegalList<T>>& lists,
                     const Key& key, auto make) {
  const auto [it, is_new] = known.try_emplace(key, lists.size());
  if (is_new) lists.push_back(make());
  return it->second;
}

}  // namespace

// Asks lib/spec's rules about one group of keys at a time; what is asked twice is remembered.
class SpaceBuilder {
 public:
  SpaceBuilder(const ModelSpec& m, const ClusterSpec& c, const SpaceRequest& request,
               SpaceMemo* memo, bool counts = true)
      : model_(m),
        cluster_(c),
        request_(request),
        memo_(memo),
        counts_(counts),
        lists_(m, c, request, memo) {}

  Result<SearchSpace> build() {
    Diagnostics problems = validate(model_);
    for (Diagnostic& d : validate(cluster_)) problems.push_back(std::move(d));
    std::erase_if(problems, [](const Diagnostic& d) { return d.severity != Severity::kError; });
    if (!problems.empty()) return problems;
    Result<std::vector<Strategy>> bases = fixed_bases(request_.base, request_.limits, model_);
    if (!bases) return bases.errors();
    for (Strategy& base : bases.value()) {
      Diagnostics broken = hopeless_keys(request_.space, base, model_, cluster_);
      if (broken.empty()) {
        space_.bases_.push_back(std::move(base));
      } else if (problems.empty()) {
        problems = std::move(broken);
      }
    }
    if (space_.bases_.empty()) return problems;
    space_.copies_ = add_copies(request_, model_, cluster_, space_.bases_);
    space_.space_ = request_.space;
    space_.divisions_ = lists_.divisions();
    if (space_.divisions_.partition == PartitionRule::kGiven && space_.divisions_.given.empty()) {
      return error(std::string(name_of(request_.space)) +
                   " gives every stage as many layers, unlike any 'stage_layers' that is fixed");
    }
    for (std::size_t b = 0; b < space_.bases_.size(); ++b) add_meshes(b);
    space_.add_bounding_orders();
    return std::move(space_);
  }

  // Adds the strategies of illegal meshes that were left out.
  void count_illegal(SearchSpace& space) {
    space_ = std::move(space);
    lists_.remember(false);
    for (const SearchSpace::IllegalMesh& mesh : std::exchange(space_.uncounted_, {})) {
      use_base(mesh.base);
      const Strategy s = neutral(mesh.base, mesh.tp, mesh.pp, mesh.cp);
      const std::string reason = known_rule(lists_.key_of(s, List::kMesh, {}), [&] { return s; });
      count_out(reason, counts_of(mesh.base, s, candidates(mesh.base, s)));
    }
    space = std::move(space_);
  }

  // Of `whole`, with the lists of shardings and memory options that the request's limits leave.
  SearchSpace relisted(const SearchSpace& whole) {
    space_ = whole;
    space_.shardings_.clear();
    space_.options_.clear();
    space_.illegal_.clear();
    std::erase_if(space_.meshes_, [&](Mesh& mesh) {
      use_base(mesh.base);
      const Strategy s = neutral(mesh.base, mesh.tp, mesh.pp, mesh.cp);
      mesh.shardings = shardings(mesh.base, s, lists_.shardings(s));
      mesh.options = options(mesh.base, s, lists_.options(s));
      return space_.shardings(mesh).empty() || space_.options(mesh).empty();
    });
    space_.add_bounding_orders();
    space_.count_legal();
    return std::move(space_);
  }

 private:
  using List = SpaceLists::List;

  // Of a base that was made of another, what is left to that one or breaks a rule is not listed.
  bool is_overlapped_copy(std::size_t base) const {
    return space_.copies_[base].of_dispatch && space_.bases_[base].overlap.ep;
  }
  [[nodiscard]] std::vector<ScheduleChoice> schedule_choices(std::size_t base,
                                                             std::int64_t pp) const {
    std::vector<ScheduleChoice> all = lists_.schedules(pipeline(base, pp));
    if (pp > 1 && is_overlapped_copy(base)) {
      std::erase_if(all,
                    [](const ScheduleChoice& c) { return c.schedule != Schedule::kInterleaved; });
    }
    return all;
  }

  // A legal strategy on that mesh as far as the mesh goes: everything else breaks no rule. What
  // overlapped dispatch asks of other keys is judged with the lists that choose these.
  Strategy neutral(std::size_t base, std::int64_t tp, std::int64_t pp, std::int64_t cp) const {
    Strategy s = with_partial(space_.bases_[base], PartialStrategy{});
    set_overlapped_dispatch({}, s);
    s.tp = tp, s.pp = pp, s.cp = cp;
    s.dp = num_gpus(cluster_) / (tp * pp * cp);
    s.global_batch = s.dp * s.micro_batch;
    return s;
  }

  // Which schedules there are depends on no other key of the mesh.
  Strategy pipeline(std::size_t base, std::int64_t pp) const { return neutral(base, 1, pp, 1); }

  // Layers per rank of which the rules only ask whether such a list can be legal at all.
  std::vector<std::int64_t> some_layout(Strategy s) const {
    if (s.vp == 1) return {};
    s.vp = 1;
    if (s.pp > model_.num_layers) return {};
    return stage_layers(s, model_);
  }

  // The first broken rule, or nothing.
  std::string broken_rule(const Strategy& s) const {
    if (is_legal(s, model_, cluster_)) return {};
    for (const Finding& finding : findings(s, model_, cluster_).all()) {
      if (finding.diagnostic.severity == Severity::kError) return reason_of(finding);
    }
    return {};
  }

  // The same of a strategy that spaces with other limits have as well.
  std::string known_rule(const IntegerKey<8>& key, auto strategy) const {
    if (memo_ == nullptr) return broken_rule(strategy());
    return memo_->broken.get(key, [&] { return broken_rule(strategy()); });
  }

  // The values of a list. `key_of`: by which a memo knows one.
  template <class T>
  LegalList<T> judge(std::size_t base, List of, const std::vector<T>& all, auto key_of,
                     auto strategy_with) const {
    const JudgedKeys judged{.ep = of == List::kSplit, .schedule = of == List::kSchedule};
    LegalList<T> list;
    for (const T& value : all) {
      std::string reason = known_rule(key_of(value), [&] { return strategy_with(value); });
      if (reason.empty() && space_.bases_[base].overlap.ep) {
        reason =
            broken_overlap(space_.bases_[base], strategy_with(value), judged, model_, cluster_);
      }
      if (reason.empty()) {
        list.legal.push_back(value);
      } else {
        ++list.illegal[std::move(reason)];
      }
    }
    return list;
  }

  // Values of the keys beside a mesh, legal or not.
  struct Candidates {
    std::vector<CpKind> cp_kinds;
    std::vector<Split> splits;
    std::vector<Sharding> shardings;
    std::vector<MemoryOption> options;
  };

  struct Counts {
    std::int64_t micro_batches = 0, cp_kinds = 0, splits = 0, shardings = 0, schedules = 0;
    std::int64_t options = 0;
    std::int64_t misplaced = 0;  // pairs of a split and a sharding
    [[nodiscard]] std::int64_t product() const {
      return micro_batches * cp_kinds * pairs() * schedules * options;
    }
    [[nodiscard]] std::int64_t pairs() const { return splits * shardings - misplaced; }
  };

  template <class T>
  static std::int64_t count(const std::vector<T>& list) {
    return static_cast<std::int64_t>(list.size());
  }

  // The length of a list that depends on few of a mesh's keys.
  using CountKey = std::pair<std::size_t, std::int64_t>;
  static std::int64_t known_count(std::map<CountKey, std::int64_t>& known, const CountKey& key,
                                  auto list) {
    const auto [it, is_new] = known.try_emplace(key, 0);
    if (is_new) it->second = count(list());
    return it->second;
  }

  void use_base(std::size_t base) {
    if (memo_ == nullptr) return;
    lists_.set_base(memo_->number_of(request_.space, space_.bases_[base]));
  }

  void add_meshes(std::size_t base) {
    use_base(base);
    for (const MeshSizes& sizes : lists_.meshes(neutral(base, 1, 1, 1))) {
      const Strategy s = neutral(base, sizes.tp, sizes.pp, sizes.cp);
      if (!counts_ && !request_.plans_only && !is_legal(s, model_, cluster_)) {
        space_.uncounted_.push_back({base, s.tp, s.pp, s.cp});
        continue;
      }
      const std::string reason = known_rule(lists_.key_of(s, List::kMesh, {}), [&] { return s; });
      if (!reason.empty() && request_.plans_only) continue;
      lists_.remember(reason.empty());
      const Candidates all = candidates(base, s);
      const Counts n = counts_of(base, s, all);
      if (!reason.empty()) {
        count_out(reason, n);
        continue;
      }
      space_.size_ += n.product();
      if (n.product() > 0) add_legal_mesh(base, s, all, n);
    }
  }

  // Of an illegal mesh.
  void count_out(const std::string& reason, const Counts& n) {
    space_.size_ += n.product();
    space_.illegal_[reason] += n.product();
  }

  [[nodiscard]] Candidates candidates(std::size_t base, const Strategy& mesh) const {
    Candidates all{lists_.cp_kinds(mesh), lists_.splits(mesh), lists_.shardings(mesh),
                   lists_.options(mesh)};
    if (space_.copies_[base].of_dispatch) {  // without messages as the one it was made from
      std::erase_if(all.splits, [](const Split& split) { return split.ep == 1; });
    }
    if (is_overlapped_copy(base)) std::erase_if(all.options, std::not_fn(may_overlap));
    if (space_.copies_[base].of_inputs) {
      std::erase_if(all.splits, [](const Split& split) { return !split.sequence_parallel; });
      std::erase_if(all.options, [&](const MemoryOption& option) {
        return !may_regather(space_.bases_[base], option);
      });
    }
    return all;
  }

  [[nodiscard]] Counts counts_of(std::size_t base, const Strategy& mesh, const Candidates& all) {
    Counts n;
    const auto micro_batches = [&] { return lists_.micro_batches(space_.bases_[base], mesh.dp); };
    n.micro_batches = known_count(micro_batch_counts_, {base, mesh.dp}, micro_batches);
    n.cp_kinds = count(all.cp_kinds);
    n.splits = count(all.splits);
    n.shardings = count(all.shardings);
    const auto schedules = [&] { return schedule_choices(base, mesh.pp); };
    n.schedules = known_count(schedule_counts_, {base, mesh.pp}, schedules);
    n.options = count(all.options);
    return n;
  }

  void add_illegal(const std::map<std::string, std::int64_t>& reasons, std::int64_t each) {
    for (const auto& [reason, n] : reasons) space_.illegal_[reason] += n * each;
  }

  void add_legal_mesh(std::size_t base, const Strategy& s, const Candidates& all, Counts n) {
    Mesh mesh{base, s.tp, s.pp, s.cp, s.dp, 0, 0, 0, 0, 0};
    mesh.micro_batches = micro_batches(base, s);
    mesh.cp_kinds = cp_kinds(base, s, all.cp_kinds);
    mesh.splits = splits(base, s, all.splits);
    mesh.shardings = shardings(base, s, all.shardings);
    mesh.options = options(base, s, all.options);
    // Each illegal combination is counted once, under the first group of keys that breaks a rule.
    const auto rule_out = [&](const auto& list, std::int64_t& remaining) {
      const std::int64_t others = remaining == 0 ? 0 : n.product() / remaining;
      add_illegal(list.illegal, others);
      remaining = count(list.legal);
    };
    rule_out(space_.micro_batches_[mesh.micro_batches], n.micro_batches);
    rule_out(space_.cp_kinds_[mesh.cp_kinds], n.cp_kinds);
    rule_out(space_.splits_[mesh.splits], n.splits);
    rule_out(space_.shardings_[mesh.shardings], n.shardings);
    if (const auto [reason, pairs] = misplaced(mesh, s); pairs > 0) {
      add_illegal({{reason, pairs}}, n.pairs() == 0 ? 0 : n.product() / n.pairs());
      n.misplaced = pairs;
    }
    rule_out(space_.options_[mesh.options], n.options);
    for (const std::int64_t micro_batch : space_.micro_batches(mesh)) {
      const std::size_t list = schedules(base, s, micro_batch);
      add_illegal(space_.schedules_[list].illegal, n.cp_kinds * n.pairs() * n.options);
    }
    space_.meshes_.push_back(mesh);
  }

  // Splits of the experts that no rank order of some shardings allows: how many pairs, and why.
  [[nodiscard]] std::pair<std::string, std::int64_t> misplaced(const Mesh& mesh, Strategy s) const {
    std::pair<std::string, std::int64_t> result;
    for (const Split& split : space_.splits(mesh)) {
      s.sequence_parallel = split.sequence_parallel, s.ep = split.ep, s.etp = split.etp;
      for (const Sharding& sharding : space_.shardings(mesh)) {
        s.order = sharding.order;
        if (keeps_pipeline_ranks(s, model_)) continue;
        if (result.first.empty()) result.first = broken_rule(s);
        ++result.second;
      }
    }
    return result;
  }

  std::size_t micro_batches(std::size_t base, const Strategy& mesh) {
    return remember(known_micro_batches_, space_.micro_batches_, {base, mesh.dp}, [&] {
      const auto key = [&](std::int64_t n) {
        return lists_.key_of(Strategy{}, List::kMicroBatch, {mesh.dp, n});
      };
      const std::vector<std::int64_t> all = lists_.micro_batches(space_.bases_[base], mesh.dp);
      return judge(base, List::kMicroBatch, all, key, [&](std::int64_t n) {
        Strategy s = mesh;
        s.global_batch = space_.bases_[base].global_batch;
        s.micro_batch = n;
        return s;
      });
    });
  }

  std::size_t cp_kinds(std::size_t base, const Strategy& mesh, const std::vector<CpKind>& all) {
    return remember(known_cp_kinds_, space_.cp_kinds_, {base, mesh.tp, mesh.cp, all}, [&] {
      const auto key = [&](CpKind kind) {
        return lists_.key_of(mesh, List::kCpKind, {static_cast<std::int64_t>(kind)});
      };
      return judge(base, List::kCpKind, all, key, [&](CpKind kind) {
        Strategy s = mesh;
        s.cp_kind = kind;
        return s;
      });
    });
  }

  std::size_t splits(std::size_t base, const Strategy& mesh, const std::vector<Split>& all) {
    return remember(known_splits_, space_.splits_, {base, mesh.tp, mesh.cp, mesh.dp}, [&] {
      const auto key = [&](const Split& split) {
        return lists_.key_of(mesh, List::kSplit, SpaceLists::values_of(split));
      };
      return judge(base, List::kSplit, all, key, [&](const Split& split) {
        Strategy s = mesh;
        s.sequence_parallel = split.sequence_parallel;
        s.ep = split.ep, s.etp = split.etp;
        return s;
      });
    });
  }

  std::size_t shardings(std::size_t base, const Strategy& mesh, const std::vector<Sharding>& all) {
    return remember(known_shardings_, space_.shardings_, {base, mesh.tp, mesh.pp, mesh.cp}, [&] {
      const auto key = [&](const Sharding& sharding) {
        return lists_.key_of(mesh, List::kSharding, SpaceLists::values_of(sharding));
      };
      return judge(base, List::kSharding, all, key, [&](const Sharding& sharding) {
        Strategy s = mesh;
        s.zero = sharding.zero, s.zero_group = sharding.zero_group;
        return s;  // orders are judged together with splits
      });
    });
  }

  std::size_t options(std::size_t base, const Strategy& mesh,
                      const std::vector<MemoryOption>& all) {
    // Mostly the same for every mesh.
    const auto at = std::find(option_lists_.begin(), option_lists_.end(), all);
    const auto list = static_cast<std::int64_t>(at - option_lists_.begin());
    if (at == option_lists_.end()) option_lists_.push_back(all);
    return remember(known_options_, space_.options_, {base, mesh.pp, list}, [&] {
      const auto key = [&](const MemoryOption& option) {
        return lists_.key_of(mesh, List::kOption, SpaceLists::values_of(option));
      };
      return judge(base, List::kOption, all, key,
                   [&](const MemoryOption& option) { return with_option(mesh, option); });
    });
  }

  std::size_t schedules(std::size_t base, const Strategy& mesh, std::int64_t micro_batch) {
    const std::int64_t microbatches = space_.bases_[base].global_batch / (micro_batch * mesh.dp);
    return remember(space_.schedule_index_, space_.schedules_, {base, mesh.pp, microbatches}, [&] {
      const auto key = [&](const ScheduleChoice& choice) {
        return lists_.key_of(pipeline(base, mesh.pp), List::kSchedule,
                             {microbatches, static_cast<std::int64_t>(choice.schedule), choice.vp});
      };
      const std::vector<ScheduleChoice> all = schedule_choices(base, mesh.pp);
      return judge(base, List::kSchedule, all, key, [&](const ScheduleChoice& choice) {
        Strategy s = mesh;
        s.global_batch = s.dp * s.micro_batch * microbatches;
        s.schedule = choice.schedule, s.vp = choice.vp;
        s.stage_layers = some_layout(s);
        return s;
      });
    });
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const SpaceRequest& request_;
  SpaceMemo* memo_;
  bool counts_;  // what is illegal at once
  SpaceLists lists_;
  SearchSpace space_;
  std::vector<std::vector<MemoryOption>> option_lists_;
  std::map<CountKey, std::int64_t> micro_batch_counts_, schedule_counts_;
  std::map<std::tuple<std::size_t, std::int64_t>, std::size_t> known_micro_batches_;
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, std::size_t> known_options_;
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t, std::vector<CpKind>>, std::size_t>
      known_cp_kinds_;
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t, std::int64_t>, std::size_t>
      known_splits_, known_shardings_;
};

Result<SearchSpace> SearchSpace::make(const ModelSpec& m, const ClusterSpec& c,
                                      const SpaceRequest& request, SpaceMemo* memo) {
  return SpaceBuilder(m, c, request, memo).build();
}

Result<SearchSpace> SearchSpace::make_uncounted(const ModelSpec& m, const ClusterSpec& c,
                                                const SpaceRequest& request, SpaceMemo* memo) {
  return SpaceBuilder(m, c, request, memo, false).build();
}

void SearchSpace::count_illegal(const ModelSpec& m, const ClusterSpec& c,
                                const SpaceRequest& request, SpaceMemo* memo) {
  if (!uncounted_.empty()) SpaceBuilder(m, c, request, memo).count_illegal(*this);
}

SearchSpace SearchSpace::relisted(const ModelSpec& m, const ClusterSpec& c,
                                  const SpaceRequest& request, SpaceMemo* memo) const {
  return SpaceBuilder(m, c, request, memo).relisted(*this);
}

}  // namespace meshplan

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "space/space.hpp"

// A space with more limits, made of the one without: nothing is asked of rules and frameworks
// again.

namespace meshplan {
namespace {

// Keys of which a list's values do not depend on the limits of others.
constexpr std::array<std::string_view, 10> kNarrowing{
    "tp", "pp", "cp", "dp", "ep", "etp", "micro_batch", "sequence_parallel", "schedule", "vp"};

// Keys of the shardings and memory options, of which limits also decide what those lists are made
// of.
constexpr std::array<std::string_view, 4> kRelisting{"zero", "recompute", "offload.activations",
                                                     "offload.optimizer"};

// Whether values of one key keep the limits on it; each value is asked about once.
class Kept {
 public:
  using Set = void (*)(Strategy& s, std::int64_t value);

  Kept(const std::vector<Limit>& limits, std::string_view key, Set set) : set_(set) {
    for (const Limit& limit : limits) {
      if (limit.key == key) limits_.push_back(&limit);
    }
  }

  bool operator()(std::int64_t value) {
    if (limits_.empty()) return true;
    const auto known = std::find_if(known_.begin(), known_.end(),
                                    [&](const auto& each) { return each.first == value; });
    if (known != known_.end()) return known->second;
    Strategy s;
    set_(s, value);
    const bool kept = std::all_of(limits_.begin(), limits_.end(),
                                  [&](const Limit* limit) { return satisfies(s, *limit); });
    known_.emplace_back(value, kept);
    return kept;
  }

 private:
  Set set_;
  std::vector<const Limit*> limits_;
  std::vector<std::pair<std::int64_t, bool>> known_;
};

// Takes from every list what is not kept, and says which of them that leaves empty.
template <class T, class IsKept>
std::vector<bool> keep_in(std::vector<LegalList<T>>& lists, IsKept& is_kept) {
  std::vector<bool> emptied;
  for (LegalList<T>& list : lists) {
    const bool some = !list.legal.empty();
    std::erase_if(list.legal, [&](const T& value) { return !is_kept(value); });
    emptied.push_back(some && list.legal.empty());
  }
  return emptied;
}

template <std::size_t kSize>
bool are_of(const std::array<std::string_view, kSize>& keys, const std::vector<Limit>& limits) {
  return std::all_of(limits.begin(), limits.end(), [&](const Limit& limit) {
    const bool known = std::find(keys.begin(), keys.end(), limit.key) != keys.end();
    return known && limit.op != LimitOp::kFree;
  });
}

}  // namespace

bool SearchSpace::can_narrow(const std::vector<Limit>& limits) {
  return are_of(kNarrowing, limits);
}

bool SearchSpace::can_relist(const std::vector<Limit>& limits) {
  return are_of(kRelisting, limits);
}

SearchSpace SearchSpace::narrowed(const std::vector<Limit>& limits) const {
  Kept tp(limits, "tp", [](Strategy& s, std::int64_t n) { s.tp = n; });
  Kept pp(limits, "pp", [](Strategy& s, std::int64_t n) { s.pp = n; });
  Kept cp(limits, "cp", [](Strategy& s, std::int64_t n) { s.cp = n; });
  Kept dp(limits, "dp", [](Strategy& s, std::int64_t n) { s.dp = n; });
  Kept ep(limits, "ep", [](Strategy& s, std::int64_t n) { s.ep = n; });
  Kept etp(limits, "etp", [](Strategy& s, std::int64_t n) { s.etp = n; });
  Kept micro_batch(limits, "micro_batch", [](Strategy& s, std::int64_t n) { s.micro_batch = n; });
  Kept sequence(limits, "sequence_parallel",
                [](Strategy& s, std::int64_t on) { s.sequence_parallel = on != 0; });
  Kept schedule(limits, "schedule",
                [](Strategy& s, std::int64_t n) { s.schedule = static_cast<Schedule>(n); });
  Kept vp(limits, "vp", [](Strategy& s, std::int64_t n) { s.vp = n; });

  SearchSpace space = *this;
  const std::vector<bool> no_batch = keep_in(space.micro_batches_, micro_batch);
  const auto keeps_split = [&](const Split& split) {
    return sequence(split.sequence_parallel ? 1 : 0) && ep(split.ep) && etp(split.etp);
  };
  const std::vector<bool> no_split = keep_in(space.splits_, keeps_split);
  const auto keeps_choice = [&](const ScheduleChoice& choice) {
    return schedule(static_cast<std::int64_t>(choice.schedule)) && vp(choice.vp);
  };
  keep_in(space.schedules_, keeps_choice);
  std::erase_if(space.meshes_, [&](const Mesh& mesh) {
    return !tp(mesh.tp) || !pp(mesh.pp) || !cp(mesh.cp) || !dp(mesh.dp) ||
           no_batch[mesh.micro_batches] || no_split[mesh.splits];
  });
  space.illegal_.clear();
  space.count_legal();
  return space;
}

void SearchSpace::count_legal() {
  size_ = 0;
  for (const Mesh& mesh : meshes_) {
    std::int64_t all = 0;
    for (const std::int64_t n : micro_batches(mesh)) {
      all += static_cast<std::int64_t>(schedules(mesh, n).size());
    }
    for (const std::size_t n : {cp_kinds(mesh).size(), splits(mesh).size(), shardings(mesh).size(),
                                options(mesh).size()}) {
      all *= static_cast<std::int64_t>(n);
    }
    size_ += all;
  }
}

}  // namespace meshplan

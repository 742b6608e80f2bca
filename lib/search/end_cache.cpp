#include "search/end_cache.hpp"

namespace meshplan {
namespace {

constexpr std::size_t kPlaces = 1024;

std::int64_t number_of(const RankOrder& order) {
  std::int64_t number = 0;
  for (const Axis axis : order) number = number * 8 + static_cast<std::int64_t>(axis);
  return number;
}

}  // namespace

const RankEnd& EndCache::of(const Strategy& s, const StepEndGroups& groups,
                            const BlockParameters& p) {
  const Settings settings{s.precision, s.grad_dtype, s.optimizer_dtype, s.master_weights,
                          s.kernels};
  if (known_.empty() || settings != settings_) {
    settings_ = settings;
    known_.assign(kPlaces, Known{});
  }
  const Key key{
      s.tp,    s.pp,     s.cp, s.dp, s.ep, s.etp, s.zero, s.zero_group, number_of(s.order),
      p.dense, p.experts};
  Known& here = known_[IntegerKeyHash<11>()(key) % kPlaces];
  if (here.key != key) here = {key, rank_end(model_, cluster_, s, groups, p)};
  return here.end;
}

}  // namespace meshplan

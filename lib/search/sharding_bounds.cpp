#include "search/sharding_bounds.hpp"

#include <algorithm>
#include <utility>

#include "base/units.hpp"
#include "cost/data_parallel.hpp"
#include "partition/layer_reductions.hpp"
#include "schedule/traits.hpp"
#include "search/bounds.hpp"
#include "search/late_bound.hpp"
#include "spec/axes.hpp"

namespace meshplan {

ShardingBounds::ShardingBounds(SearchContext& x, Strategy split, std::uint32_t mesh,
                               const BlockCosts& blocks, std::vector<std::uint32_t> shardings)
    : x_(x),
      mesh_(mesh),
      blocks_(blocks),
      split_(std::move(split)),
      shardings_(std::move(shardings)) {
  const std::vector<Sharding>& all = x.space.shardings(x.space.meshes()[mesh]);
  std::erase_if(shardings_, [&](std::uint32_t i) {
    split_.order = all[i].order;
    return !keeps_pipeline_ranks(split_, x.model);
  });
  // Those whose traffic is none of the layers' go first.
  std::stable_partition(shardings_.begin(), shardings_.end(),
                        [&](std::uint32_t i) { return all[i].zero < 2; });
  times_.resize(shardings_.size());
  const BlockCounts counts = x.prefix(split_).with_ends(x.model);
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const double n = real(counts[k]);
    forward_ += n * blocks[k].forward.total().si();
    backward_ += n * (blocks[k].backward_input.total() + blocks[k].backward_weight.total()).si();
  }
}

const WholeReductions& reductions_of(SearchContext& x, const Strategy& s, std::uint32_t mesh,
                                     std::uint32_t sharding, const BlockCosts& blocks) {
  return x.reductions.get({mesh, s.ep, s.etp, sharding}, [&] {
    return whole_reductions(x.model, x.cluster, s, blocks, x.prefix(s),
                            step_end_groups(x.model, x.cluster, s));
  });
}

double late_step(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                 const WholeReductions& all) {
  if (traits_of(s.schedule).copies() > 1) return 0;
  return kRoundedDown * late_bound(blocks, x.prefix(s).with_ends(x.model),
                                   real(num_microbatches(s)), real(s.pp), all);
}

const ShardingBounds::Times& ShardingBounds::times(std::size_t i) {
  if (times_[i]) return *times_[i];
  Times t;
  const Mesh& mesh = x_.space.meshes()[mesh_];
  const Sharding& sharding = x_.space.shardings(mesh)[shardings_[i]];
  split_.zero = sharding.zero, split_.zero_group = sharding.zero_group;
  split_.order = sharding.order;
  // What waits for the last pass differs from schedule to schedule.
  const bool alike = !split_.runtime.defer_embedding_wgrad_compute;
  t.work = split_.zero >= 2 && alike ? sharded_work_bound(x_, split_, mesh.base)
                                     : work_bound(x_, split_, blocks_);
  if (split_.zero < 3) {
    const WholeReductions& whole = reductions_of(x_, split_, mesh_, shardings_[i], blocks_);
    const double share = hidden_share(x_.cluster);
    t.gradients = whole.gradients, t.weights = whole.weights;
    if (reduces_beside(split_)) t.hidden_backward = share * backward_;
    if (gathers_beside(split_)) t.hidden_forward = share * forward_;
    t.late = late_step(x_, split_, blocks_, whole);
  }
  t.end = end_bound(x_, split_, blocks_);
  split_.offload.optimizer = true;
  t.end = std::min(t.end, end_bound(x_, split_, blocks_));
  split_.offload.optimizer = false;
  return times_[i].emplace(t);
}

double ShardingBounds::least(const Strategy& s, double pipeline) {
  double least = kNoSharding;
  const bool one_copy = traits_of(s.schedule).copies() == 1;
  const double beside = microbatches_beside(s);
  const auto shown = [&](double whole, double hidden) {
    return std::max(0.0, whole - hidden * beside) * kRoundedDown / real(s.pp);
  };
  // More microbatches beside a reduction than there are would count a pass as less than nothing.
  const double share = hidden_share(x_.cluster);
  const bool counts = one_copy && share * beside <= real(num_microbatches(s));
  for (std::size_t i = 0; i < shardings_.size(); ++i) {
    const Times& t = times(i);
    double work = t.work;
    if (counts) {
      work += shown(t.gradients, t.hidden_backward) + shown(t.weights, t.hidden_forward);
    }
    if (one_copy) work = std::max(work, t.late);
    least = std::min(least, std::max(pipeline, work) + t.end);
    if (least <= pipeline) break;
  }
  return least;
}

}  // namespace meshplan

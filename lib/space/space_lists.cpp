// What a space says of itself and of its meshes.
#include <algorithm>

#include "space/space.hpp"

namespace meshplan {
namespace {

std::vector<RankOrder> bounding_orders_of(const std::vector<Sharding>& shardings) {
  std::vector<RankOrder> all;
  for (const Sharding& s : shardings) {
    const RankOrder order = s.order == kPipelineInside ? kDefaultOrder : s.order;
    if (std::find(all.begin(), all.end(), order) == all.end()) all.push_back(order);
  }
  if (all.empty()) all.push_back(kDefaultOrder);
  return all;
}

}  // namespace

void SearchSpace::add_bounding_orders() {
  bounding_orders_.clear();
  for (const LegalList<Sharding>& list : shardings_) {
    bounding_orders_.push_back(bounding_orders_of(list.legal));
  }
}

std::string SearchSpace::description() const {
  std::string text = "degrees that divide the GPUs, every micro-batch, ";
  switch (divisions_.partition) {
    case PartitionRule::kAny:
      return text + "layers divided by dynamic programming";
    case PartitionRule::kEven:
      return text + "even stages";
    case PartitionRule::kGiven:
      return text + "stages as given";
  }
  return text;
}

const std::vector<std::int64_t>& SearchSpace::micro_batches(const Mesh& mesh) const {
  return micro_batches_[mesh.micro_batches].legal;
}
const std::vector<CpKind>& SearchSpace::cp_kinds(const Mesh& mesh) const {
  return cp_kinds_[mesh.cp_kinds].legal;
}
const std::vector<Split>& SearchSpace::splits(const Mesh& mesh) const {
  return splits_[mesh.splits].legal;
}
const std::vector<Sharding>& SearchSpace::shardings(const Mesh& mesh) const {
  return shardings_[mesh.shardings].legal;
}
const std::vector<RankOrder>& SearchSpace::bounding_orders(const Mesh& mesh) const {
  return bounding_orders_[mesh.shardings];
}
const std::vector<MemoryOption>& SearchSpace::options(const Mesh& mesh) const {
  return options_[mesh.options].legal;
}
const std::vector<ScheduleChoice>& SearchSpace::schedules(const Mesh& mesh,
                                                          std::int64_t micro_batch) const {
  const std::int64_t microbatches = bases_[mesh.base].global_batch / (micro_batch * mesh.dp);
  return schedules_[schedule_index_.at({mesh.base, mesh.pp, microbatches})].legal;
}

}  // namespace meshplan

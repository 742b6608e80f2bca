#pragma once
// The values of each group of keys before any rule of legality: what divides what, what the space's
// framework can be told, and what the request's limits leave.
#include <cstdint>
#include <string_view>
#include <vector>

#include "frameworks/target.hpp"
#include "space/space.hpp"
#include "space/target.hpp"

namespace meshplan {

struct MeshSizes {
  std::int64_t tp = 1, pp = 1, cp = 1;
};

class SpaceLists {
 public:
  SpaceLists(const ModelSpec& m, const ClusterSpec& c, const SpaceRequest& request);

  // tp * pp * cp that divide the devices. `base` has one device, as `mesh` below has those of a
  // mesh and keys that break no rule.
  [[nodiscard]] std::vector<MeshSizes> meshes(const Strategy& base) const;
  // Divisors of global_batch / dp; 1 where dp does not divide it.
  [[nodiscard]] std::vector<std::int64_t> micro_batches(const Strategy& base,
                                                        std::int64_t dp) const;
  [[nodiscard]] std::vector<CpKind> cp_kinds(const Strategy& mesh) const;
  [[nodiscard]] std::vector<Split> splits(const Strategy& mesh) const;
  // zero, shard group (all ranks, or those in one node) and rank order; where there is nothing to
  // shard or the orders are the same, one of them.
  [[nodiscard]] std::vector<Sharding> shardings(const Strategy& mesh) const;
  [[nodiscard]] std::vector<ScheduleChoice> schedules(const Strategy& mesh) const;
  [[nodiscard]] std::vector<MemoryOption> options(const Strategy& mesh) const;
  [[nodiscard]] DivisionRules divisions() const;

 private:
  // Whether `s` keeps every limit on these keys, and the framework does not refuse them on its
  // mesh.
  [[nodiscard]] bool admits(const Strategy& s, std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] bool keeps(const Strategy& s, std::initializer_list<std::string_view> keys) const;
  // Whether the request frees the key: of it every value is in the space.
  [[nodiscard]] bool freed(std::string_view key) const;
  // The values that the request states for a key; empty if it leaves the key open.
  [[nodiscard]] std::vector<KeyValue> stated(std::string_view key) const;
  [[nodiscard]] std::vector<RankOrder> orders(const Strategy& mesh) const;
  [[nodiscard]] std::vector<std::int64_t> zero_groups(const Strategy& mesh) const;
  [[nodiscard]] std::vector<RecomputeModules> listed_modules(const Strategy& mesh) const;
  void add_options(std::vector<MemoryOption>& all, const Strategy& mesh, bool activations,
                   bool optimizer) const;

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const SpaceRequest& request_;
  SpaceTarget target_;
  TargetLayers layers_;  // that the space's framework can be told
};

[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t n);  // increasing

}  // namespace meshplan

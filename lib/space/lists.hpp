#pragma once
// The values of each group of keys before any rule of legality: what divides what, what the space's
// framework can be told, and what the request's limits leave.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "frameworks/target.hpp"
#include "space/space.hpp"
#include "space/space_memo.hpp"
#include "space/target.hpp"

namespace meshplan {

struct MeshSizes {
  std::int64_t tp = 1, pp = 1, cp = 1;
};

class SpaceLists {
 public:
  // `memo`: of this model and cluster; it changes no answer.
  SpaceLists(const ModelSpec& m, const ClusterSpec& c, const SpaceRequest& request,
             SpaceMemo* memo = nullptr);

  enum class List : std::uint8_t {
    kMesh,
    kCpKind,
    kSplit,
    kOrder,
    kSharding,
    kSchedule,
    kOffload,
    kRecompute,
    kOption,
    kMicroBatch,
    kCount
  };
  // What tells those that a list makes of one mesh apart.
  using Values = std::array<std::int64_t, 3>;
  [[nodiscard]] static Values values_of(const Split& split);
  [[nodiscard]] static Values values_of(const Sharding& sharding);
  [[nodiscard]] static Values values_of(const ScheduleChoice& choice);
  [[nodiscard]] static Values values_of(const MemoryOption& option);
  // By which a memo knows the value of a list on a mesh.
  [[nodiscard]] IntegerKey<8> key_of(const Strategy& mesh, List list, const Values& values) const;

  // By which number the memo knows the strategies that the functions below are asked about.
  void set_base(std::int64_t number) { base_ = number; }

  // Whether the memo keeps what is asked from now on.
  void remember(bool on) { remembers_ = on; }

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
  // Whether `s` keeps every limit on the list's keys, and the framework does not refuse them on its
  // mesh.
  [[nodiscard]] bool admits(const Strategy& s, List list, const Values& values) const;
  [[nodiscard]] bool keeps(const Strategy& s, List list) const;
  [[nodiscard]] bool is_refused(const Strategy& s, std::span<const std::string_view> keys) const;
  static std::span<const std::string_view> keys_of(List list);
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
  SpaceMemo* memo_;
  bool remembers_ = true;
  std::int64_t base_ = 0;
  // Of the request, those on each list's keys.
  std::array<std::vector<const Limit*>, static_cast<std::size_t>(List::kCount)> limits_;
};

[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t n);  // increasing

}  // namespace meshplan

#pragma once
// The strategies that a search looks at: every combination of the keys that the request leaves
// open, and which of them break a rule. The rules themselves are lib/spec's; the space only asks
// them, one group of keys at a time with everything else at a value that breaks none.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "space/base_copies.hpp"
#include "space/partial_strategy.hpp"
#include "space/request.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

// Keys of the mesh; the lists below hold what is legal beside them.
struct Mesh {
  std::size_t base = 0;
  std::int64_t tp = 1, pp = 1, cp = 1, dp = 1;
  std::size_t micro_batches = 0;  // indices into the lists of SearchSpace
  std::size_t cp_kinds = 0;
  std::size_t splits = 0;
  std::size_t shardings = 0;
  std::size_t options = 0;
};

struct Split {
  bool sequence_parallel = false;
  std::int64_t ep = 1, etp = 1;
  bool operator==(const Split&) const = default;
};

struct Sharding {
  int zero = 0;
  std::int64_t zero_group = 0;
  RankOrder order = kDefaultOrder;
  bool operator==(const Sharding&) const = default;
};

// The default order, but pipeline ranks closer together than data-parallel ones.
inline constexpr RankOrder kPipelineInside{Axis::kTp, Axis::kCp, Axis::kEp, Axis::kPp, Axis::kDp};

struct ScheduleChoice {
  Schedule schedule = kPlainSchedule;
  std::int64_t vp = 1;
  bool operator==(const ScheduleChoice&) const = default;
};

// Legal values, and how many were ruled out by which rule.
template <class T>
struct LegalList {
  std::vector<T> legal;
  std::map<std::string, std::int64_t> illegal;
  [[nodiscard]] std::int64_t all() const {
    auto n = static_cast<std::int64_t>(legal.size());
    for (const auto& [reason, count] : illegal) n += count;
    return n;
  }
};

class SpaceMemo;

class SearchSpace {
 public:
  // Fails if the model, the cluster, or a key that no choice of the space can mend is invalid.
  // `memo`: of this model and cluster; it changes nothing but the time.
  static Result<SearchSpace> make(const ModelSpec& m, const ClusterSpec& c,
                                  const SpaceRequest& request, SpaceMemo* memo = nullptr);

  // The same without the strategies of illegal meshes, which take longer to count than a first plan
  // to be found. count_illegal(), of the same arguments, adds them to size() and illegal().
  static Result<SearchSpace> make_uncounted(const ModelSpec& m, const ClusterSpec& c,
                                            const SpaceRequest& request, SpaceMemo* memo = nullptr);
  void count_illegal(const ModelSpec& m, const ClusterSpec& c, const SpaceRequest& request,
                     SpaceMemo* memo = nullptr);

  // What make() gives for plans alone with these limits too, of a space without limits on their
  // keys or with wider ones: the same legal values in the same order, and nothing illegal counted.
  // Only of keys that can_narrow() knows: limits on others also decide what lists are made of.
  [[nodiscard]] SearchSpace narrowed(const std::vector<Limit>& limits) const;
  [[nodiscard]] static bool can_narrow(const std::vector<Limit>& limits);

  // The same for `request`, which has limits that this space was made without, all on keys of the
  // shardings or of the memory options (can_relist()): only those lists are made anew.
  [[nodiscard]] SearchSpace relisted(const ModelSpec& m, const ClusterSpec& c,
                                     const SpaceRequest& request, SpaceMemo* memo = nullptr) const;
  [[nodiscard]] static bool can_relist(const std::vector<Limit>& limits);

  [[nodiscard]] const std::vector<Strategy>& bases() const { return bases_; }
  [[nodiscard]] const std::vector<Mesh>& meshes() const { return meshes_; }  // legal ones
  [[nodiscard]] const std::vector<std::int64_t>& micro_batches(const Mesh& mesh) const;
  [[nodiscard]] const std::vector<CpKind>& cp_kinds(const Mesh& mesh) const;
  [[nodiscard]] const std::vector<Split>& splits(const Mesh& mesh) const;
  [[nodiscard]] const std::vector<Sharding>& shardings(const Mesh& mesh) const;
  // Rank orders of which one costs the layers no more than any order of the shardings does. The
  // default one stands for those that only bring pipeline ranks closer together.
  [[nodiscard]] const std::vector<RankOrder>& bounding_orders(const Mesh& mesh) const;
  [[nodiscard]] const std::vector<ScheduleChoice>& schedules(const Mesh& mesh,
                                                             std::int64_t micro_batch) const;
  [[nodiscard]] const std::vector<MemoryOption>& options(const Mesh& mesh) const;
  [[nodiscard]] const DivisionRules& divisions() const { return divisions_; }

  [[nodiscard]] std::int64_t size() const { return size_; }  // partitions not counted
  [[nodiscard]] const std::map<std::string, std::int64_t>& illegal() const { return illegal_; }
  [[nodiscard]] std::string description() const;

 private:
  SearchSpace() = default;
  friend class SpaceBuilder;
  void count_legal();          // sets size_
  void add_bounding_orders();  // of the lists of shardings

  struct IllegalMesh {
    std::size_t base = 0;
    std::int64_t tp = 1, pp = 1, cp = 1;
  };

  std::vector<Strategy> bases_;
  std::vector<BaseCopy> copies_;  // of each base
  std::vector<Mesh> meshes_;
  std::vector<IllegalMesh> uncounted_;
  std::vector<LegalList<std::int64_t>> micro_batches_;
  std::vector<LegalList<CpKind>> cp_kinds_;
  std::vector<LegalList<Split>> splits_;
  std::vector<LegalList<Sharding>> shardings_;
  std::vector<std::vector<RankOrder>> bounding_orders_;  // indexed like shardings_
  std::vector<LegalList<ScheduleChoice>> schedules_;
  // Per base, pp and number of microbatches.
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, std::size_t> schedule_index_;
  std::vector<LegalList<MemoryOption>> options_;
  DivisionRules divisions_;
  std::int64_t size_ = 0;
  std::map<std::string, std::int64_t> illegal_;
  Space space_ = Space::kFull;
};

}  // namespace meshplan

#pragma once
// What searches for one model on one cluster work out and share: costs of blocks and layouts of
// groups, by the keys that they depend on, whatever space, objective or limits a search has.
#include <cstddef>
#include <deque>
#include <mutex>

#include "cost/placement.hpp"
#include "partition/in_flight_cache.hpp"
#include "partition/least_ends.hpp"
#include "partition/step_models.hpp"
#include "search/block_cache.hpp"
#include "search/part_times.hpp"
#include "search/pipeline_bounds.hpp"
#include "search/shape_ids.hpp"
#include "space/space_memo.hpp"

namespace meshplan {

// Shared by threads. Model and cluster must live as long.
class SearchCaches {
 public:
  const ModelSpec& model;
  const ClusterSpec& cluster;

 private:
  ShapeIds shapes_;

 public:
  SpaceMemo spaces;
  PartTimes parts;
  BlockCache blocks;
  PipelineBounds pipelines;
  InFlightCache in_flight;
  StepModelPool models;
  LeastEndsMemo ends;

  SearchCaches(const ModelSpec& m, const ClusterSpec& c);

  // A number for the keys that a search's strategies all have, or all of one base: the same for the
  // same keys. The functions below and members ask for it as `base`.
  [[nodiscard]] std::size_t base_number(const Strategy& base);
  // Buffers of a rank's communicators: many more shardings are asked for these than are costed.
  [[nodiscard]] Bytes communicators(const Strategy& s, std::size_t base);
  // The layers as `s` runs them. Stays good.
  [[nodiscard]] const LayerPrefix& prefix(const Strategy& s) const;
  // Where the ranks of `s` sit. Stays good.
  [[nodiscard]] const Placement& placement(const Strategy& s, std::size_t base);

 private:
  std::mutex mutex_;
  std::deque<Strategy> bases_;
  LayerPrefix alike_;  // where no layers are left in bf16
  mutable SharedMemo<2, LayerPrefix> prefixes_;
  SharedMemo<9, Bytes> communicators_;
  SharedMemo<9, Placement> placements_;
};

}  // namespace meshplan

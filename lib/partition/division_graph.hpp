#pragma once
// All divisions of a pipeline's layers as paths through a graph, for bounds that are sums over the
// stages.
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "partition/stages.hpp"
#include "schedule/critical_path.hpp"

namespace meshplan {

// Nodes are the states that a division may pass on its way, edges the shares that its stages may
// take; every edge is on the way to a whole division, until some are left out.
class DivisionGraph {
 public:
  // A share of a stage, as the first of the edges that take it does.
  struct Taken {
    int stage = 0;
    StageAssignment share;
  };
  struct Edge {
    StageMove move;
    std::int32_t to = 0;     // node
    std::int32_t taken = 0;  // of shares(): the same for edges whose stages hold the same
    std::int32_t state = 0;  // of the layout: where the stage begins
  };

  // Whether a stage that begins at the state may take the move.
  using Keeps = std::function<bool(int stage, int state, const StageMove& move)>;

  // Divisions whose stages take `most` or less. `shape`: of the pipeline.
  DivisionGraph(const Stages& stages, const PipelineShape& shape, std::int64_t most,
                const Keeps& keeps = {});

  [[nodiscard]] std::int64_t num_stages() const { return stages_; }
  [[nodiscard]] std::int64_t num_ranks() const { return ranks_; }
  [[nodiscard]] bool empty() const { return edges_.empty(); }
  // Leaves out the divisions that go over an edge which is marked, by place in edges(). An edge may
  // lead nowhere after that. False where no division is left.
  bool leave_out(const std::vector<char>& marked);
  [[nodiscard]] std::int32_t num_nodes() const { return static_cast<std::int32_t>(ends_.size()); }
  [[nodiscard]] std::int32_t goal() const { return num_nodes() - 1; }  // the first node is 0
  [[nodiscard]] std::span<const Edge> edges(std::int32_t node) const;
  [[nodiscard]] std::span<const Edge> edges() const { return edges_; }  // of all nodes
  [[nodiscard]] const std::vector<Taken>& shares() const { return taken_; }
  // Times of one microbatch on each chunk of a share, by depth.
  [[nodiscard]] std::span<const ChunkTime> times(std::size_t taken) const {
    return std::span(times_).subspan(taken * chunks_, chunks_);
  }

  // Seconds of a chain on each share.
  [[nodiscard]] std::vector<double> seconds_of(const CriticalPath& path) const;
  // Least sum of costs by share from each node to the goal.
  [[nodiscard]] std::vector<double> least_to_go(const std::vector<double>& cost) const;
  // Least sum over the divisions that hold each share; infinite where there is none.
  [[nodiscard]] std::vector<double> least_with(const std::vector<double>& cost) const;
  // Of each division the largest cost of a share: the least of all divisions.
  [[nodiscard]] double min_bottleneck(const std::vector<double>& cost) const;
  // The division of the least sum.
  [[nodiscard]] std::vector<Edge> shortest(const std::vector<double>& cost,
                                           const std::vector<double>& to_go) const;

 private:
  PipelineShape shape_;
  std::int64_t stages_, ranks_;
  std::size_t chunks_ = 0;         // of a stage
  std::vector<Edge> edges_;        // by node
  std::vector<std::size_t> ends_;  // of each node's edges
  std::vector<Taken> taken_;
  std::vector<ChunkTime> times_;
};

[[nodiscard]] Division division_of(std::span<const DivisionGraph::Edge> path);

}  // namespace meshplan

#include "partition/division_graph.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/units.hpp"
#include "schedule/chunk_map.hpp"

namespace meshplan {
namespace {

constexpr double kNoWay = std::numeric_limits<double>::infinity();

struct Layer {  // of one stage
  std::vector<std::int32_t> states;
  std::vector<std::vector<StageMove>> moves;  // by state
  std::vector<std::int32_t> node;             // by state of the table; -1: no way through it
};

// Stage by stage all states that can be reached, then from the back those that lead to the goal.
std::vector<Layer> layers_of(const Stages& stages, std::int64_t most,
                             const DivisionGraph::Keeps& keeps) {
  const auto n = index(stages.num_stages()), states = index(stages.num_states());
  std::vector<Layer> layers(n + 1);
  for (Layer& layer : layers) layer.node.assign(states, -1);
  layers.front().states = {stages.start()};
  for (std::size_t r = 0; r < n; ++r) {
    std::vector<char> seen(states, 0);
    for (const std::int32_t state : layers[r].states) {
      std::vector<StageMove>& moves = layers[r].moves.emplace_back();
      stages.moves(static_cast<int>(r), state, most, [&](const StageMove& move) {
        if (keeps && !keeps(static_cast<int>(r), state, move)) return;
        moves.push_back(move);
        if (!seen[index(move.to)]) layers[r + 1].states.push_back(move.to);
        seen[index(move.to)] = 1;
      });
    }
  }
  for (const std::int32_t state : layers[n].states) {
    if (stages.is_goal(state)) layers[n].node[index(state)] = 0;
  }
  for (std::size_t r = n; r-- > 0;) {
    for (std::size_t i = 0; i < layers[r].states.size(); ++i) {
      std::vector<StageMove>& moves = layers[r].moves[i];
      std::erase_if(moves, [&](const StageMove& m) { return layers[r + 1].node[index(m.to)] < 0; });
      if (!moves.empty()) layers[r].node[index(layers[r].states[i])] = 0;
    }
  }
  return layers;
}

}  // namespace

DivisionGraph::DivisionGraph(const Stages& stages, const PipelineShape& shape, std::int64_t most,
                             const Keeps& keeps)
    : shape_(shape),
      stages_(stages.num_stages()),
      ranks_(stages.layout().is_bidirectional() ? 2 * stages_ : stages_) {
  std::vector<Layer> layers = layers_of(stages, most, keeps);
  const std::size_t n = layers.size() - 1;
  if (layers.front().node[index(stages.start())] < 0) return;
  std::int32_t nodes = 0;
  for (std::size_t r = 0; r < n; ++r) {
    for (const std::int32_t state : layers[r].states) {
      if (layers[r].node[index(state)] >= 0) layers[r].node[index(state)] = nodes++;
    }
  }
  for (std::int32_t& node : layers[n].node) node = node < 0 ? node : nodes;  // all the same goal
  std::size_t all = 0;
  for (const Layer& layer : layers) {
    for (const std::vector<StageMove>& moves : layer.moves) all += moves.size();
  }
  edges_.reserve(all);
  std::unordered_map<std::size_t, std::int32_t> known;  // by slot
  std::vector<ChunkTime> times;
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t i = 0; i < layers[r].states.size(); ++i) {
      const std::int32_t state = layers[r].states[i];
      if (layers[r].node[index(state)] < 0) continue;
      for (const StageMove& move : layers[r].moves[i]) {
        const int stage = static_cast<int>(r);
        const StageAssignment share{stages.layout().place(state), move.first, move.second};
        const auto [at, is_new] = known.try_emplace(stages.layout().slot(stage, share),
                                                    static_cast<std::int32_t>(taken_.size()));
        if (is_new) {
          stages.chunk_times(stage, share, times);
          taken_.push_back({stage, share});
          times_.insert(times_.end(), times.begin(), times.end());
          chunks_ = times.size();
        }
        edges_.push_back({move, layers[r + 1].node[index(move.to)], at->second, state});
      }
      ends_.push_back(edges_.size());
      layers[r].moves[i] = {};  // may be many
    }
  }
  ends_.push_back(edges_.size());  // of the goal: none
}

bool DivisionGraph::leave_out(const std::vector<char>& marked) {
  std::vector<Edge> kept;
  kept.reserve(edges_.size());
  std::size_t at = 0;
  for (std::size_t& end : ends_) {
    for (; at < end; ++at) {
      if (marked[at] == 0) kept.push_back(edges_[at]);
    }
    end = kept.size();
  }
  edges_ = std::move(kept);
  return least_to_go(std::vector<double>(taken_.size(), 0.0)).front() < kNoWay;
}

std::span<const DivisionGraph::Edge> DivisionGraph::edges(std::int32_t node) const {
  const std::size_t begin = node == 0 ? 0 : ends_[index(node) - 1];
  return std::span(edges_).subspan(begin, ends_[index(node)] - begin);
}

std::vector<double> DivisionGraph::seconds_of(const CriticalPath& path) const {
  std::vector<double> seconds;
  seconds.reserve(taken_.size());
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    const RankChunks chunks = chunks_on_rank(shape_, taken_[i].stage);
    double sum = 0;
    for (std::size_t k = 0; k < chunks_; ++k) {
      sum += path.seconds(chunks[static_cast<std::int64_t>(k)], times(i)[k]);
    }
    seconds.push_back(sum);
  }
  return seconds;
}

std::vector<double> DivisionGraph::least_to_go(const std::vector<double>& cost) const {
  std::vector<double> to_go(index(num_nodes()), kNoWay);
  to_go.back() = 0;
  for (std::int32_t node = goal(); node-- > 0;) {
    double& least = to_go[index(node)];
    for (const Edge& e : edges(node)) {
      least = std::min(least, cost[index(e.taken)] + to_go[index(e.to)]);
    }
  }
  return to_go;
}

std::vector<double> DivisionGraph::least_with(const std::vector<double>& cost) const {
  const std::vector<double> to_go = least_to_go(cost);
  std::vector<double> so_far(to_go.size(), kNoWay);
  std::vector<double> least(taken_.size(), kNoWay);
  so_far.front() = 0;
  for (std::int32_t node = 0; node < goal(); ++node) {
    for (const Edge& e : edges(node)) {
      const double until = so_far[index(node)] + cost[index(e.taken)];
      so_far[index(e.to)] = std::min(so_far[index(e.to)], until);
      least[index(e.taken)] = std::min(least[index(e.taken)], until + to_go[index(e.to)]);
    }
  }
  return least;
}

double DivisionGraph::min_bottleneck(const std::vector<double>& cost) const {
  std::vector<double> to_go(index(num_nodes()), kNoWay);
  to_go.back() = 0;
  for (std::int32_t node = goal(); node-- > 0;) {
    double& least = to_go[index(node)];
    for (const Edge& e : edges(node)) {
      least = std::min(least, std::max(cost[index(e.taken)], to_go[index(e.to)]));
    }
  }
  return to_go.front();
}

std::vector<DivisionGraph::Edge> DivisionGraph::shortest(const std::vector<double>& cost,
                                                         const std::vector<double>& to_go) const {
  std::vector<Edge> path;
  for (std::int32_t node = 0; node != goal(); node = path.back().to) {
    const std::span<const Edge> all = edges(node);
    path.push_back(*std::min_element(all.begin(), all.end(), [&](const Edge& a, const Edge& b) {
      return cost[index(a.taken)] + to_go[index(a.to)] < cost[index(b.taken)] + to_go[index(b.to)];
    }));
  }
  return path;
}

Division division_of(std::span<const DivisionGraph::Edge> path) {
  Division division;
  for (const DivisionGraph::Edge& e : path) {
    division.stages.push_back(e.move);
    division.sum += e.move.time;
    division.largest = std::max(division.largest, e.move.time);
  }
  return division;
}

}  // namespace meshplan

#pragma once
// What comes below a node of the search tree, each with bounds that nothing below it undercuts.
#include <cstdint>
#include <limits>
#include <vector>

#include "search/candidate.hpp"
#include "search/judged_options.hpp"
#include "search/node.hpp"
#include "search/sharding_bounds.hpp"

namespace meshplan {

// The value of what no plan is below.
inline constexpr double kNothingFound = std::numeric_limits<double>::infinity();

// A first pass over usual strategies alone finds good plans soon, so that the second one never
// keeps nodes that cannot compete.
enum class Breadth { kUsual, kAll };

// Works on one node at a time and changes nothing but what the context remembers, so that threads
// may share it.
class NodeExpander {
 public:
  NodeExpander(SearchContext& x, Breadth breadth) : x_(x), breadth_(breadth) {}

  [[nodiscard]] std::vector<Node> roots() const;
  // Nothing that scores above `limit` is wanted now. Children above `ahead` (at least as much) are
  // not made; those in between are for a later limit, as Expansion says of what is left out.
  [[nodiscard]] Expansion expand(const Node& node, double limit, double ahead) const;

  [[nodiscard]] PartialStrategy choice(const Node& node) const {
    return partial_of(x_.space, node);
  }

  // Which shardings of a schedule are judged together: the number of a ZeRO stage.
  [[nodiscard]] int kind_of_sharding(const Node& leaf) const;
  // [F-SEARCH-13] Whether no division lets a step of the leaf's schedule take `limit` or less, with
  // whatever sharding of the leaf's kind, as far as one effort for all of them says.
  [[nodiscard]] bool shardings_take_longer(Node leaf, double limit, std::int64_t& effort,
                                           KnownChains& chains) const;

 private:
  [[nodiscard]] bool by_time() const { return x_.objective != Objective::kMemory; }
  // Whether nothing is counted: what a first pass rules out a second one counts.
  [[nodiscard]] bool plans_only() const { return x_.plans_only() || breadth_ == Breadth::kUsual; }
  [[nodiscard]] Strategy strategy(const Node& node) const;
  [[nodiscard]] double least_weights(std::uint32_t mesh) const;

  [[nodiscard]] bool all() const { return breadth_ == Breadth::kAll; }

  void expand_mesh(const Node& node, double limit, Expansion& expansion) const;
  void expand_split(const Node& node, double limit, double ahead, Expansion& expansion) const;
  void expand_schedule(const Node& node, double limit, Expansion& expansion) const;

  [[nodiscard]] ShardingBounds sharding_bounds(const Node& node, const BlockCosts& blocks) const;
  [[nodiscard]] bool judges_together(const Mesh& mesh, double limit) const;
  [[nodiscard]] std::vector<const BlockCosts*> listed_blocks(const Node& node) const;
  [[nodiscard]] double later_than_limit(const Node& node, const BlockCosts& blocks,
                                        double limit) const;
  bool bound_sharding(Node& node, const BlockCosts& blocks, double limit,
                      Expansion& expansion) const;
  [[nodiscard]] Bytes least_communicators(const Node& node) const;
  [[nodiscard]] Bytes least_states(const Node& node) const;
  [[nodiscard]] Strategy most_sharded(const Node& node, bool on_host) const;
  [[nodiscard]] Bytes least_memory(const Node& node, const BlockCosts& blocks,
                                   Bytes communicators) const;
  [[nodiscard]] double layers_bound(Strategy s, const Mesh& mesh) const;
  [[nodiscard]] const BlockCosts& least_blocks(const Node& node, const RankOrder& order,
                                               RecomputeModules modules = {}) const;
  [[nodiscard]] JudgedOptions judged_options(const Node& node, const RankOrder& order,
                                             Bytes communicators) const;
  bool fits_somehow(const Node& node, Expansion& expansion) const;
  bool fits_sharded(Node& node, const Mesh& mesh, const BlockCosts& blocks,
                    Expansion& expansion) const;
  [[nodiscard]] std::int64_t placed_shardings(const Node& node) const;
  [[nodiscard]] bool judges_options_together(const Mesh& mesh) const;
  [[nodiscard]] bool may_offload_activations(const Mesh& mesh) const;
  void count_out(const Mesh& mesh, std::int64_t shardings, bool states, Examined& examined) const;
  [[nodiscard]] std::vector<MemoryOption> options_within(const Node& leaf, double limit) const;
  [[nodiscard]] bool takes_longer_alone(const Node& node, double limit) const;
  [[nodiscard]] double least_end(const Node& node, const BlockCosts& blocks, int zero) const;
  void drop_too_slow(const Node& node, const RankOrder& order, double limit, int zero,
                     std::vector<Node>& children, std::int64_t& effort) const;

  SearchContext& x_;
  Breadth breadth_;
};

}  // namespace meshplan

#pragma once
// Lower bounds on the time of many divisions at once, each from the run of one of them.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "partition/division_graph.hpp"

namespace meshplan {

inline constexpr double kNoDivision = std::numeric_limits<double>::infinity();  // as a time

// Some of a graph's divisions: those that take no share which is closed.
struct DivisionBranch {
  std::vector<char> closed;     // by share
  std::vector<double> weights;  // of the chains, in the mean that bounds it best so far
  std::vector<std::size_t>
      paths;                // of all that took least under some mean, those it is torn between
  double least = 0;         // seconds that no chain undercuts in any of its divisions; infinite
                            // where it has none
  double end = 0;           // seconds that follow the pipeline at least
  double alone = 0;         // seconds of a step that has the longest of its stages at least
  int level = 0, free = 0;  // of the first stages so many may be above the level, or not

  // Seconds of a step with any of its divisions at least.
  [[nodiscard]] double step_time() const { return std::max(least + end, alone); }
  [[nodiscard]] bool has_any() const { return least < kNoDivision; }
};

// Chains of one pipeline's shape, and what each weighs in a mean that bounds some divisions well.
// It mostly bounds those of other times as well: a good start for the next strategy of that shape.
struct KnownChains {
  std::vector<CriticalPath> chains;
  std::vector<double> weights;
};

// [F-SEARCH-11] The critical path of one division's run [F-PIPE-10] is a chain of tasks in every
// other one: its length, as a sum over the stages, is a bound whose least value over all divisions
// (or over those of a branch) is a shortest path. So is any weighted mean of such chains, and the
// mean whose least value is largest holds all stages at once where one chain holds few. It is the
// value of a game between chains and divisions (matrix_game.hpp), of which both sides are made as
// they are needed (Dantzig and Wolfe 1960): the divisions that are least under some mean, and the
// chains of those that are costed.
class DivisionCuts {
 public:
  using Path = std::vector<DivisionGraph::Edge>;

  // `after`: by share, seconds that follow the last task of a rank that holds it at least.
  DivisionCuts(const DivisionGraph& graph, std::vector<double> after)
      : graph_(graph), after_(std::move(after)) {}

  [[nodiscard]] bool empty() const { return chains_.empty(); }
  // All divisions; nothing is known of them.
  [[nodiscard]] DivisionBranch all() const;
  void add(const CriticalPath& path);
  // All divisions, under the mean of these chains.
  [[nodiscard]] DivisionBranch all(const KnownChains& known);
  // Those that weigh in the branch's mean.
  [[nodiscard]] KnownChains chains_of(const DivisionBranch& branch) const;
  // Whether it is longer than the other chains in the division that took least last.
  [[nodiscard]] bool is_longer(const CriticalPath& path) const;

  // Moves the branch's mean to where its least value is largest, in so many steps at most, or until
  // that exceeds `enough`. False where it stays where it is.
  bool raise(DivisionBranch& branch, int steps, double enough);
  // Closes the shares with which a division of the branch takes more than `most`.
  void close_longer(DivisionBranch& branch, double most) const;
  // The division that took least under the mean tried last.
  [[nodiscard]] const Path& latest() const { return paths_[latest_]; }
  // Makes the latest one of the divisions between which the branch is torn, that of the most weight
  // of those that were not seen: it may be long by a chain that the game has not got. False where
  // each was.
  bool turn_to_unseen(const DivisionBranch& branch);
  void set_seen() { seen_[latest_] = 1; }

  // A sum over the shares of a division that it takes at least.
  struct Length {
    std::vector<double> cost;  // by share: seconds, kNoDivision if it is closed
    double constant = 0;
  };
  // The branch's mean, and the chains that weigh in it.
  [[nodiscard]] std::vector<Length> lengths_of(const DivisionBranch& branch) const;

  // Levels of stage times: what the longest stage of every division of `of` takes at least, and
  // the mean of all stages.
  void set_levels(const DivisionBranch& of);
  // Whether by_level() has something to part.
  [[nodiscard]] bool has_levels(const DivisionBranch& branch) const {
    return branch.free > 0 || index(branch.level) + 1 < above_.size();
  }
  // By the last stage, of the branch's free ones, that takes longer than the level; or by none of
  // them doing so. Chains through late stages hold more of a pipeline than those through early
  // ones.
  [[nodiscard]] std::vector<DivisionBranch> by_level(DivisionBranch branch) const;

  // The two parts of a branch between which the best mixture of its divisions is torn: by the time
  // of one stage, or else by its layers. Nothing where a single one takes least.
  [[nodiscard]] std::vector<DivisionBranch> split(DivisionBranch branch) const;

 private:
  struct Chain : Length {
    CriticalPath path;
  };
  struct Game {
    std::vector<double> weights;  // of the chains
    std::vector<double> mixture;  // of the branch's divisions
  };
  [[nodiscard]] Chain chain_of(const CriticalPath& path) const;
  [[nodiscard]] double length(const Length& chain, const Path& path) const;
  [[nodiscard]] Length mean_of(const DivisionBranch& branch,
                               const std::vector<double>& weights) const;
  bool try_mean(DivisionBranch& branch, const std::vector<double>& weights);
  [[nodiscard]] std::size_t number_of(Path path);
  void note_longest(std::size_t path, std::size_t chain);
  [[nodiscard]] Game game_of(const DivisionBranch& branch) const;
  [[nodiscard]] bool is_open(const DivisionBranch& branch, const Path& path) const;
  void drop_closed_paths(DivisionBranch& branch) const;

  const DivisionGraph& graph_;
  std::vector<double> after_;
  std::vector<std::vector<char>> above_;  // by level and share: whether it takes longer
  std::vector<Chain> chains_;
  std::vector<Path> paths_;                                      // divisions
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;  // of them
  std::vector<std::size_t> longest_;          // of them: the chain that is longest in it
  std::vector<char> seen_;                    // of them: whose own chain is known
  std::size_t latest_ = 0;                    // of them: that took least last
  std::vector<std::vector<double>> lengths_;  // of each chain in each of them
};

// What ranks divisions that take as long [F-SEARCH-1], or the least of each that some may have.
struct DivisionScore {
  std::int64_t sum = 0, largest = 0, squares = 0;

  [[nodiscard]] static DivisionScore of(const Division& division);
  [[nodiscard]] DivisionScore with(const DivisionScore& other) const;
  [[nodiscard]] DivisionScore with(const StageMove& move) const;
  [[nodiscard]] bool ranks_before(const DivisionScore& other, std::int64_t weight) const;
  bool operator==(const DivisionScore&) const = default;
};

// From each node, over the branch's divisions.
[[nodiscard]] std::vector<DivisionScore> scores_to_go(const DivisionGraph& graph,
                                                      const DivisionBranch& branch);

// Whether the branch has `most` divisions or fewer.
[[nodiscard]] bool has_few(const DivisionGraph& graph, const DivisionBranch& branch,
                           std::int64_t most);

// Its two halves by a stage that still has more than one share: first by time, then by layers.
[[nodiscard]] std::vector<DivisionBranch> halve(const DivisionGraph& graph,
                                                const DivisionBranch& branch);

}  // namespace meshplan

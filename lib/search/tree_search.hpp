#pragma once
// Branch and bound over the tree of choices, best bound first, and then over the divisions of what
// is left; once, or once more for every smaller memory budget.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "search/best_first.hpp"
#include "search/node_expander.hpp"

namespace meshplan {

class TreeSearch {
 public:
  // Whether nodes are kept for the next, smaller budget.
  enum class Keep { kNothing, kForLess };

  TreeSearch(SearchContext& x, std::size_t wanted, WorkerPool& pool, Breadth breadth,
             Keep keep = Keep::kNothing);

  // From so many nodes on no plan is looked for that scores more than so many times the best one,
  // and from many more on none but the best, though such are kept if they are met. `known`: the
  // score of a plan that the run will meet.
  void rank_within(double times, double known, std::int64_t nodes) {
    within_ = times, known_score_ = known, few_nodes_ = nodes;
  }

  // Before another run looks at everything: ends when half as many nodes again as gave the plans
  // wanted, and the best of them, give no better one. Then the layers of the first plans
  // are divided anew: what the other run is to beat is mostly one of these.
  void only_prepare() { prepares_ = true; }

  // Of everything that scores `cutoff` or less. To be called again only for a smaller budget.
  // `stop` is asked by all threads, before every node but the first of a batch.
  [[nodiscard]] Outcome run(double cutoff, const std::function<bool()>& stop,
                            const Progress& progress);

  // The least time known within the context's budget: of plans found before, and of what their
  // choices of keys give with it.
  [[nodiscard]] double known_time();

 private:
  // A schedule that was expanded: what is below it is judged anew under the next budget.
  struct Parked {
    Node node;
    double later = kNothingFound;  // as in Expansion, of everything below
  };
  struct Known {
    double time = 0;
    Bytes peak;
    Node leaf;
  };

  // Of how many undecided leaves at most every division is asked for again, so many at once, with
  // how many times the effort.
  struct Patience {
    std::int64_t times = 1;
    std::size_t most = 0, batch = 1;
    bool all_or_none = false;  // as of Effort
  };

  [[nodiscard]] bool keeps() const { return keep_ == Keep::kForLess; }
  [[nodiscard]] double cutoff() const;
  [[nodiscard]] double ranked_to() const;
  [[nodiscard]] bool is_settled() const;
  void open_deepest(bool deepest);
  void start();
  void finish();
  void drop_hopeless();
  void count_undivided();
  [[nodiscard]] double least_waiting() const;
  void push(Node node);
  Node pop();
  void open_batch(const std::function<bool()>& stop);
  void park(const Node& node, const Expansion& expansion, double ahead);
  void take(const Examined& examined, const Node& node);
  void insert(Found found, const Node& node);
  void divide_first(const std::function<bool()>& stop);
  void divide_promising(const std::function<bool()>& stop);
  void divide_all(const std::function<bool()>& stop, const Progress& progress);
  [[nodiscard]] SearchProgress so_far(double share, double bound) const;
  void drop_slow_shardings(const std::function<bool()>& stop);
  void decide_best(const std::function<bool()>& stop, const Progress& progress);
  bool decide_best(const Patience& patience, const std::function<bool()>& stop,
                   const Progress& progress);
  void close_gap(const std::function<bool()>& stop, const Progress& progress);
  void close_gap(const Patience& patience, const std::function<bool()>& stop,
                 const Progress& progress);
  [[nodiscard]] double wanted_score() const;
  void sort_undecided();
  void divide_batch(std::span<const Undivided> leaves, double limit, const Patience& patience,
                    const std::function<bool()>& stop);
  [[nodiscard]] KnownChains& chains_of(const Node& node);
  [[nodiscard]] Examined divide(const Node& node, double limit, std::int64_t starts,
                                bool all_or_none, const KnownChains& chains) const;
  [[nodiscard]] const std::vector<std::int64_t>* known_division(const Node& node,
                                                                const PartialStrategy& c) const;
  void take_divided(const Examined& examined, const Undivided& leaf);
  void take_best_division(const Examined& examined, const Undivided& leaf);

  SearchContext& x_;
  std::size_t wanted_;
  WorkerPool& pool_;
  Breadth breadth_;
  Keep keep_;
  NodeExpander expander_;
  Later later_;
  bool started_ = false;
  double given_cutoff_ = kNothingFound;
  double within_ = kNothingFound, known_score_ = kNothingFound;  // of rank_within()
  std::int64_t few_nodes_ = 0;
  bool prepares_ = false;
  std::int64_t first_node_ = 0, settled_at_ = 0;  // nodes when the run began, when it found more
  std::int64_t divide_at_ = 0;                    // nodes when promising leaves are divided again
  Outcome outcome_;
  std::vector<Node> queue_;    // a heap
  std::vector<Node> waiting_;  // for the next budget
  std::vector<Parked> parked_;
  std::vector<Known> known_;
  std::uint64_t created_ = 0;
  std::vector<Node> batch_;
  std::vector<Expansion> expanded_;
  std::vector<char> stopped_;                     // of the batch: not expanded, as time was up
  std::vector<Undivided> undivided_, undecided_;  // the second: even after every effort
  double least_undivided_ = kNothingFound;
  std::map<std::array<std::int64_t, 5>, KnownChains> chains_;  // by shape of the pipeline
};

}  // namespace meshplan

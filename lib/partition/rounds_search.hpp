#pragma once
// One search for the fastest division, of those whose rounds of chunks have given totals.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "partition/division_bound.hpp"
#include "partition/division_cuts.hpp"
#include "partition/division_search.hpp"

namespace meshplan {

class BegunDivision;

// Of stages in order; see fastest_division(). What it has found so far is good at any time.
class DivisionSearch {
 public:
  // Sums in another order differ in the last digits.
  static constexpr double kRounding = 1 - 1e-10, kSame = 1e-9;

  // `effort`: partial divisions looked at before giving up.
  DivisionSearch(const DivisionQuery& q, const StageContext& context, std::int64_t effort);

  // Of the divisions given.
  void try_all(const std::vector<std::vector<std::int64_t>>& all);

  // Of all divisions: whether each was looked at.
  bool try_every();

  [[nodiscard]] const std::optional<Division>& best() const { return best_; }
  [[nodiscard]] std::int64_t left() const { return left_ + spared_; }  // of the effort
  // What was done, past the effort too: in partial divisions that take as long.
  [[nodiscard]] std::int64_t work() const;
  [[nodiscard]] bool gave_up() const { return gave_up_; }  // more of it would not help
  // Whether the best division is better than one with other totals of the rounds, or than none.
  [[nodiscard]] bool improves(const std::optional<Division>& other, double step_time) const {
    if (!best_ || !other) return best_.has_value();
    const bool same = std::abs(step_time - best_time_) <= kSame * step_time;
    return same ? stages_.prefers(*best_, *other) : best_time_ < step_time;
  }

  [[nodiscard]] FastestDivision result(bool every) const;

 private:
  // No division that takes longer is of interest.
  [[nodiscard]] double limit() const { return limit_ * (1 + kSame); }

  // Of all divisions, from the first stage on, with so much of the effort: whether each was looked
  // at. Mostly there is nothing to look at.
  bool try_in_order(std::int64_t most);

  // Little else can compete with a good division: the one known, or else the best by [F-SEARCH-1].
  void first_guess();

  // Costs a division and keeps it if it is the best so far. True if it is.
  bool consider(const Division& d);

  // Seconds by which a stage's recomputation beyond what all layers do lengthens its backward pass.
  [[nodiscard]] double recompute_time_of_stage(int stage, const StageAssignment& share,
                                               std::int64_t time) const {
    return static_cast<double>(time - stages_.least_time(stage, share)) * stages_.quantum();
  }

  // What follows the last task of a rank that holds the share, as far as it counts.
  [[nodiscard]] StepEnd end_of(int stage, const StageAssignment& share) const {
    if (is(DivisionAsk::kAnySharding)) return {};
    return step_->end_of_rank(x_.strategy, x_.blocks, q_.placement,
                              stages_.blocks_of(stage, share));
  }

  // What is known of the stages divided so far.
  struct Begun {
    double end = 0;      // what follows the pipeline at least
    double carried = 0;  // their recomputation that chains through later stages wait for
  };

  // Chains through a stage.
  [[nodiscard]] DivisionBound::RankChains chains_of(int stage, const StageAssignment& share);

  // Every division that begins like `begun`.
  void extend(Division& begun, int state, int stage, const Begun& before);

  // [F-SEARCH-11] Divisions that the chains found so far leave open are costed, and the chain of
  // each of them is one more. Whether none is left open; if not, least_ is of those.
  bool try_chains();
  // Whether the mean of the chains that another strategy's divisions left tells the same.
  [[nodiscard]] bool try_known_chains();

  // [F-SEARCH-17] Whether bounds built up from the last rank leave no division open. Costs the ones
  // that they are least for; told_ says how far others may be ahead.
  bool try_tails();
  // Makes the graph of all divisions, or leaves out of it what takes longer than the limit by now,
  // as far as each share alone tells. Whether a division is left.
  [[nodiscard]] bool set_graph();
  // What follows the last task of the graph's shares: into exposed_ and ends_.
  void find_ends(const DivisionGraph& graph);

  // Whether some division of the branch may be wanted.
  [[nodiscard]] bool is_open(const DivisionBranch& branch, const DivisionGraph& graph) const;

  // Every division that begins so, the most promising first.
  void dig(BegunDivision& begun, double end);

  // The best bound that chains give, with the chains of the divisions that it is torn between. Of
  // all divisions it is asked for even where the effort is spent: it says how far others may be
  // ahead.
  void bound(DivisionBranch& branch, const DivisionGraph& graph, DivisionCuts& cuts, int raises);

  // By share: seconds of a step that holds it, as far as its own stage tells. Leaves out what takes
  // too long; false where nothing is left.
  [[nodiscard]] bool set_alone(DivisionGraph& graph);
  // Closes the shares that alone take too long, and bounds the others by what they take alone.
  void close_longer(DivisionBranch& branch, const DivisionGraph& graph) const;

  // What follows the pipeline at least.
  [[nodiscard]] double end_of_branch(const DivisionBranch& branch,
                                     const DivisionGraph& graph) const;

  void give_up() {
    spared_ += std::max<std::int64_t>(0, left_);
    left_ = 0, gave_up_ = true;
  }

  [[nodiscard]] bool is(DivisionAsk ask) const { return q_.ask == ask; }

  // Costs the division and adds the chain that takes longest. False where that says nothing new.
  bool add_cut(const Division& d, DivisionCuts& cuts);

  // The longest of the division costed last. To find it takes as long as the pipeline is.
  void find_chain() {
    left_ -= x_.strategy.pp * x_.strategy.vp / 2;
    last_chain_ = step_->longest_chain(strategy_);
    if (last_chain_ && is(DivisionAsk::kAnySharding)) last_chain_->messages = 0;
  }

  // Of the least sum of squared times.
  [[nodiscard]] static Division even_division(const DivisionGraph& graph);

  // Whether no chain of a whole division says that it takes too long.
  [[nodiscard]] bool may_keep(const Division& d) const;

  // Moves one layer from one rank to another as long as that helps.
  void improve();

  const DivisionQuery& q_;
  const StageContext& x_;
  Stages stages_;
  SendTime send_;  // between two ranks
  DivisionBound bound_;
  StepModelPool::Borrowed step_;
  Strategy strategy_;        // with the division costed last
  double limit_;             // least of the time wanted and the best one
  double tied_;              // reduction of tied embeddings
  double unpaired_;          // first and last passes, in which nothing hides [F-EP-18]
  std::int64_t given_;       // the effort
  std::int64_t left_;        // of it
  std::int64_t spared_ = 0;  // when it gave up
  std::int64_t built_ = 0;   // edges and shares of graphs
  std::optional<Division> best_;
  double best_time_ = 0;
  std::optional<double> last_time_;  // of the division considered last, if it was costed
  std::optional<CriticalPath> last_chain_;
  double least_ = 0;                    // no division takes less
  double told_ = 0;                     // nor than this
  std::optional<DivisionGraph> graph_;  // once it was needed
  // By share of it: seconds of reductions that the step waits for, of its end, and of a step, at
  // least.
  std::vector<double> exposed_, ends_, alone_;
  std::int64_t tried_ = 0;
  bool gave_up_ = false;
  bool no_chains_ = false;  // of any division
  KnownChains chains_;
  std::vector<LayerRange> chunks_;  // scratch of chains_of()
  bool wants_chains_ = false;       // of divisions that are not wanted too
};

}  // namespace meshplan

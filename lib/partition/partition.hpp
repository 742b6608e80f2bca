#pragma once
// The best division of layers over pipeline stages: dynamic programming over stages and positions.
//
// [F-SEARCH-1] Minimises (x, then the largest stage, then the sum of squared sizes, then the list
// of sizes in lexicographic order), where x = sum of stage times + weight * largest stage time.
// With weight = m v - 1 (m microbatches, v chunks per rank) x / v is the time of a pipeline whose
// ranks only wait for the slowest one. Under a bound b on the largest stage the least sum S(b) is a
// shortest path, and S falls as b grows: from the least feasible bound on, larger ones are tried
// from above, each time only up to where S(b) + weight * b could still win, until none can. The
// result is the optimum over all divisions.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace meshplan {

// One stage's step from a state to the next: the stage takes `time` and holds `sizes`.
struct StageMove {
  std::int32_t to = 0;
  std::int64_t time = 0;
  std::int32_t first = 0;   // layers; DualPipe: of the rank nearer to the front
  std::int32_t second = 0;  // DualPipe: of the rank nearer to the back
};

struct Division {
  std::vector<StageMove> stages;
  std::int64_t largest = 0;
  std::int64_t sum = 0;
};

inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// Table: num_stages(), num_states(), start(), is_goal(state), and
// moves(stage, state, limit, visit) -> the smallest time over `limit` of a move that was left out
// (kUnbounded: none); it calls visit(StageMove) for every feasible move of at most `limit`, sizes
// in lexicographic order. A goal is looked for after the last stage only.
template <class Table>
class Partitioner {
 public:
  explicit Partitioner(const Table& table)
      : table_(table),
        stages_(table.num_stages()),
        states_(table.num_states()),
        reached_(static_cast<std::size_t>((stages_ + 1) * states_)),
        reached_states_(static_cast<std::size_t>(stages_ + 1)) {}

  // `least_sum`: a sum of stage times that no division undercuts; `least`: the same of the largest.
  // Nothing if every division that is left over by the table has a stage of more than `most`.
  std::optional<Division> best(std::int64_t weight, std::int64_t least_sum, std::int64_t least,
                               std::int64_t most) {
    const std::optional<std::int64_t> lowest = least_limit(least, most);
    if (!lowest) return std::nullopt;
    std::int64_t over = reach(*lowest);
    Division best = shortest(*lowest);
    const std::int64_t first_sum = best.sum;
    std::int64_t limit = highest_useful(best, weight, least_sum);
    while (limit >= over && first_sum > least_sum) {
      reach(limit);
      Division division = shortest(limit);
      if (division.sum >= first_sum) break;
      const std::int64_t sum = division.sum, largest = division.largest;
      if (std::pair(cost(division, weight), division.largest) <
          std::pair(cost(best, weight), best.largest)) {
        best = std::move(division);
      }
      // Any bound down to this division's own largest stage gives the same division.
      limit = std::min(largest - 1, highest_useful(best, weight, sum));
    }
    return best;
  }

  // Whether any division keeps every stage within `most`. Depth first, the largest stages first:
  // where there is a way, that mostly leads to the end at once.
  bool is_possible(std::int64_t most) {
    forget_reached();
    std::vector<std::pair<int, int>> waiting{{0, table_.start()}};  // stages and states
    reached_[at(0, table_.start())] = 1;
    reached_states_.front().push_back(table_.start());
    while (!waiting.empty()) {
      const int stage = waiting.back().first, state = waiting.back().second;
      waiting.pop_back();
      if (stage == stages_) {
        if (table_.is_goal(state)) return true;
        continue;
      }
      table_.moves(stage, state, most, [&](const StageMove& move) {
        if (mark(stage + 1, move.to)) waiting.emplace_back(stage + 1, move.to);
      });
    }
    return false;
  }

  // The division whose largest stage is least, then the sum and the rest as above.
  std::optional<Division> min_bottleneck(std::int64_t least, std::int64_t most) {
    const std::optional<std::int64_t> limit = least_limit(least, most);
    if (!limit) return std::nullopt;
    reach(*limit);
    return shortest(*limit);
  }

 private:
  struct Rest {
    std::int64_t sum = kUnbounded;
    std::int64_t squares = 0;
    friend bool operator<(const Rest& a, const Rest& b) {
      return a.sum != b.sum ? a.sum < b.sum : a.squares < b.squares;
    }
    bool operator==(const Rest&) const = default;
  };

  static std::int64_t cost(const Division& d, std::int64_t weight) {
    return d.sum + weight * d.largest;
  }
  // The largest bound under which a division with this sum could rank before `best`.
  static std::int64_t highest_useful(const Division& best, std::int64_t weight, std::int64_t sum) {
    if (weight == 0) return sum < best.sum ? kUnbounded - 1 : best.largest - 1;
    const std::int64_t all = cost(best, weight);
    const std::int64_t same = (all - sum) / weight;
    if (same < best.largest) return same;
    return std::max(best.largest - 1, all - 1 < sum ? 0 : (all - 1 - sum) / weight);
  }
  static std::int64_t square(std::int32_t n) { return static_cast<std::int64_t>(n) * n; }
  [[nodiscard]] std::size_t at(int stage, int state) const {
    return static_cast<std::size_t>(stage * states_ + state);
  }

  // Whether the state was not marked yet.
  bool mark(int stage, int state) {
    char& reached = reached_[at(stage, state)];
    if (reached) return false;
    reached = 1;
    reached_states_[static_cast<std::size_t>(stage)].push_back(state);
    return true;
  }

  void forget_reached() {
    for (int r = 0; r <= stages_; ++r) {
      std::vector<int>& states = reached_states_[static_cast<std::size_t>(r)];
      for (const int state : states) reached_[at(r, state)] = 0;
      states.clear();
    }
  }

  // Table::moves(), of which those within a higher limit are kept: bounds are tried again and
  // again.
  template <class Visit>
  std::int64_t moves(int stage, int state, std::int64_t limit, Visit visit) {
    if (nodes_.empty()) nodes_.resize(reached_.size(), kNone);
    std::size_t& number = nodes_[at(stage, state)];
    if (number == kNone) {
      number = known_.size();
      known_.emplace_back();
    }
    Known& known = known_[number];
    if (known.limit < limit) {
      known.begin = moves_.size();
      known.over =
          table_.moves(stage, state, limit, [&](const StageMove& move) { moves_.push_back(move); });
      known.end = moves_.size();
      known.limit = limit;
    }
    std::int64_t over = known.over;
    for (std::size_t i = known.begin; i < known.end; ++i) {
      if (moves_[i].time <= limit) {
        visit(moves_[i]);
      } else {
        over = std::min(over, moves_[i].time);
      }
    }
    return over;
  }

  // Marks what can be reached with stages of at most `limit`; the smallest time over it.
  std::int64_t reach(std::int64_t limit) {
    forget_reached();
    mark(0, table_.start());
    std::int64_t over = kUnbounded;
    for (int r = 0; r < stages_; ++r) {
      for (const int state : reached_states_[static_cast<std::size_t>(r)]) {
        over = std::min(
            over, moves(r, state, limit, [&](const StageMove& move) { mark(r + 1, move.to); }));
      }
    }
    return over;
  }

  [[nodiscard]] bool at_goal() const {
    const std::vector<int>& ends = reached_states_.back();
    return std::any_of(ends.begin(), ends.end(), [&](int state) { return table_.is_goal(state); });
  }

  // The smallest bound on the largest stage time that leaves a way, at most `most`.
  std::optional<std::int64_t> least_limit(std::int64_t least, std::int64_t most) {
    if (least > most) return std::nullopt;
    // Below low there is no way, at high there is one. Mostly the answer is near the low end.
    std::int64_t low = reach(least), high = least;
    if (at_goal()) return least;
    for (std::int64_t step = std::max<std::int64_t>(1, least / 32);; step *= 4) {
      if (low > most) return std::nullopt;
      high = low > most - step ? most : low + step;
      const std::int64_t over = reach(high);
      if (at_goal()) break;
      if (high == most) return std::nullopt;
      low = over;
    }
    return least_longest(high);
  }

  // The least of the longest stages of all ways; reach(limit) has run and found one. In one go: the
  // longest stage on the best way to each state.
  std::int64_t least_longest(std::int64_t limit) {
    rest_.resize(reached_.size());
    for (int r = 0; r <= stages_; ++r) {
      for (const int state : reached_states_[static_cast<std::size_t>(r)]) {
        rest_[at(r, state)].sum = kUnbounded;
      }
    }
    rest_[at(0, table_.start())].sum = 0;
    for (int r = 0; r < stages_; ++r) {
      for (const int state : reached_states_[static_cast<std::size_t>(r)]) {
        const std::int64_t here = rest_[at(r, state)].sum;
        moves(r, state, limit, [&](const StageMove& move) {
          std::int64_t& there = rest_[at(r + 1, move.to)].sum;
          there = std::min(there, std::max(here, move.time));
        });
      }
    }
    std::int64_t least = kUnbounded;
    for (const int state : reached_states_.back()) {
      if (table_.is_goal(state)) least = std::min(least, rest_[at(stages_, state)].sum);
    }
    return least;
  }

  // The division of the least sum, then squares, then sizes; reach(limit) has run.
  Division shortest(std::int64_t limit) {
    rest_.resize(reached_.size());  // of what is not reached it is not asked
    for (const int i : reached_states_.back()) {
      rest_[at(stages_, i)] = table_.is_goal(i) ? Rest{0, 0} : Rest{};
    }
    for (int r = stages_; r-- > 0;) {
      for (const int i : reached_states_[static_cast<std::size_t>(r)]) {
        rest_[at(r, i)] = through(r, i, limit);
      }
    }
    Division division;
    int state = table_.start();
    for (int r = 0; r < stages_; ++r) {
      const Rest wanted = rest_[at(r, state)];
      std::optional<StageMove> chosen;
      moves(r, state, limit, [&](const StageMove& move) {
        if (!chosen && rest_[at(r + 1, move.to)].sum != kUnbounded && after(r, move) == wanted) {
          chosen = move;
        }
      });
      division.sum += chosen->time;
      division.largest = std::max(division.largest, chosen->time);
      state = chosen->to;
      division.stages.push_back(*chosen);
    }
    return division;
  }

  [[nodiscard]] Rest after(int stage, const StageMove& move) const {
    const Rest& rest = rest_[at(stage + 1, move.to)];
    return {rest.sum + move.time, rest.squares + square(move.first) + square(move.second)};
  }

  [[nodiscard]] Rest through(int stage, int state, std::int64_t limit) {
    Rest least;
    moves(stage, state, limit, [&](const StageMove& move) {
      if (rest_[at(stage + 1, move.to)].sum == kUnbounded) return;
      least = std::min(least, after(stage, move));
    });
    return least;
  }

  // What is known of the moves from one state: those of times up to `limit`, a range of `moves_`.
  struct Known {
    std::int64_t limit = -1, over = kUnbounded;
    std::size_t begin = 0, end = 0;
  };
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  const Table& table_;
  int stages_, states_;
  std::vector<char> reached_;                     // by stage and state
  std::vector<std::vector<int>> reached_states_;  // the same, listed by stage
  std::vector<Rest> rest_;
  std::vector<std::size_t> nodes_;  // places in `known_`, by stage and state
  std::vector<Known> known_;
  std::vector<StageMove> moves_;
};

}  // namespace meshplan

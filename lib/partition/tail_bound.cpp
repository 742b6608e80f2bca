#include "partition/tail_bound.hpp"

#include <algorithm>
#include <utility>

#include "base/units.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan {
namespace {

constexpr double kNoPath = -1e300;
constexpr std::int64_t kMostMessages = 96;
constexpr std::size_t kMostNumbers = std::size_t{4} << 20;  // of the paths of a stage's tails

bool is_path(double seconds) { return seconds > kNoPath / 2; }

void add(std::vector<double>& to, double seconds) {
  for (double& t : to) t += seconds;
}

void raise(std::vector<double>& to, const double* other, double more = 0) {
  for (std::size_t j = 0; j < to.size(); ++j) to[j] = std::max(to[j], other[j] + more);
}

}  // namespace

bool TailBound::knows(const PipelineShape& s) {
  const ScheduleTraits& traits = traits_of(s.schedule);
  return s.pp > 1 && traits.layout == ChunkLayout::kRounds && traits.starts_pair == nullptr &&
         messages(s) <= kMostMessages;
}

TailBound::TailBound(const DivisionGraph& graph, const PipelineShape& shape, const SendTime& send,
                     TailEnds ends)
    : graph_(graph),
      transfer_(send.transfer.si()),
      sent_(send.sender_busy.si()),
      taken_(send.receiver_busy.si()),
      ends_(std::move(ends)),
      ranks_(index(shape.pp)),
      rounds_(index(shape.vp)),
      m_(index(shape.microbatches)),
      passed_(rounds_ * m_),
      all_(index(messages(shape))),
      splits_(traits_of(shape.schedule).splits_backward) {
  for (std::int64_t r = 0; r < shape.pp; ++r) orders_.push_back(task_order(shape, r));
  stages_.assign(index(graph.num_nodes()), 0);
  for (std::int32_t node = 0; node < graph.goal(); ++node) {
    const auto edges = graph.edges(node);
    if (!edges.empty()) stages_[index(node)] = graph.shares()[index(edges.front().taken)].stage;
  }
  for (std::size_t n = 0, first = 0; n + 1 < stages_.size(); ++n) {
    if (stages_[n] != stages_[first]) first = n;
    widest_ = std::max(widest_, n - first + 1);
  }
  find_fronts();
}

void TailBound::find_fronts() {
  constexpr double kMost = std::numeric_limits<double>::infinity();
  const auto least = [](double& of, double seconds) { of = std::min(of, seconds); };
  fronts_.assign(index(graph_.num_nodes()), {});
  fronts_.front().forward.assign(rounds_, 0.0), fronts_.front().backward.assign(rounds_, 0.0);
  fronts_.front().reached = true;
  first_exposed_ = kMost;
  for (std::int32_t node = 0; node < graph_.goal(); ++node) {
    const Front here = fronts_[index(node)];
    if (!here.reached) continue;
    const std::size_t rank = index(stage_of(node));
    const bool first = rank == 0;
    // With rounds every rank sends and takes, but for one end of the model.
    const bool last = rank + 1 == ranks_, rounds = rounds_ > 1;
    for (const DivisionGraph::Edge& e : graph_.edges(node)) {
      const double exposed = ends_.exposed[index(e.taken)];
      if (first) least(first_exposed_, exposed);
      Front& to = fronts_[index(e.to)];
      if (!to.reached) {
        to = {.forward = std::vector<double>(rounds_, kMost),
              .backward = std::vector<double>(rounds_, kMost),
              .forward_any = kMost,
              .backward_any = kMost,
              .forward_each = kMost,
              .backward_each = kMost,
              .end = kMost,
              .reached = true};
      }
      double quickest = kMost, quickest_back = kMost;
      for (std::size_t v = 0; v < rounds_; ++v) {
        const ChunkTime& t = graph_.times(index(e.taken))[v];
        const double f = t.forward.si();
        const double back = t.backward_input.si() + (splits_ ? 0 : t.backward_weight.si());
        least(quickest, f), least(quickest_back, back);
        least(to.forward[v], here.forward[v] + f + transfer_);
        // Of later rounds the first rank sends them on to the last.
        least(to.backward[v], here.backward[v] + back + (first && v == 0 ? 0 : transfer_));
        if (v > 0) continue;
        const double own = exposed + (first ? 0 : sent_);
        least(to.end, back + std::max(own, transfer_ + here.end));
      }
      // Those ahead of a message may be of other rounds until they reach the slowest rank.
      least(to.forward_any, here.forward_any + quickest + transfer_);
      least(to.backward_any, here.backward_any + quickest_back + (first ? 0 : transfer_));
      const double each = quickest + (last || rounds ? 0 : sent_) + (first || rounds ? 0 : taken_);
      const double each_back =
          quickest_back + (first || rounds ? 0 : sent_) + (last || rounds ? 0 : taken_);
      least(to.forward_each, std::max(here.forward_each, each));
      least(to.backward_each, std::max(here.backward_each, each_back));
    }
  }
}

// [F-PIPE-1] with every time as a vector: its longest path from each of the arrivals.
void TailBound::put_in_front(const DivisionGraph::Edge& edge, const Tail* behind, Tail& tail) {
  const std::size_t share = index(edge.taken);
  const std::size_t rank = index(graph_.shares()[share].stage);
  const bool last = rank + 1 == ranks_;
  const auto times = graph_.times(share);
  work_ += static_cast<double>(all_ * all_ * all_);
  tail.paths.assign(all_ * all_ + all_, kNoPath);
  free_.assign(all_, kNoPath), forwards_.assign(all_, kNoPath), backwards_.assign(all_, kNoPath);
  arrivals_.assign(last ? 0 : passed_ * all_, kNoPath);
  // Two ranks have one link for both directions of a pipeline.
  std::vector<double>& backwards = ranks_ == 2 ? forwards_ : backwards_;
  const auto keep = [&](const std::vector<double>& seconds, std::vector<double>& rows,
                        std::size_t row) {
    std::copy(seconds.begin(), seconds.end(),
              rows.begin() + static_cast<std::ptrdiff_t>(row * all_));
  };
  // The answer of the ranks behind: what this rank sent them, and what they get from the first one.
  const auto take_answer = [&](std::size_t row) {
    const double* paths = behind->paths.data() + row * all_;
    for (std::size_t i = 0; i < passed_; ++i) {
      if (is_path(paths[i])) raise(free_, arrivals_.data() + i * all_, paths[i]);
    }
    for (std::size_t i = passed_; i < all_; ++i) free_[i] = std::max(free_[i], paths[i]);
  };
  for (const Task& task : orders_[rank]) {
    const std::size_t v = round_of(task), k = index(task.microbatch), at = place(v, k);
    const ChunkTime& t = times[v];
    if (task.kind == TaskKind::kForward) {
      add(free_, taken_);
      free_[at] = std::max(free_[at], 0.0);
      add(free_, t.forward.si());
      if (last && v + 1 == rounds_) continue;  // the model's end
      raise(forwards_, free_.data());
      add(forwards_, transfer_);
      if (last) {
        keep(forwards_, tail.paths, passed_ + at);
      } else {
        keep(forwards_, arrivals_, at);
      }
      add(free_, sent_);
      continue;
    }
    if (task.kind == TaskKind::kBackwardWeight) {
      add(free_, t.backward_weight.si());
      continue;
    }
    if (!last) {
      add(free_, taken_);
      take_answer(at);
    } else if (v + 1 < rounds_) {  // the first rank sent it
      add(free_, taken_);
      free_[passed_ + at] = std::max(free_[passed_ + at], 0.0);
    }
    const bool whole = task.kind == TaskKind::kBackward;
    add(free_, t.backward_input.si() + (whole ? t.backward_weight.si() : 0));
    raise(backwards, free_.data());
    add(backwards, transfer_);
    keep(backwards, tail.paths, at);
    add(free_, sent_);
  }
  add(free_, ends_.exposed[share]);
  if (!last) {
    take_answer(all_);
    const std::vector<double> ends = free_;
    for (std::size_t row = passed_; row < all_; ++row) {
      free_.assign(all_, kNoPath);
      take_answer(row);
      keep(free_, tail.paths, row);
    }
    free_ = ends;
  }
  keep(free_, tail.paths, all_);
  tail.after = std::max(ends_.after[share], behind == nullptr ? 0 : behind->after);
  tail.merged = behind != nullptr && behind->merged;
}

double TailBound::answer(const Tail& tail, std::size_t row, const std::vector<double>& in) const {
  const double* paths = tail.paths.data() + row * all_;
  double latest = kNoPath;
  for (std::size_t i = 0; i < all_; ++i) latest = std::max(latest, in[i] + paths[i]);
  return latest;
}

double TailBound::put_first(const DivisionGraph::Edge& edge, const Tail& behind) {
  const std::size_t share = index(edge.taken);
  const auto times = graph_.times(share);
  work_ += static_cast<double>(all_ * all_);
  in_.assign(all_, kNoPath);
  double free = 0, forward = 0, backward_alone = 0;
  double& backward = ranks_ == 2 ? forward : backward_alone;
  for (const Task& task : orders_.front()) {
    const std::size_t v = round_of(task), k = index(task.microbatch), at = place(v, k);
    const ChunkTime& t = times[v];
    if (task.kind == TaskKind::kForward) {
      if (v > 0) free = std::max(free + taken_, answer(behind, passed_ + place(v - 1, k), in_));
      free += t.forward.si();
      forward = std::max(forward, free) + transfer_;
      in_[at] = forward;
      free += sent_;
      continue;
    }
    if (task.kind == TaskKind::kBackwardWeight) {
      free += t.backward_weight.si();
      continue;
    }
    free = std::max(free + taken_, answer(behind, at, in_));
    const bool whole = task.kind == TaskKind::kBackward;
    free += t.backward_input.si() + (whole ? t.backward_weight.si() : 0);
    if (v == 0) continue;
    backward = std::max(backward, free) + transfer_;
    in_[passed_ + place(v - 1, k)] = backward;
    free += sent_;
  }
  return std::max(free + ends_.exposed[share], answer(behind, all_, in_));
}

// The ranks before count as a delay, and as one task after the other on the slowest of them. What
// comes back to the last rank from the first has passed them.
double TailBound::bound_of(const Tail& tail, std::int32_t node) {
  const Front& front = fronts_[index(node)];
  const TaskOrder& before = orders_[index(stage_of(node)) - 1];
  in_.assign(all_, kNoPath);
  double nth = 0;
  for (const Task& task : before) {
    if (task.kind != TaskKind::kForward) continue;
    const std::size_t at = place(round_of(task), index(task.microbatch));
    in_[at] = front.forward_any + nth * front.forward_each;
    if (round_of(task) == 0) {
      in_[at] = std::max(
          in_[at], front.forward[0] + static_cast<double>(task.microbatch) * front.forward_each);
    }
    ++nth;
  }
  for (std::size_t turn = 1; turn < rounds_; ++turn) {
    for (std::size_t v = 1; v < rounds_; ++v) {
      for (std::size_t k = 0; k < m_; ++k) {
        double& in = in_[place(v, k)];
        in = std::max(in, answer(tail, passed_ + place(v - 1, k), in_) + front.forward[v]);
      }
    }
    for (std::size_t v = rounds_; v-- > 1;) {
      for (std::size_t k = 0; k < m_; ++k) {
        double& in = in_[passed_ + place(v - 1, k)];
        in = std::max(in, answer(tail, place(v, k), in_) + front.backward[v]);
      }
    }
  }
  double most = answer(tail, all_, in_);
  double rest = static_cast<double>(passed_) - 1;
  for (const Task& task : before) {
    if (task.kind == TaskKind::kForward || task.kind == TaskKind::kBackwardWeight) continue;
    const double told = answer(tail, place(round_of(task), index(task.microbatch)), in_);
    most = std::max(most, told + rest * front.backward_each + front.backward_any + first_exposed_);
    if (rest == 0) most = std::max(most, told + front.end);
    rest -= 1;
  }
  return most;
}

void TailBound::reduce(std::vector<Tail>& tails, std::size_t width) {
  std::stable_sort(tails.begin(), tails.end(),
                   [](const Tail& a, const Tail& b) { return a.bound < b.bound; });
  std::size_t kept = 0;
  std::size_t compared = 0;
  const auto leaves_out = [&](const Tail& a, const Tail& b) {
    if (a.after > b.after) return false;
    for (std::size_t i = a.paths.size(); i-- > 0; ++compared) {
      if (a.paths[i] > b.paths[i]) return false;
    }
    return true;
  };
  for (std::size_t i = 0; i < tails.size(); ++i) {
    const bool left_out =
        std::any_of(tails.begin(), tails.begin() + static_cast<std::ptrdiff_t>(kept),
                    [&](const Tail& other) { return leaves_out(other, tails[i]); });
    if (left_out) continue;
    if (kept < width) {
      if (kept != i) tails[kept] = std::move(tails[i]);
      ++kept;
      continue;
    }
    Tail& rest = tails[kept - 1];
    for (std::size_t p = 0; p < rest.paths.size(); ++p) {
      rest.paths[p] = std::min(rest.paths[p], tails[i].paths[p]);
    }
    rest.after = std::min(rest.after, tails[i].after);
    rest.merged = true;
  }
  tails.resize(kept);
  work_ += static_cast<double>(compared);
}

TailBound::Answer TailBound::least(double limit, std::size_t width, double most_work) {
  std::vector<std::vector<Tail>> tails(index(graph_.num_nodes()));
  width = std::clamp<std::size_t>(kMostNumbers / (widest_ * all_ * (all_ + 1)), 1, width);
  const double until = work_ + most_work;
  Tail made;
  std::int32_t first_behind = graph_.goal();  // node of the stage behind the one at work
  for (std::int32_t node = graph_.goal(); node-- > 0;) {
    if (node + 1 < graph_.goal() && stage_of(node) != stage_of(node + 1)) {
      // No rank is put in front of those behind any more.
      for (std::int32_t n = first_behind;
           n < graph_.goal() && stage_of(n) == stage_of(first_behind); ++n) {
        for (Tail& tail : tails[index(n)]) tail.paths = {};
      }
      first_behind = node + 1;
    }
    std::vector<Tail>& mine = tails[index(node)];
    if (!fronts_[index(node)].reached) continue;
    const bool first = stage_of(node) == 0;
    for (const DivisionGraph::Edge& e : graph_.edges(node)) {
      const bool last = e.to == graph_.goal();
      const std::vector<Tail>& behind = tails[index(e.to)];
      for (std::size_t i = 0; i < (last ? 1 : behind.size()); ++i) {
        if (work_ > until) return {0, {}, false};
        const Tail* next = last ? nullptr : &behind[i];
        if (first) {
          made.bound = put_first(e, *next);
          made.after = std::max(ends_.after[index(e.taken)], next->after);
          made.merged = next->merged;
        } else {
          put_in_front(e, next, made);
          made.bound = bound_of(made, node);
        }
        made.bound += std::max(ends_.least_after, made.after) + ends_.tied;
        if (made.bound > limit) continue;
        made.edge = static_cast<std::int32_t>(&e - graph_.edges().data());
        made.next = static_cast<std::int32_t>(i);
        mine.push_back(made);
      }
    }
    if (!first) reduce(mine, width);
  }
  Answer answer;
  const std::vector<Tail>& all = tails.front();
  const auto best = std::min_element(
      all.begin(), all.end(), [](const Tail& a, const Tail& b) { return a.bound < b.bound; });
  if (best == all.end()) return answer;
  answer.least = best->bound;
  answer.is_own = !best->merged;
  std::int32_t node = 0;
  for (const Tail* tail = &*best; tail != nullptr;) {
    answer.path.push_back(graph_.edges()[index(tail->edge)]);
    node = answer.path.back().to;
    tail = node == graph_.goal() ? nullptr : &tails[index(node)][index(tail->next)];
  }
  return answer;
}

}  // namespace meshplan

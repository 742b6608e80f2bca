#include "partition/tail_bound.hpp"

#include <algorithm>
#include <utility>

#include "base/units.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan {
namespace {

constexpr double kNoPath = -1e300;
constexpr std::int64_t kMostMicrobatches = 48;
constexpr std::size_t kMostNumbers = std::size_t{4} << 20;  // of the paths of a stage's tails

void add(std::vector<double>& to, double seconds) {
  for (double& t : to) t += seconds;
}

void raise(std::vector<double>& to, const double* other, double more = 0) {
  for (std::size_t j = 0; j < to.size(); ++j) to[j] = std::max(to[j], other[j] + more);
}

}  // namespace

bool TailBound::knows(const PipelineShape& s) {
  const ScheduleTraits& traits = traits_of(s.schedule);
  return s.pp > 1 && s.vp == 1 && traits.layout == ChunkLayout::kRounds &&
         traits.chunks == ChunksPerRank::kOne && traits.starts_pair == nullptr &&
         s.microbatches <= kMostMicrobatches;
}

TailBound::TailBound(const DivisionGraph& graph, const PipelineShape& shape, const SendTime& send,
                     TailEnds ends)
    : graph_(graph),
      shape_(shape),
      transfer_(send.transfer.si()),
      sent_(send.sender_busy.si()),
      taken_(send.receiver_busy.si()),
      ends_(std::move(ends)),
      ranks_(index(shape.pp)),
      m_(index(shape.microbatches)),
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
  fronts_.assign(index(graph_.num_nodes()), {});
  fronts_.front().reached = true;
  constexpr double kMost = std::numeric_limits<double>::infinity();
  first_exposed_ = kMost;
  for (std::int32_t node = 0; node < graph_.goal(); ++node) {
    const Front here = fronts_[index(node)];
    if (!here.reached) continue;
    const int stage = stage_of(node);
    const bool first = stage == 0, last = index(stage) + 1 == ranks_;
    for (const DivisionGraph::Edge& e : graph_.edges(node)) {
      const ChunkTime& t = graph_.times(index(e.taken)).front();
      const double f = t.forward.si(), b = t.backward_input.si();
      const double all = b + (splits_ ? 0 : t.backward_weight.si());
      const double exposed = ends_.exposed[index(e.taken)];
      if (first) first_exposed_ = std::min(first_exposed_, exposed);
      Front& to = fronts_[index(e.to)];
      if (!to.reached) {
        to = {kMost, kMost, kMost, kMost, kMost, true};
      }
      to.forward = std::min(to.forward, here.forward + f + transfer_);
      to.backward = std::min(to.backward, here.backward + all + (first ? 0 : transfer_));
      const double each = f + (last ? 0 : sent_) + (first ? 0 : taken_);
      const double each_back = all + (first ? 0 : sent_) + (last ? 0 : taken_);
      to.forward_each = std::min(to.forward_each, std::max(here.forward_each, each));
      to.backward_each = std::min(to.backward_each, std::max(here.backward_each, each_back));
      const double own = exposed + (first ? 0 : sent_);
      to.end = std::min(to.end, all + std::max(own, transfer_ + here.end));
    }
  }
}

// [F-PIPE-1] with every time as a vector: its longest path from each of the arrivals.
void TailBound::put_in_front(const DivisionGraph::Edge& edge, const Tail* behind, Tail& tail) {
  const std::size_t share = index(edge.taken);
  const std::size_t rank = index(graph_.shares()[share].stage);
  const bool first = rank == 0, last = rank + 1 == ranks_;
  const ChunkTime& t = graph_.times(share).front();
  work_ += static_cast<double>(m_ * m_ * m_);
  tail.paths.assign(m_ * m_ + m_, kNoPath);
  free_.assign(m_, kNoPath), forwards_.assign(m_, kNoPath), backwards_.assign(m_, kNoPath);
  arrivals_.assign(last ? 0 : m_ * m_, kNoPath);
  for (const Task& task : orders_[rank]) {
    const std::size_t k = index(task.microbatch);
    if (task.kind == TaskKind::kForward) {
      if (!first) add(free_, taken_);
      free_[k] = std::max(free_[k], 0.0);
      add(free_, t.forward.si());
      if (last) continue;
      raise(forwards_, free_.data());
      add(forwards_, transfer_);
      std::copy(forwards_.begin(), forwards_.end(),
                arrivals_.begin() + static_cast<std::ptrdiff_t>(k * m_));
      add(free_, sent_);
      continue;
    }
    if (task.kind == TaskKind::kBackwardWeight) {
      add(free_, t.backward_weight.si());
      continue;
    }
    if (!last) {
      add(free_, taken_);
      for (std::size_t j = 0; j < m_; ++j) {
        const double path = behind->paths[k * m_ + j];
        if (path > kNoPath / 2) raise(free_, arrivals_.data() + j * m_, path);
      }
    }
    const bool whole = task.kind == TaskKind::kBackward;
    add(free_, t.backward_input.si() + (whole ? t.backward_weight.si() : 0));
    if (first) continue;
    raise(backwards_, free_.data());
    add(backwards_, transfer_);
    std::copy(backwards_.begin(), backwards_.end(),
              tail.paths.begin() + static_cast<std::ptrdiff_t>(k * m_));
    add(free_, sent_);
  }
  add(free_, ends_.exposed[share]);
  if (!last) {
    for (std::size_t j = 0; j < m_; ++j) {
      raise(free_, arrivals_.data() + j * m_, behind->paths[m_ * m_ + j]);
    }
  }
  std::copy(free_.begin(), free_.end(), tail.paths.begin() + static_cast<std::ptrdiff_t>(m_ * m_));
  tail.after = std::max(ends_.after[share], behind == nullptr ? 0 : behind->after);
  tail.merged = behind != nullptr && behind->merged;
}

double TailBound::bound_of(const Tail& tail, std::int32_t node) const {
  const double behind = std::max(ends_.least_after, tail.after) + ends_.tied;
  const double* ends = tail.paths.data() + m_ * m_;
  double most = 0;
  if (stage_of(node) == 0) {
    for (std::size_t j = 0; j < m_; ++j) most = std::max(most, ends[j]);
    return most + behind;
  }
  const Front& front = fronts_[index(node)];
  for (std::size_t k = 0; k < m_; ++k) {
    const auto arrival = [&](std::size_t j) {
      return front.forward + static_cast<double>(j) * front.forward_each;
    };
    most = std::max(most, arrival(k) + ends[k]);
    double answer = kNoPath;
    for (std::size_t j = 0; j < m_; ++j) {
      answer = std::max(answer, arrival(j) + tail.paths[k * m_ + j]);
    }
    const double rest = static_cast<double>(m_ - 1 - k) * front.backward_each;
    most = std::max(most, answer + rest + front.backward + first_exposed_);
    if (k + 1 == m_) most = std::max(most, answer + front.end);
  }
  return most + behind;
}

void TailBound::reduce(std::vector<Tail>& tails, std::size_t width) const {
  std::stable_sort(tails.begin(), tails.end(),
                   [](const Tail& a, const Tail& b) { return a.bound < b.bound; });
  std::size_t kept = 0;
  const auto leaves_out = [](const Tail& a, const Tail& b) {
    if (a.after > b.after) return false;
    for (std::size_t i = a.paths.size(); i-- > 0;) {
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
}

TailBound::Answer TailBound::least(double limit, std::size_t width) {
  std::vector<std::vector<Tail>> tails(index(graph_.num_nodes()));
  width = std::clamp<std::size_t>(kMostNumbers / (widest_ * m_ * (m_ + 1)), 1, width);
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
    const auto edges = graph_.edges(node);
    for (const DivisionGraph::Edge& e : edges) {
      const bool last = e.to == graph_.goal();
      const std::vector<Tail>& behind = tails[index(e.to)];
      for (std::size_t i = 0; i < (last ? 1 : behind.size()); ++i) {
        put_in_front(e, last ? nullptr : &behind[i], made);
        made.bound = bound_of(made, node);
        if (made.bound > limit) continue;
        made.edge = static_cast<std::int32_t>(&e - graph_.edges().data());
        made.next = static_cast<std::int32_t>(i);
        mine.push_back(made);
      }
    }
    reduce(mine, width);
  }
  Answer answer;
  const std::vector<Tail>& all = tails.front();
  if (all.empty()) return answer;
  answer.least = all.front().bound;
  answer.is_own = !all.front().merged;
  std::int32_t node = 0, at = 0;
  while (node != graph_.goal()) {
    const Tail& tail = tails[index(node)][index(at)];
    answer.path.push_back(graph_.edges()[index(tail.edge)]);
    node = answer.path.back().to, at = tail.next;
  }
  return answer;
}

}  // namespace meshplan

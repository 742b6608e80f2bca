#pragma once
// A second, slow executor to hold the fast one against: it keeps one message per task in a map and
// goes round the ranks until nothing moves any more.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "schedule/pipeline.hpp"

namespace meshplan::testing {

class ReferenceRun {
 public:
  ReferenceRun(const PipelineShape& s, const std::vector<ChunkTime>& chunks,
               const std::vector<SendTime>& forward_send,
               const std::vector<SendTime>& backward_send)
      : s_(s), chunks_(chunks), forward_send_(forward_send), backward_send_(backward_send) {
    for (std::int64_t r = 0; r < s.pp; ++r) orders_.push_back(task_order(s, r));
    position_.resize(orders_.size());
    finish.resize(orders_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < orders_.size(); ++r) {
        while (position_[r] < orders_[r].size() && advance(r)) moved = true;
      }
    }
  }

  std::vector<double> finish;  // by rank
  [[nodiscard]] bool complete() const {
    for (std::size_t r = 0; r < orders_.size(); ++r)
      if (position_[r] != orders_[r].size()) return false;
    return true;
  }

 private:
  using Message = std::tuple<bool, std::int32_t, std::int32_t>;  // forward, to chunk, microbatch

  static bool forward(const Task& t) { return t.kind == TaskKind::kForward; }
  static std::int32_t next(const Task& t) { return forward(t) ? t.chunk + 1 : t.chunk - 1; }
  bool away(std::size_t r, std::int32_t chunk, const Task& t) const {
    return chunk >= 0 && chunk < num_chunks(s_) && t.kind != TaskKind::kBackwardWeight &&
           rank_of_chunk(s_, chunk, t.microbatch % 2) != static_cast<std::int64_t>(r);
  }
  const SendTime& send(bool down, std::int32_t chunk, std::int32_t other) const {
    return (down ? forward_send_
                 : backward_send_)[static_cast<std::size_t>(std::min(chunk, other))];
  }
  double duration(const Task& t) const {
    const ChunkTime& c = chunks_[static_cast<std::size_t>(t.chunk)];
    switch (t.kind) {
      case TaskKind::kForward:
        return c.forward.si();
      case TaskKind::kBackward:
        return c.backward_input.si() + c.backward_weight.si();
      case TaskKind::kBackwardInput:
        return c.backward_input.si();
      case TaskKind::kBackwardWeight:
        return c.backward_weight.si();
    }
    return 0;
  }

  // Time at which the rank may go on, having waited for the task's input; none if not sent yet.
  std::optional<double> received(std::size_t r, const Task& t, double at) const {
    const std::int32_t from = forward(t) ? t.chunk - 1 : t.chunk + 1;
    if (!away(r, from, t)) return at;
    const auto found = messages_.find({forward(t), t.chunk, t.microbatch});
    if (found == messages_.end()) return std::nullopt;
    return std::max(at + send(forward(t), t.chunk, from).receiver_busy.si(), found->second);
  }

  double send_output(std::size_t r, const Task& t, double at) {
    if (!away(r, next(t), t)) return at;
    const std::int64_t to = rank_of_chunk(s_, next(t), t.microbatch % 2);
    const SendTime& time = send(forward(t), t.chunk, next(t));
    double& link = links_[{static_cast<std::int64_t>(r), to}];
    link = std::max(link, at) + time.transfer.si();
    messages_[{forward(t), next(t), t.microbatch}] = link;
    return at + time.sender_busy.si();
  }

  // The forwards of DualPipe's main step go with the backward after them, except for the first on
  // the two middle ranks, which is their (p + 1)-th task.
  bool paired(std::size_t r) const {
    const auto& order = orders_[r];
    const std::size_t i = position_[r];
    if (s_.schedule != Schedule::kDualPipe || i + 1 >= order.size()) return false;
    if (!forward(order[i]) || order[i + 1].kind != TaskKind::kBackward) return false;
    const auto rank = static_cast<std::int64_t>(r);
    const bool middle = rank == s_.pp / 2 || rank == s_.pp / 2 - 1;
    return !middle || static_cast<std::int64_t>(i) != s_.pp;
  }

  bool advance(std::size_t r) {
    const Task first = orders_[r][position_[r]];
    if (!paired(r)) {
      const auto start = received(r, first, finish[r]);
      if (!start) return false;
      finish[r] = send_output(r, first, *start + duration(first));
      ++position_[r];
      return true;
    }
    const Task second = orders_[r][position_[r] + 1];
    const auto one = received(r, second, finish[r]);
    if (!one) return false;
    const auto both = received(r, first, *one);
    if (!both) return false;
    double end = send_output(r, second, *both + duration(first) + duration(second));
    finish[r] = send_output(r, first, end);
    position_[r] += 2;
    return true;
  }

  const PipelineShape& s_;
  const std::vector<ChunkTime>& chunks_;
  const std::vector<SendTime>& forward_send_;
  const std::vector<SendTime>& backward_send_;
  std::vector<std::vector<Task>> orders_;
  std::vector<std::size_t> position_;
  std::map<Message, double> messages_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> links_;  // from rank, to rank
};

}  // namespace meshplan::testing

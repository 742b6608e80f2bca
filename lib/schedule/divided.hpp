#pragma once
// Chains through one rank of a pipeline whose layers are given to the ranks from the front on:
// bounds over all divisions of the layers at once.
#include <algorithm>
#include <vector>

#include "schedule/traits.hpp"

namespace meshplan {

// Seconds of one microbatch.
struct TaskTimes {
  double forward = 0, input = 0, weight = 0;
  [[nodiscard]] double all() const { return forward + input + weight; }
  TaskTimes& operator+=(const TaskTimes& o) {
    forward += o.forward, input += o.input, weight += o.weight;
    return *this;
  }
  friend TaskTimes operator+(TaskTimes a, const TaskTimes& b) { return a += b; }
  friend TaskTimes operator*(const TaskTimes& t, double n) {
    return {t.forward * n, t.input * n, t.weight * n};
  }
  friend TaskTimes operator-(const TaskTimes& a, const TaskTimes& b) {
    return {a.forward - b.forward, a.input - b.input, a.weight - b.weight};
  }
};
[[nodiscard]] inline TaskTimes at_least_zero(const TaskTimes& t) {
  return {std::max(0.0, t.forward), std::max(0.0, t.input), std::max(0.0, t.weight)};
}

struct DividedPipeline {
  std::int64_t ranks = 1, vp = 1;
  double microbatches = 1;
  ChunkLayout layout = ChunkLayout::kRounds;
  bool even = false;   // chunks of a rank count as even shares of its layers, all alike
  TaskTimes rounding;  // what a chunk may hold less, or more, than an even share
  TaskTimes each;      // of a layer that counts as one of all; where chunks do
  TaskTimes below;     // what layers that follow each other take less than that, at most
  TaskTimes embedding, head, whole;
  std::vector<TaskTimes> first;  // first chunk of a rank, summed over the layers before
  std::vector<TaskTimes> rank;   // all chunks of a rank, likewise
  // What a rank may take less than rank[] says, by the layers before; none: nothing.
  std::vector<TaskTimes> shortfall;
  double transfer = 0;        // of one message
  double end_stall = 0;       // what its two ends stand still for it
  std::vector<double> stall;  // by rank, for the messages of one microbatch

  [[nodiscard]] double hops(std::int64_t n) const { return transfer * static_cast<double>(n); }
  // What rank r stands still for messages of so many microbatches, but for the first and the last.
  [[nodiscard]] double stalls(std::int64_t r, double of_microbatches) const {
    if (end_stall == 0) return 0;
    return std::max(0.0, of_microbatches * stall[static_cast<std::size_t>(r)] - end_stall);
  }
  // Embedding and head, where rank r holds them.
  [[nodiscard]] TaskTimes ends(std::int64_t r) const {
    TaskTimes t;
    if (r == 0) t += embedding;
    if (r == (layout == ChunkLayout::kV ? 0 : ranks - 1)) t += head;
    return t;
  }
};

// The layers of a rank's chunks, where these are known.
struct ChunksOfRank {
  std::vector<TaskTimes> own;  // by chunk, of its layers alone
  TaskTimes behind;            // the last chunks of the ranks behind it, without the head
};

// Rank r with layers begin .. end - 1, in the order in which ranks take them.
struct DividedRank {
  const DividedPipeline& pipeline;
  std::int64_t r = 0;
  std::size_t begin = 0, end = 0;
  TaskTimes own;                         // all of its chunks, embedding and head included
  TaskTimes before;                      // the first chunks of the ranks before it, at least
  double work = 0;                       // all of its tasks
  const ChunksOfRank* chunks = nullptr;  // where all ranks hold their chunks in rounds

  DividedRank(const DividedPipeline& p, std::int64_t rank, std::int64_t from, std::int64_t until)
      : pipeline(p),
        r(rank),
        begin(static_cast<std::size_t>(from)),
        end(static_cast<std::size_t>(until)),
        own(p.rank[end] - p.rank[begin]),
        before(p.first[begin] + (rank > 0 ? p.embedding : TaskTimes{})) {
    if (!p.shortfall.empty()) own = at_least_zero(own - p.shortfall[begin]);
    own += p.ends(rank);
    work = p.microbatches * own.all();
    // First chunks hold an even share of their rank's layers at least, the first rank's less than
    // one layer less: there the embedding counts as a burden.
    if (rank > 0) before = at_least_zero(before - p.rounding);
  }

  // The rank's layers alone, whichever layers come before.
  [[nodiscard]] TaskTimes layers() const {
    const TaskTimes all = pipeline.rank[end] - pipeline.rank[begin];
    return pipeline.shortfall.empty() ? all : at_least_zero(all - pipeline.shortfall[0]);
  }

  [[nodiscard]] std::int64_t last_rank() const { return pipeline.ranks - 1; }
  // Forwards before a backward of a schedule that alternates.
  [[nodiscard]] double ahead() const {
    return std::min(pipeline.microbatches, static_cast<double>(pipeline.ranks - r));
  }
  // All its work, with what it stands still for messages.
  [[nodiscard]] double alone() const { return work + pipeline.stalls(r, pipeline.microbatches); }

  // Every schedule: the forwards before the rank's first task, and all its work.
  [[nodiscard]] double entered() const { return before.forward + alone() + pipeline.hops(r); }
  // Where the backward is one task: and back to the first rank.
  [[nodiscard]] double entered_and_left() const {
    return before.all() + alone() + pipeline.hops(2 * r);
  }
};

// Of a V: the second chunk of a rank holds half of its layers, or half a layer less; that of the
// first rank, where the embedding counts as a layer, one layer less.
[[nodiscard]] inline TaskTimes least_second_chunk(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  const TaskTimes half = (p.rank[x.end] - p.rank[x.begin]) * 0.5;
  const TaskTimes least = at_least_zero(half - p.each * (x.r == 0 ? 1.0 : 0.5) - p.below);
  return x.r == 0 ? least + p.head : least;
}

// Those of all ranks before it, the last ones of the model.
[[nodiscard]] inline TaskTimes least_second_chunks_before(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  if (x.r == 0) return {};
  const TaskTimes half = p.rank[x.begin] * 0.5;
  const double less = 0.5 * static_cast<double>(x.r + 1);
  return p.head + at_least_zero(half - p.each * less - p.below);
}

// Of a V, whatever its order: one microbatch through the whole model and back, behind or before the
// same pass of all others through one of the rank's chunks.
[[nodiscard]] inline double v_chain(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  const double others = (p.microbatches - 1) * 0.5 * std::max(x.own.forward, x.own.input);
  return std::max(x.entered(),
                  p.whole.forward + p.whole.input + others + p.hops(4 * x.last_rank()));
}

}  // namespace meshplan

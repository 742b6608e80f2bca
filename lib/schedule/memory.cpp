#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

// [F-PIPE-7] Bytes a task adds, negative when it releases: a forward adds a microbatch's
// activations; a backward, or the two halves of a split one, release them (Qi et al. 2023,
// sec. 2.3, M_B and M_W).
std::int64_t change(TaskKind kind, std::int64_t bytes, std::int64_t kept) {
  switch (kind) {
    case TaskKind::kForward:
      return bytes;
    case TaskKind::kBackward:
      return -bytes;
    case TaskKind::kBackwardInput:
      return kept - bytes;
    case TaskKind::kBackwardWeight:
      return -kept;
  }
  fail_check("known task", __FILE__, __LINE__);
}

// The bytes held repeat from round to round of the steady state, so the template has the same peak.
template <class BytesOf, class KeptOf>
std::int64_t walk(const PipelineShape& s, std::int64_t rank, BytesOf bytes_of, KeptOf kept_of) {
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const Task& t : task_order(steady_template(s), rank)) {
    const auto chunk = static_cast<std::size_t>(t.chunk);
    held += change(t.kind, bytes_of(chunk), kept_of(chunk));
    peak = std::max(peak, held);
  }
  return peak;
}

}  // namespace

// [F-PIPE-8] Activations in flight: GPipe m; 1F1B min(m, p - r); interleaved
// min(m v, 2 (p - r - 1) + (v - 1) g + 1) (Narayanan et al. 2021, sec. 2.2; Megatron-Core
// schedules.py); ZB-H1 min(m, p) (Qi et al. 2023, sec. 2.1). The orders of ZB-V (2p for m >= 2p -
// 1) and DualPipe (p + 1; DeepSeek-V3, table 2) are walked.
std::int64_t peak_in_flight(const PipelineShape& s, std::int64_t rank) {
  PLAN_CHECK(illegal_reason(s).empty() && rank >= 0 && rank < s.pp);
  const std::int64_t m = s.microbatches;
  switch (s.schedule) {
    case Schedule::kGpipe:
      return m;
    case Schedule::k1f1b:
      return std::min(m, s.pp - rank);
    case Schedule::kInterleaved:
      return std::min(m * s.vp, interleaved_warmup(s, rank) + 1);
    case Schedule::kZbH1:
      return std::min(m, s.pp);
    case Schedule::kZbV:
    case Schedule::kDualPipe: {
      const auto one = [](std::size_t) { return std::int64_t{1}; };
      return walk(s, rank, one, one);
    }
  }
  fail_check("known schedule", __FILE__, __LINE__);
}

Bytes peak_activation(const PipelineShape& s, std::int64_t rank,
                      std::span<const Bytes> per_microbatch,
                      std::span<const Bytes> kept_for_weight) {
  PLAN_CHECK(illegal_reason(s).empty() && rank >= 0 && rank < s.pp);
  const auto chunks = static_cast<std::size_t>(num_chunks(s));
  PLAN_CHECK(per_microbatch.size() == chunks && kept_for_weight.size() == chunks);
  if (s.schedule == Schedule::kGpipe || s.schedule == Schedule::k1f1b) {
    return per_microbatch[static_cast<std::size_t>(rank)] * peak_in_flight(s, rank);
  }
  return Bytes{walk(
      s, rank, [&](std::size_t c) { return per_microbatch[c].count(); },
      [&](std::size_t c) { return kept_for_weight[c].count(); })};
}

}  // namespace meshplan

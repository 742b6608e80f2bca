#include <algorithm>

#include "schedule/orders.hpp"

namespace meshplan {
namespace {

struct Turn {
  std::int64_t local_chunk;
  std::int64_t microbatch;
};

// The k-th forward of a rank: groups of microbatches, and within a group one chunk after the other.
// The last group may be smaller. Backwards run the chunks in the reverse order.
Turn turn(const PipelineShape& s, std::int64_t k) {
  const std::int64_t group = interleaved_group(s);
  const std::int64_t first = k / (group * s.vp) * group;
  const std::int64_t size = std::min(group, s.microbatches - first);
  const std::int64_t in_group = k - first * s.vp;
  return {in_group / size, first + in_group % size};
}

}  // namespace

std::int64_t interleaved_group(const PipelineShape& s) { return s.group == 0 ? s.pp : s.group; }

// Narayanan et al. 2021, sec. 2.2.2; Megatron-Core schedules.py, get_pp_rank_microbatches:
// 2 (p - r - 1) + (v - 1) group forwards, at most all, before the rank alternates.
std::int64_t interleaved_warmup(const PipelineShape& s, std::int64_t rank) {
  return std::min(2 * (s.pp - rank - 1) + (s.vp - 1) * interleaved_group(s), s.microbatches * s.vp);
}

// [F-PIPE-3] Idle time with equal chunks (p - 1)(F + B) / v, where F and B are a rank's times for
// all of its v chunks (Narayanan et al. 2021, sec. 2.2.2). A last group of at least p adds nothing.
static TaskOrder interleaved_order(const PipelineShape& s, std::int64_t rank) {
  TaskOrder order;
  const std::int64_t total = s.microbatches * s.vp;
  order.reserve(static_cast<std::size_t>(2 * total));
  const std::int64_t warmup = interleaved_warmup(s, rank);
  const auto forward = [&](std::int64_t k) {
    const Turn t = turn(s, k);
    order.push_back(make_task(TaskKind::kForward, t.local_chunk * s.pp + rank, t.microbatch));
  };
  for (std::int64_t k = 0; k < warmup; ++k) forward(k);
  for (std::int64_t k = 0; k < total; ++k) {
    if (warmup + k < total) forward(warmup + k);
    const Turn t = turn(s, k);
    const std::int64_t local = s.vp - 1 - t.local_chunk;
    order.push_back(make_task(TaskKind::kBackward, local * s.pp + rank, t.microbatch));
  }
  return order;
}

// Megatron-Core schedules.py, forward_backward_pipelining_with_interleaving: the three checks.
static std::string interleaved_illegal_reason(const PipelineShape& s) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  if (s.pp < 2) return "interleaved needs pp >= 2; set vp=1 and schedule=1f1b";
  if (s.vp < 2) return "interleaved needs vp >= 2; set vp=2 or schedule=1f1b";
  if (s.microbatches < s.pp) {
    return "interleaved needs at least pp=" + number(s.pp) + " microbatches, got " +
           number(s.microbatches) + "; raise the global batch or lower dp, micro_batch or pp";
  }
  const std::int64_t group = interleaved_group(s);
  if (group < s.pp) {
    return "interleaved needs a microbatch group of at least pp=" + number(s.pp) + ", got " +
           number(group);
  }
  const std::int64_t rest = s.microbatches % group;
  if (rest != 0 && rest < s.pp) {
    return "interleaved leaves a last group of " + number(rest) + " of " + number(s.microbatches) +
           " microbatches, less than pp=" + number(s.pp) + "; use " +
           number(s.microbatches - rest) + " or " + number(s.microbatches - rest + s.pp) +
           " microbatches" +
           (group == s.pp ? ", or a microbatch group that leaves 0 or at least pp" : "");
  }
  return {};
}

extern const ScheduleTraits kInterleavedTraits;
const ScheduleTraits kInterleavedTraits{
    .fact = "1f1b over vp chunks per rank; the bubble divided by vp, sends multiplied by vp",
    .source = "Narayanan et al. 2021 (2104.04473)",
    .chunks = ChunksPerRank::kSeveral,
    .widely_available = true,
    .order = interleaved_order,
    .illegal_reason = interleaved_illegal_reason,
    .period = interleaved_group,
};

}  // namespace meshplan

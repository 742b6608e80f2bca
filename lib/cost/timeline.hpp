#pragma once
// One step of a plan as a timeline: what every pipeline rank does when. The times are those of the
// plan's cost: the same executor, the same parts.
#include <vector>

#include "cost/block.hpp"
#include "schedule/pipeline.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct Span {
  Seconds start;
  Seconds end;
  bool operator==(const Span&) const = default;
};

struct AllocatedAt {
  Seconds time;
  Bytes bytes;
  bool operator==(const AllocatedAt&) const = default;
};

// One pipeline rank.
struct RankTimeline {
  std::vector<TimelineEntry> tasks;    // by start
  std::vector<TimedMessage> sends;     // that leave this rank, by start
  std::vector<AllocatedAt> allocated;  // each until the next; what the allocator hands out
  Span reduction;  // data-parallel communication that nothing hides; may be empty
};

struct StepTimeline {
  PipelineShape shape;
  std::vector<RankTimeline> ranks;
  // After the last reduction, on all ranks; each may be empty. What passes that run beside no other
  // microbatch's take more is put together here [F-EP-18]; it passes within the tasks.
  Span unpaired, tied_embedding, optimizer, offload;
  Seconds step_time;  // the end of the last of them
};

// `s` must be legal and complete (cost/step.hpp); step_time is cost_of()'s.
[[nodiscard]] StepTimeline step_timeline(const ModelSpec& m, const ClusterSpec& c,
                                         const Strategy& s);

}  // namespace meshplan

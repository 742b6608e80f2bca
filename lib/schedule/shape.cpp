#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "schedule/orders.hpp"
#include "spec/pipeline_limits.hpp"

namespace meshplan {
namespace {

std::string common_illegal_reason(const PipelineShape& s) {
  if (s.pp < 1 || s.vp < 1 || s.microbatches < 1 || s.group < 0) {
    return "pp, vp and the number of microbatches must be at least 1, the microbatch group at "
           "least 0";
  }
  if (s.pp > kMostChunks || s.vp > kMostChunks || s.pp * s.vp > kMostChunks) {
    return "pp * vp is more than " + std::to_string(kMostChunks) + " chunks; lower pp or vp";
  }
  if (s.vp > kMostChunksPerRank) {
    return "vp is more than " + std::to_string(kMostChunksPerRank) + " chunks per rank; lower it";
  }
  if (s.microbatches > std::numeric_limits<std::int32_t>::max() / 2 ||
      s.group > std::numeric_limits<std::int32_t>::max() / 2) {
    return "more than 2^30 microbatches; raise micro_batch or dp";
  }
  return {};
}

std::string one_chunk_illegal_reason(const PipelineShape& s) {
  if (s.vp == 1) return {};
  return std::string(name_of(s.schedule)) +
         " holds one chunk per rank, got vp=" + std::to_string(s.vp) +
         "; set vp=1 or schedule=interleaved";
}

}  // namespace

std::int64_t num_chunks(const PipelineShape& s) {
  return s.schedule == Schedule::kDualPipe ? s.pp : s.pp * s.vp;
}

std::int64_t rank_of_chunk(const PipelineShape& s, std::int64_t chunk, int direction) {
  PLAN_CHECK(chunk >= 0 && chunk < num_chunks(s));
  switch (s.schedule) {
    case Schedule::kGpipe:
    case Schedule::k1f1b:
    case Schedule::kZbH1:
      return chunk;
    case Schedule::kInterleaved:
      return chunk % s.pp;
    case Schedule::kZbV:
      return chunk < s.pp ? chunk : 2 * s.pp - 1 - chunk;
    case Schedule::kDualPipe:
      return direction == 0 ? chunk : s.pp - 1 - chunk;
  }
  fail_check("known schedule", __FILE__, __LINE__);
}

std::string illegal_reason(const PipelineShape& s) {
  if (std::string reason = common_illegal_reason(s); !reason.empty()) return reason;
  switch (s.schedule) {
    case Schedule::kGpipe:
    case Schedule::k1f1b:
    case Schedule::kZbH1:
      return one_chunk_illegal_reason(s);
    case Schedule::kInterleaved:
      return interleaved_illegal_reason(s);
    case Schedule::kZbV:
      return zb_v_illegal_reason(s);
    case Schedule::kDualPipe:
      return dualpipe_illegal_reason(s);
  }
  fail_check("known schedule", __FILE__, __LINE__);
}

std::vector<Task> task_order(const PipelineShape& s, std::int64_t rank) {
  PLAN_CHECK(illegal_reason(s).empty() && rank >= 0 && rank < s.pp);
  switch (s.schedule) {
    case Schedule::kGpipe:
      return gpipe_order(s, rank);
    case Schedule::k1f1b:
      return one_f_one_b_order(s, rank);
    case Schedule::kInterleaved:
      return interleaved_order(s, rank);
    case Schedule::kZbH1:
      return zb_h1_order(s, rank);
    case Schedule::kZbV:
      return zb_v_order(s, rank);
    case Schedule::kDualPipe:
      return dualpipe_order(s, rank);
  }
  fail_check("known schedule", __FILE__, __LINE__);
}

std::int64_t period(const PipelineShape& s) {
  switch (s.schedule) {
    case Schedule::kGpipe:
    case Schedule::k1f1b:
    case Schedule::kZbH1:
    case Schedule::kZbV:
      return 1;
    case Schedule::kInterleaved:
      return interleaved_group(s);
    case Schedule::kDualPipe:
      return 2;
  }
  fail_check("known schedule", __FILE__, __LINE__);
}

PipelineShape steady_template(const PipelineShape& s) {
  const std::int64_t round = period(s);
  const std::int64_t enough = 4 * s.pp + 6 * round;
  if (s.microbatches <= enough) return s;
  PipelineShape t = s;
  t.microbatches = enough + (s.microbatches - enough) % round;
  return t;
}

}  // namespace meshplan

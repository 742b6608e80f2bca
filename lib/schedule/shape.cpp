#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "schedule/limits.hpp"
#include "schedule/orders.hpp"

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

std::string chunks_illegal_reason(const PipelineShape& s) {
  const std::string name(name_of(s.schedule)), got = ", got vp=" + std::to_string(s.vp);
  switch (traits_of(s.schedule).chunks) {
    case ChunksPerRank::kOne:
      if (s.vp == 1) return {};
      return name + " holds one chunk per rank" + got + "; set vp=1 or schedule=interleaved";
    case ChunksPerRank::kTwo:
      if (s.vp == 2) return {};
      return name + " holds two chunks per rank" + got + "; set vp=2";
    case ChunksPerRank::kSeveral:
      if (s.pp < 2) return name + " needs pp >= 2; set vp=1 and schedule=1f1b";
      if (s.vp < 2) return name + " needs vp >= 2; set vp=2 or schedule=1f1b";
      return {};
  }
  return {};
}

}  // namespace

std::int64_t rank_of_chunk(const PipelineShape& s, std::int64_t chunk, int direction) {
  PLAN_CHECK(chunk >= 0 && chunk < num_chunks(s));
  switch (traits_of(s.schedule).layout) {
    case ChunkLayout::kRounds:
      return chunk % s.pp;
    case ChunkLayout::kV:
      return chunk < s.pp ? chunk : 2 * s.pp - 1 - chunk;
    case ChunkLayout::kBidirectional:
      return direction == 0 ? chunk : s.pp - 1 - chunk;
  }
  fail_check("known layout", __FILE__, __LINE__);
}

std::string illegal_reason(const PipelineShape& s) {
  if (std::string reason = common_illegal_reason(s); !reason.empty()) return reason;
  if (std::string reason = chunks_illegal_reason(s); !reason.empty()) return reason;
  const auto own = traits_of(s.schedule).illegal_reason;
  const std::string reason = own == nullptr ? std::string{} : own(s);
  return reason.empty() ? reason : std::string(name_of(s.schedule)) + " " + reason;
}

TaskOrder task_order(const PipelineShape& s, std::int64_t rank) {
  PLAN_CHECK(illegal_reason(s).empty() && rank >= 0 && rank < s.pp);
  return traits_of(s.schedule).order(s, rank);
}

std::int64_t period(const PipelineShape& s) {
  const auto own = traits_of(s.schedule).period;
  return own == nullptr ? 1 : own(s);
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

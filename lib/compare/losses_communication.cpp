// Communication that nothing hides: which, why, and what would hide it.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "compare/losses_parts.hpp"

namespace meshplan {
namespace {

// What a dimension's communication can be changed by.
struct Way {
  CommDimension dimension;
  LossKind kind;
  std::string_view what;
  bool Overlap::*overlap;
  std::string_view option, key;
};
constexpr std::array kWays{
    Way{CommDimension::kTp, LossKind::kTensorParallel, "tensor-parallel communication",
        &Overlap::tp, "--tp-comm-overlap", "overlap.tp=true"},
    Way{CommDimension::kCp, LossKind::kContextParallel, "context-parallel communication", nullptr,
        "", ""},
    Way{CommDimension::kEp, LossKind::kExpertParallel, "expert-parallel communication",
        &Overlap::ep, "--overlap-moe-expert-parallel-comm", "overlap.ep=true"}};

// Two sorts of data-parallel communication: what gathers and what reduces.
struct DataParallel {
  OpTime gathers, reductions;
  Seconds gathers_exposed, reductions_exposed;
};

bool is_gather(CommKind k) { return k == CommKind::kAllGather || k == CommKind::kBroadcast; }
bool is_gather(Collective c) { return c == Collective::kAllGather || c == Collective::kBroadcast; }

DataParallel measured_data_parallel(const DeviceMeasure& d) {
  DataParallel sum;
  for (const CommTime& c : d.communication) {
    if (c.dimension != CommDimension::kDp) continue;
    const bool gather = is_gather(c.kind);
    (gather ? sum.gathers : sum.reductions).time += c.all.time;
    (gather ? sum.gathers_exposed : sum.reductions_exposed) += c.exposed;
  }
  return sum;
}

DataParallel predicted_data_parallel(const PlanCost& plan) {
  DataParallel sum;
  for (const CommEntry& e : plan.communication) {
    if (e.dimension != CommDimension::kDp && e.dimension != CommDimension::kEmbedding) continue;
    const bool gather = is_gather(e.operation);
    (gather ? sum.gathers : sum.reductions).time += e.time_each * e.count_per_step;
    (gather ? sum.gathers_exposed : sum.reductions_exposed) += e.exposed;
  }
  return sum;
}

const ComparedComm* row_of(const TraceComparison& t, CommDimension d) {
  for (const ComparedComm& c : t.communication) {
    if (c.dimension == d) return &c;
  }
  return nullptr;
}

// The calls themselves take longer, hidden or not: the network, not the overlap.
bool is_slow(Seconds measured, Seconds predicted) {
  return predicted.si() > 0 && measured > predicted * 1.3;
}

void add_slow_links(const LossContext& x, std::string_view what, Seconds measured,
                    Seconds predicted, Seconds lost, std::vector<TimeLoss>& all) {
  if (lost < x.least) return;
  TimeLoss f;
  f.kind = LossKind::kSlowLinks;
  f.what = std::string(what) + " is " + fixed(measured / predicted, 1) + " times slower";
  f.evidence = against(measured, predicted) + " for all its calls";
  f.remedy =
      "run nccl-tests on the same nodes and import its log ('meshplan import nccl-tests'): "
      "a link may be down, a topology or NCCL_* variable may keep NCCL from the fast path";
  f.lost = lost;
  all.push_back(std::move(f));
}

// One sort of data-parallel communication.
struct Sort {
  LossKind kind;
  std::string_view what, option, key;
  bool Overlap::*overlap;
};

void add_exposed(const LossContext& x, const Sort& sort, Seconds exposed, Seconds predicted,
                 Seconds time, Seconds predicted_time, std::vector<TimeLoss>& all) {
  const bool stated = x.plan.strategy.overlap.*sort.overlap;
  const Seconds more = exposed - predicted;
  // Slow calls explain what they take longer; what is left of the exposed time is not hidden.
  const Seconds slower = is_slow(time, predicted_time) ? time - predicted_time : Seconds{};
  if (slower.si() > 0 && more > Seconds{} && slower >= more * 0.5) {
    add_slow_links(x, sort.what, time, predicted_time, std::min(more, slower), all);
    return;
  }
  TimeLoss f;
  f.kind = sort.kind;
  f.remedy = "pass " + std::string(sort.option);
  if (!stated) {
    // Predicted as well: what is lost is lost against the plan that hides it.
    const auto change = [&](Strategy& s) { s.overlap.*sort.overlap = true; };
    f.gain = x.gain_of(change);
    if (!f.gain) return;
    f.what = std::string(sort.what) + " is not overlapped";
    f.changes = sort.key;
    f.lost = std::min(exposed, std::max(more, Seconds{}) + *f.gain);
  } else {
    f.what = std::string(sort.what) + " is not overlapped, although the strategy says it is";
    f.remedy +=
        " and look whether it acts: buckets as large as the model, or one microbatch, leave "
        "nothing to hide behind";
    f.lost = more;
  }
  f.evidence = human_time(exposed) + " exposed, " + human_time(predicted) + " predicted";
  if (f.lost >= x.least) all.push_back(std::move(f));
}

void find_data_parallel(const LossContext& x, std::vector<TimeLoss>& all) {
  const DataParallel m = measured_data_parallel(x.device()), p = predicted_data_parallel(x.plan);
  add_exposed(x,
              {LossKind::kGradientReduction, "gradient reduction", "--overlap-grad-reduce",
               "overlap.grad_reduce=true", &Overlap::grad_reduce},
              m.reductions_exposed, p.reductions_exposed, m.reductions.time, p.reductions.time,
              all);
  add_exposed(x,
              {LossKind::kParameterGather, "gathering of parameters", "--overlap-param-gather",
               "overlap.param_gather=true", &Overlap::param_gather},
              m.gathers_exposed, p.gathers_exposed, m.gathers.time, p.gathers.time, all);
}

void find_way(const LossContext& x, const Way& way, std::vector<TimeLoss>& all) {
  const ComparedComm* row = row_of(x.t, way.dimension);
  if (row == nullptr) return;
  const Seconds more = row->measured_exposed - row->predicted_exposed;
  if (more < x.least) return;
  if (is_slow(row->measured.time, row->predicted.time)) {
    const Seconds slower = row->measured.time - row->predicted.time;
    add_slow_links(x, way.what, row->measured.time, row->predicted.time, std::min(more, slower),
                   all);
    return;
  }
  TimeLoss f;
  f.kind = way.kind;
  f.lost = more;
  f.evidence = human_time(row->measured_exposed) + " exposed, " +
               human_time(row->predicted_exposed) + " predicted";
  f.what = "more " + std::string(way.what) + " shows than predicted";
  f.remedy =
      "CUDA_DEVICE_MAX_CONNECTIONS=1 and a communication stream of high priority order it "
      "beside computation";
  if (way.overlap != nullptr && x.plan.strategy.overlap.*way.overlap) {
    f.what = std::string(way.what) + " is not overlapped, although the strategy says it is";
    f.remedy = "look whether " + std::string(way.option) + " acts";
  } else if (way.overlap != nullptr) {
    f.gain = x.gain_of([&](Strategy& s) { s.overlap.*way.overlap = true; });
    if (f.gain) {
      f.remedy = "pass " + std::string(way.option);
      f.changes = way.key;
    }
  }
  all.push_back(std::move(f));
}

void find_pipeline(const LossContext& x, std::vector<TimeLoss>& all) {
  const Strategy& s = x.plan.strategy;
  if (s.pp <= 1) return;
  const Seconds measured = x.device().exposed(CommDimension::kPp);
  const Seconds predicted = x.plan.time.pp_bubble + x.plan.time.pp_comm_exposed;
  if (measured - predicted < x.least) return;
  TimeLoss f;
  f.kind = LossKind::kPipeline;
  f.what = "the pipeline waits longer than its schedule has to";
  f.evidence = against(measured, predicted) + " of messages and bubble";
  f.remedy = "trace every pipeline rank: the slowest one sets the pace";
  f.lost = measured - predicted;
  const auto more_chunks = [&](Strategy& changed) {
    changed.vp *= 2;
    changed.schedule = Schedule::kInterleaved;
    changed.stage_layers.clear();
    changed.chunk_layers.clear();
    changed.recompute_layers.clear();
  };
  if (s.schedule == kPlainSchedule || s.schedule == Schedule::kInterleaved) {
    f.gain = x.gain_of(more_chunks);
  }
  if (f.gain) {
    f.changes = "vp=" + std::to_string(s.vp * 2);
    f.remedy += "; " + std::to_string(s.vp * 2) + " virtual stages shorten the bubble";
  }
  all.push_back(std::move(f));
}

}  // namespace

void find_communication(const LossContext& x, std::vector<TimeLoss>& all) {
  find_data_parallel(x, all);
  for (const Way& way : kWays) find_way(x, way, all);
  find_pipeline(x, all);
  const Seconds slow = x.device().slow_down;
  // Priced already: what the plan adds where communication runs beside computation.
  const double price = std::max(x.c.device.overlap_slowdown - 1, 0.0);
  const Seconds predicted = x.device().beside * (price / (1 + price));
  if (slow - predicted < x.least) return;
  TimeLoss f;
  f.kind = LossKind::kSlowDown;
  f.what = "kernels are slower beside communication than the profile says";
  f.evidence = human_time(slow) + " longer than the same kernels take alone, " +
               human_time(predicted) + " predicted, in " + human_time(x.device().beside) +
               " that both run";
  f.remedy =
      "fewer multiprocessors for NCCL (NCCL_MAX_CTAS, NCCL_CTA_POLICY), or NVLS and "
      "user-buffer registration, which need fewer";
  f.lost = slow - predicted;
  all.push_back(std::move(f));
}

}  // namespace meshplan

#include "cost/step_model.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "cost/data_parallel.hpp"
#include "cost/host_time.hpp"
#include "schedule/chunk_map.hpp"
#include "schedule/traits.hpp"

namespace meshplan {
namespace {

// [F-ALLOC-1] Where the peak exceeds the device, PyTorch's caching allocator lives on giving blocks
// back: every message's allocation fails first, waits for the device, frees and maps again. All of
// them from 5 % over the capacity on; a stage sends and receives at most four messages per
// microbatch.
Seconds retry_time(const Strategy& s, Bytes peak, Bytes capacity, double microbatches) {
  if (s.runtime.retry_stall == 0) return {};
  constexpr double kAllFail = 0.05;
  const double over = peak.si() / capacity.si() - 1;
  const double share = std::min(1.0, std::max(0.0, over / kAllFail));
  const double messages = static_cast<double>(std::min<std::int64_t>(2 * (s.pp - 1), 4));
  return Seconds{s.runtime.retry_stall} * (share * std::max(1.0, messages) * microbatches);
}

}  // namespace

StepModel::StepModel(const ModelSpec& m, const ClusterSpec& c, PipelineRunner& runner)
    : model_(m), cluster_(c), prefix_(layer_prefix(m, Strategy{})), runner_(runner) {
  ran_.pp = 0;
}

std::size_t StepModel::kind_of(const Chunk& chunk, const Strategy& s) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].device == chunk.device && kinds_[i].blocks == chunk.blocks &&
        kinds_[i].recomputed == chunk.recomputed) {
      return i;
    }
  }
  kinds_.push_back({chunk.device, chunk.blocks, chunk.recomputed,
                    chunk_cost(chunk, *blocks_, s.recompute),
                    saved_bytes(chunk, saved_rates(*blocks_, s.recompute, chunk.device))});
  return kinds_.size() - 1;
}

void StepModel::set_chunks(const Strategy& s, const BlockCosts& blocks) {
  blocks_ = &blocks;
  microbatches_ = static_cast<double>(num_microbatches(s));
  share_ = traits_of(s.schedule).share();
  const std::array<std::int64_t, 2> in_bf16{s.runtime.num_layers_at_start_in_bf16,
                                            s.runtime.num_layers_at_end_in_bf16};
  if (in_bf16 != in_bf16_) prefix_ = layer_prefix(model_, s), in_bf16_ = in_bf16;
  place_chunks(model_, prefix_, s, chunks_);
  kinds_.clear(), kind_of_chunk_.clear(), times_.clear();
  for (const Chunk& chunk : chunks_) {
    kind_of_chunk_.push_back(kind_of(chunk, s));
    times_.push_back(kinds_[kind_of_chunk_.back()].cost.time);
  }
  uneven_ = model_.lengths ? uneven_work(chunks_, blocks, s, share_ * microbatches_) : UnevenWork{};
}

// What a rank works on of chunks that microbatches of both directions pass, each passes its share
// of.
void StepModel::set_ranks(const Strategy& s) {
  const PipelineShape shape = pipeline_shape(s);
  groups_.clear(), group_of_rank_.clear();
  for (std::int64_t r = 0; r < s.pp; ++r) {
    const RankChunks own = chunks_on_rank(shape, r);
    bool alike = r > 0;
    if (alike) {
      const RankChunks before = chunks_on_rank(shape, r - 1);
      for (std::int64_t i = 0; i < own.count && alike; ++i) {
        alike = kind_of_chunk_[own[i]] == kind_of_chunk_[before[i]];
      }
    }
    if (!alike) {
      RankGroup& group = groups_.emplace_back();
      group.first = static_cast<std::size_t>(r);
      group.mine = Chunk(prefix_.table.size());
      group.mine.device = chunks_[own[0]].device;
      for (std::int64_t i = 0; i < own.count; ++i) {
        const ChunkKind& kind = kinds_[kind_of_chunk_[own[i]]];
        group.passes.forward += kind.cost.forward * share_;
        group.passes.backward += kind.cost.backward * share_;
        group.passes.recompute += kind.cost.recompute * share_;
        group.saved += ceil_bytes(kind.saved.whole.si() * share_);
        add_blocks(chunks_[own[i]], group.mine);
      }
      if (group.mine.blocks.head() > 0) {
        const BlockCost& head =
            blocks_->of(head_block(group.mine.blocks.size()), group.mine.device);
        group.deferred = head.deferred_weight * (microbatches_ * share_);
      }
    }
    group_of_rank_.push_back(groups_.size() - 1);
  }
}

void StepModel::add_activations(const Strategy& s, const std::vector<InFlight>& in_flight) {
  const PipelineShape shape = pipeline_shape(s);
  in_flight_ = &in_flight;
  activations_.clear(), graph_inputs_.clear(), graph_saved_.clear();
  for (std::size_t r = 0; r < group_of_rank_.size(); ++r) {
    RankGroup& group = groups_[group_of_rank_[r]];
    if (group.first == r) {
      saved_.clear(), kept_.clear();
      const RankChunks own = chunks_on_rank(shape, static_cast<std::int64_t>(r));
      for (std::int64_t i = 0; i < own.count; ++i) {
        const ChunkKind& kind = kinds_[kind_of_chunk_[own[i]]];
        saved_.push_back(kind.saved.whole), kept_.push_back(kind.saved.for_weight);
      }
    }
    activations_.push_back(in_flight[r].peak(saved_, kept_));
    group.memory.activations = std::max(group.memory.activations, activations_.back());
    set_offloaded(*blocks_, group.mine, s, group.memory);
    if (group.first == r) {  // the head's rank is like no other
      group.memory.given_back =
          given_back(s, *blocks_, group.mine, in_flight[r], saved_, kept_, activations_.back());
    }
    if (s.runtime.cuda_graph == CudaGraph::kLayer) {
      graph_inputs_.push_back(in_flight_of(&BlockCost::graph_inputs, s, r, in_flight[r]));
      group.memory.graph_inputs = std::max(group.memory.graph_inputs, graph_inputs_.back());
      const bool first = s.runtime.cuda_graph_warmup_steps == 0;
      graph_saved_.push_back(first ? in_flight_of(&BlockCost::graph_saved, s, r, in_flight[r])
                                   : Bytes{});
      group.memory.graph_saved = std::max(group.memory.graph_saved, graph_saved_.back());
    }
  }
}

// [F-GRAPH-1], [F-GRAPH-2] Of all microbatches in flight.
Bytes StepModel::in_flight_of(Bytes BlockCost::*part, const Strategy& s, std::size_t rank,
                              const InFlight& in_flight) const {
  const RankChunks own = chunks_on_rank(pipeline_shape(s), static_cast<std::int64_t>(rank));
  std::vector<Bytes> all(static_cast<std::size_t>(own.count)), none = all;
  for (std::int64_t i = 0; i < own.count; ++i) {
    const ChunkKind& kind = kinds_[kind_of_chunk_[own[i]]];
    for (std::size_t k = 0; k < kind.blocks.size(); ++k) {
      if (kind.blocks[k] == 0) continue;
      all[static_cast<std::size_t>(i)] +=
          blocks_->of(k, kind.device).*part * (kind.blocks[k] - kind.recomputed[k]);
    }
  }
  return in_flight.peak(all, none);
}

void StepModel::run(const Strategy& s, const Placement& placement) {
  if (s.pp == 1) {
    finish_.assign(1, groups_.front().passes.total() * microbatches_);
    ran_.pp = 0, send_ = {};
  } else {
    const PipelineShape shape = pipeline_shape(s);
    send_ = boundary_send(model_, cluster_, s, placement);
    // Another rank order often changes nothing that the pipeline sees.
    if (ran_ != shape || ran_send_ != send_.time || ran_times_ != times_) {
      sends_.assign(times_.size() - 1, send_.time);
      finish_ = runner_.finish(shape, times_, sends_, sends_);
      ran_ = shape, ran_send_ = send_.time, ran_times_ = times_;
    }
  }
  for (std::size_t r = 0; r < finish_.size(); ++r) {
    RankGroup& group = groups_[group_of_rank_[r]];
    group.finish = std::max(group.finish, finish_[r]);
  }
}

void StepModel::set_pipeline(const Strategy& s, const BlockCosts& blocks,
                             const Placement& placement, const std::vector<InFlight>& in_flight) {
  placement_ = nullptr;
  set_chunks(s, blocks);
  set_ranks(s);
  add_activations(s, in_flight);
  run(s, placement);
}

const RankEnd& StepModel::end_of(const Placement& placement, const BlockParameters& p) {
  constexpr std::size_t kPlaces = 1024;
  constexpr int kWithout = 8;  // a single strategy's few are not worth a table
  if (ends_.empty() && ++asked_ <= kWithout) {
    lone_end_ = placement.end_of(model_, cluster_, p);
    return lone_end_;
  }
  if (ends_.empty()) ends_.resize(kPlaces);
  std::uint64_t hash = placement.number();
  for (const std::int64_t value : {p.dense, p.experts}) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32U;
  }
  KnownEnd& known = ends_[hash % kPlaces];
  if (known.placement != placement.number() || known.parameters != p) {
    known = {placement.number(), p, placement.end_of(model_, cluster_, p)};
  }
  return known.end;
}

void StepModel::set_sharding(const Strategy& s, const Placement& placement) {
  placement_ = &placement;
  const MemoryRates rates = memory_rates(model_, cluster_, s);
  for (RankGroup& group : groups_) {
    set_stored(rates, *blocks_, group.mine, s.recompute, group.memory);
    group.end = end_of(placement, group.memory.parameters);
  }
}

StepModel::StepTail StepModel::tail_of(const Strategy& s) const {
  PLAN_CHECK(!groups_.empty());
  StepTail tail;
  tail.last = &groups_.front();
  Seconds latest{-1};
  for (const RankGroup& group : groups_) {
    const RankCost& passes = group.passes;
    const StepEnd here = step_end(cluster_, s, group.end, passes);
    const Seconds end = group.finish + group.deferred.total() + here.exposed;
    if (end > latest) latest = end, tail.last = &group, tail.reduction = here.exposed;
    Seconds copies;
    if (s.offload.activations) {
      const Seconds backward = passes.backward.total() + passes.recompute.total();
      const Bytes saved =
          ceil_bytes(group.saved.si() * s.offload.share_of_layers(model_.num_layers));
      copies = activation_offload_time(cluster_.device, saved, passes.forward.total(), backward) *
               microbatches_;
    }
    const Bytes peak =
        memory_breakdown(cluster_, group.memory, s, placement_->communicators()).peak;
    copies += page_time(cluster_.device, group.memory.states.paged, peak);
    tail.optimizer = std::max(tail.optimizer, here.optimizer);
    tail.offload = std::max(tail.offload, here.offload + copies);
    tail.host = std::max(tail.host, host_bytes(group.memory, s.offload));
    tail.peak = std::max(tail.peak, peak);
  }
  tail.offload += logging_time(cluster_, s.runtime);
  return tail;
}

// [F-LEN-7] While the rank with the longest documents works, the others wait: what a step's tokens
// and pairs take on the mean rank, times what the heaviest has of them over the mean, less one.
// Stages of a pipeline count alike, and microbatches that pass them in turn as if each were the
// mean.
Seconds StepModel::uneven_time(const Unevenness& u) const {
  return uneven_.tokens * (u.tokens.mean - 1) + uneven_.pairs * (u.squares.mean - 1);
}

// [F-EP-18] With overlapped dispatch the first microbatch's forward and the last one's backward
// pass have none to run beside: the p - 1 ranks before the last one and its own chunks, of which an
// interleaved pipeline runs (v - 1) g + 1 before the first pair (Megatron-Core
// pipeline_parallel/combined_1f1b.py; schedules.py, get_pp_rank_microbatches).
PassTime StepModel::unpaired_time(const Strategy& s) const {
  PassTime all;
  if (!s.overlap.ep) return all;
  for (const Chunk& chunk : chunks_) all += unpaired_passes(*blocks_, chunk.blocks, chunk.device);
  // A host that catches up while messages are seen takes away from what these show.
  const Seconds caught_up = std::min(all.launch, Seconds{});
  all.ep += caught_up, all.launch -= caught_up;
  if (s.schedule != Schedule::kInterleaved) return all;
  const PipelineShape shape = pipeline_shape(s);
  const std::int64_t group = shape.group == 0 ? s.pp : shape.group;
  const std::int64_t chunks = std::min((s.vp - 1) * group + 1, s.vp * shape.microbatches);
  return all * (static_cast<double>(chunks + s.pp - 1) / static_cast<double>(s.vp * s.pp));
}

TimeTerms StepModel::terms_of(const Strategy& s, const StepTail& tail) const {
  TimeTerms t = step_terms({tail.last->passes, microbatches_, tail.last->finish, tail.reduction,
                            placement_->tied(), tail.optimizer, tail.offload});
  const PassTime& deferred = tail.last->deferred;
  t.compute += deferred.compute, t.tp_comm_exposed += deferred.tp, t.other += deferred.launch;
  const PassTime alone = unpaired_time(s);
  t.ep_comm_exposed += alone.ep, t.other += alone.launch;
  if (model_.lengths) t.uneven = uneven_time(unevenness(model_, s));
  t.other = t.other + retry_time(s, tail.peak, cluster_.device.memory, microbatches_);
  return t;
}

StepValue StepModel::evaluate(const Strategy& s) const {
  const StepTail tail = tail_of(s);
  StepValue value;
  value.step_time = total(terms_of(s, tail));
  value.peak = tail.peak;
  value.host = tail.host * cluster_.gpus_per_node;
  const bool host_fits = cluster_.host_memory == Bytes{} || value.host <= cluster_.host_memory;
  value.fits = value.peak <= cluster_.device.memory && host_fits;
  return value;
}

std::optional<CriticalPath> StepModel::longest_chain(const Strategy& s) {
  const PipelineShape shape = pipeline_shape(s);
  std::vector<Seconds> exposed;
  if (placement_ != nullptr) {
    exposed.reserve(group_of_rank_.size());
    for (const std::size_t g : group_of_rank_) {
      exposed.push_back(step_end(cluster_, s, groups_[g].end, groups_[g].passes).exposed +
                        groups_[g].deferred.total());
    }
  }
  return critical_path(runner_.program(shape), shape, times_, sends_, sends_, exposed);
}

StepEnd StepModel::end_of_rank(const Strategy& s, const BlockCosts& blocks,
                               const Placement& placement, const Chunk& mine) {
  const ChunkCost cost = chunk_cost(mine, blocks, s.recompute);
  const double share = traits_of(s.schedule).share();
  const BlockParameters p = held_parameters(memory_rates(model_, cluster_, s), blocks, mine);
  return step_end(cluster_, s, end_of(placement, p),
                  {cost.forward * share, cost.backward * share, cost.recompute * share});
}

Seconds StepModel::lower_bound(const Strategy& s, const BlockCosts& blocks,
                               const Placement& placement, Seconds enough) {
  set_chunks(s, blocks);
  set_ranks(s);
  const Seconds pipeline = s.pp > 1 ? makespan_lower_bound(pipeline_shape(s), times_)
                                    : groups_.front().passes.total() * microbatches_;
  if (pipeline > enough) return pipeline;
  const MemoryRates rates = memory_rates(model_, cluster_, s);
  Seconds exposed = enough, optimizer, offload;
  for (const RankGroup& group : groups_) {
    const RankEnd& rank = end_of(placement, held_parameters(rates, blocks, group.mine));
    const StepEnd end = step_end(cluster_, s, rank, group.passes);
    exposed = std::min(exposed, end.exposed);
    optimizer = std::max(optimizer, end.optimizer), offload = std::max(offload, end.offload);
  }
  const PassTime alone = unpaired_time(s);
  return pipeline + exposed + optimizer + offload + alone.ep + alone.launch;
}

namespace {

// What the strategies of one thread share: task orders, and the last pipeline's microbatches in
// flight.
struct Pipelines {
  PipelineRunner runner;
  PipelineShape shape;
  std::vector<InFlight> in_flight;

  const std::vector<InFlight>& in_flight_of(const PipelineShape& s) {
    if (in_flight.empty() || shape != s) {
      in_flight.clear();
      for (std::int64_t r = 0; r < s.pp; ++r) in_flight.push_back(meshplan::in_flight(s, r));
      shape = s;
    }
    return in_flight;
  }
};

Pipelines& pipelines() {
  thread_local Pipelines mine;
  return mine;
}

}  // namespace

OneStep::OneStep(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                 const BlockCosts& blocks)
    : placement_(m, c, s), model_(m, c, pipelines().runner) {
  model_.set_pipeline(s, blocks, placement_, pipelines().in_flight_of(pipeline_shape(s)));
  model_.set_sharding(s, placement_);
}

}  // namespace meshplan

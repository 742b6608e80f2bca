#include "search/evaluator.hpp"

#include <algorithm>

#include "cost/data_parallel.hpp"
#include "spec/strategy.hpp"

namespace meshplan {
namespace {

bool same(const RankCost& a, const RankCost& b) {
  return a.forward == b.forward && a.backward == b.backward && a.recompute == b.recompute;
}

}  // namespace

std::size_t StrategyEvaluator::kind_of(const Chunk& chunk, const Strategy& s) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].blocks == chunk.blocks && kinds_[i].recomputed == chunk.recomputed) return i;
  }
  const Recompute mode = s.recompute == Recompute::kFull ? Recompute::kNone : s.recompute;
  kinds_.push_back({chunk.blocks, chunk.recomputed, chunk_cost(chunk, *blocks_, mode),
                    saved_bytes(chunk, *blocks_, s.recompute),
                    kept_bytes(chunk, *blocks_, s.recompute)});
  return kinds_.size() - 1;
}

// As chunk_plan() does: as even as it goes, what is left over to chunks without the embedding or
// the head first, and a rank's first layers recomputed.
void StrategyEvaluator::place_rank(const Strategy& s, std::int64_t rank) {
  const std::size_t all = chunks_.size();
  const RankChunks home = home_chunks({s.schedule, s.pp, s.vp}, rank);
  const std::int64_t mine = home.count;
  const std::int64_t layers = s.stage_layers[static_cast<std::size_t>(rank)];
  const std::int64_t even = layers / mine, left = layers % mine;
  const bool embedding = home.first == 0;
  const bool head = home.last() + 1 == all;
  const bool twice = mine == 1 && embedding && head;
  const std::int64_t unburdened = mine - (embedding ? 1 : 0) - (head && !twice ? 1 : 0);
  for (std::int64_t i = 0; i < mine; ++i) {
    std::int64_t turn = i - (embedding ? 1 : 0);
    if (embedding && i == 0) turn = unburdened;
    if (head && i + 1 == mine && !twice) turn = unburdened + (embedding ? 1 : 0);
    Chunk& chunk = chunks_[home[i]];
    chunk.rank = rank;
    chunk.layers = even + (turn < left ? 1 : 0);
  }
}

void StrategyEvaluator::lay_out(const Strategy& s) {
  const PipelineShape shape = pipeline_shape(s);
  chunks_.assign(static_cast<std::size_t>(num_chunks(shape)), Chunk(prefix_.table.size()));
  for (std::int64_t r = 0; r < s.pp; ++r) place_rank(s, r);
  std::int64_t next = 0;
  for (Chunk& chunk : chunks_) {
    chunk.first_layer = next;
    next += chunk.layers;
  }
  for (std::int64_t r = 0; r < s.pp; ++r) {
    const RankChunks home = home_chunks(shape, r);
    std::int64_t left = s.recompute_layers[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < home.count; ++i) {
      Chunk& chunk = chunks_[home[i]];
      const std::int64_t again = std::min(left, chunk.layers);
      const BlockCounts &begin = prefix_.until(chunk.first_layer),
                        &middle = prefix_.until(chunk.first_layer + again),
                        &end = prefix_.until(chunk.first_layer + chunk.layers);
      for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
        chunk.blocks[k] = end[k] - begin[k];
        chunk.recomputed[k] = middle[k] - begin[k];
      }
      left -= again;
    }
  }
  ++chunks_.front().blocks.embedding();
  Chunk& last = chunks_.back();
  ++last.blocks.head();
  last.blocks.mtp() = model_.mtp_layers;
  if (s.recompute == Recompute::kFull && last.layers > 0 &&
      s.recompute_layers[static_cast<std::size_t>(last.rank)] > 0) {
    last.recomputed.mtp() = model_.mtp_layers;
  }
  kinds_.clear(), chunk_kinds_.clear(), times_.clear();
  for (const Chunk& chunk : chunks_) {
    chunk_kinds_.push_back(kind_of(chunk, s));
    times_.push_back(kinds_[chunk_kinds_.back()].cost.time);
  }
}

const StrategyEvaluator::Placed& StrategyEvaluator::placed_of(const Strategy& s) {
  const Placement key{s.order, s.tp, s.pp, s.cp, s.dp, s.grad_dtype};
  for (const Placed& known : placed_) {
    if (known.key == key) return known;
  }
  constexpr std::size_t kMost = 64;
  const std::size_t at = placed_.size() < kMost ? placed_.size() : oldest_++ % kMost;
  if (at == placed_.size()) placed_.emplace_back();
  placed_[at] = {key, group_shape(s, cluster_, Group::kPpNeighbour),
                 embedding_reduction(model_, cluster_, s, nullptr)};
  return placed_[at];
}

const SendTime& StrategyEvaluator::send_of(const Strategy& s) {
  const bool known = sent_.tp == s.tp && sent_.pp == s.pp && sent_.cp == s.cp && sent_.dp == s.dp &&
                     sent_.micro_batch == s.micro_batch && sent_.seq_len == s.seq_len &&
                     sent_.sequence_parallel == s.sequence_parallel && sent_.order == s.order &&
                     sent_.overlap == s.overlap && sent_.kernels == s.kernels &&
                     sent_.schedule == s.schedule && sent_.framework == s.framework &&
                     sent_.precision == s.precision && sent_.grad_dtype == s.grad_dtype;
  if (!known) {
    sent_ = s;
    const Placed& placed = placed_of(s);
    send_ = boundary_send(model_, cluster_, s, placed.neighbours).time;
    tied_ = placed.tied;
  }
  return send_;
}

void StrategyEvaluator::run(const Strategy& s) {
  if (s.pp == 1) {
    const ChunkCost& cost = kinds_[chunk_kinds_.front()].cost;
    const RankCost rank{cost.forward * share_, cost.backward * share_, cost.recompute * share_};
    finish_.assign(1, rank.total() * microbatches_);
    sent_.pp = ran_.pp = 0, tied_ = Seconds{};
    return;
  }
  const PipelineShape shape = pipeline_shape(s);
  const SendTime& send = send_of(s);
  // Another rank order often changes nothing that the pipeline sees.
  if (ran_ == shape && ran_send_ == send && ran_times_ == times_) return;
  sends_.assign(times_.size() - 1, send);
  finish_ = runner_.finish(shape, times_, sends_, sends_);
  ran_ = shape, ran_send_ = send, ran_times_ = times_;
}

void StrategyEvaluator::add_rank(const Strategy& s, std::int64_t rank, const InFlight& in_flight) {
  const RankChunks own = chunks_on_rank({s.schedule, s.pp, s.vp}, rank);
  Chunk mine(prefix_.table.size());
  RankCost passes;
  saved_.clear(), kept_.clear();
  for (std::int64_t i = 0; i < own.count; ++i) {
    const Chunk& chunk = chunks_[own[i]];
    const Kind& kind = kinds_[chunk_kinds_[own[i]]];
    passes.forward += kind.cost.forward * share_;
    passes.backward += kind.cost.backward * share_;
    passes.recompute += kind.cost.recompute * share_;
    for (std::size_t k = 0; k < mine.blocks.size(); ++k) {
      mine.blocks[k] += chunk.blocks[k];
      mine.recomputed[k] += chunk.recomputed[k];
    }
    saved_.push_back(kind.saved), kept_.push_back(kind.kept);
  }
  const bool alike = !ranks_.empty() && ranks_.back().mine.blocks == mine.blocks &&
                     ranks_.back().mine.recomputed == mine.recomputed &&
                     same(ranks_.back().passes, passes);
  if (!alike) {
    Ranks& now = ranks_.emplace_back();
    now.mine = mine, now.passes = passes;
    now.resident = resident_activations(s, *blocks_, std::span(&mine, 1));
  }
  Ranks& now = ranks_.back();
  now.activations = std::max(now.activations, in_flight.peak(saved_, kept_));
  now.finish = std::max(now.finish, finish_[static_cast<std::size_t>(rank)]);
}

void StrategyEvaluator::set_pipeline(const Strategy& s, const BlockCosts& blocks) {
  blocks_ = &blocks;
  microbatches_ = static_cast<double>(num_microbatches(s));
  share_ = traits_of(s.schedule).share();
  lay_out(s);
  run(s);
  const std::vector<InFlight>& in_flight = in_flight_.of(pipeline_shape(s));
  ranks_.clear();
  for (std::int64_t r = 0; r < s.pp; ++r) {
    add_rank(s, r, in_flight[static_cast<std::size_t>(r)]);
  }
}

void StrategyEvaluator::set_sharding(const Strategy& s, const StepEndGroups& groups,
                                     Bytes communicators) {
  communicators_ = communicators;
  MemoryRates rates = memory_rates(model_, s);
  rates.optimizer_on_host = false;
  MemoryRates host = rates;
  host.optimizer_on_host = true;
  for (Ranks& ranks : ranks_) {
    const std::span<const Chunk> mine(&ranks.mine, 1);
    const BlockParameters p = held_parameters(rates, *blocks_, mine);
    ranks.end = ends_.of(s, groups, p);
    const StateBytes states = state_bytes(rates, p);
    ranks.states = states.weights + states.gradients;
    ranks.optimizer = states.optimizer;
    ranks.update = states.update;
    ranks.late_gradients = states.late;
    ranks.optimizer_on_host = offloaded_bytes(host, p);
    ranks.buffers = buffer_bytes(rates, *blocks_, mine, s.recompute);
  }
}

std::optional<CriticalPath> StrategyEvaluator::longest_chain(const Strategy& s) {
  const PipelineShape shape = pipeline_shape(s);
  return critical_path(runner_.program(shape), shape, times_, sends_, sends_);
}

Bytes StrategyEvaluator::peak_of(const Ranks& ranks, bool offloads_activations,
                                 bool offloads_optimizer) const {
  const StateBytes states{ranks.states,
                          {},
                          offloads_optimizer ? Bytes{} : ranks.optimizer,
                          offloads_optimizer ? Bytes{} : ranks.update,
                          ranks.late_gradients};
  return memory_breakdown(cluster_, states,
                          offloads_activations ? ranks.resident : ranks.activations, ranks.buffers,
                          communicators_)
      .peak;
}

Evaluated StrategyEvaluator::evaluate(const Strategy& s) const {
  Evaluated result;
  Seconds latest{-1}, reduction, optimizer, offload;
  const Ranks* last = &ranks_.front();
  for (const Ranks& ranks : ranks_) {
    const Seconds forward = ranks.passes.forward.total();
    const Seconds backward = ranks.passes.backward.total() + ranks.passes.recompute.total();
    const StepEnd here = step_end(cluster_, s, ranks.end, forward, backward);
    const Seconds end = ranks.finish + here.exposed;
    if (end > latest) latest = end, last = &ranks, reduction = here.exposed;
    Seconds copies;
    Bytes host;
    if (s.offload.optimizer) host += ranks.optimizer_on_host;
    if (s.offload.activations) {
      // Without a pipeline: all of the one rank's activations leave.
      const Bytes saved = kinds_[chunk_kinds_.front()].saved;
      copies = activation_offload_time(cluster_.device, saved, forward, backward) * microbatches_;
      host += ranks.activations;
    }
    optimizer = std::max(optimizer, here.optimizer);
    offload = std::max(offload, here.offload + copies);
    result.host = std::max(result.host, host);
    result.peak = std::max(result.peak, peak_of(ranks, s.offload.activations, s.offload.optimizer));
  }
  result.host = result.host * cluster_.gpus_per_node;
  result.step_time = total(step_terms({last->passes, microbatches_, last->finish, last->finish,
                                       reduction, tied_, optimizer, offload}));
  const bool host_fits = cluster_.host_memory == Bytes{} || result.host <= cluster_.host_memory;
  result.fits = result.peak <= cluster_.device.memory && host_fits;
  return result;
}

}  // namespace meshplan

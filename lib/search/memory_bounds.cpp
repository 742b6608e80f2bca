#include <algorithm>
#include <limits>

#include "base/units.hpp"
#include "cost/memory.hpp"
#include "model/parameters.hpp"
#include "schedule/traits.hpp"
#include "search/bounds.hpp"

// What ranks must hold at least, and what they can therefore not do in time.

namespace meshplan {
namespace {

// Per block of one kind, on one device.
struct BlockBytes {
  double number = 0;  // of such blocks in the model
  double states = 0, saved = 0;
};

// What the fullest moment of any rank needs beside all that it saves: a layer's temporaries, or on
// the rank of the head what its own need, if that is more than a layer needs beyond what the head
// has given back by then ([F-MEM-13]).
Bytes least_buffers(const LayerPrefix& prefix, const ModelSpec& m, const BlockCosts& blocks) {
  const BlockCounts counts = prefix.with_ends(m);
  Bytes layer{std::numeric_limits<std::int64_t>::max() / 4};
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] > 0 && prefix.table.is_layer(k)) layer = std::min(layer, blocks[k].working_set);
  }
  const auto most = [](const SavedActivations& s) {
    return std::max({s.none, s.selective, s.full});
  };
  Bytes back = most(blocks.head().saved);
  if (m.mtp_layers > 0) back += most(blocks.mtp().saved) * m.mtp_layers;
  return std::min(layer, std::max(blocks.head().working_set, layer - back));
}

double least_of(const SavedActivations& saved) {
  return std::min({saved.none, saved.selective, saved.full}).si();
}

BlockBytes bytes_of(const MemoryRates& rates, const Offload& offload, const BlockCost& block,
                    std::int64_t number) {
  BlockBytes bytes;
  bytes.number = real(number);
  // Late gradients take the place of what is counted as saved.
  const BlockParameters& p = block.parameters;
  bytes.states = unrounded_bytes(rates, rates.weights, p);
  if (!rates.late_gradients) bytes.states += unrounded_bytes(rates, rates.gradients, p);
  bytes.states += unrounded_bytes(rates, rates.optimizer, p) * offload.device_share();
  if (!offload.master_weights) {
    bytes.states += unrounded_bytes(rates, rates.master, p) * offload.host_share();
  }
  bytes.saved = least_of(block.saved);
  return bytes;
}

}  // namespace

Bytes memory_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                   const std::vector<InFlight>& in_flight, Bytes communicators, bool offloads,
                   std::optional<Recompute> saved_as, const PerBlock<SavedActivations>* listed) {
  if (x.request.ignore_activations) return states_bound(x, s, blocks, communicators);
  MemoryRates rates = memory_rates(x.model, x.cluster, s);
  const std::int64_t copies = traits_of(s.schedule).copies();
  const LayerPrefix& prefix = x.prefix(s);
  const BlockCounts counts = prefix.with_ends(x.model);
  PerBlock<BlockBytes> kinds(counts.size());
  double states = 0, saved = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0) continue;
    kinds[k] = bytes_of(rates, s.offload, blocks[k], counts[k] * copies);
    const SavedActivations& kept = listed == nullptr ? blocks[k].saved : (*listed)[k];
    const bool is_known = saved_as && prefix.table.is_layer(k);
    kinds[k].saved = is_known ? kept.of(*saved_as).si() : least_of(kept);
    if (offloads) kinds[k].saved = 0;
    states += kinds[k].number * kinds[k].states, saved += kinds[k].number * kinds[k].saved;
  }
  const Bytes buffers = least_buffers(prefix, x.model, blocks);
  const double fixed = (buffers + least_fixed(rates, x.cluster.device, communicators)).si();
  double weights = 0, least = 1e300, most = 0;
  for (const InFlight& rank : in_flight) {
    const double held = rank.least_held;
    weights += 1 / (states + saved * held);
    least = std::min(least, held), most = std::max(most, held);
  }
  // Where all states are on the host and nothing is saved the layers take nothing.
  if (states + saved * least <= 0) return Bytes{static_cast<std::int64_t>(fixed * (1 - 1e-9))};
  double sum = 0;
  for (const BlockBytes& k : kinds) {
    const auto at = [&](double held) {
      return (k.states + k.saved * held) / (states + saved * held);
    };
    sum += k.number * std::min(at(least), at(most));
  }
  return Bytes{static_cast<std::int64_t>((fixed + sum / weights) * (1 - 1e-9))};
}

Bytes weights_bound(const SearchContext& x, const Strategy& s) {
  if (x.request.ignore_activations) return {};
  const LayerPrefix& prefix = x.prefix(s);
  const MemoryRates rates = memory_rates(x.model, x.cluster, s);
  double states = 0;
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(prefix.table.size()); ++k) {
    BlockCost block;
    block.parameters = layer_parameters_of_device(x.model, s, prefix.table.layer(k));
    states += real(prefix.all()[k]) * bytes_of(rates, s.offload, block, 1).states;
  }
  const double fixed = least_fixed(rates, x.cluster.device, Bytes{}).si();
  return Bytes{static_cast<std::int64_t>((fixed + states / real(s.pp)) * (1 - 1e-9))};
}

bool host_may_hold(const SearchContext& x, const Strategy& s) {
  const Bytes most = x.host_capacity();
  if (most >= kNoLimit) return true;
  const LayerPrefix& prefix = x.prefix(s);
  const MemoryRates rates = memory_rates(x.model, x.cluster, s);
  double bytes = 0;
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(prefix.table.size()); ++k) {
    const BlockParameters p = layer_parameters_of_device(x.model, s, prefix.table.layer(k));
    bytes += real(prefix.all()[k]) * unrounded_bytes(rates, rates.optimizer, p);
  }
  return bytes * s.offload.optimizer_fraction / real(s.pp) * (1 - 1e-9) <= most.si();
}

namespace {

using Load = FitBound::Load;
using Loads = FitBound::Loads;

// What a second and a byte are worth to a rank, in mean layers.
struct Prices {
  double second = 0, byte = 0;

  [[nodiscard]] double of(double seconds, double bytes) const {
    return (second > 0 ? second * seconds : 0) + (byte > 0 ? byte * bytes : 0);
  }
};

// The dual of the linear program of one rank that takes as many mean layers as it can: bound by
// time, by memory with everything recomputed, or by both.
Prices prices_of(const Load& mean, double held, double seconds, double bytes) {
  const double plain = mean.states + mean.plain * held;
  const double recomputed = mean.states + mean.recomputed * held;
  Prices best{1 / mean.time, 0};
  const auto offer = [&](const Prices& p) {
    if (p.of(seconds, bytes) < best.of(seconds, bytes)) best = p;
  };
  offer({0, 1 / recomputed});
  const double freed = plain - recomputed;
  if (mean.recompute_time > 0 && freed > 0) {
    const double byte = 1 / (freed * mean.time / mean.recompute_time + plain);
    offer({byte * freed / mean.recompute_time, byte});
  }
  return best;
}

Load mean_of(const Loads& loads) {
  Load mean;
  for (std::size_t i = 0; i < loads.count; ++i) {
    const Load& l = loads.each[i];
    mean.number += l.number;
    mean.time += l.number * l.time, mean.recompute_time += l.number * l.recompute_time;
    mean.states += l.number * l.states;
    mean.plain += l.number * l.plain, mean.recomputed += l.number * l.recomputed;
  }
  for (double* sum :
       {&mean.time, &mean.recompute_time, &mean.states, &mean.plain, &mean.recomputed}) {
    *sum /= mean.number;
  }
  return mean;
}

bool may_take_all(const Loads& loads, const std::vector<InFlight>& in_flight, double seconds,
                  double bytes) {
  const Load& mean = loads.mean;
  if (mean.time <= 0 || mean.states <= 0) return true;
  // Worth of one block to the rank it is worth least.
  PerBlock<double> least(loads.count, std::numeric_limits<double>::infinity());
  double offered = 0;
  for (const InFlight& rank : in_flight) {
    const double held = rank.least_held;
    const Prices p = prices_of(mean, held, seconds, bytes);
    offered += p.of(seconds, bytes);
    for (std::size_t k = 0; k < loads.count; ++k) {
      const Load& l = loads.each[k];
      const double plain = p.second * l.time + p.byte * (l.states + l.plain * held);
      const double recomputed =
          p.second * (l.time + l.recompute_time) + p.byte * (l.states + l.recomputed * held);
      least[k] = std::min({least[k], plain, recomputed});
    }
  }
  double wanted = 0;
  for (std::size_t k = 0; k < loads.count; ++k) wanted += loads.each[k].number * least[k];
  return wanted * (1 - 1e-9) <= offered;
}

}  // namespace

FitBound::FitBound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                   const std::vector<const BlockCosts*>& listed,
                   const std::vector<InFlight>& in_flight, Bytes communicators, bool offloads,
                   const LayerEnds& ends)
    : in_flight_(in_flight),
      counts_(!x.request.ignore_activations),
      selective_(std::max<std::size_t>(1, listed.size())) {
  const MemoryRates rates = memory_rates(x.model, x.cluster, s);
  const std::int64_t copies = traits_of(s.schedule).copies();
  const LayerPrefix& prefix = x.prefix(s);
  const BlockCounts counts = prefix.with_ends(x.model);
  const double m = real(num_microbatches(s));
  const double not_hiding = 1 - ends.backward_hides / m;
  const double not_hiding_forward = 1 - ends.forward_hides / m;
  plain_.each.assign(counts.size(), {});
  for (Loads& selective : selective_) selective.each.assign(counts.size(), {});
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] == 0) continue;
    const BlockCost& b = blocks[k];
    const BlockBytes bytes = bytes_of(rates, s.offload, b, counts[k] * copies);
    // What a pass hides of reductions is less to wait for.
    const double reduced = ends.reduced.size() > 0 ? ends.reduced[k] : 0;
    const double backward = (b.backward_input.total() + b.backward_weight.total()).si();
    const double time =
        b.forward.total().si() * not_hiding_forward + backward * not_hiding + reduced / m;
    Load load{bytes.number, time, 0, bytes.states, bytes.saved, bytes.saved};
    const bool is_layer = prefix.table.is_layer(k);
    if (offloads) load.plain = load.recomputed = 0;
    if (!is_layer || offloads) {
      plain_.add(load);
      for (Loads& selective : selective_) selective.add(load);
      continue;
    }
    const double full = b.recompute_full.total().si() * not_hiding;
    const double some = std::min(full, b.recompute_selective.total().si() * not_hiding);
    load.recomputed = std::min(b.saved.full, b.saved.none).si();
    load.plain = b.saved.none.si(), load.recompute_time = full;
    plain_.add(load);
    for (std::size_t i = 0; i < listed.size(); ++i) {  // of every layer alike
      const BlockCost& own = (*listed[i])[k];
      Load of_list{bytes.number, time, 0, bytes.states, 0, 0};
      of_list.time += std::min(full, own.recompute_selective.total().si() * not_hiding);
      of_list.plain = of_list.recomputed = std::min(own.saved.selective, b.saved.none).si();
      selective_[i].add(of_list);
    }
    if (!listed.empty()) continue;
    load.recomputed = std::min(b.saved.full, b.saved.selective).si();
    load.plain = b.saved.selective.si(), load.recompute_time = full - some, load.time += some;
    selective_.front().add(load);
  }
  plain_.mean = mean_of(plain_);
  for (Loads& selective : selective_) selective.mean = mean_of(selective);
  const Bytes fixed =
      least_buffers(prefix, x.model, blocks) + least_fixed(rates, x.cluster.device, communicators);
  bytes_ = (x.capacity(communicators) - fixed).si();
  seconds_each_ = real(copies) / real(num_microbatches(s));
}

bool FitBound::may_fit(double most) const {
  if (!counts_) return true;
  if (bytes_ <= 0) return false;
  const auto may_take = [&](const Loads& loads) {
    return may_take_all(loads, in_flight_, most * seconds_each_, bytes_);
  };
  return may_take(plain_) || std::any_of(selective_.begin(), selective_.end(), may_take);
}

}  // namespace meshplan

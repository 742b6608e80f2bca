#include "calibrate/device.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.hpp"
#include "calibrate/curve.hpp"
#include "calibrate/device_job.hpp"
#include "calibrate/statistics.hpp"

namespace meshplan {
namespace {

using namespace device_fit;

std::string sustained_key(std::size_t precision) {
  return "gemm.sustained." + std::string(NameTable<Precision>::rows[precision].name);
}

// Precisions that only short bursts were taken of lose what those lose, in the mean, that ran until
// their rate lasted: one power limit binds all.
void share_power_limit(const std::vector<std::size_t>& precisions,
                       const PerPrecision<double>& bursts, DeviceFit& result) {
  PerPrecision<double>& sustained = result.device.gemm.sustained;
  double lost = 0, settled = 0;
  for (const std::size_t p : precisions) {
    if (result.facts.count(sustained_key(p) + " of short bursts") == 0) continue;
    lost += std::log(sustained[p] / bursts[p]), settled += 1;
  }
  if (settled == 0) return;
  for (const std::size_t p : precisions) {
    const auto at = std::find_if(result.numbers.begin(), result.numbers.end(),
                                 [&](const DeviceNumber& n) { return n.key == sustained_key(p); });
    if (at == result.numbers.end() || result.facts.count(at->key + " of short bursts") > 0)
      continue;
    sustained[p] = std::min(sustained[p], sustained[p] * std::exp(lost / settled));
    at->note = "of short bursts, which reach " + at->after +
               "; the power limit takes what it takes of the other precisions";
    result.facts[at->key + " of short bursts"] = at->after;
    at->after = fixed(sustained[p], 3);
    // Said otherwise now.
    std::erase_if(result.warnings,
                  [&](const std::string& w) { return w.starts_with(at->key + " is of short"); });
  }
}

void fit_products(std::span<const Sample> samples, const KernelModel& model, DeviceFit& result) {
  const std::vector<Sample> products = of_kind<GemmOperation>(samples);
  std::vector<std::size_t> precisions;
  Job job{.parameters = {},
          .apply = {},
          .predict =
              [&](const DeviceSpec& d, const Sample& s) {
                return model.gemm(d, std::get<GemmOperation>(s.operation));
              },
          .what = "matrix products"};
  for (std::size_t p = 0; p < kNumPrecisions; ++p) {
    const auto uses = [&](const Sample& s) {
      return std::get<GemmOperation>(s.operation).precision == NameTable<Precision>::rows[p].value;
    };
    const double share = result.device.gemm.sustained[p];
    if (share <= 0 || !std::any_of(products.begin(), products.end(), uses)) continue;
    precisions.push_back(p);
    job.parameters.push_back({.name = sustained_key(p),
                              .start = std::clamp(share, 0.02, 1.0),
                              .lowest = 0.02,
                              .highest = 1,
                              .doubt = 0.5});
  }
  if (precisions.empty()) return;
  // Where output_exposed is not known, k_half stands for the output's writing too. Samples that
  // cannot tell the two take what H100 and H200 showed (test/calibrate/data).
  constexpr double kFillAlone = 32, kExposed = 0.75;
  const GemmEfficiency before = result.device.gemm;
  const double k_half =
      before.output_exposed > 0 ? before.k_half : std::min(before.k_half, kFillAlone);
  job.parameters.push_back({.name = "gemm.k_half",
                            .start = std::clamp(k_half, 8.0, 4096.0),
                            .lowest = 8,
                            .highest = 4096,
                            .doubt = 1});
  job.parameters.push_back({.name = "gemm.output_exposed",
                            .start = before.output_exposed > 0 ? before.output_exposed : kExposed,
                            .lowest = 0.05,
                            .highest = 1,
                            .doubt = 1});
  job.apply = [precisions](DeviceSpec d, std::span<const double> values) {
    for (std::size_t i = 0; i < precisions.size(); ++i) {
      d.gemm.sustained[precisions[i]] = values[i];
    }
    d.gemm.k_half = values[precisions.size()];
    d.gemm.output_exposed = values[precisions.size() + 1];
    return d;
  };
  // Precisions that the device has no rate for cannot be predicted.
  std::vector<Sample> known;
  for (const Sample& s : products) {
    const auto p = static_cast<std::size_t>(std::get<GemmOperation>(s.operation).precision);
    if (std::find(precisions.begin(), precisions.end(), p) != precisions.end()) known.push_back(s);
  }
  fit_job(job, known, result);
  // A fitted number says so itself, later.
  if (result.device.gemm.k_half != before.k_half) {
    result.device.sources["gemm.k_half"] =
        "estimate: the fill of a tile's pipeline by itself; its output is gemm.output_exposed";
  }
  if (result.device.gemm.output_exposed != before.output_exposed) {
    result.device.sources["gemm.output_exposed"] = "estimate: as measured on H100 and H200";
  }
  const PerPrecision<double> bursts = result.device.gemm.sustained;
  for (const std::size_t p : precisions) {
    std::vector<Sample> some;
    for (const Sample& s : known) {
      if (static_cast<std::size_t>(std::get<GemmOperation>(s.operation).precision) == p) {
        some.push_back(s);
      }
    }
    const auto apply = [p](DeviceSpec d, std::span<const double> values) {
      d.gemm.sustained[p] = values[0];
      return d;
    };
    settle(sustained_key(p), apply, job, some, result);
  }
  share_power_limit(precisions, bursts, result);
}

void fit_attention(std::span<const Sample> samples, const KernelModel& model, DeviceFit& result) {
  for (const bool backward : {false, true}) {
    std::vector<Sample> some;
    for (const Sample& s : of_kind<AttentionOperation>(samples)) {
      if (std::get<AttentionOperation>(s.operation).backward == backward) some.push_back(s);
    }
    AttentionEfficiency& a = result.device.attention;
    Job job{.parameters = {{.name = backward ? "attention.backward" : "attention.forward",
                            .start = std::clamp(backward ? a.backward : a.forward, 0.02, 1.0),
                            .lowest = 0.02,
                            .highest = 1,
                            .doubt = 0.5}},
            .apply = {},
            .predict =
                [&](const DeviceSpec& d, const Sample& s) {
                  return model.attention(d, std::get<AttentionOperation>(s.operation));
                },
            .what = backward ? "attention backward" : "attention forward"};
    // The length at which the rate is half is one number: the forward pass determines it.
    if (!backward) {
      job.parameters.push_back({.name = "attention.seq_half",
                                .start = std::clamp(a.seq_half, 16.0, 8192.0),
                                .lowest = 16,
                                .highest = 8192,
                                .doubt = 1});
    }
    job.apply = [backward](DeviceSpec d, std::span<const double> values) {
      (backward ? d.attention.backward : d.attention.forward) = values[0];
      if (!backward) d.attention.seq_half = values[1];
      return d;
    };
    fit_job(job, some, result);
    const auto apply = [backward](DeviceSpec d, std::span<const double> values) {
      (backward ? d.attention.backward : d.attention.forward) = values[0];
      return d;
    };
    settle(job.parameters.front().name, apply, job, some, result);
  }
}

FitErrors errors_of(const std::vector<double>& residuals, const std::vector<double>& held_out,
                    std::int64_t samples) {
  FitErrors e{.residual_median = median(residuals),
              .residual_p90 = quantile(residuals, 0.9),
              .samples = samples};
  if (!held_out.empty()) {
    e.held_out_median = median(held_out);
    e.held_out_p90 = quantile(held_out, 0.9);
  }
  return e;
}

void fit_memory(std::span<const Sample> samples, DeviceFit& result) {
  std::vector<TimedSize> timed;
  for (const Sample& s : of_kind<MemoryOperation>(samples)) {
    timed.emplace_back(traffic(std::get<MemoryOperation>(s.operation)), s.median);
  }
  std::sort(timed.begin(), timed.end());
  constexpr std::size_t kFewest = 4;
  if (timed.empty()) return;
  if (timed.size() < kFewest || timed.back().first.si() < 8 * timed.front().first.si()) {
    result.warnings.push_back(
        "memory_efficiency is kept: it takes at least four kernels whose "
        "traffic differs by a factor of eight");
    return;
  }
  const auto errors = [](const AlphaBeta& line, std::span<const TimedSize> some) {
    std::vector<double> all;
    for (const auto& [bytes, time] : some) {
      all.push_back(std::abs((line.latency + bytes / line.bandwidth) / time - 1));
    }
    return all;
  };
  const AlphaBeta line = fit_alpha_beta(timed);
  const double share = line.bandwidth.si() / result.device.memory_bandwidth.si();
  if (!(line.bandwidth.si() > 0) || share > 1) {
    result.warnings.push_back("memory_efficiency is kept: the kernels would reach " +
                              human_bandwidth(line.bandwidth) + ", more than the device's memory");
    return;
  }
  std::vector<double> held_out;
  for (std::size_t parity = 0; parity < 2; ++parity) {
    std::vector<TimedSize> kept, rest;
    for (std::size_t i = 0; i < timed.size(); ++i)
      (i % 2 == parity ? kept : rest).push_back(timed[i]);
    if (kept.front().first == kept.back().first) continue;
    const AlphaBeta other = fit_alpha_beta(kept);
    if (!(other.bandwidth.si() > 0)) continue;
    const std::vector<double> some = errors(other, rest);
    held_out.insert(held_out.end(), some.begin(), some.end());
  }
  const FitErrors quality =
      errors_of(errors(line, timed), held_out, static_cast<std::int64_t>(timed.size()));
  result.numbers.push_back(
      {"memory_efficiency", fixed(result.device.memory_efficiency, 3), fixed(share, 3), quality});
  result.device.memory_efficiency = share;
  if (line.latency.si() > 0) {
    result.numbers.push_back({"kernel_overhead", human_time(result.device.kernel_overhead),
                              human_time(line.latency), quality});
    result.device.kernel_overhead = line.latency;
  }
}

// A number that is the median of what was measured.
void take_median(const std::string& key, const std::vector<double>& values,
                 const std::string& before, const std::function<std::string(double)>& apply,
                 DeviceFit& result) {
  if (values.empty()) return;
  const double middle = median(values);
  std::vector<double> residuals;
  for (const double v : values) residuals.push_back(std::abs(middle / v - 1));
  const auto count = static_cast<std::int64_t>(values.size());
  result.numbers.push_back({key, before, apply(middle), errors_of(residuals, {}, count)});
}

void fit_medians(std::span<const Sample> samples, DeviceFit& result) {
  DeviceSpec& d = result.device;
  std::vector<double> links, slowdowns;
  Bytes largest{};
  for (const Sample& s : of_kind<CopyOperation>(samples)) {
    largest = std::max(largest, std::get<CopyOperation>(s.operation).bytes);
  }
  for (const Sample& s : of_kind<CopyOperation>(samples)) {
    const auto& copy = std::get<CopyOperation>(s.operation);
    const bool one_way = copy.direction == CopyDirection::kHostToDevice ||
                         copy.direction == CopyDirection::kDeviceToHost;
    // The rate of large copies: small ones show their latency.
    if (one_way && copy.bytes.count() * 4 >= largest.count()) {
      links.push_back((copy.bytes / s.median).si());
    }
  }
  for (const Sample& s : of_kind<OverlapOperation>(samples)) {
    if (!s.overlap || !(s.overlap->compute_alone.si() > 0)) continue;
    slowdowns.push_back(
        std::clamp(s.overlap->compute_beside / s.overlap->compute_alone, 1.0, 10.0));
  }
  take_median(
      "host_link", links, human_bandwidth(d.host_link),
      [&](double value) {
        d.host_link = BytesPerSecond{value};
        return human_bandwidth(d.host_link);
      },
      result);
  take_median(
      "overlap_slowdown", slowdowns, fixed(d.overlap_slowdown, 3),
      [&](double value) {
        d.overlap_slowdown = value;
        return fixed(value, 3);
      },
      result);
}

// What the driver takes to issue a kernel. A framework's eager launch goes through its dispatcher
// and allocator first and takes several times as long, so that this is no launch_gap.
void note_launches(std::span<const Sample> samples, DeviceFit& result) {
  std::vector<double> issued, replayed;
  for (const Sample& s : of_kind<LaunchOperation>(samples)) {
    const bool graph = std::get<LaunchOperation>(s.operation).graph;
    (graph ? replayed : issued).push_back(s.median.si());
  }
  if (!issued.empty()) {
    result.facts["empty kernel launch"] = human_time(Seconds{median(issued)});
  }
  if (!replayed.empty()) {
    result.facts["empty kernel launch from a graph"] = human_time(Seconds{median(replayed)});
  }
}

// How far the power limit took the clock back, where the device tells.
void note_clocks(std::span<const Sample> samples, DeviceFit& result) {
  std::vector<double> clocks;
  for (const Sample& s : samples) {
    if (s.steady && s.steady->clock) clocks.push_back(*s.steady->clock);
  }
  if (clocks.empty()) return;
  result.facts["clock in steady runs"] = human_percent(median(clocks)) + " of the highest";
}

}  // namespace

DeviceFit fit_device(std::span<const Sample> samples, const Machine& machine,
                     const DeviceSpec& start, const KernelModel& model) {
  DeviceFit result{start, {}, {}, {}};
  // The floor and the bandwidth first: products and attention are predicted on top of them.
  fit_memory(samples, result);
  fit_products(samples, model, result);
  fit_attention(samples, model, result);
  fit_medians(samples, result);
  note_launches(samples, result);
  note_clocks(samples, result);
  const std::string device = machine.ranks.empty() ? "" : " on " + machine.ranks.front().device;
  for (const DeviceNumber& number : result.numbers) {
    std::string basis = "meshplan bench (" + machine.backend + ")" + device + ", " + machine.date +
                        ": " + std::to_string(number.errors.samples) + " samples, median error " +
                        human_percent(number.errors.residual_median);
    if (number.errors.held_out_p90 > 0) {
      basis += ", of shapes held out " + human_percent(number.errors.held_out_median) +
               " (90th percentile " + human_percent(number.errors.held_out_p90) + ")";
    }
    if (!number.note.empty()) basis += "; " + number.note;
    result.device.sources[number.key] = basis;
  }
  return result;
}

}  // namespace meshplan

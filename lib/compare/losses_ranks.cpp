// Ranks beside each other: one that is slower at the same work, one that the others wait for.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.hpp"
#include "compare/losses_parts.hpp"
#include "compare/trace_dimensions.hpp"

namespace meshplan {
namespace {

double median_of(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[(all.size() - 1) / 2];
}

std::string rank_text(const DeviceMeasure& d) {
  return d.rank >= 0 ? "rank " + std::to_string(d.rank) : d.file;
}

// How much longer each product, or all of them, takes on a device than on the others.
std::vector<double> product_ratios(const DeviceMeasure& d,
                                   const std::vector<const DeviceMeasure*>& stage) {
  const auto times = [&](const auto& time_of) {
    std::vector<double> others;
    for (const DeviceMeasure* o : stage) {
      if (o != &d && time_of(*o) > 0) others.push_back(time_of(*o));
    }
    return others;
  };
  std::vector<double> ratios;
  for (const ProductTime& product : d.products) {
    const auto others = times([&](const DeviceMeasure& o) {
      for (const ProductTime& p : o.products) {
        if (p.shape == product.shape) return p.all.time.si();
      }
      return 0.0;
    });
    if (!others.empty()) ratios.push_back(product.all.time.si() / median_of(others));
  }
  if (!ratios.empty()) return ratios;
  const auto others =
      times([](const DeviceMeasure& o) { return o.of(OpClass::kProduct).time.si(); });
  if (!others.empty()) ratios.push_back(d.of(OpClass::kProduct).time.si() / median_of(others));
  return ratios;
}

bool find_slow_device(const LossContext& x, const std::vector<const DeviceMeasure*>& stage,
                      std::vector<TimeLoss>& all) {
  bool found = false;
  for (const DeviceMeasure* d : stage) {
    const std::vector<double> ratios = product_ratios(*d, stage);
    if (ratios.empty()) continue;
    const double usual = median_of(ratios);
    if (usual < 1.03 || *std::min_element(ratios.begin(), ratios.end()) < 1.015) continue;
    TimeLoss f;
    f.kind = LossKind::kSlowDevice;
    f.what = rank_text(*d) + " is " + human_percent(usual - 1) + " slower in every product";
    f.evidence = human_time(d->of(OpClass::kProduct).time) + " in products, " +
                 human_time(d->of(OpClass::kProduct).time / usual) + " on the others of its stage";
    f.remedy = "look at its clocks, power limit and temperature; take its node out";
    f.lost = d->of(OpClass::kProduct).time * (1 - 1 / usual);
    found = found || f.lost >= x.least;
    all.push_back(std::move(f));
  }
  return found;
}

// Collectives end together: who computes longest comes last and waits least.
void find_late_rank(const LossContext& x, const std::vector<const DeviceMeasure*>& stage,
                    std::vector<TimeLoss>& all) {
  const auto waits = [](const DeviceMeasure& d) {
    Seconds sum;
    for (const CommTime& c : d.communication) {
      if (c.dimension != CommDimension::kPp) sum += c.exposed;
    }
    return sum;
  };
  std::vector<double> times;
  const DeviceMeasure* late = stage.front();
  for (const DeviceMeasure* d : stage) {
    times.push_back(waits(*d).si());
    if (waits(*d) < waits(*late)) late = d;
  }
  const Seconds lost{median_of(times) - waits(*late).si()};
  if (lost < x.least) return;
  TimeLoss f;
  f.kind = LossKind::kLateRank;
  f.what = "the other ranks wait for " + rank_text(*late);
  f.evidence = human_time(waits(*late)) + " of exposed communication there, " +
               human_time(Seconds{median_of(times)}) + " on the others";
  f.remedy = "look what it does more: " + human_time(late->waiting) + " idle, " +
             human_time(late->computing) + " computing; experts or sequences may be uneven";
  f.lost = lost;
  all.push_back(std::move(f));
}

// Stages against what each is predicted to compute.
void find_uneven_stages(const LossContext& x,
                        const std::map<std::int64_t, std::vector<const DeviceMeasure*>>& stages,
                        std::vector<TimeLoss>& all) {
  if (stages.size() < 2) return;
  const auto microbatches = static_cast<double>(num_microbatches(x.plan.strategy));
  std::vector<double> ratios;
  std::int64_t slowest = -1;
  double most = 0;
  for (const auto& [rank, devices] : stages) {
    if (rank >= static_cast<std::int64_t>(x.plan.stages.size())) return;
    const StageCost& stage = x.plan.stages[static_cast<std::size_t>(rank)];
    const Seconds predicted = (stage.forward + stage.backward) * microbatches;
    std::vector<double> computing;
    for (const DeviceMeasure* d : devices) {
      computing.push_back((d->computing - d->of(OpClass::kOptimizer).time).si());
    }
    if (!(predicted.si() > 0)) return;
    ratios.push_back(median_of(computing) / predicted.si());
    if (ratios.back() > most) most = ratios.back(), slowest = rank;
  }
  const double usual = median_of(ratios);
  const StageCost& stage = x.plan.stages[static_cast<std::size_t>(slowest)];
  const Seconds lost = (stage.forward + stage.backward) * (microbatches * (most - usual));
  if (most < usual * 1.04 || lost < x.least) return;
  TimeLoss f;
  f.kind = LossKind::kUnevenStages;
  f.what = "pipeline rank " + std::to_string(slowest) + " computes " +
           human_percent(most / usual - 1) + " longer than its layers should";
  f.evidence = "the others of the pipeline wait " + human_time(lost) + " for it";
  f.remedy =
      "give it fewer layers: --decoder-first-pipeline-num-layers, "
      "--decoder-last-pipeline-num-layers or --pipeline-model-parallel-layout";
  f.lost = lost;
  all.push_back(std::move(f));
}

}  // namespace

void find_ranks(const LossContext& x, std::vector<TimeLoss>& all) {
  std::map<std::int64_t, std::vector<const DeviceMeasure*>> stages;
  for (const DeviceMeasure& d : x.t.devices) {
    stages[pipeline_rank_of(x.plan.strategy, d.rank)].push_back(&d);
  }
  for (const auto& [rank, stage] : stages) {
    if (stage.size() < 2) continue;
    if (!find_slow_device(x, stage, all)) find_late_rank(x, stage, all);
  }
  find_uneven_stages(x, stages, all);
}

}  // namespace meshplan

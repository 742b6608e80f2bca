#include "doubts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <sstream>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "calibrate/evidence.hpp"
#include "fit.hpp"
#include "minimise.hpp"
#include "score.hpp"
#include "shots.hpp"
#include "text_table.hpp"

namespace meshplan::accuracy {
namespace {

constexpr std::array kKeys{ProfileKey::kGemm,         ProfileKey::kMemory,
                           ProfileKey::kHost,         ProfileKey::kInsideNodes,
                           ProfileKey::kBetweenNodes, ProfileKey::kOverlap};
constexpr std::array kNames{"products",     "memory",        "host",
                            "inside nodes", "between nodes", "price of overlap"};

// Of one source on one device.
struct Group {
  const Source* source = nullptr;
  EvidenceRuns runs;
  double weight = 1;
};

// A run this far from its source's median stalled: no parameter tells of it, nor of sources whose
// median is that far off.
constexpr double kStalled = 0.25;
// Evenly spread ones stand for the runs of a large sweep, and count as so many that differ.
constexpr std::size_t kMost = 40;
constexpr double kCounted = 8;

// The cluster with the parameter of `key` times e^step, within its bounds.
ClusterSpec moved(const Task& task, ProfileKey key, double step) {
  const std::vector<Precision> used{task.mapped.candidates.front().strategy.precision};
  for (const ProfileParameter& p : profile_parameters(task.cluster, used)) {
    if (p.key != key) continue;
    const double to =
        std::clamp(p.parameter.start * std::exp(step), p.parameter.lowest, p.parameter.highest);
    return with_parameters(task.cluster, std::vector{p}, std::vector{to});
  }
  return task.cluster;
}

std::vector<double> log_errors(const std::vector<Task>& tasks, int threads) {
  std::vector<double> all;
  for (const auto& result : predict_all(tasks, threads)) all.push_back(log_error(result));
  return all;
}

EvidenceRuns evidence_of(std::vector<Task> tasks, int threads) {
  std::vector<double> errors = log_errors(tasks, threads);
  const double middle = median(errors);
  if (std::abs(middle) >= kStalled) return {};
  std::vector<Task> kept;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (std::abs(errors[i] - middle) < kStalled) kept.push_back(std::move(tasks[i]));
  }
  const std::size_t n = std::min(kept.size(), kMost);
  std::vector<Task> spread;
  for (std::size_t i = 0; i < n; ++i) spread.push_back(kept[i * kept.size() / n]);
  EvidenceRuns runs{log_errors(spread, threads), {}};
  constexpr double kStep = 0.1;
  for (const ProfileKey key : kKeys) {
    std::vector<Task> up = spread, down = spread;
    for (std::size_t i = 0; i < n; ++i) {
      up[i].cluster = moved(spread[i], key, kStep);
      down[i].cluster = moved(spread[i], key, -kStep);
    }
    const std::vector<double> above = log_errors(up, threads), below = log_errors(down, threads);
    std::vector<double>& column = runs.derivatives.emplace_back();
    for (std::size_t i = 0; i < n; ++i) column.push_back((above[i] - below[i]) / (2 * kStep));
  }
  return runs;
}

std::vector<Group> groups_of(const std::vector<Task>& tasks, int threads) {
  std::vector<Group> groups;
  for (const Source* source : sources_of(tasks)) {
    auto by_device = scored_by_device(tasks, *source);
    for (auto& [device, runs] : by_device) {
      if (runs.size() < 2) continue;
      Group group{source, evidence_of(std::move(runs), threads), 1};
      const auto n = static_cast<double>(group.runs.errors.size());
      if (n < 2) continue;
      group.weight = std::min(1.0, kCounted / n) / static_cast<double>(by_device.size());
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

// In ln of the widths, which a lack of runs holds near a tenth, within a factor of e^1.5 or so;
// then of the length and of the size of what errors share.
constexpr double kBeforehand = -2.3, kSpread = 1.5;
constexpr double kLengthBeforehand = -3, kSizeBeforehand = 0.5;

struct Chosen {
  Doubts doubts;
  double alike_length = 0, alike_size = 0;
};

Chosen chosen(const std::vector<Group>& groups, const Source* without) {
  std::vector<Coordinate> box(kKeys.size(), Coordinate{kBeforehand, -5, 0});
  box.push_back({kLengthBeforehand, -5, 0});
  box.push_back({kSizeBeforehand, -3, 2});
  std::vector<double> beforehand;
  for (const Coordinate& c : box) beforehand.push_back(c.value);
  const auto value = [&](const std::vector<Coordinate>& at) {
    std::vector<double> all;
    double sum = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
      all.push_back(std::exp(at[k].value));
      const double scaled = (at[k].value - beforehand[k]) / kSpread;
      sum += scaled * scaled / 2;
    }
    const std::span<const double> widths(all.data(), kKeys.size());
    for (const Group& group : groups) {
      if (group.source == without) continue;
      sum += group.weight *
             negative_log_evidence(group.runs, widths, all[kKeys.size()], all[kKeys.size() + 1]);
    }
    return sum;
  };
  Objective objective;
  objective.value = value(box);
  objective.with = [&](std::size_t k, double x) {
    std::vector<Coordinate> there = box;
    there[k].value = x;
    return value(there);
  };
  objective.accept = [] {};
  minimise(box, objective, {.coarsest = 1.0 / 8, .finest = 1.0 / 64});
  Chosen result;
  for (std::size_t k = 0; k < kKeys.size(); ++k)
    result.doubts[kKeys[k]] = std::expm1(std::exp(box[k].value));
  result.alike_length = std::exp(box[kKeys.size()].value);
  result.alike_size = std::exp(box[kKeys.size() + 1].value);
  return result;
}

}  // namespace

ChosenDoubts choose_doubts(const std::vector<Task>& tasks, int threads) {
  const std::vector<Group> groups = groups_of(tasks, threads);
  ChosenDoubts result;
  const Chosen of_all = chosen(groups, nullptr);
  result.all = result.least = result.most = of_all.doubts;
  result.alike_length = of_all.alike_length;
  result.alike_size = of_all.alike_size;
  const Source* last = nullptr;
  for (const Group& group : groups) {
    if (std::exchange(last, group.source) == group.source) continue;
    for (const auto& [key, doubt] : chosen(groups, group.source).doubts) {
      result.least[key] = std::min(result.least[key], doubt);
      result.most[key] = std::max(result.most[key], doubt);
    }
  }
  return result;
}

std::string to_text(const ChosenDoubts& doubts) {
  const auto percent = [](double x) { return fixed(100 * x, 0); };
  std::vector<Cells> table{{"may be off by %", "", "without one source"}};
  for (std::size_t k = 0; k < kKeys.size(); ++k) {
    const ProfileKey key = kKeys[k];
    table.push_back({kNames[k], percent(doubts.all.at(key)),
                     percent(doubts.least.at(key)) + " to " + percent(doubts.most.at(key))});
  }
  std::ostringstream text;
  text << "Doubts of largest marginal likelihood:\n"
       << aligned(table) << "errors are alike within " << fixed(doubts.alike_length, 3)
       << " in the derivatives, and share " << fixed(doubts.alike_size, 2)
       << " times what each has for itself\n";
  return text.str();
}

}  // namespace meshplan::accuracy

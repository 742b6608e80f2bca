#include "shots.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "calibrate/posterior.hpp"
#include "calibrate/profile_parameters.hpp"
#include "calibrate/seen_runs.hpp"
#include "calibrate/statistics.hpp"
#include "parallel.hpp"
#include "score.hpp"
#include "text_table.hpp"

namespace meshplan::accuracy {
namespace {

using Places = std::vector<std::size_t>;

// Published steps scatter by what their sources say of repeats.
constexpr double kNoise = 0.02;

// A run with what stays the same in every draw.
struct Shot {
  Task task;
  TimeDerivatives sensitivity;
  double low = 0, high = 0;  // interval, ln over the prediction
};

double step_time(const Task& task) {
  const auto result = predict(task);
  const Prediction* p = std::get_if<Prediction>(&result);
  PLAN_CHECK(p != nullptr);
  return p->cost.step_time.si();
}

Precision precision_of(const Task& task) {
  return task.mapped.candidates.front().strategy.precision;
}

// Derivatives where learning starts; they hardly change by what is learned.
Shot shot_of(const Task& task, const ShotOptions& options) {
  Shot shot{task, {}, 0, 0};
  shot.sensitivity = time_derivatives(task.cluster, precision_of(task), [&](const ClusterSpec& c) {
    Task moved = task;
    moved.cluster = c;
    return step_time(moved);
  });
  const auto own = options.intervals.find(task.run);
  const Prediction p = std::get<Prediction>(predict(task));
  const double over = own == options.intervals.end() ? p.cost.step_time.si() : 1;
  const StepTimeInterval interval = own == options.intervals.end() ? p.interval : own->second;
  shot.low = std::log(interval.low.si() / over);
  shot.high = std::log(interval.high.si() / over);
  return shot;
}

std::vector<Shot> shots_of(const std::vector<Task>& tasks, const ShotOptions& options) {
  std::vector<Shot> all(tasks.size());
  for_each_place(tasks.size(), options.threads,
                 [&](std::size_t i) { all[i] = shot_of(tasks[i], options); });
  return all;
}

// Of some runs.
struct Outcome {
  std::vector<double> errors, widths;
  double inside = 0;
};

void add(Outcome& outcome, const Shot& shot, double predicted, double widening) {
  const double measured = shot.task.run->step_time->si();
  const double low = predicted * std::exp(widening * shot.low);
  const double high = predicted * std::exp(widening * shot.high);
  outcome.errors.push_back(std::abs(relative_error(predicted, measured)));
  outcome.widths.push_back((high - low) / predicted);
  if (measured >= low && measured <= high) outcome.inside += 1;
}

// `n` different places below `size`; the same for every standard library.
Places drawn(std::size_t n, std::size_t size, std::mt19937_64& random) {
  Places all(size);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t i = 0; i < n; ++i) std::swap(all[i], all[i + random() % (size - i)]);
  all.resize(n);
  return all;
}

struct Learned {
  std::vector<ProfileParameter> parameters;
  Posterior posterior;
};

Learned learn(const std::vector<Task>& shown) {
  std::vector<Precision> used;
  std::vector<Observation> observations;
  for (const Task& task : shown) {
    used.push_back(precision_of(task));
    observations.push_back({task.run->id, task.run->step_time->si(), kNoise});
  }
  Learned learned{profile_parameters(shown.front().cluster, used), {}};
  std::vector<Parameter> plain;
  for (const ProfileParameter& p : learned.parameters) plain.push_back(p.parameter);
  const Predictor predictor = [&](std::span<const double> values) {
    std::vector<double> times;
    for (Task task : shown) {
      task.cluster = with_parameters(std::move(task.cluster), learned.parameters, values);
      times.push_back(step_time(task));
    }
    return times;
  };
  Result<Posterior> found = update_parameters(plain, observations, predictor, LeaveOneOut::kNo);
  PLAN_CHECK(found);
  learned.posterior = std::move(found.value());
  return learned;
}

// Several systems and variants of a device stand in one file: each task keeps its own numbers but
// for what was learned, which moves by the same factor.
Task with_learned(Task task, const Learned& learned) {
  std::vector<ProfileParameter> own;
  std::vector<double> values;
  const ParameterFit& fit = learned.posterior.fit;
  std::vector<Precision> used;
  for (const ProfileParameter& p : learned.parameters) {
    if (p.key == ProfileKey::kGemm) used.push_back(p.precision);
  }
  const std::vector<ProfileParameter> here = profile_parameters(task.cluster, used);
  for (std::size_t i = 0; i < learned.parameters.size(); ++i) {
    const ProfileParameter& p = learned.parameters[i];
    const auto same = std::find_if(here.begin(), here.end(), [&](const ProfileParameter& q) {
      return q.key == p.key && q.precision == p.precision;
    });
    if (!fit.parameters[i].fitted || same == here.end()) continue;
    const double factor = fit.values[i] / p.parameter.start;
    own.push_back(*same);
    values.push_back(std::clamp(same->parameter.start * factor, same->parameter.lowest,
                                same->parameter.highest));
  }
  task.cluster = with_parameters(std::move(task.cluster), own, values);
  return task;
}

ShotResult shoot(const std::vector<Task>& tasks, const ShotOptions& options) {
  ShotResult result{.source = tasks.front().source->name,
                    .device = tasks.front().cluster.device.name,
                    .runs = tasks.size()};
  const std::vector<Shot> all = shots_of(tasks, options);
  std::vector<double> without;
  for (const Task& task : tasks) without.push_back(step_time(task));
  std::mt19937_64 random(options.seed);
  for (int draw = 0; draw < options.draws; ++draw) {
    const Places places = drawn(options.shots, tasks.size(), random);
    const std::set<std::size_t> chosen(places.begin(), places.end());
    std::vector<Task> shown, others;
    for (const std::size_t i : places) shown.push_back(tasks[i]);
    const Learned learned = learn(shown);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (chosen.count(i) == 0) others.push_back(with_learned(tasks[i], learned));
    }
    const auto predictions = predict_all(others, options.threads);
    Outcome before, after;
    std::size_t other = 0;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (chosen.count(i) > 0) continue;
      const Prediction* p = std::get_if<Prediction>(&predictions[other++]);
      PLAN_CHECK(p != nullptr);
      const SeenEffect effect = effect_of(learned.posterior.seen, all[i].sensitivity);
      add(before, all[i], without[i], 1);
      add(after, all[i], p->cost.step_time.si() * effect.factor, effect.widening);
    }
    const double draws = options.draws;
    const double then = median(before.errors), now = median(after.errors);
    const auto n = static_cast<double>(others.size());
    result.before += then / draws, result.after += now / draws;
    result.inside_before += before.inside / n / draws;
    result.inside_after += after.inside / n / draws;
    result.width_before += median(before.widths) / draws;
    result.width_after += median(after.widths) / draws;
    if (now > then) ++result.farther_off;
  }
  return result;
}

std::string percent(double fraction) { return fixed(100 * fraction, 1); }

}  // namespace

std::vector<Task> left_out_tasks(const std::vector<Task>& tasks, const CrossValidation& all,
                                 const std::vector<FittedConstant>& constants) {
  std::vector<Task> changed = tasks;
  for (Task& task : changed) {
    const auto refit = std::find_if(all.refits.begin(), all.refits.end(), [&](const Refit& r) {
      return r.left_out == task.source->name;
    });
    if (refit == all.refits.end()) continue;
    for (const FittedConstant& constant : constants) {
      const auto value = refit->values.find(constant.name);
      if (value != refit->values.end() && shipped_value(constant, task))
        set_constant(constant, value->second, task);
    }
  }
  return changed;
}

std::map<std::string, std::vector<Task>> scored_by_device(const std::vector<Task>& tasks,
                                                          const Source& source) {
  std::map<std::string, std::vector<Task>> by_device;
  for (const Task& task : tasks) {
    const bool counts = task.source == &source && source.use == Use::kScore &&
                        task.run->step_time && std::holds_alternative<Prediction>(predict(task));
    if (counts) by_device[task.cluster.device.name].push_back(task);
  }
  return by_device;
}

std::vector<ShotResult> learn_from_shots(const std::vector<Task>& tasks,
                                         const ShotOptions& options) {
  std::vector<ShotResult> results;
  for (const Source* source : sources_of(tasks)) {
    for (const auto& [device, group] : scored_by_device(tasks, *source)) {
      if (group.size() > options.shots) results.push_back(shoot(group, options));
    }
  }
  return results;
}

std::string to_text(const std::vector<ShotResult>& results, const ShotOptions& options) {
  const std::string shown = std::to_string(options.shots) + (options.shots == 1 ? " run" : " runs");
  std::vector<Cells> table{{"source", "device", "runs", "no run shown %", shown + " shown %",
                            "worse in draws", "inside %", "then %", "width %", "then %"}};
  using Columns = std::array<double, 6>;
  const auto cells = [](std::vector<std::string> row, const Columns& c, std::string worse) {
    row.insert(row.end(), {percent(c[0]), percent(c[1]), std::move(worse)});
    for (std::size_t k = 2; k < c.size(); ++k) row.push_back(percent(c[k]));
    return row;
  };
  std::map<std::string, std::pair<Columns, double>> sources;
  for (const ShotResult& r : results) {
    const Columns columns{r.before,       r.after,        r.inside_before,
                          r.inside_after, r.width_before, r.width_after};
    table.push_back(cells({r.source, r.device, std::to_string(r.runs)}, columns,
                          std::to_string(r.farther_off) + " of " + std::to_string(options.draws)));
    auto& [sum, runs] = sources[r.source];
    const auto n = static_cast<double>(r.runs);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += n * columns[k];
    runs += n;
  }
  Columns mean{};
  std::size_t worse = 0;
  for (const auto& [name, source] : sources) {
    const auto& [sum, runs] = source;
    for (std::size_t k = 0; k < mean.size(); ++k)
      mean[k] += sum[k] / runs / static_cast<double>(sources.size());
    if (sum[1] > sum[0]) ++worse;
  }
  table.push_back(cells({"mean of " + std::to_string(sources.size()) + " sources", "", ""}, mean,
                        std::to_string(worse) + " sources"));
  std::ostringstream text;
  text << "Median error of the runs that were not shown, and intervals of 80 %, mean over "
       << options.draws << " draws (seed " << options.seed << "):\n"
       << aligned(table);
  return text.str();
}

}  // namespace meshplan::accuracy

#include "shots.hpp"

#include <algorithm>
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
#include "calibrate/statistics.hpp"
#include "score.hpp"
#include "text_table.hpp"

namespace meshplan::accuracy {
namespace {

using Places = std::vector<std::size_t>;

// Published steps scatter by what their sources say of repeats.
constexpr double kNoise = 0.02;

std::vector<double> errors_of(const std::vector<Task>& tasks, int threads) {
  std::vector<double> errors;
  for (const auto& result : predict_all(tasks, threads)) {
    const Prediction* p = std::get_if<Prediction>(&result);
    PLAN_CHECK(p != nullptr);
    errors.push_back(std::abs(relative_error(p->cost.step_time.si(), p->run->step_time->si())));
  }
  return errors;
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
  ParameterFit fit;
};

Learned learn(const std::vector<Task>& shown) {
  std::vector<Precision> used;
  std::vector<Observation> observations;
  for (const Task& task : shown) {
    used.push_back(task.mapped.candidates.front().strategy.precision);
    observations.push_back({task.run->id, task.run->step_time->si(), kNoise});
  }
  Learned learned{profile_parameters(shown.front().cluster, used), {}};
  std::vector<Parameter> plain;
  for (const ProfileParameter& p : learned.parameters) plain.push_back(p.parameter);
  const Predictor predictor = [&](std::span<const double> values) {
    std::vector<double> times;
    for (Task task : shown) {
      task.cluster = with_parameters(std::move(task.cluster), learned.parameters, values);
      const auto result = predict(task);
      const Prediction* p = std::get_if<Prediction>(&result);
      PLAN_CHECK(p != nullptr);
      times.push_back(p->cost.step_time.si());
    }
    return times;
  };
  Result<ParameterFit> fit = update_parameters(plain, observations, predictor, LeaveOneOut::kNo);
  PLAN_CHECK(fit);
  learned.fit = std::move(fit.value());
  return learned;
}

// Several systems and variants of a device stand in one file: each task keeps its own numbers but
// for what was learned, which moves by the same factor.
Task with_learned(Task task, const Learned& learned) {
  std::vector<ProfileParameter> own;
  std::vector<double> values;
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
    if (!learned.fit.parameters[i].fitted || same == here.end()) continue;
    const double factor = learned.fit.values[i] / p.parameter.start;
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
  const std::vector<double> without = errors_of(tasks, options.threads);
  std::mt19937_64 random(options.seed);
  for (int draw = 0; draw < options.draws; ++draw) {
    const Places places = drawn(options.shots, tasks.size(), random);
    const std::set<std::size_t> chosen(places.begin(), places.end());
    std::vector<Task> shown;
    for (const std::size_t i : places) shown.push_back(tasks[i]);
    const Learned learned = learn(shown);
    std::vector<Task> others;
    std::vector<double> before;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (chosen.count(i) > 0) continue;
      others.push_back(with_learned(tasks[i], learned));
      before.push_back(without[i]);
    }
    const double then = median(std::move(before));
    const double now = median(errors_of(others, options.threads));
    result.before += then / options.draws;
    result.after += now / options.draws;
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
  std::vector<Cells> table{
      {"source", "device", "runs", "no run shown %", shown + " shown %", "worse in draws"}};
  struct Mean {
    double before = 0, after = 0, runs = 0;
  };
  std::vector<std::pair<std::string, Mean>> sources;
  for (const ShotResult& r : results) {
    table.push_back({r.source, r.device, std::to_string(r.runs), percent(r.before),
                     percent(r.after),
                     std::to_string(r.farther_off) + " of " + std::to_string(options.draws)});
    if (sources.empty() || sources.back().first != r.source) sources.emplace_back(r.source, Mean{});
    Mean& mean = sources.back().second;
    const auto n = static_cast<double>(r.runs);
    mean.before += n * r.before, mean.after += n * r.after, mean.runs += n;
  }
  double before = 0, after = 0;
  for (const auto& [name, mean] : sources) {
    before += mean.before / mean.runs / static_cast<double>(sources.size());
    after += mean.after / mean.runs / static_cast<double>(sources.size());
  }
  table.push_back({"mean of " + std::to_string(sources.size()) + " sources", "", "",
                   percent(before), percent(after), ""});
  std::ostringstream text;
  text << "Median error of the runs that were not shown, mean over " << options.draws
       << " draws (seed " << options.seed << "):\n"
       << aligned(table);
  return text.str();
}

}  // namespace meshplan::accuracy

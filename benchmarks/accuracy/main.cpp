// meshplan-accuracy: predicts published training runs and reports the errors.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "cross_print.hpp"
#include "cross_validate.hpp"
#include "doubts.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "io/presets_file.hpp"
#include "predict.hpp"
#include "print.hpp"
#include "published.hpp"
#include "report/html.hpp"
#include "shots.hpp"
#include "summary.hpp"

namespace {

using namespace meshplan;
using namespace meshplan::accuracy;
using meshplan::accuracy::Task;  // not a schedule's
namespace fs = std::filesystem;

constexpr int kSuccess = 0, kNotAsChosen = 1, kBadInput = 2, kBug = 70;

struct Options {
  std::vector<fs::path> inputs, unfitted;
  std::vector<std::string> sources, overrides;
  std::string only, json, html, rows, errors, constants = MESHPLAN_ACCURACY_CONSTANTS;
  int threads = 0;
  CrossValidateOptions choice;
  std::vector<std::size_t> shots;  // numbers of runs
  ShotOptions draws;               // the same for each of them
  bool sanity = false, verbose = false, cross_validate = false, check_shipped = false;
  bool doubts = false;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("DIR", o.inputs, "folders or files of published runs")->required();
  app.add_option("--source", o.sources, "only these sources (file stems)");
  app.add_option("--only", o.only, "only runs whose id matches this regular expression");
  app.add_option("--set", o.overrides, "strategy key=value put over every run's own");
  app.add_option("--json", o.json, "write the report as JSON (- for standard output)");
  app.add_option("--html", o.html, "write a page with a scatter plot");
  app.add_option("--rows", o.rows, "write a CSV row of inputs and predicted terms per run");
  app.add_option("--threads", o.threads, "threads to predict with (default: one per core)");
  app.add_flag("--cross-validate", o.cross_validate,
               "choose the fitted constants anew without each source and predict it with them; "
               "--json and --rows then hold these predictions");
  app.add_option("--write-errors", o.errors,
                 "with --cross-validate: write the table of measured errors that ships, "
                 "lib/cost/measured_errors_table.cpp")
      ->needs("--cross-validate");
  app.add_option("--unfitted", o.unfitted,
                 "with --cross-validate: folders or files of runs that choose no constant; their "
                 "step times count in the errors as those of sources left out")
      ->needs("--cross-validate");
  app.add_flag("--check-shipped", o.check_shipped,
               "with --cross-validate: fail if a constant ships with another value than the one "
               "chosen on all sources")
      ->needs("--cross-validate");
  app.add_option("--shots", o.shots,
                 "show so many random runs of each source and device to what `meshplan calibrate` "
                 "learns by, and predict the others (1,3: first one, then three); with "
                 "--cross-validate from the constants that were chosen without the source")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000));
  app.add_flag("--doubts", o.doubts,
               "with --cross-validate: how far the numbers of a profile may be off, of largest "
               "marginal likelihood over sources that had no say in them")
      ->needs("--cross-validate");
  app.add_option("--seed", o.draws.seed, "with --shots: of the choice of runs")
      ->needs("--shots")
      ->capture_default_str();
  app.add_option("--draws", o.draws.draws, "with --shots: how many choices")
      ->needs("--shots")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--loss-scale", o.choice.fit.loss_scale,
                 "with --cross-validate: errors well below this weigh as squares, well above as "
                 "logarithms")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--ridge", o.choice.fit.ridge,
                 "with --cross-validate: how strongly constants are held at the uninformed values")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--fit-rows", o.choice.rows_per_source,
                 "with --cross-validate: rows of each source that choose the constants while "
                 "another source is left out")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--constants", o.constants, "table of the fitted constants");
  app.add_flag("--sanity", o.sanity, "add runs that are not for scoring to the CSV");
  app.add_flag("-v,--verbose", o.verbose, "list every run and every skipped row");
  app.footer(
      "Example:\n  meshplan-accuracy benchmarks/accuracy/published --source vtrain_multi "
      "--rows rows.csv");
}

bool wanted(const Options& o, const Source& source) {
  return o.sources.empty() ||
         std::find(o.sources.begin(), o.sources.end(), source.name) != o.sources.end();
}

bool predicted(const Options& o, const Source& source, const Run& run) {
  switch (source.use) {
    case Use::kScore:
      return true;
    case Use::kFeasibility:
      return is_out_of_memory(run.status) || run.longest;
    case Use::kMemory:
      return run.memory.has_value();
    case Use::kSanity:
      return o.sanity;
  }
  return false;
}

// Every run that is to be predicted, and those that cannot be, with the reason.
void collect(const std::vector<Source>& sources, const Options& o, Machines& machines,
             std::vector<Task>& tasks, std::vector<Skipped>& skipped) {
  const std::regex only(o.only.empty() ? ".*" : o.only);
  for (const Source& source : sources) {
    for (const Run& run : source.runs) {
      if (!predicted(o, source, run)) continue;
      if (!o.only.empty() && !std::regex_search(run.id, only)) continue;
      if (source.use == Use::kScore && !run.step_time) {
        skipped.push_back({&source, &run, "no step time"});
        continue;
      }
      if (source.use == Use::kMemory && !run.packed && !run.length_mean) {
        skipped.push_back({&source, &run, "lengths of the samples not stated"});
        continue;
      }
      std::variant<Task, Skipped> task = prepare(source, run, machines, o.overrides);
      if (std::holds_alternative<Task>(task)) {
        tasks.push_back(std::move(std::get<Task>(task)));
      } else {
        skipped.push_back(std::move(std::get<Skipped>(task)));
      }
    }
  }
}

bool write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  if (path == "-") {
    std::cout << text;
    return true;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::cerr << "error: cannot write " << path << "\n";
  return static_cast<bool>(file);
}

using Intervals = std::map<const Run*, StepTimeInterval>;

void print_shots(const Options& o, const std::vector<Task>& tasks, int threads,
                 const Intervals& intervals = {}) {
  for (const std::size_t shots : o.shots) {
    ShotOptions options = o.draws;
    options.shots = shots;
    options.threads = threads;
    options.intervals = intervals;
    std::cout << to_text(learn_from_shots(tasks, options), options) << "\n";
  }
}

// Over their predictions, by the errors of the other sources.
Intervals intervals_of(const CrossValidation& all, const ErrorReport& errors) {
  Intervals by_run;
  for (std::size_t i = 0; i < all.held_out.size(); ++i) {
    const double over = all.held_out[i].cost.step_time.si();
    const StepTimeInterval& around = errors.intervals[i];
    by_run[all.held_out[i].run] = {around.low / over, around.high / over};
  }
  return by_run;
}

// Scored runs alone.
std::vector<Prediction> step_times_of(const std::vector<Source>& sources, const Options& o,
                                      Machines& machines, int threads) {
  std::vector<Task> tasks;
  std::vector<Skipped> skipped;
  collect(sources, o, machines, tasks, skipped);
  std::erase_if(tasks, [](const Task& task) {
    return task.source->use != Use::kScore || !task.run->step_time;
  });
  std::vector<Prediction> predictions;
  for (auto& result : predict_all(tasks, threads)) {
    if (Prediction* p = std::get_if<Prediction>(&result)) predictions.push_back(std::move(*p));
  }
  return predictions;
}

int cross_validate(const Options& o, const std::vector<Task>& tasks, const Report& shipped,
                   const std::vector<Prediction>& predictions,
                   const std::vector<Prediction>& unfitted, int threads) {
  const Result<std::string> text = read_text_file(o.constants);
  const Result<std::vector<FittedConstant>> constants =
      text ? parse_constants(*text, o.constants)
           : Result<std::vector<FittedConstant>>(text.errors());
  if (!constants) {
    std::cerr << to_text(constants.errors());
    return kBadInput;
  }
  CrossValidateOptions choice = o.choice;
  choice.fit.threads = threads;
  const CrossValidation all = cross_validate(tasks, *constants, choice);
  // One per source and one of all.
  if (all.refits.size() < 3) {
    std::cerr << "error: runs of two sources or more are needed to leave one out\n";
    return kBadInput;
  }
  const ErrorReport errors = error_report(all, shipped, predictions, unfitted);
  if (o.json != "-") std::cout << to_text(all, *constants, shipped) << to_text(errors);
  const bool written = write_file(o.rows, to_csv(all.held_out)) &&
                       write_file(o.errors, table_text(errors.table)) &&
                       (o.json.empty() || write_file(o.json, to_json(all, shipped, errors)));
  if (!written) return kBadInput;
  if (!o.shots.empty())
    print_shots(o, left_out_tasks(tasks, all, *constants), threads, intervals_of(all, errors));
  if (o.doubts)
    std::cout << to_text(choose_doubts(left_out_tasks(tasks, all, *constants), threads)) << "\n";
  if (!o.check_shipped) return kSuccess;
  const std::vector<std::string> differing = not_as_chosen(all, *constants);
  for (const std::string& line : differing) std::cerr << "error: " << line << "\n";
  return differing.empty() ? kSuccess : kNotAsChosen;
}

int run(const Options& o) {
  if (!o.html.empty() && !has_page()) {
    std::cerr << to_text(error_at({"--html"}, "this program was built without the HTML report",
                                  "install nodejs (18 or later) and npm, and build it again"));
    return kBadInput;
  }
  set_preset_source([] { return load_presets(DataFolders({MESHPLAN_SOURCE_DIR})); });
  Result<std::vector<Source>> all = read_published(o.inputs);
  if (!all) {
    std::cerr << to_text(all.errors());
    return kBadInput;
  }
  std::vector<Source> sources;
  for (Source& source : all.value()) {
    if (wanted(o, source)) sources.push_back(std::move(source));
  }
  if (sources.empty()) {
    std::cerr << "error: no source has one of these names\n";
    return kBadInput;
  }
  Machines machines(MESHPLAN_ACCURACY_CLUSTERS, DataFolders::standard());
  std::vector<Task> tasks;
  std::vector<Skipped> skipped;
  collect(sources, o, machines, tasks, skipped);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<Prediction> predictions;
  const int threads = o.threads > 0 ? o.threads : cores;
  for (auto& result : predict_all(tasks, threads)) {
    if (Prediction* p = std::get_if<Prediction>(&result)) {
      predictions.push_back(std::move(*p));
    } else {
      skipped.push_back(std::move(std::get<Skipped>(result)));
    }
  }
  const std::string rows = o.rows.empty() ? "" : to_csv(predictions);
  std::erase_if(predictions, [](const Prediction& p) { return p.source->use == Use::kSanity; });
  std::erase_if(skipped, [](const Skipped& s) { return s.source->use == Use::kSanity; });
  const Report report = summarise(sources, predictions, std::move(skipped));
  if (o.cross_validate) {
    const Result<std::vector<Source>> others =
        o.unfitted.empty() ? std::vector<Source>{} : read_published(o.unfitted);
    if (!others) {
      std::cerr << to_text(others.errors());
      return kBadInput;
    }
    const auto unfitted = step_times_of(*others, o, machines, threads);
    return cross_validate(o, tasks, report, predictions, unfitted, threads);
  }
  if (!o.shots.empty()) {
    print_shots(o, tasks, threads);
    return kSuccess;
  }
  if (o.json != "-") std::cout << to_text(report, o.verbose);
  const bool written = write_file(o.rows, rows) &&
                       (o.json.empty() || write_file(o.json, to_json(report))) &&
                       (o.html.empty() || write_file(o.html, html_report(to_json(report))));
  return written ? kSuccess : kBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Predicts published training runs and reports how far off the predictions are",
               "meshplan-accuracy"};
  Options options;
  declare(app, options);
  try {
    app.parse(argc, argv);
    return run(options);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? kSuccess : kBadInput;
  } catch (const std::regex_error& e) {
    std::cerr << "error: --only is not a regular expression: " << e.what() << "\n";
    return kBadInput;
  } catch (const std::exception& e) {
    std::cerr << "internal error: " << e.what() << "\n";
    return kBug;
  }
}

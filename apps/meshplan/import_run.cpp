// import megatron-args, deepspeed, torchtitan: the files that start a run.
#include <filesystem>

#include "frameworks/preset.hpp"
#include "import.hpp"
#include "io/write.hpp"
#include "launch/import_account.hpp"
#include "launch/lint_json.hpp"
#include "log.hpp"
#include "read_run.hpp"
#include "report/model_yaml.hpp"
#include "report/table.hpp"

namespace meshplan {
namespace {

void warn(const ImportedRun& run) {
  for (const std::string& note : run.notes) log_warning(note);
  for (const std::string& name : run.unknown) log_warning("unknown and left out: " + name);
  for (const std::string& text : left_out_texts(run)) log_warning("not modelled: " + text);
  if (!run.automatic.empty()) {
    log_warning("\"auto\" is taken as the default: " + join_words(run.automatic));
  }
  if (run.world_size == 0) {
    log_warning(
        "how many GPUs the run has is not stated: give --gpus N" +
        std::string(run.accumulation > 0 ? "; until then the global batch is one rank's" : ""));
  }
  if (!run.assumed.empty()) log_info("assumed: " + join_words(assumed_texts(run)));
  if (!run.options.empty()) log_info(account_text(run) + " (--report shows them)");
}

// Every option, and every value that no option states.
std::string account_report(const ImportedRun& run) {
  const TextOptions options = console_options();
  std::string text = account_text(run) + "\n\n";
  Table table({{"option", Align::kLeft},
               {"line"},
               {"taken as", Align::kLeft},
               {"about", Align::kLeft, true}});
  for (const OptionEffect effect :
       {OptionEffect::kNotModelled, OptionEffect::kModelled, OptionEffect::kNoEffect}) {
    for (const ReadOption& o : run.options) {
      if (o.effect != effect) continue;
      const std::string value =
          printable(o.value.size() > 24 ? o.value.substr(0, 21) + "..." : o.value);
      table.add_row({o.name + (value.empty() ? "" : " " + value), std::to_string(o.line),
                     std::string(name_of(o.effect)), o.what});
    }
  }
  text += table.text(options);
  if (run.assumed.empty()) return text;
  text += "\n";
  Table assumed({{"assumed", Align::kLeft}, {"value", Align::kLeft}, {"from", Align::kLeft, true}});
  for (const AssumedValue& a : run.assumed) assumed.add_row({a.what, printable(a.value), a.source});
  return text + assumed.text(options);
}

void write_files(const ImportedRun& run, const std::string& out, const std::string& strategy,
                 Diagnostics& problems) {
  std::error_code failure;
  const std::filesystem::path folder = out;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    problems.push_back(error_at({"--out"}, out + ": " + failure.message()));
    return;
  }
  std::vector<std::pair<std::string, std::string>> files{{"strategy.yaml", strategy}};
  if (run.knows_model) files.emplace_back("model.yaml", model_yaml(run.model));
  for (const auto& [name, text] : files) {
    take(write_file_atomically(folder / name, text), "--out", problems);
    if (has_errors(problems)) return;
    log_info("wrote " + (folder / name).string());
  }
}

// Both in one text: a model file, the strategy in a comment; else a strategy file.
std::string both(const ImportedRun& run, const std::string& strategy) {
  if (run.knows_model) {
    return model_yaml(run.model) + "\n# The strategy, for --strategy:\n# " + to_text(run.strategy) +
           "\n";
  }
  return "# Which model is trained is not stated: meshplan estimate --model NAME --strategy "
         "FILE\n" +
         strategy;
}

int import_run(const ImportFlags& flags, Target target) {
  Diagnostics problems;
  const std::optional<LoadedRun> loaded = read_run(flags.files, target, flags.open, problems);
  if (!loaded) return report_errors(problems, flags.common);
  const ImportedRun& run = loaded->run();
  append(problems, validate(run, flags.files.front()));
  if (has_errors(problems)) return report_errors(problems, flags.common);
  warn(run);
  if (flags.report && !flags.common.json) return write_result(account_report(run), kExitOk);
  const std::string strategy = strategy_yaml(run.strategy);
  if (!flags.out.empty()) write_files(run, flags.out, strategy, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  if (flags.common.json) {
    return write_result(run_document(kTool.version, run, flags.files.front()), kExitOk);
  }
  return flags.out.empty() ? write_result(both(run, strategy), kExitOk) : kExitOk;
}

}  // namespace

int import_megatron_args(const ImportFlags& flags) { return import_run(flags, Target::kMegatron); }
int import_deepspeed(const ImportFlags& flags) { return import_run(flags, Target::kDeepspeed); }
int import_torchtitan(const ImportFlags& flags) { return import_run(flags, Target::kTorchtitan); }
int import_recipe(const ImportFlags& flags) { return import_run(flags, Target::kAccelerate); }

}  // namespace meshplan

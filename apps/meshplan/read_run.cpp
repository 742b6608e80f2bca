#include "read_run.hpp"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include "base/printable.hpp"
#include "inputs.hpp"
#include "launch/bridge_config.hpp"
#include "launch/bridge_script.hpp"
#include "launch/deepspeed_import.hpp"
#include "launch/detect.hpp"
#include "launch/functional_test.hpp"
#include "launch/nemo_config.hpp"
#include "launch/neox_import.hpp"
#include "launch/primus_config.hpp"
#include "launch/recipe_import.hpp"
#include "launch/shell.hpp"
#include "launch/torchtitan_import.hpp"
#include "log.hpp"

namespace meshplan {
namespace {

// Files that a script reads as its own, from its folder.
std::function<std::optional<std::string>(const std::string&)> reader_beside(
    const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return [folder](const std::string& name) -> std::optional<std::string> {
    constexpr std::size_t kLargest = std::size_t{1} << 20;
    Result<std::string> text = read_text_file(folder / name);
    if (!text || text->size() > kLargest) return std::nullopt;
    return std::move(text).value();
  };
}

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    all[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return all;
}

// The variables that --set states.
std::map<std::string, std::string> read_variables(const std::vector<std::string>& set,
                                                  Diagnostics& problems) {
  std::map<std::string, std::string> all;
  for (const std::string& text : set) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems.push_back(error_at({"--set"}, "'" + printable_text(text) + "' is not NAME=VALUE"));
    } else {
      all[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  return all;
}

// Configurations that fill in Megatron-LM's arguments, as those; anything else as it is.
Result<NamedText> argument_list(const NamedText& file, RunContext& context) {
  if (is_functional_test(file.text)) return functional_test_arguments(file);
  if (is_bridge_config(file.text)) return bridge_arguments(file);
  if (is_primus(file.text)) return primus_arguments(file, context.shell);
  if (file.text.find("_target_: nemo.collections.llm") != std::string::npos) {
    return error_at({file.name}, "a recipe of NeMo 2 names classes of Python, which are not read",
                    "give --model and --strategy, or the log, which 'meshplan compare' reads");
  }
  if (is_nemo(file.text)) {
    Result<NemoArguments> read = nemo_arguments(file, context.shell);
    if (!read) return read.errors();
    if (context.gpus == 0) context.gpus = read->gpus;
    return read->options;
  }
  return file;
}

std::optional<LoadedRun> read(const std::vector<NamedText>& files, Target target,
                              const RunContext& context, Diagnostics& problems) {
  const auto is_of_neox = [](const NamedText& file) { return is_neox(file.text); };
  if (target == Target::kDeepspeed) {
    auto run = take(std::any_of(files.begin(), files.end(), is_of_neox)
                        ? read_neox_run(files, context)
                        : read_deepspeed_run(files, context),
                    files.front().name, problems);
    if (run) return LoadedRun(*std::move(run));
  } else if (target == Target::kTorchtitan) {
    auto run = take(read_torchtitan_run(files, context), files.front().name, problems);
    if (run) return LoadedRun(*std::move(run));
  } else if (target == Target::kAccelerate) {
    auto run = take(read_recipe_run(files, context), files.front().name, problems);
    if (run) return LoadedRun(*std::move(run));
  } else if (files.size() > 1) {
    problems.push_back(error("Megatron-LM's arguments are read from one file, got " +
                             std::to_string(files.size())));
  } else {
    NamedText list = files.front();
    if (starts_bridge_recipe(read_shell(list.text, context.shell))) {
      auto run = take(read_bridge_script(list, context), "", problems);
      return run ? std::optional(LoadedRun(*std::move(run))) : std::nullopt;
    }
    RunContext stated = context;
    std::optional<NamedText> arguments = take(argument_list(list, stated), "", problems);
    if (!arguments) return std::nullopt;
    list = *std::move(arguments);
    auto run = take(read_megatron_run(list.text, list.name, stated), "", problems);
    if (run) return LoadedRun(*std::move(run));
  }
  return std::nullopt;
}

// Whether the script starts a recipe of Megatron-Bridge: the model is then --model's, else the one
// that ships by the recipe's name.
bool take_recipe_model(const std::vector<NamedText>& texts, RunContext& context) {
  if (texts.size() != 1 || is_functional_test(texts.front().text)) return false;
  const ShellScript script = read_shell(texts.front().text, context.shell);
  if (!starts_bridge_recipe(script)) return false;
  const std::string name = bridge_recipe_model(script);
  if (context.model || name.empty()) return true;
  if (const Result<ModelSpec> model = load_model(name, DataFolders::standard())) {
    context.model = *model;
    log_info("the recipe's model is taken to be '" + context.model->name + "'");
  }
  return true;
}

}  // namespace

void add_open_flags(Subcommand& command, OpenFlags& flags) {
  command.add_value(
      "--model", flags.model, "NAME|FILE",
      "The model of the run, where its files do not say (deepspeed, torchtitan, recipe, "
      "Megatron-Bridge's scripts)");
  command.add_value("--gpus", flags.gpus, "N",
                    "GPUs of the run, whatever its files say (megatron-args, deepspeed, "
                    "torchtitan, recipe)");
  command.add_value("--release", flags.release, "NAME|DATE",
                    "Release of Megatron-LM that runs (megatron-args); default: the newest of "
                    "'meshplan list frameworks'");
  command.add_value("--seq-len", flags.seq_len, "N",
                    "Tokens of a sequence, where the files do not say (deepspeed, recipe)");
  command.add_value(
      "--micro-batch", flags.micro_batch, "N",
      "Sequences that a GPU takes at once, where the files leave it open (deepspeed)");
  command.add_value("--grad-accum", flags.accumulation, "N",
                    "Microbatches of a step, where the files leave it open (deepspeed)");
  command.add_value("--global-batch", flags.global_batch, "N",
                    "Sequences of a step, where the files leave it open (deepspeed)");
  command.add_repeated("--set", flags.set, "NAME=VALUE",
                       "A variable of the script, whatever it assigns");
  command.add_switch("--lenient", flags.lenient,
                     "Go on where an option is not known or a condition not decided");
  command.add_rest(flags.arguments);
}

const ImportedRun& LoadedRun::run() const {
  return std::visit([](const auto& run) -> const ImportedRun& { return run; }, run_);
}

ImportedRun& LoadedRun::run() {
  return std::visit([](auto& run) -> ImportedRun& { return run; }, run_);
}

Diagnostics LoadedRun::lint(const std::optional<ClusterSpec>& cluster,
                            const std::string& file) const {
  if (const auto* megatron = std::get_if<MegatronRun>(&run_)) {
    return meshplan::lint(*megatron, cluster, file);
  }
  const auto& settings = std::get<SettingsRun>(run_);
  return settings.target == Target::kDeepspeed ? lint_deepspeed(settings, cluster, file)
                                               : lint_torchtitan(settings, cluster, file);
}

std::optional<LoadedRun> read_run(const std::vector<std::string>& files,
                                  std::optional<Target> target, const OpenFlags& open,
                                  Diagnostics& problems) {
  std::vector<NamedText> texts;
  for (const std::string& file : files) {
    // A hundred times what people write; every option of a launch file is kept with its place.
    constexpr std::size_t kLargest = std::size_t{1} << 20;
    std::optional<std::string> text = take(read_text_file(file), file, problems);
    if (text && text->size() > kLargest) {
      problems.push_back(error_at({file}, "larger than 1 MiB: no file that starts a run"));
    }
    if (text) texts.push_back({file, *std::move(text)});
  }
  if (has_errors(problems) || texts.empty()) return std::nullopt;
  return read_run_texts(texts, target, open, files.front(), problems);
}

std::optional<LoadedRun> read_run_texts(const std::vector<NamedText>& texts,
                                        std::optional<Target> target, const OpenFlags& open,
                                        const std::string& beside, Diagnostics& problems) {
  RunContext context;
  if (!open.model.empty())
    context.model = take(load_model(open.model, DataFolders::standard()), "--model", problems);
  context.gpus = read_count(open.gpus, "--gpus", kMostGpus, problems);
  context.seq_len = read_count(open.seq_len, "--seq-len", kMostTokens, problems);
  context.micro_batch = read_count(open.micro_batch, "--micro-batch", kMostSequences, problems);
  context.accumulation = read_count(open.accumulation, "--grad-accum", kMostSequences, problems);
  context.global_batch = read_count(open.global_batch, "--global-batch", kMostSequences, problems);
  context.lenient = open.lenient;
  context.release = open.release;
  context.shell.variables = read_variables(open.set, problems);
  context.shell.arguments = open.arguments;
  context.shell.environment = own_environment();
  context.shell.read_file = reader_beside(beside);
  if (has_errors(problems)) return std::nullopt;
  const Result<Target> told = detect_target(texts, context);
  if (!told && !target) {
    append(problems, told.errors());
    return std::nullopt;
  }
  // A script that passes --deepspeed is Megatron-DeepSpeed's, whatever its arguments look like.
  bool other = told && target == Target::kMegatron && *told == Target::kDeepspeed;
  if (other) log_info("these are DeepSpeed's or Megatron-DeepSpeed's files: read as such");
  // Nor is every YAML a recipe.
  const std::string& first = texts.front().name;
  if (told && target == Target::kAccelerate && *told != Target::kAccelerate &&
      (first.ends_with(".yaml") || first.ends_with(".yml"))) {
    log_info(first + " is not a recipe: read as 'import " +
             std::string(*told == Target::kMegatron ? "megatron-args" : name_of(*told)) + "' does");
    other = true;
  }
  const Target of = other ? *told : target ? *target : *told;
  const bool recipe = of == Target::kMegatron && take_recipe_model(texts, context);
  if (context.model && of == Target::kMegatron && !recipe) {
    problems.push_back(error("--model is for files that do not describe the model",
                             "the arguments of Megatron-LM do"));
  }
  if (!context.release.empty() && of != Target::kMegatron) {
    problems.push_back(error("--release is for arguments of Megatron-LM"));
  }
  if (context.seq_len > 0 && of != Target::kDeepspeed && of != Target::kAccelerate) {
    problems.push_back(
        error("--seq-len is for DeepSpeed's files and recipes, which may not state it",
              "those of Megatron-LM and torchtitan do"));
  }
  if (has_errors(problems)) return std::nullopt;
  return read(texts, of, context, problems);
}

}  // namespace meshplan

#include "read_run.hpp"

#include "launch/deepspeed_import.hpp"
#include "launch/torchtitan_import.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kMostGpus = 16'777'216, kMostTokens = 1'073'741'824;

bool mentions(const NamedText& file, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return file.text.find(word) != std::string::npos;
  });
}

Target target_of(const std::vector<NamedText>& files) {
  for (const NamedText& file : files) {
    const std::size_t first = file.text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (first != std::string::npos && file.text[first] == '{') return Target::kDeepspeed;
    if (file.name.ends_with(".toml") || mentions(file, {"--job.config", "torchtitan.train"})) {
      return Target::kTorchtitan;
    }
    if (mentions(file, {"--deepspeed", "--ds-sequence-parallel-size"})) return Target::kDeepspeed;
  }
  return Target::kMegatron;
}

std::optional<LoadedRun> read(const std::vector<NamedText>& files, Target target,
                              const RunContext& context, Diagnostics& problems) {
  if (target == Target::kDeepspeed) {
    auto run = take(read_deepspeed_run(files, context), files.front().name, problems);
    if (run) return LoadedRun(*std::move(run));
  } else if (target == Target::kTorchtitan) {
    auto run = take(read_torchtitan_run(files, context), files.front().name, problems);
    if (run) return LoadedRun(*std::move(run));
  } else if (files.size() > 1) {
    problems.push_back(error("Megatron-LM's arguments are read from one file, got " +
                             std::to_string(files.size())));
  } else {
    auto run = take(read_megatron_run(files.front().text, files.front().name), "", problems);
    if (!run) return std::nullopt;
    if (context.gpus > 0) run->world_size = context.gpus;
    run->strategy = with_world(*run, run->world_size);
    return LoadedRun(*std::move(run));
  }
  return std::nullopt;
}

}  // namespace

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
  RunContext context;
  if (!open.model.empty())
    context.model = take(load_model(open.model, DataFolders::standard()), "--model", problems);
  context.gpus = read_count(open.gpus, "--gpus", kMostGpus, problems);
  context.seq_len = read_count(open.seq_len, "--seq-len", kMostTokens, problems);
  if (has_errors(problems) || texts.empty()) return std::nullopt;
  const Target of = target.value_or(target_of(texts));
  if (context.model && of == Target::kMegatron) {
    problems.push_back(error("--model is for files that do not describe the model",
                             "the arguments of Megatron-LM do"));
  }
  if (context.seq_len > 0 && of != Target::kDeepspeed) {
    problems.push_back(error("--seq-len is for DeepSpeed's files, which may not state it",
                             "those of Megatron-LM and torchtitan do"));
  }
  if (has_errors(problems)) return std::nullopt;
  return read(texts, of, context, problems);
}

}  // namespace meshplan

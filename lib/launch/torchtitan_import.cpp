#include "launch/torchtitan_import.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "io/toml_tree.hpp"
#include "launch/settings.hpp"
#include "launch/settings_account.hpp"
#include "launch/torchtitan_parts.hpp"
#include "launch/torchtitan_python.hpp"
#include "schedule/chunk_map.hpp"

namespace meshplan {
namespace {

// Files below torchtitan/ of v0.2.2; defaults are those of config/job_config.py.
class Importer {
 public:
  explicit Importer(const RunContext& context) : context_(context) {}

  Result<SettingsRun> read(std::span<const NamedText> files) {
    for (const NamedText& file : files) {
      if (!file.name.ends_with(".py")) add(file);
    }
    for (const NamedText& file : files) {
      if (file.name.ends_with(".py")) add_python(file);
    }
    if (!problems_.empty()) return problems_;
    run_.target = Target::kTorchtitan;
    if (context_.gpus > 0) {
      run_.world_size = context_.gpus;
      run_.world_source = "--gpus";
    }
    run_.strategy = framework_preset(Framework::kTorchtitan);
    read_model();
    if (settings_.problems().empty()) {
      read_parallelism();
      read_batch();
      read_pipeline();
      read_torchtitan_kernels(settings_, run_);
    }
    append(settings_.problems());
    if (!problems_.empty()) return problems_;
    run_.strategy = with_world(run_, run_.world_size);
    run_.places = settings_.places();
    const bool one_stage = run_.strategy.pp == 1;
    account_settings(settings_,
                     {.keys = torchtitan_keys(),
                      .whose = "torchtitan's settings",
                      .idle_here =
                          [=](std::string_view name) {
                            return one_stage && name.starts_with("parallelism.pipeline_parallel_");
                          },
                      .elsewhere = [](std::string_view) { return false; }},
                     run_);
    run_.settings = std::move(settings_);
    return std::move(run_);
  }

 private:
  void append(const Diagnostics& more) {
    problems_.insert(problems_.end(), more.begin(), more.end());
  }

  // A script's options go before a job file, whichever comes first.
  void add(const NamedText& file) {
    if (file.name.ends_with(".toml")) {
      const Result<YamlNode> tree = parse_toml(file.text, file.name);
      if (!tree) return append(tree.errors());
      merge_file(*tree, file);
      has_file_ = true;
      return;
    }
    const ShellScript script = read_shell(file.text, context_.shell);
    for (std::size_t i = 0; i < script.words.size(); ++i) add_option(script, i, file);
    run_.grows_segments |= grows_segments(script.variables);
    if (context_.gpus > 0) return;
    const Result<std::int64_t> world = launched_world(script, file.name, &run_);
    if (!world) return append(world.errors());
    run_.world_size = std::max(run_.world_size, *world);
  }

  // A configuration of main, which the script or --set names.
  void add_python(const NamedText& file) {
    const auto stated = context_.shell.variables.find("CONFIG");
    const Result<YamlNode> tree = read_torchtitan_python(
        file, stated != context_.shell.variables.end() ? stated->second : config_);
    if (!tree) return append(tree.errors());
    merge_file(*tree, file);
    has_file_ = true;
    if (const Settings::Setting* list = settings_.find("not_understood")) {
      for (const YamlNode& item : list->value.items) {
        run_.notes.push_back("line " + std::to_string(item.line) + " is not read: " + item.text);
      }
    }
    if (settings_.flag("loss.chunked", false)) {
      run_.notes.emplace_back(
          "the loss is taken in chunks; estimated is one of all logits at once");
    }
    if (settings_.has("optimizer.made_by")) {
      run_.notes.push_back("the optimizer of " + settings_.text("optimizer.made_by") +
                           " is estimated as AdamW");
    }
  }

  void merge_file(const YamlNode& tree, const NamedText& file) {
    Settings below;
    below.add(tree, file.text, file.name);
    below.add_over(settings_);
    settings_ = std::move(below);
  }

  void add_option(const ShellScript& script, std::size_t i, const NamedText& file) {
    const ShellWord& word = script.words[i];
    if (!word.text.starts_with("--")) return;
    const std::size_t equals = std::min(word.text.find('='), word.text.size());
    std::string name = word.text.substr(2, equals - 2);
    if (name == "config") {
      config_ = equals < word.text.size()     ? word.text.substr(equals + 1)
                : i + 1 < script.words.size() ? script.words[i + 1].text
                                              : std::string();
    }
    if (name.find('.') == std::string::npos) return;  // torchrun's
    std::replace(name.begin(), name.end(), '-', '_');
    if (name == "job.config_file") names_file_ = word;
    ShellWord value;
    const ShellWord* given = nullptr;
    if (equals < word.text.size()) {
      value = {word.text.substr(equals + 1), word.line, word.column};
      given = &value;
    } else if (i + 1 < script.words.size() && !script.words[i + 1].text.starts_with("--")) {
      given = &script.words[i + 1];
    }
    settings_.add(name, word, given, script, file.name);
  }

  void read_model() {
    if (context_.model) {
      run_.model = *context_.model;
      (void)settings_.find("model.name");
      (void)settings_.find("model.flavor");
      return;
    }
    const std::string model = settings_.text("model.name"),
                      flavor = settings_.text("model.flavor", "debugmodel");
    for (const TorchtitanFlavor& f : torchtitan_flavors()) {
      if (f.model == model && f.flavor == flavor) run_.model = torchtitan_model(f);
    }
    if (!run_.model.name.empty()) return;
    if (model.empty() && !config_.empty() && !has_file_) {
      settings_.report("--config", "the configuration '" + config_ + "' is missing here",
                       "give the config_registry.py of its model too");
      return;
    }
    if (model.empty() && !names_file_.text.empty() && !has_file_) {
      settings_.report("job.config_file", "the job file that the script names is missing here",
                       "give both: the job file and the script");
      return;
    }
    std::vector<std::string> known;
    for (const TorchtitanFlavor& f : torchtitan_flavors()) {
      known.push_back(std::string(f.model) + " " + std::string(f.flavor));
    }
    settings_.report(model.empty() ? "model" : "model.flavor",
                     model.empty() ? "'model.name' is missing"
                                   : "the sizes of model '" + model + "', flavor '" + flavor +
                                         "', are not known here",
                     "known: " + join_words(known));
  }

  std::int64_t size(const std::string& key, IntegerRange range = kRanks) {
    return settings_.integer("parallelism." + key, 1, range);
  }

  void read_parallelism() {
    Strategy& s = run_.strategy;
    s.tp = size("tensor_parallel_degree");
    s.pp = size("pipeline_parallel_degree", kStages);
    s.cp = size("context_parallel_degree");
    s.sequence_parallel = s.tp > 1 && settings_.flag("parallelism.enable_sequence_parallel", true);
    s.overlap.tp = settings_.flag("parallelism.enable_async_tensor_parallel", false) ||
                   settings_.flag("compile.enable_async_tensor_parallel", false);
    const std::string how =
        settings_.text("parallelism.context_parallel_rotate_method", "allgather");
    s.cp_kind = s.cp > 1 && how == "allgather" ? CpKind::kAllGather : CpKind::kRing;
    run_.replicas = size("data_parallel_replicate_degree");
    const std::int64_t shards =
        settings_.integer("parallelism.data_parallel_shard_degree", -1, kRanks);
    const std::int64_t ranks =
        bounded_product({s.tp, s.pp, s.cp, run_.replicas, std::max<std::int64_t>(shards, 1)});
    if (const auto wrong = out_of_range("the product of the degrees", ranks, kRanks)) {
      settings_.report("parallelism", *wrong);
      s.tp = s.pp = s.cp = run_.replicas = 1;
    } else if (shards > 0) {
      if (run_.world_size == 0) run_.world_size = ranks;
      s.dp = run_.replicas * shards;
      run_.states_dp = true;
    }
    read_sharding(shards);
    if (run_.model.moe) {
      s.ep = size("expert_parallel_degree");
      // models/llama4/infra/parallelize.py:559: without expert parallelism tp splits the experts.
      s.etp = s.ep > 1 ? size("expert_tensor_parallel_degree") : s.tp;
      const std::string backend =
          settings_.text("parallelism.expert_parallel_comm_backend", "standard");
      s.runtime.flex_dispatcher = s.ep > 1 && (backend == "deepep" || backend == "hybridep");
    }
  }

  // models/llama3/infra/parallelize.py: FSDP over shards and context ranks, else copies (DDP).
  void read_sharding(std::int64_t shards) {
    Strategy& s = run_.strategy;
    const std::string when = settings_.text("parallelism.fsdp_reshard_after_forward", "default");
    const bool one = shards == 1 && s.cp == 1;
    const bool copies = one && (run_.replicas > 1 || (when == "default" && s.tp * s.pp == 1));
    // distributed/fsdp.py: a pipeline keeps the weights between forward and backward passes.
    const bool keeps = when == "never" || (when == "default" && s.pp > 1);
    s.zero = copies ? 0 : keeps ? 2 : 3;
    if (s.zero == 0) run_.replicas = 1;
  }

  // main counts tokens: of a microbatch on each data-parallel rank, and of a step
  // (config/configs.py).
  void read_tokens() {
    Strategy& s = run_.strategy;
    s.seq_len = settings_.integer("training.max_context_length", 2048, kTokens);
    run_.model.max_seq_length = std::max(run_.model.max_seq_length, s.seq_len);
    const std::string own = "training.num_tokens_per_microbatch_per_dp_rank";
    const std::int64_t tokens = settings_.integer(own, 16384, kTokens);
    if (tokens % s.seq_len != 0) {
      settings_.report(own, std::to_string(tokens) + " tokens are no whole rows of " +
                                std::to_string(s.seq_len) + " (training.max_context_length)");
      return;
    }
    s.micro_batch = tokens / s.seq_len;
    const std::int64_t step =
        settings_.integer("training.num_tokens_per_train_step", -1, {1, std::int64_t{1} << 50});
    const std::int64_t microbatches =
        settings_.integer("parallelism.num_pp_microbatches", 1, kSequences);
    if (step > 0) {
      s.global_batch = step / s.seq_len;
    } else {
      run_.accumulation = s.pp > 1 ? microbatches : 1;
    }
  }

  void read_batch() {
    Strategy& s = run_.strategy;
    if (settings_.has("training.num_tokens_per_microbatch_per_dp_rank")) return read_tokens();
    s.seq_len = settings_.integer("training.seq_len", 2048, kTokens);
    run_.model.max_seq_length = std::max(run_.model.max_seq_length, s.seq_len);
    const std::int64_t local = settings_.integer("training.local_batch_size", 8, kSequences);
    s.micro_batch = local;
    if (s.pp > 1) {
      s.micro_batch =
          settings_.integer("parallelism.pipeline_parallel_microbatch_size", 1, kSequences);
    }
    const std::int64_t global = settings_.integer("training.global_batch_size", -1, kSequences);
    if (s.pp > 1 && local % s.micro_batch != 0) {
      settings_.report("training.local_batch_size",
                       "'training.local_batch_size' " + std::to_string(local) +
                           " must be a multiple of the microbatch of " +
                           std::to_string(s.micro_batch),
                       "torchtitan stops (distributed/pipeline_parallel.py)");
      return;
    }
    if (global > 0) {
      s.global_batch = global;
    } else {
      run_.accumulation = local / s.micro_batch;
    }
    const std::int64_t once = local * std::max<std::int64_t>(s.dp, 1);
    if (s.pp > 1 && run_.states_dp && global > once) {
      run_.notes.push_back("the pipeline is filled and drained " + std::to_string(global / once) +
                           " times a step, the strategy counts once: a larger "
                           "training.local_batch_size does that");
    }
  }

  struct ScheduleName {
    std::string_view name;
    Schedule schedule;
    bool several;  // stages on a rank
    bool same;     // as ours of that name
  };
  static constexpr std::array kSchedules{
      ScheduleName{"1f1b", Schedule::k1f1b, false, true},
      ScheduleName{"gpipe", Schedule::kGpipe, false, true},
      ScheduleName{"interleaved1f1b", Schedule::kInterleaved, true, true},
      ScheduleName{"loopedbfs", Schedule::kInterleaved, true, false},
      ScheduleName{"interleavedzerobubble", Schedule::kInterleaved, true, false},
      ScheduleName{"zbvzerobubble", Schedule::kZbV, true, true},
      ScheduleName{"dualpipev", Schedule::kZbV, true, false}};

  void read_pipeline() {
    Strategy& s = run_.strategy;
    if (s.pp == 1) return;
    std::string name = settings_.text("parallelism.pipeline_parallel_schedule", "1F1B");
    const std::string written = name;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto* row = std::find_if(kSchedules.begin(), kSchedules.end(),
                                   [&](const ScheduleName& r) { return r.name == name; });
    if (row == kSchedules.end()) {
      settings_.report("parallelism.pipeline_parallel_schedule",
                       "PyTorch has no pipeline schedule '" + written + "'",
                       "1F1B, GPipe, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble, "
                       "ZBVZeroBubble or DualPipeV");
      return;
    }
    s.schedule = row->schedule;
    if (!row->same) {
      run_.notes.push_back(written + " is estimated as " + std::string(name_of(row->schedule)));
    }
    std::vector<std::int64_t> stages = stated_stages();
    if (stages.empty()) stages = even_stages(row->several);
    if (!settings_.problems().empty()) return;
    place_stages(stages);
  }

  // Layers of every stage of module_fqns_per_model_part.
  std::vector<std::int64_t> stated_stages() {
    const Settings::Setting* parts = settings_.find("parallelism.module_fqns_per_model_part");
    if (parts == nullptr || parts->value.kind != YamlNode::Kind::kSequence) return {};
    std::vector<std::int64_t> stages;
    std::int64_t layers = 0;
    for (const YamlNode& part : parts->value.items) {
      std::int64_t count = 0;
      for (const YamlNode& module : part.items) count += module.text.starts_with("layers.") ? 1 : 0;
      stages.push_back(count);
      layers += count;
    }
    if (layers != run_.model.num_layers) {
      settings_.report("parallelism.module_fqns_per_model_part",
                       "the stages hold " + std::to_string(layers) + " layers, the model has " +
                           std::to_string(run_.model.num_layers));
    }
    return stages;
  }

  // distributed/pipeline_parallel.py generate_llm_fqn_per_model_part.
  std::vector<std::int64_t> even_stages(bool several) {
    const std::int64_t layers = run_.model.num_layers;
    constexpr std::int64_t kMost = 10'000;
    const std::string p = "parallelism.pipeline_parallel_";
    const std::int64_t in = settings_.integer(p + "first_stage_less_layers", 1, {0, kMost}),
                       out = settings_.integer(p + "last_stage_less_layers", 1, {0, kMost}),
                       each = settings_.integer(p + "layers_per_stage", 0, {1, kMost});
    if (!settings_.problems().empty()) return {};
    const std::int64_t all = layers + in + out;
    std::int64_t count = run_.strategy.pp * (several ? 2 : 1);
    if (each > 0) count = (all + each - 1) / each;
    if (count > all || std::max(in, out) > all / count) {
      settings_.report(
          "parallelism.pipeline_parallel_degree",
          std::to_string(count) + " stages are too many for " + std::to_string(layers) + " layers");
      return {};
    }
    std::vector<std::int64_t> stages(static_cast<std::size_t>(count), all / count);
    for (std::int64_t i = 0; i < all % count; ++i) ++stages[static_cast<std::size_t>(i)];
    stages.front() -= in;
    stages.back() -= out;
    return stages;
  }

  void place_stages(const std::vector<std::int64_t>& stages) {
    Strategy& s = run_.strategy;
    const auto count = static_cast<std::int64_t>(stages.size());
    const ScheduleTraits& traits = traits_of(s.schedule);
    const bool single = traits.chunks == ChunksPerRank::kOne;
    const bool pairs = traits.chunks == ChunksPerRank::kTwo;
    const bool fits = count % s.pp == 0 && (single ? count == s.pp : count > s.pp) &&
                      (!pairs || count == 2 * s.pp);
    if (!fits) {
      settings_.report("parallelism.pipeline_parallel_schedule",
                       std::to_string(count) + " stages on " + std::to_string(s.pp) +
                           " ranks: " + std::string(name_of(s.schedule)) + " wants " +
                           (single  ? "one on each"
                            : pairs ? "two on each"
                                    : "as many on each, two or more"));
      return;
    }
    s.vp = count / s.pp;
    s.stage_layers.assign(static_cast<std::size_t>(s.pp), 0);
    const PipelineShape shape{s.schedule, s.pp, s.vp};
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t rank = rank_of_chunk(shape, i);
      s.stage_layers[static_cast<std::size_t>(rank)] += stages[static_cast<std::size_t>(i)];
    }
  }

  const RunContext& context_;
  Settings settings_;
  SettingsRun run_;
  Diagnostics problems_;
  ShellWord names_file_;
  std::string config_;  // of --config
  bool has_file_ = false;
};

}  // namespace

Result<SettingsRun> read_torchtitan_run(std::span<const NamedText> files,
                                        const RunContext& context) {
  return Importer(context).read(files);
}

}  // namespace meshplan

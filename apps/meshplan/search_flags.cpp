#include "search_flags.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/quantity.hpp"
#include "frameworks/preset.hpp"
#include "io/limits.hpp"
#include "log.hpp"
#include "space/space.hpp"
#include "space/target.hpp"
#include "spec/strategy_keys.hpp"
#include "study/default_space.hpp"

namespace meshplan {
namespace {

constexpr std::array kObjectives{Objective::kStepTime, Objective::kCost, Objective::kMemory};
constexpr std::array kSpaces{Space::kFull,       Space::kMegatron, Space::kDeepspeed, Space::kFsdp,
                             Space::kTorchtitan, Space::kAxolotl,  Space::kTorchtune};
constexpr std::int64_t kMostThreads = 1024;

std::vector<Limit> read_limits(const SearchFlags& flags, Diagnostics& problems) {
  std::vector<Limit> all;
  const auto read = [&](const std::vector<std::string>& texts, std::string_view flag, auto parse) {
    for (const std::string& text : texts) {
      const std::optional<std::vector<Limit>> some =
          take(parse(text, std::string(flag)), flag, problems);
      if (some) all.insert(all.end(), some->begin(), some->end());
    }
  };
  read(flags.fixed, "--fix", parse_limits);
  read(flags.limits, "--limit", parse_limits);
  read(flags.freed, "--free", parse_free_keys);
  return all;
}

// Names of export formats stand for the spaces of what they run.
std::string space_name(const std::string& text) {
  if (text == "megatron-bridge") return std::string(name_of(Space::kMegatron));
  return text == "accelerate" ? std::string(name_of(Space::kFsdp)) : text;
}

double read_risk(const std::string& text, Diagnostics& problems) {
  const std::optional<double> risk = take(parse_real(text), "--memory-risk", problems);
  if (!risk || (*risk > 0 && *risk <= 1)) return risk.value_or(1);
  problems.push_back(error_at({"--memory-risk"}, "must be above 0 and at most 1",
                              "a probability: 0.1 for one in ten"));
  return 1;
}

bool names_context(const std::vector<Limit>& limits) {
  return std::any_of(limits.begin(), limits.end(),
                     [](const Limit& limit) { return limit.key == "cp"; });
}

Limit no_context() { return {"cp", LimitOp::kEqual, {std::int64_t{1}}}; }

}  // namespace

std::optional<SearchRequest> with_context_parallelism(const SearchFlags& flags,
                                                      const WorkloadInputs& in,
                                                      SearchRequest request) {
  Diagnostics known;
  if (!in.fine_tunes || names_context(read_limits(flags, known))) return std::nullopt;
  if (in.cluster && num_gpus(*in.cluster) == 1) return std::nullopt;  // nothing to split over
  std::erase_if(request.limits, [](const Limit& limit) { return limit.key == "cp"; });
  return request;
}

SearchRequest read_request(const SearchFlags& flags, const WorkloadFlags& workload,
                           const WorkloadInputs& in, Diagnostics& problems) {
  SearchRequest request;
  request.base = with_preset(Strategy{}, *in.preset);
  request.base.lora = in.lora;
  request.base.frozen = in.frozen;
  request.base.packing = in.packing;
  request.base.loss = in.loss;
  if (workload.global_batch.empty() && workload.tokens_per_batch.empty()) {
    problems.push_back(error("--global-batch is missing",
                             "give the number of sequences of one step, or --tokens-per-batch"));
  }
  if (workload.seq_len.empty()) {
    std::string hint = "give the number of tokens of one sequence";
    if (in.model && in.model->lengths) {
      const auto most = static_cast<std::int64_t>(std::ceil(longest(*in.model->lengths)));
      hint += "; the longest document has " + with_thousands(most);
    }
    problems.push_back(error("--seq-len is missing", hint));
  }
  request.base.global_batch = in.global_batch;
  request.base.seq_len = in.seq_len;
  if (!flags.precision.empty()) {
    request.base.precision = read_name<Precision>(flags.precision, "--precision", problems);
  }
  request.limits = read_limits(flags, problems);
  if (in.fine_tunes && !names_context(request.limits)) request.limits.push_back(no_context());
  request.objective = read_choice(
      flags.objective, "--objective", kObjectives, [](Objective o) { return name_of(o); },
      problems);
  request.memory_risk = read_risk(flags.memory_risk, problems);
  if (!flags.space.empty()) {
    request.space = read_choice(
        space_name(flags.space), "--space", kSpaces, [](Space s) { return name_of(s); }, problems);
  }
  if (const auto own = framework_of(request.space); own && workload.framework.empty()) {
    request.base = with_preset(request.base, *own);
    if (has_adapters(request.base)) request.base.lora.targets = usual_targets(*own);
  }
  request.base = as_carried(request.base);
  if (in.model && in.cluster) {
    request.base = as_configured(request.space, request.base, *in.model, *in.cluster);
  }
  request.top = static_cast<std::size_t>(read_count(flags.top, "--top", kMostPlans, problems));
  request.threads =
      static_cast<int>(read_count(flags.threads, "--threads", kMostThreads, problems));
  if (!flags.time_limit.empty()) {
    request.time_limit = take(parse_time(flags.time_limit), "--time-limit", problems);
  }
  request.ignore_activations = flags.without_activations;
  if (flags.space.empty() && !has_errors(problems)) {
    const DefaultSpace found = default_space(*in.model, *in.cluster, request, in.sizes);
    if (!found.why_full.empty()) log_warning(found.why_full);
    request.space = found.space;
  }
  return request;
}

void add_search_flags(Subcommand& command, SearchFlags& flags) {
  command.add_value("--objective", flags.objective, "NAME", "step-time (default), cost or memory");
  command.add_value(
      "--space", flags.space, "NAME",
      "What to search: what a framework can run (default: the one of --framework): megatron, "
      "deepspeed, fsdp, torchtitan, axolotl, torchtune, megatron-bridge (as megatron), accelerate "
      "(as fsdp); or full: also what no framework has built yet");
  command.add_value("--memory-risk", flags.memory_risk, "P",
                    "Accepted probability of running out of memory (default 0.1; 1: whatever is "
                    "predicted to fit)");
  command.add_repeated("--fix", flags.fixed, "KEYS", "Keys that are given: tp=8,schedule=1f1b");
  command.add_repeated("--limit", flags.limits, "BOUNDS", "Bounds of keys: tp<=8,pp>=2");
  command.add_repeated(
      "--free", flags.freed, "KEYS",
      "Keys of which every value is searched (in the space of a framework: that it runs), "
      "not only what the space holds of them: "
      "zero_group,order,overlap.tp");
  command.add_value(
      "--precision", flags.precision, "NAME",
      "Of the matrix products (default: the framework's): " + choices_text<Precision>());
  command.add_value("--threads", flags.threads, "N",
                    "Threads of the search (default: one per core)");
  command.add_value("--time-limit", flags.time_limit, "TIME",
                    "Stop searching after this time, for example \"30 s\"; may leave a gap to the "
                    "proved optimum");
  command.add_switch("--without-activations", flags.without_activations,
                     "Count model states only, as rules of thumb do");
}

}  // namespace meshplan

#include "strategy_flag.hpp"

#include <filesystem>

#include "frameworks/preset.hpp"
#include "log.hpp"

namespace meshplan {
namespace {

// A key that a flag and the strategy may both set: they must agree, and one must be there.
void check_key(std::int64_t from_flag, std::int64_t value, const std::string& flag,
               const std::string& key, Diagnostics& problems) {
  if (value == 0) {
    problems.push_back(
        error(flag + " is missing", "give " + flag + " N, or " + key + "=N in the strategy"));
  } else if (from_flag != 0 && from_flag != value) {
    problems.push_back(error(flag + " is " + std::to_string(from_flag) +
                                 ", but the strategy says " + key + "=" + std::to_string(value),
                             "leave one of them out"));
  }
}

}  // namespace

void add_strategy_flag(Subcommand& command, std::string& text) {
  command.add_value("--strategy", text, "KEYS|FILE",
                    "The strategy: key=value,... or a YAML or JSON file of these keys (required)");
}

std::optional<Strategy> read_strategy(const std::string& text, const WorkloadFlags& workload,
                                      const WorkloadInputs& in, Diagnostics& problems) {
  if (text.empty()) {
    problems.push_back(
        error("--strategy is missing",
              "for example --strategy tp=2,pp=2,micro_batch=1, or the path of a file"));
    return std::nullopt;
  }
  std::error_code failure;
  if (text != "-" && text.find('=') == std::string::npos &&
      !std::filesystem::exists(text, failure)) {
    problems.push_back(error_at({"--strategy"}, "'" + text + "' is neither a file nor keys",
                                "write key=value,..., for example tp=2,pp=2,micro_batch=1"));
    return std::nullopt;
  }
  Strategy defaults = with_preset(Strategy{}, *in.preset);
  defaults.lora = in.lora;
  defaults.frozen = in.frozen;
  defaults.packing = in.packing;
  defaults.loss = in.loss;
  defaults.global_batch = in.global_batch;
  defaults.seq_len = in.seq_len;
  defaults.dp = 0;  // what the cluster leaves
  const std::optional<Strategy> s = take(load_strategy(text, defaults), "--strategy", problems);
  if (!s) return std::nullopt;
  check_key(in.global_batch, s->global_batch, "--global-batch", "global_batch", problems);
  check_key(in.seq_len, s->seq_len, "--seq-len", "seq_len", problems);
  if (!workload.framework.empty() && s->framework != in.preset->framework()) {
    problems.push_back(
        error("--framework is " + workload.framework +
                  ", but the strategy says framework=" + std::string(name_of(s->framework)),
              "leave one of them out"));
  }
  return s;
}

// Without --gpus a strategy that states its size uses that much of the cluster.
ClusterSpec cluster_for(const Strategy& s, const WorkloadInputs& in) {
  const std::int64_t wanted = num_gpus(s);
  const std::int64_t per_node = in.cluster->gpus_per_node;
  const bool whole = wanted > 0 && (wanted <= per_node || wanted % per_node == 0);
  if (in.gpus > 0 || !whole || wanted >= num_gpus(*in.cluster)) return *in.cluster;
  return with_gpus(*in.cluster, wanted);
}

void warn_of_keys(const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  for (const Diagnostic& d : validate(s, m, c)) {
    if (d.severity != Severity::kWarning) continue;
    log_warning(d.message + (d.hint.empty() ? "" : " (" + d.hint + ")"));
  }
}

}  // namespace meshplan

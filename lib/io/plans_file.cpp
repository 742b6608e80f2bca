#include "io/plans_file.hpp"

#include <algorithm>
#include <set>

#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "io/parts.hpp"
#include "io/strategy_file.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kReadableSchema = 1;

// Whether this is a result of ours at all: what else is wrong with it follows from that.
bool is_result(MapReader& r) {
  const std::string hint = "write one with 'meshplan plan --out DIR' or '--json'";
  if (r.has("errors")) {
    r.report("errors", "this run of meshplan failed: it found no plans", hint);
    return false;
  }
  if (!r.has("schema_version") || (!r.has("plans") && !r.has("verdict"))) {
    r.document().report(r.node(), "", "this is not a file of plans", hint);
    return false;
  }
  std::int64_t version = 0;
  if (!r.read("schema_version", version)) return false;
  if (version == kReadableSchema) return true;
  r.report("schema_version",
           "'schema_version' must be " + std::to_string(kReadableSchema) + ", got " +
               std::to_string(version),
           "plan again with this version of meshplan");
  return false;
}

// The value of `spec` in a map such as `model`, read by `read` as a document of its own.
template <class T, class Read>
void read_spec(MapReader& r, std::string_view key, T& target, const Read& read) {
  std::optional<MapReader> map = r.map(key, Need::kRequired);
  if (!map) return;
  const YamlNode* spec = map->find("spec");
  if (spec == nullptr) {
    map->report("spec", "'" + map->path_of("spec") + "' is missing",
                "plan again with this version of meshplan");
    return;
  }
  Document part(r.document(), *spec);
  Result<T> value = read(part);
  if (value) {
    target = std::move(value).value();
  } else {
    r.document().add(value.errors());
  }
}

bool check_positive(MapReader& r, std::string_view key, double value) {
  if (value > 0) return true;
  r.report(key, "'" + r.path_of(key) + "' must be above zero");
  return false;
}

void check_not_negative(MapReader& r, std::string_view key, double value) {
  if (value < 0) r.report(key, "'" + r.path_of(key) + "' must not be below zero");
}

void read_seconds(MapReader& r, std::string_view key, Seconds& target) {
  double value = 0;
  if (r.read(key, value, Need::kRequired) && check_positive(r, key, value)) target = Seconds{value};
}

void read_interval(MapReader& r, SavedPlan& plan) {
  constexpr std::string_view kKey = "step_time_interval_s";
  const std::vector<const YamlNode*> ends = r.list(kKey, Need::kRequired);
  if (ends.size() != 2) {
    if (r.has(kKey)) r.report(kKey, "'" + r.path_of(kKey) + "' must be a pair of times");
    return;
  }
  double low = 0, high = 0;
  const std::string path = r.path_of(kKey);
  const bool good = read_value(r.document(), path + "[0]", *ends[0], low) &&
                    read_value(r.document(), path + "[1]", *ends[1], high);
  if (good && (low < 0 || high < low)) r.report(kKey, "'" + path + "' must be [low, high]");
  plan.step_time_low = Seconds{low};
  plan.step_time_high = Seconds{high};
}

// Of the fullest pipeline rank.
void read_peak(MapReader& r, Bytes& target) {
  const std::vector<const YamlNode*> stages = r.list("memory", Need::kRequired);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    MapReader stage(r.document(), *stages[i], r.path_of("memory") + "[" + std::to_string(i) + "]");
    std::int64_t peak = 0;
    if (stage.read("peak_bytes", peak, Need::kRequired)) {
      check_not_negative(stage, "peak_bytes", static_cast<double>(peak));
    }
    target = std::max(target, Bytes{peak});
  }
}

// Keys, then the rules of the strategy, and then those against model and cluster.
void read_plan_strategy(MapReader& r, const PlansFile& file, bool check_rules, Strategy& target) {
  const YamlNode* node = r.find("strategy");
  if (node == nullptr) {
    r.report("strategy", "'" + r.path_of("strategy") + "' is missing");
    return;
  }
  Document part(r.document(), *node);
  const StrategyText text = read_strategy(part, framework_preset(Framework::kMegatron));
  if (part.ok() && node->kind != YamlNode::Kind::kMap) {
    r.report("strategy", "'" + r.path_of("strategy") + "' must be a map of keys and values");
  }
  target = text.strategy;
  if (part.ok() && check_rules) {
    target = with_derived_dp(text.strategy, file.gpus);
    part.add(findings(target, file.model, file.cluster));
  }
  r.document().add(part.diagnostics());
}

SavedPlan read_plan(MapReader r, const PlansFile& file, bool check_rules) {
  SavedPlan plan;
  if (r.read("rank", plan.rank, Need::kRequired))
    check_positive(r, "rank", static_cast<double>(plan.rank));
  read_plan_strategy(r, file, check_rules, plan.strategy);
  read_seconds(r, "step_time_s", plan.step_time);
  read_interval(r, plan);
  for (const auto& [key, target] : {std::pair{"tokens_per_s", &plan.tokens_per_s},
                                    std::pair{"tokens_per_s_per_gpu", &plan.tokens_per_s_per_gpu},
                                    std::pair{"mfu", &plan.mfu}, std::pair{"hfu", &plan.hfu}}) {
    if (r.read(key, *target, Need::kRequired)) check_not_negative(r, key, *target);
  }
  read_peak(r, plan.peak_memory);
  r.read("usd_per_step", plan.usd_per_step);
  check_not_negative(r, "usd_per_step", plan.usd_per_step.value_or(0));
  return plan;
}

void read_workload(MapReader& r, PlansFile& file) {
  if (std::optional<MapReader> tool = r.map("tool", Need::kRequired)) {
    tool->read("version", file.tool_version, Need::kRequired);
  }
  if (std::optional<MapReader> w = r.map("workload", Need::kRequired)) {
    for (const auto& [key, target] :
         {std::pair{"global_batch", &file.global_batch}, std::pair{"seq_len", &file.seq_len},
          std::pair{"gpus", &file.gpus}}) {
      if (w->read(key, *target, Need::kRequired)) {
        check_positive(*w, key, static_cast<double>(*target));
      }
    }
  }
}

// A plan named beside the ranked ones, by its text; nothing where none was found.
void read_beside(MapReader& r, std::string_view key, const PlansFile& file, bool check_rules,
                 std::optional<Strategy>& target) {
  std::optional<MapReader> beside = r.map(key);
  if (!beside) return;
  std::optional<MapReader> plan = beside->map("plan");
  if (!plan) return;
  std::string text;
  if (!plan->read("strategy_text", text, Need::kRequired)) return;
  const std::string path = plan->path_of("strategy_text");
  const Result<StrategyText> read =
      read_strategy(text, framework_preset(Framework::kMegatron), path);
  if (!read) {
    r.document().add(read.errors());
    return;
  }
  target = with_derived_dp(read->strategy, file.gpus);
  if (!check_rules) return;
  for (const Finding& f : findings(*target, file.model, file.cluster).all()) {
    if (f.diagnostic.severity != Severity::kError) continue;
    plan->report("strategy_text", "'" + path + "': " + f.diagnostic.message);
  }
}

}  // namespace

Result<PlansFile> parse_plans(std::string_view text, const std::string& file) {
  Document document(text, file);
  if (!document.ok()) return document.diagnostics();
  MapReader r(document, document.root());
  if (!document.ok() || !is_result(r)) return document.diagnostics();
  PlansFile result;
  read_workload(r, result);
  read_spec(r, "model", result.model, [](Document& d) { return read_model(d); });
  // The cluster carries its device: nothing is looked up.
  const DataFolders none(std::vector<std::filesystem::path>{});
  read_spec(r, "cluster", result.cluster, [&](Document& d) { return read_cluster(d, none); });
  const bool check_rules = document.ok();
  const std::vector<const YamlNode*> plans = r.list("plans");
  std::set<std::int64_t> ranks;
  for (std::size_t i = 0; i < plans.size() && !document.full(); ++i) {
    MapReader plan(document, *plans[i], "plans[" + std::to_string(i) + "]");
    if (plan.node().kind != YamlNode::Kind::kMap) continue;
    result.plans.push_back(read_plan(plan, result, check_rules));
    if (!ranks.insert(result.plans.back().rank).second) {
      plan.report("rank", "'" + plan.path_of("rank") + "' is that of another plan too");
    }
  }
  // `estimate` writes one plan, or none where it does not fit.
  if (std::optional<MapReader> plan = r.map("plan")) {
    result.plans.push_back(read_plan(*plan, result, check_rules));
  }
  read_beside(r, "runnable", result, check_rules, result.runnable);
  read_beside(r, "fastest", result, check_rules, result.fastest);
  read_beside(r, "unbuilt", result, check_rules, result.unbuilt);
  if (!document.ok()) return document.diagnostics();
  return result;
}

Result<PlansFile> load_plans(const std::filesystem::path& path) {
  const Result<std::string> text = read_text_file(path);
  if (!text) return text.errors();
  return parse_plans(*text, path.string());
}

}  // namespace meshplan

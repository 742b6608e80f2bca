// JSON and CSV.
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "frameworks/preset.hpp"
#include "mapping.hpp"
#include "model/parameters.hpp"
#include "print.hpp"

namespace meshplan::accuracy {
namespace {

using json = nlohmann::ordered_json;

double finite(double x) {
  PLAN_CHECK(std::isfinite(x));
  return x;
}

json optional_number(const std::optional<double>& x) { return x ? json(finite(*x)) : json(); }

json stats_json(const std::optional<ErrorStats>& stats) {
  if (!stats) return {};
  return {{"median_abs", finite(stats->median_abs)},
          {"mean_abs", finite(stats->mean_abs)},
          {"p90_abs", finite(stats->p90_abs)},
          {"bias", finite(stats->bias)},
          {"median_bias", finite(stats->median_bias)}};
}

json share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return {};
  return static_cast<double>(part) / static_cast<double>(whole);
}

json feasibility_json(const Feasibility& f) {
  return {{"ran", f.ran},
          {"ran_predicted_not_to_fit", share(f.ran_not_fitting, f.ran)},
          {"out_of_memory", f.out_of_memory},
          {"out_of_memory_predicted_to_fit", share(f.oom_fitting, f.out_of_memory)},
          {"other_failures_not_counted", f.other_failures}};
}

json choice_json(const std::optional<Choice>& choice) {
  if (!choice) return {};
  return {{"groups", choice->groups},
          {"regret_mean", finite(choice->regret_mean)},
          {"regret_max", finite(choice->regret_max)},
          {"kendall_tau", optional_number(choice->kendall_tau)},
          {"spearman", optional_number(choice->spearman)}};
}

json source_json(const SourceScore& s) {
  json memory = stats_json(s.memory);
  if (s.memory) memory["n"] = s.memories.size();
  json length = stats_json(s.length);
  if (s.length) length["n"] = s.lengths.size();
  json searched = json::object();
  for (const auto& [field, count] : s.searched) searched[field] = count;
  return {{"n", s.runs.size()},
          {"step_time", stats_json(s.step_time)},
          {"memory", memory},
          {"longest_sequence", length},
          {"feasibility", s.feasibility ? feasibility_json(*s.feasibility) : json()},
          {"choice", choice_json(s.choice)},
          {"searched", searched}};
}

json macro_json(const Macro& m) {
  return {{"sources", m.sources},
          {"step_time", stats_json(m.step_time)},
          {"memory", stats_json(m.memory)},
          {"feasibility", feasibility_json(m.feasibility)},
          {"choice",
           {{"sources", m.choice_sources},
            {"regret_mean", optional_number(m.regret_mean)},
            {"kendall_tau", optional_number(m.kendall_tau)},
            {"spearman", optional_number(m.spearman)}}}};
}

json run_json(const SourceScore& source, const ScoredRun& run) {
  const Prediction& p = *run.prediction;
  return {{"id", p.run->id},
          {"source", source.name},
          {"predicted_s", finite(p.cost.step_time.si())},
          {"measured_s", finite(run.measured_s)},
          {"error", finite(run.error)},
          {"memory_error", optional_number(run.memory_error)},
          {"interval_s", {finite(p.interval.low.si()), finite(p.interval.high.si())}},
          {"fits", p.fits}};
}

// Shortest text that reads back to the same number.
std::string csv_number(double x) {
  std::array<char, 64> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x);
  PLAN_CHECK(failure == std::errc{});
  return {buffer.data(), end};
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') quoted += '"';
  }
  return quoted + "\"";
}

std::string_view use_name(Use use) {
  switch (use) {
    case Use::kScore:
      return "score";
    case Use::kFeasibility:
      return "feasibility";
    case Use::kMemory:
      return "memory";
    case Use::kSanity:
      return "sanity";
  }
  return "";
}

struct Column {
  std::string name;
  std::string value;
};

Column number(const char* name, double x) { return {name, csv_number(x)}; }
Column number(const char* name, std::int64_t x) { return {name, std::to_string(x)}; }
Column number(const char* name, Seconds x) { return {name, csv_number(x.si())}; }
Column number(const char* name, Bytes x) { return {name, std::to_string(x.count())}; }
Column flag(const char* name, bool x) { return {name, x ? "1" : "0"}; }
Column words(const char* name, std::string_view x) { return {name, csv_text(std::string(x))}; }

void add_identity(std::vector<Column>& row, const Prediction& p) {
  const ModelSpec& m = p.model;
  const ParameterCount parameters = parameter_count(m);
  row.insert(row.end(), {words("source", p.source->name),
                         words("use", use_name(p.source->use)),
                         words("id", p.run->id),
                         words("status", p.run->status),
                         words("device", p.device),
                         words("cluster", p.cluster),
                         words("framework", code_name(p.cost.strategy)),
                         words("model", m.name),
                         number("layers", m.num_layers),
                         number("hidden", m.hidden_size),
                         number("heads", m.num_attention_heads),
                         number("kv_heads", m.num_query_groups),
                         number("head_dim", m.head_dim),
                         number("ffn", m.ffn_hidden_size),
                         flag("gated", m.gated_mlp),
                         number("vocab", m.vocab_size),
                         flag("tied", m.tied_embeddings),
                         number("experts", m.moe ? m.moe->num_experts : 0),
                         number("top_k", m.moe ? m.moe->top_k : 0),
                         number("mtp", m.mtp_layers),
                         number("dropout", m.dropout),
                         number("parameters", parameters.total),
                         number("active_parameters", parameters.active)});
}

void add_strategy(std::vector<Column>& row, const Prediction& p) {
  const Strategy& s = p.cost.strategy;
  std::string searched;
  for (const std::string& field : p.searched) searched += (searched.empty() ? "" : " ") + field;
  row.insert(row.end(), {number("gpus", num_gpus(s)),
                         number("tp", s.tp),
                         number("pp", s.pp),
                         number("vp", s.vp),
                         number("cp", s.cp),
                         number("ep", s.ep),
                         number("dp", s.dp),
                         number("zero", static_cast<std::int64_t>(s.zero)),
                         number("zero_group", s.zero_group),
                         flag("sequence_parallel", s.sequence_parallel),
                         number("micro_batch", s.micro_batch),
                         number("microbatches", num_microbatches(s)),
                         number("global_batch", s.global_batch),
                         number("seq_len", s.seq_len),
                         words("precision", name_of(s.precision)),
                         words("recompute", name_of(s.recompute)),
                         words("schedule", name_of(s.schedule)),
                         words("grad_dtype", name_of(s.grad_dtype)),
                         flag("flash_attention", s.flash_attention),
                         flag("overlap_grad_reduce", s.overlap.grad_reduce),
                         flag("overlap_param_gather", s.overlap.param_gather),
                         flag("overlap_tp", s.overlap.tp),
                         flag("overlap_pp", s.overlap.pp),
                         words("attention_impl", p.run->attention_impl),
                         words("searched", searched),
                         words("strategy", to_text(s))});
}

void add_time(std::vector<Column>& row, const Prediction& p) {
  const TimeTerms& t = p.cost.time;
  const double measured = p.run->step_time ? p.run->step_time->si() : 0;
  row.insert(row.end(),
             {words("measured_s", measured > 0 ? csv_number(measured) : ""),
              number("predicted_s", p.cost.step_time),
              words("error", measured > 0 ? csv_number(p.cost.step_time.si() / measured - 1) : ""),
              number("compute_s", t.compute), number("recompute_s", t.recompute),
              number("tp_comm_exposed_s", t.tp_comm_exposed),
              number("cp_comm_exposed_s", t.cp_comm_exposed),
              number("ep_comm_exposed_s", t.ep_comm_exposed),
              number("pp_comm_exposed_s", t.pp_comm_exposed), number("pp_bubble_s", t.pp_bubble),
              number("dp_comm_exposed_s", t.dp_comm_exposed), number("optimizer_s", t.optimizer),
              number("other_s", t.other), number("mfu", p.cost.mfu), number("hfu", p.cost.hfu)});
}

void add_memory(std::vector<Column>& row, const Prediction& p) {
  const MemoryBreakdown& m = p.cost.memory();
  const auto& measured = p.run->memory;
  static constexpr std::array<const char*, 4> kKinds{"device", "allocator", "reserved",
                                                     "allocated"};
  row.insert(
      row.end(),
      {flag("fits", p.fits), number("weights_bytes", m.weights),
       number("gradients_bytes", m.gradients), number("optimizer_bytes", m.optimizer),
       number("activations_bytes", m.activations), number("buffers_bytes", m.buffers),
       number("communicators_bytes", m.communicators), number("context_bytes", m.context),
       number("fragmentation_bytes", m.fragmentation), number("peak_bytes", m.peak),
       number("capacity_bytes", m.capacity),
       words("measured_memory_bytes", measured ? std::to_string(measured->peak.count()) : ""),
       words("memory_kind", measured ? kKinds[static_cast<std::size_t>(measured->kind)] : ""),
       words("compared_memory_bytes",
             measured ? std::to_string(comparable_memory(p.cost, measured->kind).count()) : "")});
}

}  // namespace

std::string to_json(const Report& report) {
  json out{{"schema_version", 1}, {"macro", macro_json(report.macro)}};
  out["sources"] = json::object();
  for (const SourceScore& s : report.sources) out["sources"][s.name] = source_json(s);
  out["runs"] = json::array();
  for (const SourceScore& s : report.sources) {
    for (const ScoredRun& run : s.runs) out["runs"].push_back(run_json(s, run));
  }
  out["skipped"] = json::array();
  for (const Skipped& s : report.skipped)
    out["skipped"].push_back({{"id", s.run->id}, {"source", s.source->name}, {"reason", s.reason}});
  return out.dump(1) + "\n";
}

std::string to_csv(const std::vector<Prediction>& predictions) {
  std::string header, body;
  for (const Prediction& p : predictions) {
    std::vector<Column> row;
    add_identity(row, p);
    add_strategy(row, p);
    add_time(row, p);
    add_memory(row, p);
    const bool first = header.empty();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (first) header += (i == 0 ? "" : ",") + row[i].name;
      body += (i == 0 ? "" : ",") + row[i].value;
    }
    if (first) header += "\n";
    body += "\n";
  }
  return header + body;
}

}  // namespace meshplan::accuracy

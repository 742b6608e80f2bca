// Documents of what needs a cluster, from machines that exist only in a test: bench of every kind
// of operation, the profile that it leads to, validate of plans. One line of JSON each, {"schema",
// "document"}; json_outputs_test.py holds them against their schemas.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "probe/agenda.hpp"
#include "probe/bench_run.hpp"
#include "report/bench.hpp"
#include "report/profile.hpp"
#include "report/validation.hpp"
#include "validate/case.hpp"

using namespace meshplan;

namespace {

constexpr ToolInfo kTool{"0"};

void print(const char* schema, const std::string& document) {
  const nlohmann::json line{{"schema", schema}, {"document", nlohmann::json::parse(document)}};
  std::puts(line.dump().c_str());
}

Machine dated(Machine machine) {
  machine.date = "2026-01-31T12:00:00Z";
  return machine;
}

// Everything that is measured on such a machine; the last rank is slow, one result is wrong, and
// large messages take too long.
BenchOutcome measured(Machine machine) {
  const auto time = [](const Operation& op) -> Result<Seconds> {
    const auto* c = std::get_if<CollectiveOperation>(&op);
    return Seconds{c != nullptr ? 1e-5 + c->bytes.si() * 1e-7 : 1e-3};
  };
  FakeBackend backend(machine, time);
  Seconds now;
  BenchOptions options;
  options.budget = Seconds{1e4};
  options.clock = [&] { return now += Seconds{1e-3}; };
  options.measure.steady = SteadyLimits{Seconds{1}, Seconds{2}};
  std::vector<Operation> all = agenda(machine, {});
  CollectiveOperation in_runs;
  in_runs.bytes = Bytes{1024};
  in_runs.group = {.size = 4, .stride = 1, .run = 2, .jump = 4, .period = 8};
  if (static_cast<std::int64_t>(machine.ranks.size()) >= in_runs.group.period) {
    all.insert(all.begin(), in_runs);
  }
  BenchOutcome outcome = run_bench(backend, all, {}, options, {});
  for (Sample& s : outcome.file.samples) {
    s.clock = 0.9;
    if (s.steady) s.steady->clock = 0.8;
    s.slowest_rank = machine.ranks.back().rank;
    s.lag = 0.3;
  }
  outcome.file.samples.front().correctness = Correctness::kWrong;
  return outcome;
}

constexpr FitErrors kErrors{0.01, 0.02, 0.03, 0.04, 9, 1};

CollectiveFit pair_fit() {
  CollectiveFit fit;
  fit.operation = Collective::kSendRecv;
  fit.level = "nvlink";
  fit.ranks = 2;
  fit.nodes = 1;
  fit.bidirectional = true;
  fit.points = fit.samples = {{Bytes{1024}, Seconds{1e-5}}, {Bytes{2048}, Seconds{2e-5}}};
  fit.errors = kErrors;
  fit.summary = AlphaBeta{Seconds{5e-6}, BytesPerSecond{1e9}, 0.1};
  return fit;
}

BenchProfileReport profile() {
  BenchProfileReport report;
  report.fits = {pair_fit()};
  report.file = "here.yaml";
  report.device_file = "devices/here.yaml";
  report.numbers = {{"memory_efficiency", "0.8", "0.9", kErrors}};
  report.compared = {
      {Collective::kAllReduce, 8, 1, Bytes{1024}, Seconds{1e-5}, Seconds{2e-5}, true}};
  report.warnings = {"no copy was measured"};
  report.facts = {{"clock", "1980 MHz"}};
  return report;
}

void print_benches() {
  const BenchProfileReport report = profile();
  const BenchOutcome outcome = measured(dated(fake_machine(16, 8)));
  print("bench", bench_document(kTool, outcome, "samples.jsonl", &report));
  print("bench", bench_document(kTool, measured(dated(test::cpu_machine(2, 2))), "", nullptr));
}

void print_profiles() {
  ClusterSpec c = test::plain_cluster(16);
  c.collectives = {pair_fit()};
  c.measured = Provenance{.method = "nccl",
                          .date = "2026-01-31",
                          .host = "node1",
                          .gpu = "NVIDIA H100",
                          .driver = "580",
                          .cuda = "13.0",
                          .nccl = "2.28",
                          .environment = {{"NCCL_ALGO", "ring"}},
                          .notes = {{"clock", "1980 MHz"}}};
  print("profile", profile_document(kTool, c));
}

void print_validations() {
  test::Case t(16);
  t.m.tied_embeddings = true;
  Strategy in_runs = test::plain(2, 2, 2);  // data x context ranks are not evenly spaced
  in_runs.cp = 2;
  in_runs.order = {Axis::kTp, Axis::kDp, Axis::kPp, Axis::kCp, Axis::kEp};
  t.add(in_runs);
  t.add(test::plain(2, 4, 2));
  t.add(test::plain(8, 1, 2));
  for (const std::int64_t ranks : {16, 8}) {
    const Machine machine = dated(fake_machine(ranks, 4));
    const Validation v = test::validate(t, machine, test::SlowMachine(t, machine));
    print("validation", validation_document(kTool, t.m, t.c, machine, v));
  }
}

}  // namespace

int main() {
  print_benches();
  print_profiles();
  print_validations();
}

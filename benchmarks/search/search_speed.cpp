// How long a search takes and how much it looks at, how that grows, and how fast one strategy is
// costed. Times are of the process's processors unless a name says wall.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "cost/step.hpp"
#include "io/load.hpp"
#include "search/search.hpp"

using namespace meshplan;

namespace {

struct Job {
  const char* model;
  const char* cluster;
  std::int64_t gpus, global_batch, seq_len;
};

constexpr Job kGpt3{"gpt3-175b", "dgx-a100-80gb", 512, 1536, 2048};
constexpr Job kLlama{"llama-3.1-405b", "dgx-h100", 16'384, 2048, 8192};
constexpr Job kMillion{"llama-3.1-405b", "dgx-h100", 1'048'576, 1'048'576, 8192};
constexpr Job kDeepseek{"deepseek-v3", "dgx-h100", 2048, 15'360, 4096};

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

template <class T>
T value_of(Result<T> result) {
  if (!result) give_up(result.errors().front().message);
  return std::move(result).value();
}

struct Loaded {
  ModelSpec model;
  ClusterSpec cluster;
  SearchRequest request;
};

Loaded load(const Job& job, int threads) {
  const DataFolders data({MESHPLAN_SOURCE_DIR});
  Loaded l{value_of(load_model(job.model, data)),
           with_gpus(value_of(load_cluster(job.cluster, data)), job.gpus),
           {}};
  l.request.base = framework_preset(Framework::kMegatron);
  l.request.base.global_batch = job.global_batch;
  l.request.base.seq_len = job.seq_len;
  l.request.threads = threads;
  return l;
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Strategies that no rule forbids are resolved: costed, or proved not to be among the best.
void run_search(benchmark::State& state, const Loaded& l) {
  SearchStatistics s;
  for (auto _ : state) {
    const Result<SearchResult> result = search(l.model, l.cluster, l.request);
    if (!result || !result->proof.exact) give_up("the search failed");
    s = result->statistics;
  }
  const auto legal = static_cast<double>(s.space_size - s.illegal);
  state.counters["space"] = static_cast<double>(s.space_size);
  state.counters["legal"] = legal;
  state.counters["examined"] = static_cast<double>(s.evaluated);
  state.counters["pruned_share"] = static_cast<double>(s.pruned) / legal;
  state.counters["resolved_per_s"] =
      benchmark::Counter(legal, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak_MiB"] = peak_megabytes();
}

void whole_search(benchmark::State& state, const Job& job) {
  run_search(state, load(job, static_cast<int>(state.range(0))));
}

// With what else Calculon's optimiser varies: which communication overlaps.
void with_overlaps(benchmark::State& state, const Job& job) {
  Loaded l = load(job, static_cast<int>(state.range(0)));
  for (const char* key :
       {"overlap.tp", "overlap.grad_reduce", "overlap.param_gather", "overlap.pp"}) {
    l.request.limits.push_back({key, LimitOp::kFree, {}, 0});
  }
  run_search(state, l);
}

void grow_gpus(benchmark::State& state) {
  Job job = kLlama;
  job.gpus = state.range(0), job.global_batch = std::max<std::int64_t>(2048, job.gpus);
  run_search(state, load(job, 1));
}

void grow_batch(benchmark::State& state) {
  Job job = kLlama;
  job.gpus = 1024, job.global_batch = state.range(0);
  run_search(state, load(job, 1));
}

void grow_layers(benchmark::State& state) {
  Job job = kGpt3;
  Loaded l = load(job, 1);
  l.model.num_layers = state.range(0);
  run_search(state, l);
}

// Everything that `estimate` says of a legal strategy (every rank's memory, the schedule run task
// by task, every term and message), from block costs that are shared by all strategies of the same
// tensor, context and expert split.
void full_cost(benchmark::State& state, const char* strategy) {
  const Loaded l = load(kGpt3, 1);
  Strategy defaults = l.request.base;
  defaults.dp = 0;
  const Strategy s = complete(
      with_derived_dp(value_of(load_strategy(strategy, defaults)), kGpt3.gpus), l.model, l.cluster);
  const BlockCosts blocks = block_costs(l.model, l.cluster, s);
  for (auto _ : state) {
    benchmark::DoNotOptimize(cost_of(l.model, l.cluster, s, blocks));
  }
  state.counters["per_s"] = benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
}

void add_searches() {
  const auto add = [](const char* name, auto run, const Job& job) {
    auto* added = benchmark::RegisterBenchmark(
        name, [run, job](benchmark::State& state) { run(state, job); });
    added->ArgName("threads")
        ->Arg(1)
        ->Arg(2)
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime();
  };
  add("search/gpt3-175b/512", whole_search, kGpt3);
  add("search/gpt3-175b-overlaps/512", with_overlaps, kGpt3);
  add("search/llama-3.1-405b/16384", whole_search, kLlama);
  add("search/llama-3.1-405b/1048576", whole_search, kMillion);
  add("search/deepseek-v3/2048", whole_search, kDeepseek);
}

void add_growth() {
  const auto tune = [](benchmark::internal::Benchmark* b) {
    b->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
    return b;
  };
  tune(benchmark::RegisterBenchmark("growth/gpus", grow_gpus))
      ->RangeMultiplier(8)
      ->Range(1024, 524'288);
  tune(benchmark::RegisterBenchmark("growth/batch", grow_batch))
      ->RangeMultiplier(8)
      ->Range(1024, 65'536);
  tune(benchmark::RegisterBenchmark("growth/layers", grow_layers))
      ->RangeMultiplier(2)
      ->Range(24, 384);
}

void add_costs() {
  const auto add = [](const char* name, const char* strategy) {
    benchmark::RegisterBenchmark(name, [strategy](benchmark::State& state) {
      full_cost(state, strategy);
    })->Unit(benchmark::kMicrosecond);
  };
  add("full_cost/pp1", "tp=8,zero=3,micro_batch=2,sequence_parallel=true");
  add("full_cost/pp8", "tp=8,pp=8,micro_batch=1,sequence_parallel=true");
  add("full_cost/pp8-vp4",
      "tp=8,pp=8,vp=4,schedule=interleaved,micro_batch=1,sequence_parallel=true");
  add("full_cost/pp64", "tp=8,pp=64,micro_batch=1,sequence_parallel=true");
}

}  // namespace

int main(int argc, char** argv) {
  add_searches();
  add_growth();
  add_costs();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}

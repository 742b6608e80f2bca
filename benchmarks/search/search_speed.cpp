// How long a search takes and how much it looks at, how that grows, and how fast one strategy is
// costed. Times are of the process's processors unless a name says wall.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <tuple>
#include <vector>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "search/candidate.hpp"
#include "search/search.hpp"
#include "study/pareto.hpp"
#include "study/sensitivity.hpp"
#include "study/sweep.hpp"

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
constexpr Job kMixtral{"mixtral-8x22b", "dgx-h100", 512, 2048, 4096};

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
    l.request.limits.push_back({key, LimitOp::kFree, {}});
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

// What `plan` is asked for beyond the best plans of a job, and those. A study does not include the
// search for the best plans that it starts from. `searches`: how many changed searches it makes.
int front_of(const Loaded& l) {  // --pareto, in as many steps of memory
  const std::int64_t sizes[] = {num_gpus(l.cluster)};
  const ParetoFront front = value_of(pareto_front(l.model, l.cluster, l.request, sizes,
                                                  Bytes{l.cluster.device.memory.count() / 25}));
  return static_cast<int>(front.points.size()) + 1;
}

int sweep_of(const Loaded& l) {  // --gpus, at three sizes
  const std::int64_t gpus = num_gpus(l.cluster);
  const Sweep swept =
      value_of(sweep(l.model, l.cluster, l.request, {gpus / 4, gpus / 2, gpus}, std::nullopt));
  return static_cast<int>(swept.points.size());
}

int search_of(const Loaded& l) {
  const SearchResult result = value_of(search(l.model, l.cluster, l.request));
  if (!result.proof.exact || result.plans.empty()) give_up("the search failed");
  return 1;
}

int least_memory_of(Loaded l) {  // --objective memory
  l.request.objective = Objective::kMemory;
  return search_of(l);
}

template <class Study>
void run_study(benchmark::State& state, const Job& job, Study study) {
  const Loaded l = load(job, 1);
  int searches = 0;
  for (auto _ : state) searches = study(l);
  state.counters["searches"] = searches;
  state.counters["peak_MiB"] = peak_megabytes();
}

// --sensitivity
void change_machine(benchmark::State& state, const Job& job) {
  Loaded l = load(job, 1);
  l.request.top = 1;
  const PlanCost best = value_of(search(l.model, l.cluster, l.request)).plans.at(0);
  run_study(state, job, [&](const Loaded& with) {
    return 2 *
           static_cast<int>(value_of(sensitivity(with.model, with.cluster, with.request, best, 0.2))
                                .rows.size());
  });
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

// Every strategy of GPT-3 175B on 512 GPUs without context parallelism, with ZeRO 0 or 1 in groups
// of any size and with stages as even as can be (the kinds of choices that Calculon's optimiser
// has), one after the other and none left out: step time and peak memory of each, from layer costs
// that are made once per tensor and data split. An evaluation covers every term of the step
// (passes, recomputation, the schedule run task by task, messages, gradient reduction, gathers,
// optimizer, offloading) and all memory of every pipeline rank; strategies that differ in sharding,
// overlap of the step's end or offloading alone share the run of the schedule.
// test/search/step_model_test.cpp compares the results with steps put together rank by rank.
class Exhaustive {
 public:
  explicit Exhaustive(const Loaded& l)
      : space_(value_of(SearchSpace::make(l.model, l.cluster, l.request))),
        context_(l.model, l.cluster, l.request, space_),
        loaded_(l),
        model_(l.model, l.cluster, runner_) {}

  // By pipeline first: one task order serves many numbers of microbatches.
  void run() {
    std::vector<Pipeline> all;
    for (const Mesh& mesh : space_.meshes()) {
      placements_.push_back(placements_of(mesh));
      for (const std::int64_t b : space_.micro_batches(mesh)) {
        for (const ScheduleChoice& s : space_.schedules(mesh, b)) {
          all.push_back({s, placements_.size() - 1, b});
        }
      }
    }
    const auto key = [&](const Pipeline& p) {
      return std::tuple(space_.meshes()[p.mesh].pp, p.schedule.schedule, p.schedule.vp);
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](const Pipeline& x, const Pipeline& y) { return key(x) < key(y); });
    for (const Pipeline& p : all) with_splits(p);
  }

  std::int64_t evaluated = 0, pipelines = 0, fitting = 0;
  Seconds best{1e300};

 private:
  struct Overlap {
    bool reduce, gather;
  };
  static constexpr Overlap kOverlaps[] = {{false, false}, {true, false}, {true, true}};
  struct Pipeline {
    ScheduleChoice schedule;
    std::size_t mesh;
    std::int64_t micro_batch;
  };

  static PartialStrategy choice(const Mesh& mesh) {
    PartialStrategy k;
    k.tp = mesh.tp, k.pp = mesh.pp, k.cp = mesh.cp, k.dp = mesh.dp;
    return k;
  }

  std::vector<const Placement*> placements_of(const Mesh& mesh) {
    std::vector<const Placement*> all;
    for (const Sharding& sharding : space_.shardings(mesh)) {
      PartialStrategy k = choice(mesh);
      k.zero_group = sharding.zero_group, k.order = sharding.order, k.zero = sharding.zero;
      all.push_back(&context_.placement(with_partial(space_.bases().front(), k), 0));
    }
    return all;
  }

  void with_splits(const Pipeline& p) {
    const Mesh& mesh = space_.meshes()[p.mesh];
    PartialStrategy k = choice(mesh);
    k.schedule = p.schedule.schedule, k.vp = p.schedule.vp, k.micro_batch = p.micro_batch;
    for (const Split& split : space_.splits(mesh)) {
      k.sequence_parallel = split.sequence_parallel;
      with_recomputation(p.mesh, k);
    }
  }

  void with_recomputation(std::size_t mesh, const PartialStrategy& k) {
    Strategy s = with_partial(space_.bases().front(), k);
    s.vp = 1;
    s.stage_layers = stage_layers(s, loaded_.model);
    s.vp = k.vp;
    for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      s.recompute = mode;
      s.recompute_layers.assign(s.stage_layers.size(), 0);
      if (mode == Recompute::kFull) s.recompute_layers = s.stage_layers;
      with_shardings(mesh, s);
    }
  }

  void with_shardings(std::size_t mesh, Strategy& s) {
    const std::vector<Sharding>& all = space_.shardings(space_.meshes()[mesh]);
    for (std::size_t i = 0; i < all.size(); ++i) {
      s.zero = all[i].zero, s.zero_group = all[i].zero_group, s.order = all[i].order;
      if (i == 0 || all[i].order != all[i - 1].order) {
        model_.set_pipeline(s, context_.blocks(s, 0), *placements_[mesh][i],
                            context_.in_flight.of(pipeline_shape(s)));
        ++pipelines;
      }
      model_.set_sharding(s, *placements_[mesh][i]);
      for (const Overlap& overlap : kOverlaps) {
        if (s.zero == 0 && overlap.gather) continue;  // nothing is gathered
        s.overlap.grad_reduce = overlap.reduce, s.overlap.param_gather = overlap.gather;
        with_offloads(s);
      }
      s.overlap = space_.bases().front().overlap;
    }
  }

  void with_offloads(Strategy& s) {
    for (const bool activations : {false, true}) {
      if (activations && (s.pp > 1 || s.recompute != Recompute::kNone)) continue;
      for (const bool optimizer : {false, true}) {
        s.offload = {optimizer, activations};
        const StepValue e = model_.evaluate(s);
        ++evaluated;
        fitting += e.fits ? 1 : 0;
        if (e.fits) best = std::min(best, e.step_time);
      }
    }
    s.offload = {};
  }

  SearchSpace space_;
  SearchContext context_;
  const Loaded& loaded_;
  PipelineRunner runner_;
  StepModel model_;
  std::vector<std::vector<const Placement*>> placements_;  // by mesh and sharding
};

void evaluate_all(benchmark::State& state) {
  Loaded l = load(kGpt3, 1);
  l.request.limits = {{"cp", LimitOp::kEqual, {std::int64_t{1}}},
                      {"zero", LimitOp::kAtMost, {1}},
                      {"zero_group", LimitOp::kFree, {}}};
  std::int64_t evaluated = 0, pipelines = 0, fitting = 0;
  double best = 0;
  for (auto _ : state) {
    Exhaustive all(l);
    all.run();
    evaluated = all.evaluated, pipelines = all.pipelines, fitting = all.fitting,
    best = all.best.si();
  }
  state.counters["evaluated"] = static_cast<double>(evaluated);
  state.counters["pipelines"] = static_cast<double>(pipelines);
  state.counters["fitting"] = static_cast<double>(fitting);
  state.counters["best_s"] = best;
  state.counters["evaluated_per_s"] = benchmark::Counter(
      static_cast<double>(evaluated), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak_MiB"] = peak_megabytes();
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

void add_studies() {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(("study/" + name).c_str(), run)
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime();
  };
  for (const Job& job : {kGpt3, kMixtral, kDeepseek}) {
    const std::string name = std::string(job.model) + "/" + std::to_string(job.gpus) + "/";
    const auto add_one = [&](const char* what, int (*study)(const Loaded&)) {
      add(name + what, [job, study](benchmark::State& s) { run_study(s, job, study); });
    };
    add_one("plan", search_of);
    add_one("memory", [](const Loaded& l) { return least_memory_of(l); });
    add_one("pareto", front_of);
    add_one("gpus", sweep_of);
    add(name + "sensitivity", [job](benchmark::State& s) { change_machine(s, job); });
  }
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
  benchmark::RegisterBenchmark("evaluate/gpt3-175b/512", evaluate_all)
      ->Unit(benchmark::kMillisecond)
      ->MeasureProcessCPUTime();
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
  add_studies();
  add_growth();
  add_costs();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}

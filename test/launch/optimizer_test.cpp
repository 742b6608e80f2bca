// Megatron-LM's optimizers beside Adam.
#include "launch/megatron_reading.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"

namespace meshplan {
namespace {

using test::plan_of;
using test::small_run;

std::string noted(const MegatronRun& run) {
  std::string all;
  for (const std::string& note : run.notes) all += note + "\n";
  return all;
}

}  // namespace

TEST_CASE("Megatron-LM's optimizers are read, and those that are not modelled named") {
  struct Row {
    const char* options;
    Optimizer optimizer;
    int zero;
    bool noted;
  };
  const auto row = GENERATE(values<Row>({
      {"", Optimizer::kAdam, 0, false},
      {"--optimizer adam --use-distributed-optimizer", Optimizer::kAdam, 1, false},
      {"--optimizer muon", Optimizer::kMuon, 0, false},
      {"--optimizer muon --use-distributed-optimizer --muon-momentum 0.9", Optimizer::kMuon, 1,
       false},
      {"--optimizer dist_muon", Optimizer::kMuon, 1, false},
      {"--optimizer sgd --sgd-momentum 0.9", Optimizer::kSgd, 0, false},
      {"--optimizer lion", Optimizer::kAdam, 0, true},
  }));
  INFO(row.options);
  const MegatronRun run = small_run(row.options);
  CHECK(run.strategy.optimizer == row.optimizer);
  CHECK(run.strategy.zero == row.zero);
  CHECK((noted(run).find("lion is not modelled: it is estimated as Adam") != std::string::npos) ==
        row.noted);
}

TEST_CASE("what changes Muon's products is named where it is not the default") {
  const auto not_modelled = [](const std::string& options) {
    const MegatronRun run = small_run("--optimizer muon " + options);
    return std::any_of(run.options.begin(), run.options.end(),
                       [](const ReadOption& o) { return o.effect == OptionEffect::kNotModelled; });
  };
  CHECK_FALSE(not_modelled("--muon-num-ns-steps 5 --muon-tp-mode duplicated"));
  CHECK(not_modelled("--muon-num-ns-steps 8"));
  CHECK(not_modelled("--muon-tp-mode distributed"));
}

TEST_CASE("Muon and SGD are exported to Megatron-LM as they are read") {
  const auto keys =
      GENERATE("tp=2,sequence_parallel=true,optimizer=muon", "zero=0,optimizer=muon",
               "zero=0,overlap.param_gather=false,optimizer=sgd", "pp=2,optimizer=adam");
  INFO(keys);
  const LaunchPlan p = plan_of("llama-2-7b", "dgx-h100", 16, keys);
  CHECK_FALSE(target_findings(Target::kMegatron, p.strategy, p.model, p.cluster).has_errors());
  const Result<MegatronRun> run =
      read_megatron_run(arguments_text(p, megatron_command(p)), "train.sh");
  REQUIRE(run.ok());
  CHECK(run->strategy.optimizer == p.strategy.optimizer);
  CHECK(run->strategy.zero == p.strategy.zero);
}

TEST_CASE("what Megatron-LM's Muon and SGD do not do is refused") {
  struct Row {
    const char* keys;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"optimizer=sgd", "needs zero=0"},
      {"optimizer=adafactor", "has Adam, Muon and SGD"},
      {"optimizer=muon,precision=fp16", "does not go with fp16"},
      {"optimizer=muon,zero=2", "whole matrices"},
      {"optimizer=muon,zero_group=2", "whole matrices"},
      {"optimizer=muon,optimizer_dtype=bf16", "in fp32"},
  }));
  INFO(row.keys);
  const LaunchPlan p = plan_of("llama-2-7b", "dgx-a100-80gb", 16, row.keys);
  const Findings broken = target_findings(Target::kMegatron, p.strategy, p.model, p.cluster);
  REQUIRE(broken.has_errors());
  CHECK(to_text(broken.diagnostics()).find(row.message) != std::string::npos);
}

}  // namespace meshplan

#include "shots.hpp"

#include "doubts.hpp"
#include "io/load.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

namespace meshplan::accuracy {
namespace {

// Six runs of different sizes on one machine.
Source made_up() {
  Source source;
  source.name = "made-up";
  source.title = "Megatron-LM";
  source.gpu = "NVIDIA A100 80GB";
  source.gpus_per_node = {{"", 8}};
  for (const std::int64_t hidden : {2048, 3072, 4096, 5120, 6144, 8192}) {
    Run run;
    run.id = std::to_string(hidden);
    run.model.name = "gpt";
    run.model.num_layers = 4;
    run.model.hidden_size = hidden;
    run.model.num_attention_heads = hidden / 128;
    run.model.seq_length = 2048;
    run.model.vocab_size = 32000;
    run.model.ffn_hidden_size = 4 * hidden;
    run.gpus = 8;
    run.tp = run.pp = 1;
    run.zero_stage = 1;
    run.micro_batch = 4;
    run.global_batch = 64;
    run.precision = "bf16";
    run.recompute = "none";
    run.schedule = "1f1b";
    run.attention_impl = "flash";
    run.step_time = Seconds{1};
    source.runs.push_back(run);
  }
  return source;
}

std::vector<Task> tasks_of(const Source& source) {
  (void)shipped_preset("nanotron");
  Machines machines(MESHPLAN_ACCURACY_CLUSTERS, DataFolders::standard());
  std::vector<Task> tasks;
  for (const Run& run : source.runs)
    tasks.push_back(std::get<Task>(prepare(source, run, machines, {})));
  return tasks;
}

// Measured times are what the planner predicts for products at a share of what ships.
void measure(Source& source, double share) {
  std::vector<Task> tasks = tasks_of(source);
  for (Task& task : tasks)
    for (double& rate : task.cluster.device.gemm.sustained) rate *= share;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    source.runs[i].step_time = std::get<Prediction>(predict(tasks[i])).cost.step_time;
}

TEST_CASE("one run of a slower machine brings the others nearer, three more so") {
  Source source = made_up();
  measure(source, 0.9);
  const std::vector<Task> tasks = tasks_of(source);
  const auto one = learn_from_shots(tasks, {.shots = 1, .draws = 5});
  REQUIRE(one.size() == 1);
  CHECK(one[0].source == "made-up");
  CHECK(one[0].device == "a100-sxm-80gb");
  CHECK(one[0].runs == 6);
  CHECK(one[0].after < one[0].before);
  CHECK(one[0].farther_off == 0);
  const auto three = learn_from_shots(tasks, {.shots = 3, .draws = 5});
  CHECK(three[0].after < one[0].after);
  // What was learned makes the rest surer.
  CHECK(one[0].width_after < one[0].width_before);
  CHECK(three[0].width_after < one[0].width_after);
}

TEST_CASE("intervals are those that are given, moved and narrowed by what was learned") {
  Source source = made_up();
  measure(source, 0.9);
  const std::vector<Task> tasks = tasks_of(source);
  ShotOptions options{.shots = 2, .draws = 5};
  for (const Task& task : tasks) options.intervals[task.run] = {Seconds{0.93}, Seconds{1.07}};
  const auto results = learn_from_shots(tasks, options);
  REQUIRE(results.size() == 1);
  CHECK(results[0].inside_before == 0);  // a tenth off
  CHECK(results[0].width_before == Approx(0.14));
  CHECK(results[0].inside_after > 0.5);
  CHECK(results[0].width_after < 0.14);
}

TEST_CASE("the same seed shows the same runs") {
  Source source = made_up();
  measure(source, 0.9);
  const std::vector<Task> tasks = tasks_of(source);
  const auto a = learn_from_shots(tasks, {.shots = 2, .seed = 7, .draws = 3});
  const auto b = learn_from_shots(tasks, {.shots = 2, .seed = 7, .draws = 3});
  CHECK(a[0].after == b[0].after);
}

TEST_CASE("a source needs more runs than are shown") {
  Source source = made_up();
  CHECK(learn_from_shots(tasks_of(source), {.shots = 6, .draws = 1}).empty());
}

TEST_CASE("[F-CAL-11] doubts are as wide as sources are off") {
  const auto doubt_of_products = [](double share) {
    std::vector<Source> sources;
    for (const double s : {share, 1 / share}) {
      sources.push_back(made_up());
      sources.back().name += std::to_string(s);
      measure(sources.back(), std::min(1.15, s));
    }
    std::vector<Task> tasks;
    for (const Source& source : sources) {
      for (Task& task : tasks_of(source)) tasks.push_back(std::move(task));
    }
    return choose_doubts(tasks, 2).all.at(ProfileKey::kGemm);
  };
  const double little = doubt_of_products(0.97), much = doubt_of_products(0.87);
  CHECK(little < much);
  CHECK(much < 0.3);
}

TEST_CASE("errors are printed by source and device, and their mean over sources") {
  const std::vector<ShotResult> results{{"one", "a100", 10, 0.1, 0.05, 2},
                                        {"one", "h100", 30, 0.2, 0.1, 0},
                                        {"two", "h100", 5, 0.05, 0.05, 1}};
  const std::string text = to_text(results, {.shots = 1});
  CHECK(text.find("mean of 2 sources") != std::string::npos);
  CHECK(text.find("11.2") != std::string::npos);  // (17.5 + 5) / 2
  CHECK(text.find("2 of 20") != std::string::npos);
}

}  // namespace
}  // namespace meshplan::accuracy

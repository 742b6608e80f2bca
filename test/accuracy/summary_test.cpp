#include "summary.hpp"

#include <nlohmann/json.hpp>

#include "print.hpp"
#include "support/catch.hpp"

namespace meshplan::accuracy {
namespace {

// A source whose runs were measured and predicted at the given seconds.
struct Case {
  double predicted, measured;
};

Source source_of(const std::string& name, Use use, const std::vector<Case>& cases,
                 const std::string& status = "ok") {
  Source source;
  source.name = name;
  source.use = use;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Run run;
    run.id = name + "." + std::to_string(i);
    run.status = status;
    run.gpus = 8;
    run.step_time = Seconds{cases[i].measured};
    source.runs.push_back(run);
  }
  return source;
}

// `peak` bytes of which 3 are fragmentation, 2 the context and 1 communicators; 50 are there.
Prediction prediction_of(const Source& source, std::size_t i, double seconds,
                         std::int64_t peak = 40) {
  Prediction p;
  p.source = &source;
  p.run = &source.runs[i];
  p.cost.step_time = Seconds{seconds};
  p.cost.time.compute = Seconds{seconds};
  p.interval = {Seconds{seconds / 2}, Seconds{seconds * 2}};
  MemoryBreakdown memory;
  memory.fragmentation = Bytes{3};
  memory.context = Bytes{2};
  memory.communicators = Bytes{1};
  memory.reserved = Bytes{6};
  memory.peak = Bytes{peak};
  memory.capacity = Bytes{50};
  p.cost.stages.emplace_back().memory = memory;
  p.fits = peak <= 50;
  return p;
}

std::vector<Prediction> predictions_of(const Source& source, const std::vector<Case>& cases) {
  std::vector<Prediction> all;
  for (std::size_t i = 0; i < cases.size(); ++i)
    all.push_back(prediction_of(source, i, cases[i].predicted));
  return all;
}

TEST_CASE("the macro average weighs sources, not runs") {
  const std::vector<Case> many{{11, 10}, {11, 10}, {11, 10}}, one{{7, 10}};
  const std::vector<Source> sources{source_of("many", Use::kScore, many),
                                    source_of("one", Use::kScore, one)};
  std::vector<Prediction> all = predictions_of(sources[0], many);
  for (const Prediction& p : predictions_of(sources[1], one)) all.push_back(p);
  const Report report = summarise(sources, all, {});
  REQUIRE(report.sources.size() == 2);
  CHECK(report.sources[0].step_time->median_abs == Approx(0.1));
  CHECK(report.sources[1].step_time->bias == Approx(-0.3));
  CHECK(report.macro.sources == 2);
  CHECK(report.macro.step_time->median_abs == Approx(0.2));
  CHECK(report.macro.step_time->bias == Approx(-0.1));
}

TEST_CASE("of some files memory alone is scored") {
  std::vector<Source> sources{source_of("smi", Use::kMemory, {{1, 1}, {1, 1}, {1, 1}})};
  std::vector<Run>& runs = sources[0].runs;
  runs[0].memory = {Bytes{35}, MemoryKind::kDevice};
  runs[1].memory = {Bytes{40}, MemoryKind::kAllocator};
  // nvidia-smi of a device that the allocator has filled tells no more than that.
  runs[2].memory = {Bytes{48}, MemoryKind::kDevice};
  std::vector<Prediction> predictions = predictions_of(sources[0], {{1, 1}, {1, 1}, {1, 1}});
  // What the allocator keeps of shorter microbatches is seen by nvidia-smi alone.
  for (Prediction& p : predictions) p.cost.stages[0].cached = Bytes{2};
  const Report report = summarise(sources, predictions, {});
  const SourceScore& score = report.sources.at(0);
  CHECK(score.runs.empty());
  CHECK_FALSE(score.step_time);
  CHECK_FALSE(score.feasibility);
  REQUIRE(score.memories.size() == 2);
  CHECK(score.memories[0].error == Approx(42.0 / 35 - 1));
  CHECK(score.memories[1].error == Approx(37.0 / 40 - 1));
  CHECK(report.macro.memory_sources == 1);
  CHECK(report.macro.sources == 0);
  CHECK(to_text(report, false).find("smi     memory") != std::string::npos);
}

TEST_CASE("the longest sequence that fits is scored where it was measured") {
  std::vector<Source> sources{source_of("longest", Use::kFeasibility, {{1, 1}, {1, 1}})};
  sources[0].runs[0].longest = {1000, Bytes{50}};
  // None fitted at all: a question of whether it fits, not of how long.
  sources[0].runs[1].longest = {0, Bytes{20}};
  sources[0].runs[1].status = "OOM at any length";
  std::vector<Prediction> predictions = predictions_of(sources[0], {{1, 1}, {1, 1}});
  predictions[0].longest = 900;
  predictions[1].longest = 4;
  const Report report = summarise(sources, predictions, {});
  const SourceScore& score = report.sources.at(0);
  REQUIRE(score.lengths.size() == 1);
  CHECK(score.length->bias == Approx(-0.1));
  CHECK(score.feasibility->out_of_memory == 1);
  CHECK(score.feasibility->oom_fitting == 1);
  CHECK(score.feasibility->other_failures == 0);
  CHECK(nlohmann::json::parse(to_json(report))["sources"]["longest"]["longest_sequence"]["n"] == 1);
  CHECK(to_text(report, false).find("predicted 900 tokens, measured 1000") != std::string::npos);
}

TEST_CASE("groups of five or more competing runs are scored for the choice") {
  // Predicted fastest is measured 12, the best 10; one adjacent pair is out of order: 9 - 1 of 10.
  const std::vector<Case> five{{1, 12}, {2, 10}, {3, 14}, {4, 16}, {5, 18}};
  const std::vector<Source> sources{source_of("five", Use::kScore, five)};
  const std::vector<Prediction> predictions = predictions_of(sources[0], five);
  const Report report = summarise(sources, predictions, {});
  REQUIRE(report.sources[0].choice.has_value());
  CHECK(report.sources[0].choice->groups == 1);
  CHECK(report.sources[0].choice->regret_mean == Approx(0.2));
  CHECK(report.sources[0].choice->kendall_tau.value() == Approx(0.8));
  CHECK(report.macro.regret_mean.value() == Approx(0.2));

  const std::vector<Case> four(five.begin(), five.begin() + 4);
  const std::vector<Source> small{source_of("four", Use::kScore, four)};
  const std::vector<Prediction> fewer = predictions_of(small[0], four);
  CHECK_FALSE(summarise(small, fewer, {}).sources[0].choice.has_value());
}

TEST_CASE("runs of another model, sequence length, GPU count or batch do not compete") {
  Run run;
  run.model.name = "tiny";
  run.gpus = 8;
  const std::string key = choice_group(run);
  Run other = run;
  other.tp = 4;
  CHECK(choice_group(other) == key);
  other.gpus = 16;
  CHECK(choice_group(other) != key);
  other = run;
  other.global_batch = 4;
  CHECK(choice_group(other) != key);
  other = run;
  other.model.seq_length = 4096;
  CHECK(choice_group(other) != key);
}

TEST_CASE("feasibility counts runs that ran, and failures for memory alone") {
  const std::vector<Case> two{{10, 10}, {10, 10}};
  std::vector<Source> sources{source_of("ran", Use::kScore, two),
                              source_of("failed", Use::kFeasibility, two, "oom")};
  Run crashed = sources[1].runs[0];
  crashed.status = "error: Kernel not available";
  sources[1].runs.push_back(crashed);
  sources[1].rows_without_fields = 4;
  const std::vector<Prediction> all{
      prediction_of(sources[0], 0, 10, 40), prediction_of(sources[0], 1, 10, 60),
      prediction_of(sources[1], 0, 10, 40), prediction_of(sources[1], 1, 10, 60)};
  const Report report = summarise(sources, all, {});
  const Feasibility& ran = report.sources[0].feasibility.value();
  CHECK(ran.ran == 2);
  CHECK(ran.ran_not_fitting == 1);
  const Feasibility& failed = report.sources[1].feasibility.value();
  CHECK(failed.out_of_memory == 2);
  CHECK(failed.oom_fitting == 1);
  CHECK(failed.other_failures == 5);
  CHECK_FALSE(report.sources[1].step_time.has_value());
}

TEST_CASE("only a status that names memory is an out-of-memory failure") {
  CHECK(is_out_of_memory("OOM"));
  CHECK(is_out_of_memory("CUDA out of memory"));
  CHECK_FALSE(is_out_of_memory("crashed or oom"));
  CHECK_FALSE(is_out_of_memory("error: Other Error"));
  CHECK_FALSE(is_out_of_memory(""));
  CHECK(is_doubtful("doubtful: the layout is another release's"));
  CHECK_FALSE(is_doubtful("ok"));
  CHECK_FALSE(is_doubtful("OOM, doubtful"));
}

TEST_CASE("measured memory is compared with what its tool counts") {
  const std::vector<Case> one{{10, 10}};
  const Source source = source_of("s", Use::kScore, one);
  const MemoryBreakdown memory = prediction_of(source, 0, 10, 40).cost.memory();
  CHECK(comparable_memory(memory, MemoryKind::kDevice) == Bytes{40});
  CHECK(comparable_memory(memory, MemoryKind::kAllocator) == Bytes{37});
  CHECK(comparable_memory(memory, MemoryKind::kReserved) == Bytes{37});
  CHECK(comparable_memory(memory, MemoryKind::kAllocated) == Bytes{34});
}

TEST_CASE("sanity files are counted and never scored") {
  const std::vector<Case> one{{10, 10}};
  const std::vector<Source> sources{source_of("s", Use::kSanity, one)};
  const std::vector<Prediction> none;
  const Report report = summarise(sources, none, {});
  CHECK(report.sources.empty());
  CHECK(report.sanity_runs == 1);
}

TEST_CASE("the JSON report holds fractions, runs and skipped rows") {
  const std::vector<Case> one{{12, 10}};
  std::vector<Source> sources{source_of("s", Use::kScore, one)};
  sources[0].runs[0].memory = MeasuredMemory{Bytes{32}, MemoryKind::kDevice};
  Run left;
  left.id = "left";
  sources[0].runs.push_back(left);
  const std::vector<Prediction> predictions = predictions_of(sources[0], one);
  const Report report =
      summarise(sources, predictions, {{&sources[0], &sources[0].runs[1], "no step time"}});
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["schema_version"] == 1);
  CHECK(json["sources"]["s"]["n"] == 1);
  CHECK(json["sources"]["s"]["step_time"]["bias"].get<double>() == Approx(0.2));
  CHECK(json["sources"]["s"]["memory"]["bias"].get<double>() == Approx(0.25));
  CHECK(json["sources"]["s"]["choice"].is_null());
  CHECK(json["macro"]["step_time"]["median_abs"].get<double>() == Approx(0.2));
  REQUIRE(json["runs"].size() == 1);
  CHECK(json["runs"][0]["predicted_s"] == 12);
  CHECK(json["runs"][0]["measured_s"] == 10);
  CHECK(json["runs"][0]["interval_s"][1] == 24);
  CHECK(json["skipped"][0]["id"] == "left");
  CHECK(json["skipped"][0]["reason"] == "no step time");
}

TEST_CASE("the text report names the worst runs and counts what was skipped") {
  const std::vector<Case> two{{12, 10}, {30, 10}};
  const std::vector<Source> sources{source_of("s", Use::kScore, two)};
  const std::vector<Prediction> predictions = predictions_of(sources[0], two);
  const Report report =
      summarise(sources, predictions, {{&sources[0], &sources[0].runs[1], "no step time"}});
  const std::string text = to_text(report, false);
  CHECK(text.find("200.0 %  s.1") < text.find("20.0 %  s.0"));
  CHECK(text.find("skipped 1 runs") != std::string::npos);
  CHECK(text.find("s: no step time") != std::string::npos);
}

}  // namespace
}  // namespace meshplan::accuracy

#include "cross_validate.hpp"

#include <cmath>
#include <functional>
#include <numeric>

#include "cross_print.hpp"
#include "minimise.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

namespace meshplan::accuracy {
namespace {

using Function = std::function<double(const std::vector<double>&)>;

// Minimises a function of all coordinates; how often it was looked at goes into `looks`.
double minimised(std::vector<Coordinate>& at, const Function& f, int& looks) {
  std::vector<double> stand;
  for (const Coordinate& c : at) stand.push_back(c.value);
  std::vector<double> trial = stand;
  Objective objective;
  objective.value = f(stand);
  objective.with = [&](std::size_t k, double x) {
    ++looks;
    trial = stand;
    trial[k] = x;
    return f(trial);
  };
  objective.accept = [&] { stand = trial; };
  return minimise(at, objective);
}

TEST_CASE("the search finds the bottom of a tilted bowl and stays in its box") {
  int looks = 0;
  std::vector<Coordinate> at{{0, 0, 10}, {10, 0, 10}};
  const auto bowl = [](const std::vector<double>& x) {
    return std::pow(x[0] - 3, 2) + std::pow(x[1] - 7, 2) + 0.5 * (x[0] - 3) * (x[1] - 7);
  };
  CHECK(minimised(at, bowl, looks) < 0.01);
  CHECK(at[0].value == Approx(3).margin(0.1));
  CHECK(at[1].value == Approx(7).margin(0.1));
  CHECK(looks < 200);

  std::vector<Coordinate> edge{{5, 0, 10}};
  const auto slope = [](const std::vector<double>& x) { return x[0]; };
  minimised(edge, slope, looks);
  CHECK(edge[0].value == 0);
}

TEST_CASE("the search leaves alone what makes no difference") {
  int looks = 0;
  std::vector<Coordinate> at{{4, 0, 10}};
  const auto flat = [](const std::vector<double>&) { return 1.0; };
  CHECK(minimised(at, flat, looks) == 1);
  CHECK(at[0].value == 4);
}

constexpr const char* kTable = R"(constants:
- {name: rate, devices: [a100-sxm-80gb], keys: [gemm.sustained.bf16, gemm.sustained.fp16],
   uninformed: 0.7, range: [0.3, 0.95], because: a guess, fitted_to: made-up runs}
- {name: gap, devices: [a100-sxm-80gb], keys: [collective_gap], uninformed: 0 us,
   range: [0 us, 100 us], because: a guess, fitted_to: made-up runs}
- {name: host, framework: nanotron, keys: [kernels.host_factor], uninformed: 1, range: [0.5, 10],
   because: a guess, fitted_to: made-up runs}
)";

std::vector<FittedConstant> table() {
  auto constants = parse_constants(kTable, "made-up.yaml");
  REQUIRE(constants.ok());
  return std::move(constants.value());
}

TEST_CASE("the table of constants says where each sits and what it would be without runs") {
  const std::vector<FittedConstant> all = table();
  REQUIRE(all.size() == 3);
  CHECK(all[0].keys.size() == 2);
  CHECK(all[1].high == Approx(100e-6));
  CHECK(all[2].framework == "nanotron");
}

TEST_CASE("what is wrong with a table of constants is said all at once") {
  const auto bad = parse_constants(R"(constants:
- {name: a, devices: [x], keys: [speed], uninformed: 1, range: [0, 2], because: b, fitted_to: c}
- {name: b, framework: nosuch, keys: [kernels.host_factor], uninformed: 1, range: [0, 2],
   because: b, fitted_to: c}
- {name: c, devices: [x], keys: [gemm.k_half], uninformed: 3, range: [0, 2], because: b, fitted_to: c}
- {name: d, devices: [x], keys: [gemm.k_half], uninformed: 1, range: [0, 2], like: d, because: b,
   fitted_to: c}
)",
                                   "bad.yaml");
  REQUIRE(!bad.ok());
  const std::string text = to_text(bad.errors());
  CHECK(text.find("'speed' is no key of a device") != std::string::npos);
  CHECK(text.find("constant 'b': there is no framework") != std::string::npos);
  CHECK(text.find("constant 'c': 'uninformed' must lie inside 'range'") != std::string::npos);
  CHECK(text.find("constant 'd': 'like' must name another constant") != std::string::npos);
}

TEST_CASE("the shipped table of constants can be read, and every constant is used by its preset") {
  const auto text = read_text_file(MESHPLAN_ACCURACY_CONSTANTS);
  REQUIRE(text.ok());
  const auto all = parse_constants(*text, MESHPLAN_ACCURACY_CONSTANTS);
  if (!all.ok()) FAIL(to_text(all.errors()));
  CHECK(all->size() >= 10);
}

// A source on one node of A100 whose runs differ in size alone.
Source source_of(const std::string& name, const std::string& title) {
  Source source;
  source.name = name;
  source.title = title;
  source.use = Use::kScore;
  source.gpu = "A100 80GB";
  for (const std::int64_t hidden : {2048, 3072, 4096, 6144}) {
    Run run;
    run.id = name + "." + std::to_string(hidden);
    run.model.name = "m";
    run.model.num_layers = 8;
    run.model.hidden_size = hidden;
    run.model.num_attention_heads = 16;
    run.model.seq_length = 2048;
    run.model.vocab_size = 32000;
    run.model.ffn_hidden_size = 4 * hidden;
    run.gpus = 8;
    run.tp = run.pp = 1;
    run.zero_stage = 1;
    run.micro_batch = 1;
    run.global_batch = 32;
    run.precision = "bf16";
    run.recompute = "none";
    run.schedule = "1f1b";
    run.attention_impl = "flash";
    run.step_time = Seconds{1};
    source.runs.push_back(run);
  }
  return source;
}

std::vector<Task> tasks_of(const std::vector<Source>& sources) {
  Machines machines(MESHPLAN_ACCURACY_CLUSTERS, DataFolders::standard());
  std::vector<Task> tasks;
  for (const Source& source : sources) {
    for (const Run& run : source.runs) {
      auto task = prepare(source, run, machines, {});
      if (const Skipped* why = std::get_if<Skipped>(&task)) FAIL(why->reason);
      tasks.push_back(std::move(std::get<Task>(task)));
    }
  }
  return tasks;
}

// Measured times are what the planner predicts when products sustain `rate` of the peak.
void measure_with(std::vector<Source>& sources, const FittedConstant& constant, double rate) {
  std::vector<Task> tasks = tasks_of(sources);
  for (Task& task : tasks) set_constant(constant, rate, task);
  const auto results = predict_all(tasks, 1);
  std::size_t i = 0;
  for (Source& source : sources) {
    for (Run& run : source.runs) run.step_time = std::get<Prediction>(results[i++]).cost.step_time;
  }
}

TEST_CASE("a rate that the other sources agree on is found without the source left out") {
  const std::vector<FittedConstant> constants = table();
  std::vector<Source> sources{source_of("one", "Megatron-LM"), source_of("two", "Megatron-LM"),
                              source_of("three", "nanotron")};
  measure_with(sources, constants[0], 0.55);
  const CrossValidation all = cross_validate(tasks_of(sources), constants);
  REQUIRE(all.refits.size() == 4);
  CHECK(all.held_out.size() == 12);
  CHECK(all.refits[0].left_out == "one");
  CHECK(all.refits[0].values.at("rate") == Approx(0.55).margin(0.02));
  CHECK(all.refits.back().left_out.empty());
  CHECK(all.shipped.at("rate") > 0.7);
  // Nanotron's launches are known to that source alone.
  CHECK(all.refits[2].undetermined == std::vector<std::string>{"host"});
  CHECK(all.refits[2].values.at("host") == 1);
  for (const Prediction& p : all.held_out) {
    if (p.source->name != "three")
      CHECK(p.cost.step_time / *p.run->step_time == Approx(1).margin(0.03));
  }
}

TEST_CASE("a framework that no other source knows is taken to be like the one it names") {
  std::vector<FittedConstant> constants = table();
  FittedConstant megatron = constants[2];
  megatron.name = "megatron host";
  megatron.framework = "megatron";
  megatron.uninformed = 3;
  constants.push_back(megatron);
  constants[2].like = megatron.name;
  std::vector<Source> sources{source_of("one", "Megatron-LM"), source_of("two", "nanotron")};
  measure_with(sources, megatron, 8);
  const CrossValidation all = cross_validate(tasks_of(sources), constants);
  CHECK(all.refits[1].left_out == "two");
  CHECK(all.refits[1].values.at("host") != constants[2].uninformed);
  CHECK(all.refits[1].values.at("host") == all.refits[1].values.at("megatron host"));
}

TEST_CASE("a value that was chosen on one source does not help to predict it") {
  const std::vector<FittedConstant> constants = table();
  std::vector<Source> slow{source_of("one", "Megatron-LM")};
  measure_with(slow, constants[0], 0.4);
  const CrossValidation all = cross_validate(tasks_of(slow), constants);
  CHECK(all.refits[0].values.at("rate") == 0.7);  // uninformed
  CHECK(all.refits.back().values.at("rate") == Approx(0.4).margin(0.02));
  const Report shipped = summarise(slow, all.held_out, {});
  const std::string text = to_text(all, constants, shipped);
  CHECK(text.find("left out") != std::string::npos);
  const std::vector<std::string> differing = not_as_chosen(all, constants);
  REQUIRE(!differing.empty());
  CHECK(differing.front().starts_with("rate ships as 0."));
}

}  // namespace
}  // namespace meshplan::accuracy

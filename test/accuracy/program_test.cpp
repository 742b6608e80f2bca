// The program as a person runs it.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/wait.h>

#include "support/catch.hpp"

namespace meshplan::accuracy {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = 0;
  std::string output, errors;
};

std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Program {
 public:
  Program() {
    const auto here = reinterpret_cast<std::uintptr_t>(this);
    folder_ = fs::temp_directory_path() / ("meshplan-accuracy-run-" + std::to_string(here));
    fs::create_directories(folder_ / "rows");
  }
  ~Program() { fs::remove_all(folder_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] fs::path path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path("rows") / name) << text;
  }
  [[nodiscard]] Outcome run(const std::string& arguments) const {
    const std::string command = std::string(MESHPLAN_ACCURACY_PROGRAM) + " " +
                                path("rows").string() + " " + arguments + " >" +
                                path("out").string() + " 2>" + path("err").string();
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), content(path("out")), content(path("err"))};
  }

 private:
  fs::path folder_;
};

constexpr const char* kRows = R"(use: score
source: {title: Megatron-LM}
hardware: {gpu: NVIDIA A100 80GB, gpus_per_node: 8}
runs:
- {id: good, gpus: 8, tp: 8, pp: 1, global_batch: 8, micro_batch: 1, precision: bf16,
   recompute: none, sequence_parallel: true, zero_stage: 1, schedule: none, status: ok,
   attention_impl: flash, measured: {step_time_s: 1.0},
   model: {name: m, num_layers: 4, hidden_size: 1024, num_attention_heads: 8, vocab_size: 32000,
           seq_length: 1024, ffn_hidden_size: 4096, linear_bias: true}}
- {id: without-time, gpus: 8, tp: 8, pp: 1}
)";

TEST_CASE("the page holds the report, or the program says what it was built without") {
  const Program program;
  program.write("made-up.yaml", kRows);
  const Outcome outcome = program.run("--html " + program.path("page.html").string());
  const std::string html = content(program.path("page.html"));
  if (html.empty()) {
    CHECK(outcome.code == 2);
    CHECK(outcome.errors.find("--html: error: this program was built without the HTML report") !=
          std::string::npos);
    return;
  }
  CHECK(outcome.code == 0);
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(html.find("\"id\":\"good\"") != std::string::npos);
}

TEST_CASE("one source alone cannot be left out") {
  const Program program;
  program.write("made-up.yaml", kRows);
  const Outcome outcome = program.run("--cross-validate");
  CHECK(outcome.code == 2);
  CHECK(outcome.errors == "error: runs of two sources or more are needed to leave one out\n");
}

TEST_CASE("the table of errors is written from sources left out alone") {
  const Program program;
  program.write("made-up.yaml", kRows);
  const Outcome outcome = program.run("--write-errors table.cpp");
  CHECK(outcome.code == 2);
  CHECK(outcome.errors.find("--cross-validate") != std::string::npos);
}

TEST_CASE("two sources are predicted by each other's constants, with text, JSON and a table") {
  const Program program;
  program.write("made-up.yaml", kRows);
  program.write("another.yaml", kRows);
  const Outcome outcome =
      program.run("--cross-validate --threads 1 --json " + program.path("left_out.json").string() +
                  " --write-errors " + program.path("table.cpp").string());
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.output.find("Interval of the step time that promises 80 %") != std::string::npos);
  const auto json = nlohmann::json::parse(content(program.path("left_out.json")));
  REQUIRE(json["runs"].size() == 2);
  CHECK(json["runs"][0]["interval_s"][0] <= json["runs"][0]["predicted_s"]);
  CHECK(json["runs"][0]["interval_s"][1] >= json["runs"][0]["predicted_s"]);
  CHECK(json["intervals"]["sources"]["another"]["n"] == 1);
  CHECK(json["constants"].size() == 3);
  CHECK(content(program.path("table.cpp")).find("MeasuredErrors table()") != std::string::npos);
}

TEST_CASE("runs that are shown are learned from, with and without leaving sources out") {
  const Program program;
  program.write("made-up.yaml", kRows);
  program.write("another.yaml", kRows);
  const Outcome plain = program.run("--shots 1,3 --draws 2");
  INFO(plain.errors);
  REQUIRE(plain.code == 0);
  CHECK(plain.output.find("1 run shown %") != std::string::npos);
  CHECK(plain.output.find("3 runs shown %") != std::string::npos);
  const Outcome left_out = program.run("--cross-validate --threads 1 --shots 1 --draws 2");
  REQUIRE(left_out.code == 0);
  CHECK(left_out.output.find("mean of") != std::string::npos);
  CHECK(program.run("--shots 0").code == 2);
  CHECK(program.run("--seed 3").code == 2);
}

TEST_CASE("the program predicts a folder of runs and says what it skipped") {
  const Program program;
  program.write("made-up.yaml", kRows);
  const Outcome outcome = program.run("--json - --rows " + program.path("rows.csv").string());
  INFO(outcome.errors);
  REQUIRE(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.output);
  REQUIRE(json["runs"].size() == 1);
  CHECK(json["runs"][0]["id"] == "good");
  CHECK(json["runs"][0]["predicted_s"].get<double>() > 0);
  CHECK(json["skipped"][0]["reason"] == "no step time");
  const std::string rows = content(program.path("rows.csv"));
  CHECK(rows.starts_with("source,use,id,"));
  CHECK(rows.find("\nmade-up,score,good,") != std::string::npos);
}

TEST_CASE("a key that is set overrides every run") {
  const Program program;
  program.write("made-up.yaml", kRows);
  const auto time = [&](const std::string& arguments) {
    const Outcome outcome = program.run("--json - " + arguments);
    REQUIRE(outcome.code == 0);
    return nlohmann::json::parse(outcome.output)["runs"][0]["predicted_s"].get<double>();
  };
  CHECK(time("--set recompute=full") > time(""));
}

TEST_CASE("runs and sources can be picked by name") {
  const Program program;
  program.write("made-up.yaml", kRows);
  const Outcome none = program.run("--json - --only '^nothing$'");
  REQUIRE(none.code == 0);
  CHECK(nlohmann::json::parse(none.output)["runs"].empty());
  CHECK(program.run("--source other").code == 2);
}

TEST_CASE("broken YAML ends with code 2 and the file's name") {
  const Program program;
  program.write("broken.yaml", "runs: [a, {b: }\nmore: 1\n");
  const Outcome outcome = program.run("");
  CHECK(outcome.code == 2);
  CHECK(outcome.errors.find("broken.yaml:2:") != std::string::npos);
}

TEST_CASE("wrong usage ends with code 2") {
  const Program program;
  program.write("made-up.yaml", kRows);
  CHECK(program.run("--no-such-option").code == 2);
  CHECK(program.run("--only '('").code == 2);
  CHECK(program.run("--json /nonexistent/folder/x.json").code == 2);
}

}  // namespace
}  // namespace meshplan::accuracy

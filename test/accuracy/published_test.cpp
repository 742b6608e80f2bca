#include "published.hpp"

#include <filesystem>
#include <fstream>

#include "fields.hpp"
#include "support/catch.hpp"

namespace meshplan::accuracy {
namespace {

namespace fs = std::filesystem;

constexpr const char* kYaml = R"(schema: published-training-runs/1
use: score
colour: blue
source: {title: Made-up runs, repo: example/megatron, notes: [first, second]}
hardware: {gpu: NVIDIA A100 80GB, gpu_memory_gb: {A100: 80}, gpus_per_node: 8, inter_node: 8x 200 Gb/s}
runs:
- id: one
  weather: {wind: 3}
  model: {name: tiny, num_layers: 4, hidden_size: 256, num_attention_heads: 4, vocab_size: 1024,
          seq_length: 128, ffn_hidden_size: 1024, gated: false, arch_from: "invented"}
  gpus: 8
  tp: 2
  pp: 1
  vp: null
  micro_batch: 2
  global_batch: 16
  sequence_parallel: null
  fsdp: torch FSDP2
  precision: bf16
  schedule: 1f1b (before the interleaved one)
  status: ok
  measured: {step_time_s: 1.5, peak_memory_gb: 2, memory_unit: GiB allocated}
  derived: {step_time_s: 9}
- id: two
  model: {name: tiny, num_layers: 4, hidden_size: 256, num_attention_heads: 4, vocab_size: 1024,
          seq_length: 128, ffn_hidden_size: 1024, gated: false, arch_from: "invented"}
  gpus: 8
  dropout: yes (hidden)
  fsdp: false
  overlap: {dp: false, pp_p2p: asynchronous p2p}
  measured: {mfu: .nan}
  derived: {step_time_s: 2}
- id: three
)";

constexpr const char* kCompact =
    R"rows({"use":"score","source":{"title":"Made-up runs","repo":"example/megatron","notes":["first","second"]},"hardware":{"gpu":"NVIDIA A100 80GB","gpu_memory_gb":{"A100":80},"gpus_per_node":8,"inter_node":"8x 200 Gb/s"},"models":{"tiny#1":{"name":"tiny","num_layers":4,"hidden_size":256,"num_attention_heads":4,"vocab_size":1024,"seq_length":128,"ffn_hidden_size":1024,"gated":false,"arch_from":"invented"}},"defaults":{"model":"tiny#1","gpus":8}}
{"id":"one","tp":2,"pp":1,"micro_batch":2,"global_batch":16,"fsdp":"torch FSDP2","precision":"bf16","schedule":"1f1b (before the interleaved one)","status":"ok","measured":{"step_time_s":1.5,"peak_memory_gb":2,"memory_unit":"GiB allocated"}}

{"id":"two","dropout":"yes (hidden)","fsdp":false,"overlap":{"dp":false,"pp_p2p":"asynchronous p2p"},"derived":{"step_time_s":2}}
{"id":"three","model":null,"gpus":null}
)rows";

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    const auto here = reinterpret_cast<std::uintptr_t>(this);
    path_ = fs::temp_directory_path() / ("meshplan-accuracy-" + std::to_string(here));
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  [[nodiscard]] Result<std::vector<Source>> read() const {
    const std::vector<fs::path> inputs{path_};
    return read_published(inputs);
  }

 private:
  fs::path path_;
};

TEST_CASE("a run reads what its source states and leaves the rest open") {
  const Result<Source> source = parse_published_yaml(kYaml, "made-up.yaml");
  REQUIRE(source.ok());
  CHECK(source->name == "made-up");
  CHECK(source->use == Use::kScore);
  CHECK(source->notes == "first; second");
  CHECK(source->gpus_per_node.at("") == 8);
  CHECK(source->gpu_memory_gb.at("A100") == 80);
  REQUIRE(source->runs.size() == 3);
  const Run& one = source->runs[0];
  CHECK(one.tp == 2);
  CHECK_FALSE(one.vp.has_value());
  CHECK_FALSE(one.cp.has_value());
  CHECK_FALSE(one.sequence_parallel.has_value());
  CHECK(one.model.hidden_size == 256);
  CHECK(one.step_time == Seconds{1.5});  // measured before derived
  REQUIRE(one.memory.has_value());
  CHECK(one.memory->peak == Bytes{2 * kGiB});
  CHECK(one.memory->kind == MemoryKind::kAllocated);
  const Run& two = source->runs[1];
  CHECK(two.step_time == Seconds{2});
  CHECK(two.dropout == 0.1);
  CHECK(one.fsdp == "torch FSDP2");
  CHECK(one.schedule == "1f1b ");
  CHECK(one.schedule_source == "(before the interleaved one)");
  CHECK(two.fsdp.empty());  // said to be off, not a name
  CHECK(two.overlap_dp == "false");
  CHECK(two.overlap_pp == "asynchronous p2p");
  CHECK_FALSE(source->runs[2].step_time.has_value());
}

TEST_CASE("the compact form gives the same runs") {
  const Result<Source> yaml = parse_published_yaml(kYaml, "made-up.yaml");
  const Result<Source> compact = parse_published_compact(kCompact, "made-up.jsonl");
  REQUIRE(yaml.ok());
  REQUIRE(compact.ok());
  CHECK(*compact == *yaml);
}

TEST_CASE("sections may be missing altogether") {
  const Result<Source> source = parse_published_yaml("use: sanity\n", "empty.yaml");
  REQUIRE(source.ok());
  CHECK(source->use == Use::kSanity);
  CHECK(source->runs.empty());
  CHECK(source->gpu.empty());
  const Result<Source> unstated = parse_published_yaml("runs: null\n", "empty.yaml");
  REQUIRE(unstated.ok());
  CHECK(unstated->use == Use::kScore);
}

TEST_CASE("modules that a quoted recipe lists are recomputed where the row does not say") {
  const Result<Source> source = parse_published_yaml(
      "runs:\n"
      "- {id: a, recompute_detail: 'not stated (its csv lists recompute_modules \"moe/mlp\")'}\n"
      "- {id: b, recompute: full, recompute_detail: 'lists recompute_modules \"moe/mlp\"'}\n",
      "made-up.yaml");
  REQUIRE(source.ok());
  REQUIRE(source->runs.size() == 2);
  CHECK(source->runs[0].recompute == "selective");
  CHECK(source->runs[0].recompute_modules == std::vector<std::string>{"moe", "mlp"});
  CHECK(source->runs[1].recompute == "full");
  CHECK(source->runs[1].recompute_modules.empty());
}

TEST_CASE("rows in a form of their own are counted") {
  const Result<Source> source =
      parse_published_yaml("use: feasibility\nrows:\n- [1B, 1]\n- [1B, 2]\n", "crashed.yaml");
  REQUIRE(source.ok());
  CHECK(source->rows_without_fields == 2);
}

TEST_CASE("broken YAML is reported with file and line") {
  const Folder folder;
  folder.write("good.yaml", kYaml);
  folder.write("broken.yaml", "use: score\nruns: [a, {b: }\nmore: 1\n");
  const auto sources = folder.read();
  REQUIRE_FALSE(sources.ok());
  REQUIRE(sources.errors().size() == 1);
  CHECK(sources.errors().front().where.file.ends_with("broken.yaml"));
  CHECK(sources.errors().front().where.line == 3);
}

TEST_CASE("aliases are refused, so that no file can expand without end") {
  const Result<Source> source = parse_published_yaml("use: &x score\nnote: *x\n", "bomb.yaml");
  REQUIRE_FALSE(source.ok());
  CHECK(source.errors().front().where.line == 1);
}

TEST_CASE("a broken compact line is reported with its number") {
  const Result<Source> source =
      parse_published_compact("{\"use\":\"score\"}\n{\"id\":\n", "broken.jsonl");
  REQUIRE_FALSE(source.ok());
  CHECK(source.errors().front().where.line == 2);
  const Result<Source> unknown =
      parse_published_compact("{\"use\":\"score\"}\n{\"id\":\"a\",\"model\":\"b\"}\n", "x.jsonl");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.errors().front().message == "no model section is called \"b\"");
}

TEST_CASE("files of both forms are read by name, other files are left alone") {
  const Folder folder;
  folder.write("b.jsonl", kCompact);
  folder.write("a.yaml", kYaml);
  folder.write("README.md", "# not a table");
  const auto sources = folder.read();
  REQUIRE(sources.ok());
  REQUIRE(sources->size() == 2);
  CHECK((*sources)[0].name == "a");
  CHECK((*sources)[1].name == "b");
  CHECK((*sources)[0].runs == (*sources)[1].runs);
}

TEST_CASE("a folder without runs and a source given twice are errors") {
  const Folder folder;
  CHECK_FALSE(folder.read().ok());
  folder.write("a.yaml", kYaml);
  folder.write("a.jsonl", kCompact);
  const auto twice = folder.read();
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.errors().front().message == "source \"a\" is given twice");
}

TEST_CASE("measured memory is told apart by key, unit and tool") {
  struct Row {
    const char* measured;
    Bytes peak;
    MemoryKind kind;
  };
  const auto row = GENERATE(
      Row{R"({"peak_memory_gb_nvidia_smi": 67.0})", Bytes{67 * kGiB}, MemoryKind::kDevice},
      Row{R"({"gpu_memory_gib": 27.74})", ceil_bytes(27.74 * static_cast<double>(kGiB)),
          MemoryKind::kDevice},
      Row{R"({"peak_memory_bytes": 1000})", Bytes{1000}, MemoryKind::kAllocator},
      Row{R"({"peak_memory_bytes_per_gpu": 5, "memory_kind": "max over ranks of nvidia-smi"})",
          Bytes{5}, MemoryKind::kDevice},
      Row{R"({"peak_memory_gb": 1, "memory_unit": "max_memory_allocated/reserved"})", Bytes{kGiB},
          MemoryKind::kAllocator},
      Row{R"({"peak_memory_reserved_gib": [1, 3, 2]})", Bytes{3 * kGiB}, MemoryKind::kReserved},
      Row{R"({"max_memory_allocated_mib": 1.5})", Bytes{3 * kMiB / 2}, MemoryKind::kAllocated});
  const auto memory = memory_of(nlohmann::json::parse(row.measured));
  REQUIRE(memory.has_value());
  CHECK(memory->peak == row.peak);
  CHECK(memory->kind == row.kind);
}

TEST_CASE("memory without unit and tool is not scored") {
  CHECK_FALSE(memory_of({{"peak_memory_gb_per_gpu", 75.0}}).has_value());
  CHECK_FALSE(memory_of({{"memory_unit", "GiB"}}).has_value());
  CHECK_FALSE(memory_of({{"gpu_memory_budget_gb", 80}}).has_value());
}

TEST_CASE("the rows that ship are read") {
  const std::vector<fs::path> inputs{fs::path(MESHPLAN_SOURCE_DIR) /
                                     "benchmarks/accuracy/published"};
  const auto sources = read_published(inputs);
  REQUIRE(sources.ok());
  std::size_t scored = 0;
  for (const Source& source : *sources) {
    for (const Run& run : source.runs) {
      if (source.use != Use::kScore) continue;
      ++scored;
      INFO(source.name << " " << run.id);
      CHECK(run.step_time.has_value());
      CHECK(run.gpus.has_value());
    }
  }
  CHECK(scored == 2779);  // the row counts of the files' own table, added up
}

}  // namespace
}  // namespace meshplan::accuracy

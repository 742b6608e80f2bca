// Reading and writing files, finding shipped data, devices and clusters.
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

#include "io/load.hpp"
#include "io/write.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace meshplan {
namespace {

const char* const kModel =
    "name: tiny\nnum_layers: 4\nhidden_size: 64\nnum_attention_heads: 4\nffn_hidden_size: 256\n"
    "vocab_size: 1000\nmax_seq_length: 128\n";

const char* const kDevice =
    "name: gpu\narchitecture: ampere\nmemory: 80 GiB\ncontext: 1 GiB\n"
    "memory_bandwidth: 2 TB/s\nl2_cache: 40 MiB\nmultiprocessors: 108\n"
    "peak: {bf16: 312 TFLOP/s}\ngemm: {sustained: {bf16: 0.8}, k_half: 64}\n"
    "attention: {forward: 0.7, backward: 0.6, seq_half: 256}\nmemory_efficiency: 0.85\n"
    "kernel_overhead: 3 us\nlaunch_gap: 5 us\nhost_link: 25 GB/s\n"
    "sources: {memory: a datasheet}\n";

std::string cluster_text(const std::string& device) {
  return "name: pod\ndevice: " + device +
         "\nnodes: 4\ngpus_per_node: 8\nlevels:\n"
         "  - {name: nvlink, span: 8, bandwidth: 300 GB/s, latency: 3 us, kind: nvswitch}\n"
         "  - {name: rail, span: all, bandwidth: 200 Gbit/s, latency: 6 us, kind: infiniband}\n";
}

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string read_error(const std::filesystem::path& path) {
  const auto read = read_text_file(path);
  return read.ok() ? "no error" : read.errors().front().message;
}

}  // namespace

TEST_CASE("Files that cannot be read say why, and none of them hangs") {
  const TemporaryFolder folder;
  CHECK(read_error(folder.path() / "nothing") == "no such file");
  CHECK(read_error(folder.path()) == "is a folder, not a file");
  CHECK(read_error(folder.write("empty", "")) == "is empty");
  CHECK(read_error(folder.write("latin", "caf\xe9")) == "not UTF-8 text");
  CHECK(read_error(folder.write("big", std::string((16 << 20) + 1, ' '))) == "larger than 16 MiB");
  const std::string pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(read_error(pipe) == "is empty");  // nobody writes to it
  CHECK(read_error("/dev/zero") == "is not a regular file");
  CHECK(read_error(folder.write("fine", "x")) == "no error");
}

TEST_CASE("A file that is not UTF-8 says where") {
  const TemporaryFolder folder;
  const auto read = read_text_file(folder.write("f", "abc\nd\xff"));
  REQUIRE_FALSE(read.ok());
  CHECK(read.errors().front().where.line == 2);
  CHECK(read.errors().front().where.column == 2);
}

TEST_CASE("Writing replaces a file whole and leaves nothing else behind") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "out.json";
  REQUIRE(write_file_atomically(path, "old").ok());
  REQUIRE(write_file_atomically(path, std::string(1 << 20, 'x')).ok());
  CHECK(content(path) == std::string(1 << 20, 'x'));
  const auto entries = std::filesystem::directory_iterator(folder.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("A replaced file keeps its permissions") {
  const TemporaryFolder folder;
  const std::string path = folder.write("run.sh", "old");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  REQUIRE(write_file_atomically(path, "new").ok());
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms::owner_all);
}

TEST_CASE("Writing where it cannot be done is an error and changes nothing") {
  const TemporaryFolder folder;
  const auto into_nowhere = write_file_atomically(folder.path() / "no" / "file", "x");
  REQUIRE_FALSE(into_nowhere.ok());
  CHECK(into_nowhere.errors().front().message == "cannot be written: No such file or directory");
  const auto over_folder = write_file_atomically(folder.path(), "x");
  REQUIRE_FALSE(over_folder.ok());
  CHECK(over_folder.errors().front().message == "is a folder, not a file");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("Shipped names are found, listed in order, and the first folder wins") {
  const TemporaryFolder first, second;
  (void)first.write("models/b.yaml", "first");
  (void)second.write("models/b.yaml", "second");
  (void)second.write("models/a.yaml", "x");
  (void)second.write("models/notes.txt", "x");
  const DataFolders data({first.path(), second.path()});
  CHECK(data.names(kModelFolder) == std::vector<std::string>{"a", "b"});
  CHECK(content(data.find(kModelFolder, "b")) == "first");
  CHECK(data.find(kModelFolder, "c").empty());
  CHECK(data.find(kModelFolder, "../models/b").empty());
  CHECK(data.find(kModelFolder, "").empty());
  CHECK(data.names("nothing").empty());
}

TEST_CASE("MESHPLAN_DATA comes before every other place") {
  const TemporaryFolder folder;
  (void)folder.write("models/only-here.yaml", kModel);
  REQUIRE(::setenv("MESHPLAN_DATA", folder.path().c_str(), 1) == 0);
  const DataFolders data = DataFolders::standard();
  REQUIRE(::unsetenv("MESHPLAN_DATA") == 0);
  CHECK(data.find(kModelFolder, "only-here") == folder.path() / "models" / "only-here.yaml");
  CHECK(DataFolders::standard().find(kModelFolder, "only-here").empty());
}

TEST_CASE("A model is loaded by name, by path and from a folder with config.json") {
  const TemporaryFolder folder;
  const std::string path = folder.write("models/tiny.yaml", kModel);
  const DataFolders data({folder.path()});
  for (const std::string& name : {std::string("tiny"), path}) {
    const auto model = load_model(name, data);
    if (!model.ok()) FAIL(to_text(model.errors()));
    CHECK(model->num_layers == 4);
    CHECK(model->num_query_groups == 4);
    CHECK(model->head_dim == 16);
    CHECK(model->attention == AttentionKind::kMha);
  }
  const auto wrong = load_model("tiy", data);
  REQUIRE_FALSE(wrong.ok());
  CHECK(to_text(wrong.errors()) ==
        "error: no model is called 'tiy'\n  hint: did you mean 'tiny'?\n");
  const auto far = load_model("gigantic", data);
  REQUIRE_FALSE(far.ok());
  CHECK(
      to_text(far.errors()) ==
      "error: no model is called 'gigantic'\n  hint: give a shipped name or the path of a file\n");
}

TEST_CASE("A Hugging Face configuration is told from a model file by its keys") {
  const TemporaryFolder folder;
  (void)folder.write("hub/config.json",
                     "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64,\n"
                     " \"num_attention_heads\": 4, \"num_key_value_heads\": 2,\n"
                     " \"intermediate_size\": 128, \"vocab_size\": 100,\n"
                     " \"max_position_embeddings\": 32}\n");
  const DataFolders none(std::vector<std::filesystem::path>{});
  const auto model = load_model((folder.path() / "hub").string(), none);
  if (!model.ok()) FAIL(to_text(model.errors()));
  CHECK(model->num_query_groups == 2);
  CHECK(model->gated_mlp);
  const std::string ours =
      folder.write("ours.json",
                   "{\"name\": \"tiny\", \"num_layers\": 4, \"hidden_size\": 64,\n"
                   " \"num_attention_heads\": 4, \"ffn_hidden_size\": 256,\n"
                   " \"vocab_size\": 1000, \"max_seq_length\": 128}\n");
  const auto own = load_model(ours, none);
  if (!own.ok()) FAIL(to_text(own.errors()));
  CHECK(own->name == "tiny");
}

TEST_CASE("The keys of attention and experts are read") {
  const auto model = parse_model(
      std::string(kModel) +
          "attention: {kind: mla, q_lora_rank: 12, kv_lora_rank: 8, qk_nope_head_dim: 16,\n"
          "            qk_rope_head_dim: 4, v_head_dim: 16, window: 64, window_every: 2}\n"
          "moe: {num_experts: 8, top_k: 2, expert_ffn_hidden_size: 32,\n"
          "      shared_expert_ffn_hidden_size: 32, router_bias: true, imbalance: 1.5,\n"
          "      router_num_groups: 4, router_group_top_k: 2,\n"
          "      layers: {first_dense: 1, every: 3}}\n"
          "mtp_layers: 1\n",
      "m");
  if (!model.ok()) FAIL(to_text(model.errors()));
  CHECK(model->mla == MlaSpec{12, 8, 16, 4, 16});
  CHECK(model->head_dim == 20);
  CHECK(model->window == 64);
  CHECK(model->window_every == 2);
  MoeSpec moe{8, 2, 32, 32, 1, 3, 1.5, true};
  moe.router_num_groups = 4, moe.router_group_top_k = 2;
  CHECK(model->moe == moe);
  CHECK(model->mtp_layers == 1);
}

TEST_CASE("A model whose layers all have experts needs no dense width") {
  std::string text = kModel;
  text.erase(text.find("ffn_hidden_size"), std::string("ffn_hidden_size: 256\n").size());
  CHECK_FALSE(parse_model(text, "m").ok());
  CHECK(
      parse_model(text + "moe: {num_experts: 4, top_k: 1, expert_ffn_hidden_size: 8}\n", "m").ok());
  CHECK_FALSE(parse_model(text + "moe: {num_experts: 4, top_k: 1, expert_ffn_hidden_size: 8, "
                                 "layers: {first_dense: 1}}\n",
                          "m")
                  .ok());
}

TEST_CASE("A cluster's device is a name, a path next to the cluster, or written inside") {
  const TemporaryFolder folder;
  (void)folder.write("hardware-profiles/devices/gpu.yaml", kDevice);
  const DataFolders data({folder.path()});
  const auto by_name = parse_cluster(cluster_text("gpu"), "c.yaml", data);
  if (!by_name.ok()) FAIL(to_text(by_name.errors()));
  CHECK(num_gpus(*by_name) == 32);
  CHECK(by_name->levels[1].span == 0);
  CHECK(by_name->levels[1].bandwidth.si() == 25e9);
  CHECK(by_name->device.sources.at("memory") == "a datasheet");

  (void)folder.write("pods/own.yaml", kDevice);
  const std::string pod = folder.write("pods/pod.yaml", cluster_text("./own.yaml"));
  const auto by_path = load_cluster(pod, data);
  if (!by_path.ok()) FAIL(to_text(by_path.errors()));
  CHECK(by_path->device == by_name->device);

  std::string inside = kDevice;
  for (std::size_t at = 0; (at = inside.find('\n', at)) != std::string::npos; at += 3) {
    inside.replace(at, 1, "\n  ");
  }
  const auto nested = parse_cluster(cluster_text("\n  " + inside), "c.yaml", data);
  if (!nested.ok()) FAIL(to_text(nested.errors()));
  CHECK(nested->device == by_name->device);
}

TEST_CASE("Problems of a cluster's device are reported where they are") {
  const TemporaryFolder folder;
  const DataFolders data({folder.path()});
  const auto unknown = parse_cluster(cluster_text("gpv"), "c.yaml", data);
  REQUIRE_FALSE(unknown.ok());
  CHECK(to_text(unknown.errors()) ==
        "c.yaml:2:9: error: no device is called 'gpv'\n"
        "  device: gpv\n"
        "          ^~~\n"
        "  hint: give a shipped name or the path of a file\n");
  const std::string bad = folder.write("bad.yaml", std::string(kDevice) + "memori: 1 GiB\n");
  const auto broken = parse_cluster(cluster_text(bad), "c.yaml", data);
  REQUIRE_FALSE(broken.ok());
  CHECK(broken.errors().front().where.file == bad);
  CHECK(broken.errors().front().hint == "did you mean 'memory'?");
}

TEST_CASE("Measured collectives are read with their sizes and times") {
  const TemporaryFolder folder;
  (void)folder.write("hardware-profiles/devices/gpu.yaml", kDevice);
  const DataFolders data({folder.path()});
  const std::string fit =
      "collectives:\n"
      "  - {operation: all-reduce, level: nvlink, ranks: 8, points: [[1 MiB, 20 us], [2 MiB, 30 "
      "us]]}\n";
  const auto cluster = parse_cluster(cluster_text("gpu") + fit, "c", data);
  if (!cluster.ok()) FAIL(to_text(cluster.errors()));
  REQUIRE(cluster->collectives.size() == 1);
  CHECK(cluster->collectives[0].points[1].first == Bytes{2 * kMiB});
  CHECK(cluster->collectives[0].points[1].second.si() == Approx(30e-6));
  const auto wrong = parse_cluster(
      cluster_text("gpu") +
          "collectives:\n  - {operation: all-reduce, level: nvlink, ranks: 8, points: [[1 MiB]]}\n",
      "c", data);
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.errors().front().message ==
        "'collectives[0].points[0]' must be a pair of a size and a time");
}

TEST_CASE("Clusters of absurd size are refused with the limit") {
  const TemporaryFolder folder;
  (void)folder.write("hardware-profiles/devices/gpu.yaml", kDevice);
  const DataFolders data({folder.path()});
  std::string text = cluster_text("gpu");
  text.replace(text.find("nodes: 4"), 8, "nodes: 9000000000000000000");
  const auto read = parse_cluster(text, "c", data);
  REQUIRE_FALSE(read.ok());
  CHECK(read.errors().front().message ==
        "'nodes' must be from 1 to 16,777,216, got 9000000000000000000");
}

}  // namespace meshplan

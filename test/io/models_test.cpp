// Every shipped model has as many parameters as its publisher states. The counts are typed by hand.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "io/load.hpp"
#include "model/parameters.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

DataFolders shipped() { return DataFolders({std::filesystem::path(MESHPLAN_SOURCE_DIR)}); }

struct Published {
  const char* name;
  double total;
  const char* source;
};

const std::vector<Published>& published_models() {
  static const std::vector<Published> table{
      {"bloom-176b", 176'247'271'424, "model card of bigscience/bloom"},
      {"deepseek-v3", 671e9, "2412.19437 abstract; README_WEIGHTS.md, main model"},
      {"gpt-neox-20b", 20'554'567'680, "model card of EleutherAI/gpt-neox-20b"},
      {"gpt-oss-120b", 116.83e9, "2508.10925 Table 1"},
      {"gpt3-175b", 174.6e9, "2005.14165 Table D.1"},
      {"llama-2-7b", 6'738'415'616, "safetensors metadata of the hub"},
      {"llama-2-13b", 13'015'864'320, "safetensors metadata of the hub"},
      {"llama-2-70b", 68'976'648'192, "safetensors metadata of the hub"},
      {"llama-3.1-8b", 8'030'261'248, "safetensors metadata of the hub"},
      {"llama-3.1-70b", 70'553'706'496, "safetensors metadata of the hub"},
      {"llama-3.1-405b", 405'853'388'800, "safetensors metadata of the hub"},
      {"megatron-1t", 1008.0e9, "2104.04473 Table 1"},
      {"megatron-22b", 22e9, "2205.05198 Table 3"},
      {"mistral-7b", 7'241'732'096, "safetensors metadata of the hub"},
      {"mixtral-8x7b", 46'702'792'704, "safetensors metadata of the hub"},
      {"mixtral-8x22b", 141e9, "release notes, April 2024"},
      {"mt-nlg-530b", 529.6e9, "2104.04473 Table 1"},
      {"nemotron-4-340b", 9.4e9 + 331.6e9, "2406.11704 Table 1: embedding and other parameters"},
      {"opt-175b", 175e9, "2205.01068 title of the model"},
      {"palm-540b", 540.35e9, "2204.02311 Table 1"},
      {"qwen3-8b", 8'190'735'360, "safetensors metadata of the hub"},
      {"qwen3-32b", 32'762'123'264, "safetensors metadata of the hub"},
      {"qwen3-235b-a22b", 235'093'634'560, "safetensors metadata of the hub"},
  };
  return table;
}

// Which parameters a publisher calls active.
enum class Convention {
  kBothEmbeddings,    // as parameter_count() does
  kWithoutInputTable  // not the token embedding: a look-up does no arithmetic
};

struct PublishedActive {
  const char* name;
  double active;
  Convention convention;
  const char* source;
};

}  // namespace

TEST_CASE("Every shipped model's parameter count lies within 1 % of the published one") {
  for (const Published& row : published_models()) {
    INFO(row.name << ", " << row.source);
    const auto model = load_model(row.name, shipped());
    REQUIRE(model.ok());
    CHECK(static_cast<double>(parameter_count(*model).total) == Approx(row.total).epsilon(0.01));
    CHECK(model->published_parameters == Approx(row.total).epsilon(1e-6));
    CHECK(model->name == row.name);
    CHECK_FALSE(model->source.empty());
  }
}

TEST_CASE("Counts that the hub states exactly are met to the last parameter") {
  const auto [name, exact] =
      GENERATE(table<std::string, std::int64_t>({{"llama-2-7b", 6'738'415'616},
                                                 {"llama-2-70b", 68'976'648'192},
                                                 {"llama-3.1-405b", 405'853'388'800},
                                                 {"mistral-7b", 7'241'732'096},
                                                 {"mixtral-8x7b", 46'702'792'704},
                                                 {"qwen3-8b", 8'190'735'360},
                                                 {"qwen3-235b-a22b", 235'093'634'560},
                                                 {"bloom-176b", 176'247'271'424},
                                                 {"gpt-neox-20b", 20'554'567'680}}));
  INFO(name);
  const auto model = load_model(name, shipped());
  REQUIRE(model.ok());
  CHECK(parameter_count(*model).total == exact);
}

TEST_CASE("Active parameters of mixtures of experts lie within 1 % of the published ones") {
  const auto row = GENERATE(values<PublishedActive>(
      {{"mixtral-8x7b", 12.9e9, Convention::kBothEmbeddings, "release notes, December 2023"},
       {"mixtral-8x22b", 39e9, Convention::kBothEmbeddings, "release notes, April 2024"},
       {"qwen3-235b-a22b", 22e9, Convention::kBothEmbeddings, "2505.09388 Table 2"},
       {"deepseek-v3", 36.7e9, Convention::kWithoutInputTable, "README_WEIGHTS.md"},
       {"gpt-oss-120b", 5.13e9, Convention::kWithoutInputTable,
        "2508.10925 Table 1: unembedding counted, embedding not"}}));
  INFO(row.name << ", " << row.source);
  const auto model = load_model(row.name, shipped());
  REQUIRE(model.ok());
  const ParameterCount count = parameter_count(*model);
  const std::int64_t left_out =
      row.convention == Convention::kWithoutInputTable ? count.embedding : 0;
  CHECK(static_cast<double>(count.active - left_out) == Approx(row.active).epsilon(0.01));
  CHECK(model->published_active_parameters == Approx(row.active).epsilon(1e-6));
}

TEST_CASE("DeepSeek-V3's multi-token-prediction layer has the published 11.5 billion parameters") {
  const auto model = load_model("deepseek-v3", shipped());
  REQUIRE(model.ok());
  // README_WEIGHTS.md: 11.5B unique parameters, without the shared embedding and head.
  CHECK(static_cast<double>(parameter_count(*model).mtp) == Approx(11.5e9).epsilon(0.01));
}

TEST_CASE("Every file in models/ has a row in the table of published counts") {
  std::vector<std::string> in_table;
  for (const Published& row : published_models()) in_table.emplace_back(row.name);
  std::sort(in_table.begin(), in_table.end());
  CHECK(shipped().names(kModelFolder) == in_table);
}

TEST_CASE("The shipped models carry the shapes of their papers") {
  struct Shape {
    const char* name;
    std::int64_t layers, hidden, heads, groups, context;
    double dropout;
  };
  const auto row = GENERATE(
      values<Shape>({{"gpt3-175b", 96, 12288, 96, 96, 2048, 0.1},          // 2005.14165 Table 2.1
                     {"megatron-22b", 48, 6144, 64, 64, 2048, 0.1},        // 2205.05198 Table 3
                     {"mt-nlg-530b", 105, 20480, 128, 128, 2048, 0.1},     // 2201.11990 sec. 3
                     {"megatron-1t", 128, 25600, 160, 160, 2048, 0.1},     // 2104.04473 Table 1
                     {"llama-3.1-405b", 126, 16384, 128, 8, 131072, 0.0},  // 2407.21783 Table 3
                     {"palm-540b", 118, 18432, 48, 1, 2048, 0.0},          // 2204.02311 Table 1
                     {"nemotron-4-340b", 96, 18432, 96, 8, 4096, 0.0}}));  // 2406.11704 Table 1
  INFO(row.name);
  const auto model = load_model(row.name, shipped());
  REQUIRE(model.ok());
  CHECK(model->num_layers == row.layers);
  CHECK(model->hidden_size == row.hidden);
  CHECK(model->num_attention_heads == row.heads);
  CHECK(model->num_query_groups == row.groups);
  CHECK(model->max_seq_length == row.context);
  CHECK(model->dropout == row.dropout);
}

}  // namespace meshplan

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
      {"deepseek-v3.2", 671e9, "2412.19437 abstract, which it continues"},
      {"gemma-3-4b", 4'300'079'472, "safetensors metadata of the hub"},
      {"gemma-3-12b", 12'187'325'040, "safetensors metadata of the hub"},
      {"gemma-3-27b", 27'432'406'640, "safetensors metadata of the hub"},
      {"deepseek-v4-flash", 284e9, "model card of deepseek-ai/DeepSeek-V4-Flash"},
      {"deepseek-v4-pro", 1.573e12,
       "model card: 1.6T, rounded; [F-CSA-1], [F-MHC-1] and 384 experts of 61 layers by hand"},
      {"glm-5", 744e9, "model card of zai-org/GLM-5"},
      {"kimi-k2", 1'026'408'232'448, "safetensors metadata of the hub"},
      {"kimi-k3", 2.8e12, "model card of moonshotai/Kimi-K3"},
      {"llama-3.2-1b", 1'235'814'400, "safetensors metadata of the hub"},
      {"llama-3.2-3b", 3'212'749'824, "safetensors metadata of the hub"},
      {"llama-3.3-70b", 70'553'706'496, "safetensors metadata of the hub"},
      {"llama-4-scout", 109e9, "model card"},
      {"llama-4-maverick", 400e9, "model card"},
      {"minimax-m2", 230e9, "model card of MiniMaxAI/MiniMax-M2"},
      {"nemotron-h-56b", 56.3e9, "2504.03624 Table 1 (56B); [F-SSM-1] by hand"},
      {"nemotron-3-nano-30b-a3b", 31.6e9, "2512.20848: 31.6B parameters"},
      {"nemotron-3-super-120b-a12b", 120.6e9, "model card"},
      {"olmo-2-7b", 7'298'617'344, "safetensors metadata of the hub"},
      {"olmo-2-13b", 13'716'198'400, "safetensors metadata of the hub"},
      {"olmo-2-32b", 32'234'279'936, "safetensors metadata of the hub"},
      {"qwen2.5-7b", 7'615'616'512, "safetensors metadata of the hub"},
      {"qwen2.5-14b", 14'770'033'664, "safetensors metadata of the hub"},
      {"qwen2.5-32b", 32'763'876'352, "safetensors metadata of the hub"},
      {"qwen2.5-72b", 72'706'203'648, "safetensors metadata of the hub"},
      {"llama-3-8b", 8'030'261'248, "safetensors metadata of the hub"},
      {"llama-3-70b", 70'553'706'496, "safetensors metadata of the hub"},
      {"qwen2.5-0.5b", 494'032'768, "safetensors metadata of the hub"},
      {"qwen2.5-1.5b", 1'543'714'304, "safetensors metadata of the hub"},
      {"qwen2.5-3b", 3'085'938'688, "safetensors metadata of the hub"},
      {"qwen2-0.5b", 494'032'768, "safetensors metadata of the hub"},
      {"qwen2-1.5b", 1'543'714'304, "safetensors metadata of the hub"},
      {"qwen2-7b", 7'615'616'512, "safetensors metadata of the hub"},
      {"qwen2-72b", 72'706'203'648, "safetensors metadata of the hub"},
      {"qwen3-1.7b", 1'720'574'976, "safetensors metadata of the hub, tied"},
      {"gemma-2b", 2'506'172'416, "safetensors metadata of the hub"},
      {"gemma-7b", 8'537'680'896, "safetensors metadata of the hub"},
      {"gemma-2-2b", 2'614'341'888, "safetensors metadata of the hub"},
      {"gemma-2-9b", 9'241'705'984, "safetensors metadata of the hub"},
      {"gemma-2-27b", 27'227'128'320, "safetensors metadata of the hub"},
      {"phi-3-mini", 3'821'079'552, "safetensors metadata of the hub"},
      {"phi-4", 14'659'507'200, "safetensors metadata of the hub"},
      {"mistral-nemo-12b", 12'247'782'400, "safetensors metadata of the hub"},
      {"mistral-small-24b", 23'572'403'200, "safetensors metadata of the hub"},
      {"qwen3-0.6b", 596'049'920, "safetensors metadata of the hub, tied"},
      {"qwen3-4b", 4'022'468'096, "safetensors metadata of the hub"},
      {"qwen3-14b", 14'768'307'200, "safetensors metadata of the hub"},
      {"qwen3-30b-a3b", 30'532'122'624, "safetensors metadata of the hub"},
      {"qwen3-next-80b-a3b", 80e9, "model card"},
      {"qwen3.5-27b", 27.4e9, "model card (27B); sum of its sizes without prediction by hand"},
      {"qwen3.5-35b-a3b", 35e9, "model card"},
      {"qwen3.5-397b-a17b", 397e9, "model card"},
      {"deepseek-v3", 671e9, "2412.19437 abstract; README_WEIGHTS.md, main model"},
      {"gpt-neox-20b", 20'554'567'680, "model card of EleutherAI/gpt-neox-20b"},
      {"gpt-oss-120b", 116.83e9, "2508.10925 Table 1"},
      {"gpt-oss-20b", 20.91e9, "2508.10925 Table 1"},
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
                                                 {"qwen2.5-72b", 72'706'203'648},
                                                 {"qwen3-30b-a3b", 30'532'122'624},
                                                 {"kimi-k2", 1'026'408'232'448},
                                                 {"llama-3.2-1b", 1'235'814'400},
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
       {"kimi-k2", 32.6e9, Convention::kBothEmbeddings, "2507.20534 Table 2"},
       {"kimi-k3", 104e9, Convention::kWithoutInputTable, "model card"},
       {"nemotron-3-nano-30b-a3b", 3.6e9, Convention::kBothEmbeddings, "2512.20848"},
       {"nemotron-3-super-120b-a12b", 12.7e9, Convention::kBothEmbeddings, "model card"},
       {"deepseek-v3", 36.7e9, Convention::kWithoutInputTable, "README_WEIGHTS.md"},
       {"gpt-oss-120b", 5.13e9, Convention::kWithoutInputTable,
        "2508.10925 Table 1: unembedding counted, embedding not"},
       {"gpt-oss-20b", 3.61e9, Convention::kWithoutInputTable, "2508.10925 Table 1"}}));
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

TEST_CASE("A shipped model is found by the names that hubs and people give it") {
  const auto name_of_found = [](const std::string& name) {
    const auto model = load_model(name, shipped());
    return model.ok() ? model->name : to_text(model.errors());
  };
  CHECK(name_of_found("meta-llama/Llama-3.1-8B") == "llama-3.1-8b");
  CHECK(name_of_found("meta-llama/Meta-Llama-3.1-8B-Instruct") == "llama-3.1-8b");
  CHECK(name_of_found("Llama_3.1_8B") == "llama-3.1-8b");
  CHECK(name_of_found("meta-llama/Llama-2-7b-chat-hf") == "llama-2-7b");
  CHECK(name_of_found("Qwen/Qwen3-30B-A3B-Instruct-2507") == "qwen3-30b-a3b");
  CHECK(name_of_found("google/gemma-3-27b-it") == "gemma-3-27b");
  CHECK(name_of_found("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16") == "nemotron-3-nano-30b-a3b");
  CHECK(name_of_found("deepseek-ai/DeepSeek-V3.2-Exp") == "deepseek-v3.2");
  CHECK(name_of_found("deepseek-ai/DeepSeek-V3-0324") == "deepseek-v3");
  CHECK(name_of_found("allenai/OLMo-2-1124-7B-Instruct") == "olmo-2-7b");
  CHECK(name_of_found("mistralai/Mixtral-8x7B-Instruct-v0.1") == "mixtral-8x7b");
  CHECK(name_of_found("meta-llama/Llama-4-Scout-17B-16E-Instruct") == "llama-4-scout");
  CHECK(name_of_found("meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8") == "llama-4-maverick");
  CHECK(name_of_found("nvidia/Nemotron-H-56B-Base-8K") == "nemotron-h-56b");
  CHECK(name_of_found("mistralai/Mistral-Nemo-Instruct-2407") == "mistral-nemo-12b");
  CHECK(name_of_found("bigscience/bloom") == "bloom-176b");
  CHECK(name_of_found("unsloth/Meta-Llama-3.1-8B-bnb-4bit") == "llama-3.1-8b");
  CHECK(name_of_found("google/gemma-3-4b-it") == "gemma-3-4b");
  CHECK(name_of_found("deepseek-ai/DeepSeek-R1-0528") == "deepseek-v3");
  CHECK(name_of_found("deepseek-ai/DeepSeek-V3.1-Terminus") == "deepseek-v3");
  CHECK(name_of_found("google/gemma-2").find("error") != std::string::npos);  // of three sizes
  CHECK(name_of_found("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B").find("error") !=
        std::string::npos);
  CHECK(name_of_found("Qwen/Qwen3-VL-8B").find("error") != std::string::npos);  // another model
  CHECK(name_of_found("llama-3.1-9b").find("no model is called 'llama-3.1-9b'") !=
        std::string::npos);
}

TEST_CASE("Shipped models are what their configurations become") {
  const auto [shipped_name, config] = GENERATE(
      table<std::string, std::string>({{"deepseek-v3.2", "deepseek-v3.2"},
                                       {"gemma-3-4b", "gemma-3-4b"},
                                       {"gemma-3-27b", "gemma-3-27b"},
                                       {"glm-5", "glm-5"},
                                       {"kimi-k2", "kimi-k2"},
                                       {"llama-3.2-1b", "llama-3.2-1b"},
                                       {"llama-4-maverick", "llama-4-maverick"},
                                       {"llama-4-scout", "llama-4-scout"},
                                       {"minimax-m2", "minimax-m2"},
                                       {"nemotron-3-nano-30b-a3b", "nemotron-3-nano-30b-a3b"},
                                       {"nemotron-3-super-120b-a12b", "nemotron-3-super-120b-a12b"},
                                       {"nemotron-h-56b", "nemotron-h-56b"},
                                       {"olmo-2-7b", "olmo-2-7b"},
                                       {"qwen2.5-7b", "qwen2.5-7b"},
                                       {"qwen2.5-72b", "qwen2.5-72b"},
                                       {"qwen3-next-80b-a3b", "qwen3-next-80b-a3b"},
                                       {"qwen3.5-35b-a3b", "qwen3.5-35b-a3b"},
                                       {"qwen3.5-397b-a17b", "qwen3.5-397b-a17b"}}));
  INFO(shipped_name);
  const auto model = load_model(shipped_name, shipped());
  const auto text = read_text_file(std::filesystem::path(MESHPLAN_SOURCE_DIR) / "test" / "io" /
                                   "hf_configs" / (config + ".json"));
  REQUIRE(model.ok());
  REQUIRE(text.ok());
  const auto imported = parse_hf_config(*text, config);
  REQUIRE(imported.ok());
  REQUIRE(model->num_layers == imported->num_layers);
  for (std::int64_t i = 0; i < model->num_layers; ++i) {
    INFO("layer " << i);
    CHECK(layer_spec(*model, i) == layer_spec(*imported, i));
  }
  CHECK(model->encoder == imported->encoder);
  CHECK(model->mtp_layers == imported->mtp_layers);
  CHECK(parameter_count(*model).total == parameter_count(*imported).total);
  CHECK(parameter_count(*model).active == parameter_count(*imported).active);
  CHECK(model->rotary_percent == imported->rotary_percent);
  CHECK(model->sandwich_norm == imported->sandwich_norm);
  CHECK(model->qk_norm == imported->qk_norm);
  CHECK(model->activation == imported->activation);
}

}  // namespace meshplan

#include "launch/option_table.hpp"

#include <algorithm>
#include <set>

#include "launch/megatron_import.hpp"
#include "support/catch.hpp"

namespace meshplan {

TEST_CASE("an option is known by its name, with its effect and how many values it takes") {
  const OptionTable& table = megatron_options();
  CHECK(table.find("--num-layers")->effect == OptionEffect::kModelled);
  CHECK(table.find("--num-layers")->arity == '1');
  CHECK(table.find("--bf16")->arity == '0');
  CHECK(table.find("--lr")->effect == OptionEffect::kNoEffect);
  CHECK(table.find("--moe-shared-expert-gate")->effect == OptionEffect::kNotModelled);
  CHECK(table.find("--data-path")->arity == '*');
  CHECK(table.find("--rampup-batch-size")->arity == '3');
  CHECK(!table.find("--muon-scalar-optimizer")->leaves_out("adam"));
  CHECK(table.find("--muon-scalar-optimizer")->leaves_out("lion"));
  CHECK(!table.find("--lr")->leaves_out("1e-4"));
  CHECK(!table.find("--tesnor-model-parallel-size"));
  CHECK(table.nearest("--tesnor-model-parallel-size") == "--tensor-model-parallel-size");
  CHECK(!table.nearest("--totally-made-up-flag"));
  CHECK(!table.find("--zero-stage"));
  CHECK(megatron_deepspeed_options().find("--zero-stage"));
}

TEST_CASE("every list names each option once, with a reason where it is left out") {
  for (const auto list :
       {megatron_groups(), megatron_groups_beside(), megatron_deepspeed_groups(), pai_groups()}) {
    std::set<std::string> seen;
    std::size_t words = 0;
    for (const OptionGroup& group : list) {
      CHECK(!group.what.empty());
      const OptionTable one{std::span(&group, 1)};
      for (const auto& [name, option] : one.all()) {
        INFO(name);
        CHECK(seen.insert(name).second);
        CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzDILMPTVi0123456789-_.") ==
              std::string::npos);
        const bool counted = option.arity >= '0' && option.arity <= '9';
        CHECK((counted || option.arity == '*' || option.arity == '+'));
      }
      words += one.all().size();
    }
    CHECK(words == seen.size());
  }
}

TEST_CASE("a value that an option does not have is named, not taken for the default") {
  const std::string start =
      "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --bf16 "
      "--vocab-size 1000 --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 8 "
      "--fp8-format hybrid ";
  RunContext context;
  context.gpus = 8;
  const auto read = [&](const std::string& more, bool lenient) {
    context.lenient = lenient;
    return read_megatron_run(start + more, "a.sh", context);
  };
  const auto odd = GENERATE(values<std::string>(
      {"--fp8-recipe tensorwize", "--attention-backend flashy", "--recompute-granularity all",
       "--cross-entropy-fusion-impl linear", "--cp-comm-type p2p ring"}));
  CAPTURE(odd);
  const Result<MegatronRun> refused = read(odd, false);
  REQUIRE_FALSE(refused.ok());
  const std::string name = odd.substr(0, odd.find(' '));
  CHECK_THAT(to_text(refused.errors()), Catch::Matchers::Contains(name + " has no value '") &&
                                            Catch::Matchers::Contains("it is one of "));
  // As if it were not given, and said.
  const Result<MegatronRun> without = read("", true), lenient = read(odd, true);
  REQUIRE(without.ok());
  REQUIRE(lenient.ok());
  CHECK(lenient->strategy == without->strategy);
  CHECK(std::any_of(lenient->options.begin(), lenient->options.end(), [&](const ReadOption& o) {
    return o.name == name && o.effect == OptionEffect::kNotModelled;
  }));
}

TEST_CASE("values are known as scripts, configurations and enumerations write them") {
  const KnownOption backend = *megatron_options().find("--attention-backend");
  CHECK(backend.has_value("fused"));
  CHECK(backend.has_value("AttnBackend.fused"));
  CHECK(backend.has_value("None"));
  CHECK_FALSE(backend.has_value("fuse"));
  CHECK(backend.choices() == "auto, flash, fused, unfused and local");
  CHECK(megatron_options().find("--num-layers")->has_value("61"));
  CHECK(megatron_options().find("--optimizer")->has_value("muon"));  // left out, and said to be
}

}  // namespace meshplan

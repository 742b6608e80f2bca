#include "launch/option_table.hpp"

#include <set>

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
  CHECK(!table.find("--optimizer")->leaves_out("adam"));
  CHECK(table.find("--optimizer")->leaves_out("muon"));
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

}  // namespace meshplan

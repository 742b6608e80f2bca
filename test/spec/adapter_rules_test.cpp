// What adapters may not be combined with.
#include "spec/legal.hpp"
#include "support/catch.hpp"

namespace meshplan {

TEST_CASE("adapters gather no input again beside what makes it anew or takes it away") {
  const auto row = GENERATE(values<RuleCase>({
      {"full recomputation",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.lora.rank = 8, s.lora.input_regather = true;
         s.recompute = Recompute::kFull;
       },
       "error: Megatron-Bridge's adapters gather no input again beside full recomputation\n"
       "  hint: lora.input_regather=false\n"},
      {"outputs that are exchanged",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.lora.rank = 8, s.lora.input_regather = true;
         s.lora.all_to_all = true;
       },
       "warning: 'lora.input_regather' does nothing without adapters on linear_qkv or linear_fc1 "
       "and sequence parallelism, or with CUDA graphs or lora.all_to_all\n"},
  }));
  INFO(row.why);
  CHECK(text_after(row) == row.message);
}

}  // namespace meshplan

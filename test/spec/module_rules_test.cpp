// Rules of recomputation by modules and of offloading by fraction.
#include "spec/legal.hpp"
#include "support/catch.hpp"

namespace meshplan {

TEST_CASE("Rules of modules that are recomputed, and of parts that are offloaded") {
  const auto row = GENERATE(values<Row>({
      {"modules without selective recomputation",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.recompute = Recompute::kFull, s.recompute_modules = {RecomputeModule::kMlp};
       },
       "error: 'recompute_modules' is what selective recomputation repeats, but 'recompute' is "
       "full\n"
       "  hint: recompute=selective\n"},
      {"modules",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.recompute = Recompute::kSelective;
         s.recompute_modules = {RecomputeModule::kMoeAct, RecomputeModule::kLayernorm};
       },
       ""},
      {"up-projections of plain attention",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMlaUpProj};
       },
       "error: module mla_up_proj needs latent attention\n"},
      {"a module of no layer",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMoe};
       },
       "warning: module moe does nothing: no layer has one\n"},
      {"single products",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.recompute = Recompute::kSelective;
         s.recompute_modules = {RecomputeModule::kMoeAct}, s.runtime.grouped_gemm = false;
       },
       "error: module moe_act needs grouped products\n  hint: runtime.grouped_gemm=true\n"},
      {"overlapped experts",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 4, s.overlap.ep = true, s.schedule = Schedule::kInterleaved,
         s.vp = 2;
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMoe};
       },
       "error: 'overlap.ep' excludes module moe\n  hint: overlap.ep=false\n"},
      {"a part of nothing",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.offload.optimizer_fraction = 0.5, c.device.host_link = BytesPerSecond{1e9};
       },
       "warning: 'offload.optimizer_fraction' does nothing without 'offload.optimizer'\n"},
      {"more than all",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.offload.optimizer = true, s.offload.optimizer_fraction = 1.5;
         c.device.host_link = BytesPerSecond{1e9};
       },
       "error: 'offload.optimizer_fraction' must be over 0 and at most 1, got 1.5\n"
       "  hint: offload.optimizer=false offloads nothing\n"},
  }));
  INFO(row.why);
  CHECK(text_after(row) == row.message);
}

}  // namespace meshplan

// Which kernels a published run had, as its row words it.
#include "accuracy/made_up.hpp"
#include "mapping.hpp"
#include "support/catch.hpp"
#include "words.hpp"

namespace meshplan::accuracy {

TEST_CASE("compilation is read from the words of a row, and of torchtitan's from those beside it") {
  Source source = source_called("torchtitan");
  Run plain = complete_run();
  Run compiled = plain;
  compiled.notes = "FSDP + torch.compile";
  Run eager = plain;
  eager.attention_impl = "SDPA, without torch.compile";
  CHECK_FALSE(stated_compilation(plain).has_value());
  CHECK(stated_compilation(compiled) == true);
  CHECK(stated_compilation(eager) == false);
  Run stated = plain;
  stated.torch_compile = true;
  CHECK(stated_compilation(stated) == true);
  const auto fused = [&](const Run& run) {
    const auto mapped = map_run(source, run);
    REQUIRE(std::holds_alternative<Mapped>(mapped));
    const Runtime& kernels = std::get<Mapped>(mapped).candidates.front().strategy.runtime;
    CHECK(kernels.fused_cross_entropy == kernels.fused_norm);  // the loss is compiled too
    return kernels.fused_norm;
  };
  CHECK(fused(plain));  // the preset: nobody says
  source.runs = {plain, compiled};
  CHECK_FALSE(fused(plain));
  CHECK(fused(compiled));
  CHECK_FALSE(fused(eager));
}

TEST_CASE("modules of Transformer Engine below other code bring its kernels") {
  const auto runtime = [](const std::string& title, const std::string& kernels) {
    Run run = complete_run();
    run.attention_impl = kernels;
    run.tp = run.pp = 1, run.dp = 16, run.zero_stage = 3;
    const auto mapped = map_run(source_called(title), run);
    REQUIRE(std::holds_alternative<Mapped>(mapped));
    return std::get<Mapped>(mapped).candidates.front().strategy.runtime;
  };
  CHECK(runtime("NeMo AutoModel", "TE + triton").fused_norm);
  CHECK(runtime("NeMo AutoModel", "TE").attention == AttentionKernel::kBest);
  CHECK_FALSE(runtime("NeMo AutoModel", "SDPA attention").fused_norm);
  CHECK(runtime("NeMo AutoModel", "SDPA attention").attention == AttentionKernel::kFlash2);
}

}  // namespace meshplan::accuracy

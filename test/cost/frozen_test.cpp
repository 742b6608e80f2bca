// Parts of a model that are not trained: a vision encoder, its projector, the language model.
#include <algorithm>

#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "model/encoder.hpp"
#include "model/flops.hpp"
#include "model/parameters.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

ModelSpec with_vision() {
  ModelSpec m = plain_gpt();
  m.encoder = EncoderSpec{.num_layers = 4,
                          .hidden_size = 1024,
                          .num_attention_heads = 16,
                          .ffn_hidden_size = 4096,
                          .patches_per_image = 256,
                          .projector_hidden_size = 2048};
  return m;
}

Strategy leaving(FrozenParts frozen) {
  Strategy s = plain_strategy(1, 1, 1);
  s.precision = Precision::kBf16;
  s.flash_attention = true;
  s.frozen = frozen;
  return s;
}

constexpr FrozenPart kVision = FrozenPart::kVisionModel;
constexpr FrozenPart kProjection = FrozenPart::kVisionProjection;
constexpr FrozenPart kLanguage = FrozenPart::kLanguageModel;

BlockOps encoder_ops(const ModelSpec& m, const Strategy& s) {
  const ClusterSpec c = plain_cluster(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps ops;
  append_encoder(x, ops);
  return ops;
}

long count_of(const BlockOps& ops, std::string_view name, Pass pass) {
  return std::count_if(ops.kernels.begin(), ops.kernels.end(), [&](const KernelOp& op) {
    return op.name == name && op.pass == pass && op.gemm.has_value();
  });
}

bool has_backward(const BlockOps& ops, std::string_view name) {
  return std::any_of(ops.kernels.begin(), ops.kernels.end(), [&](const KernelOp& op) {
    return op.name == name && op.pass != Pass::kForward;
  });
}

}  // namespace

TEST_CASE("[F-VIT-2] a frozen encoder runs forward alone, a projector behind it needs no input") {
  const ModelSpec m = with_vision();
  const BlockOps all = encoder_ops(m, leaving({}));
  CHECK(count_of(all, "projector in", Pass::kBackwardInput) == 1);
  CHECK(has_backward(all, "attention"));
  const BlockOps projection = encoder_ops(m, leaving({kVision}));
  CHECK_FALSE(has_backward(projection, "attention"));
  CHECK_FALSE(has_backward(projection, "patches"));
  CHECK(count_of(projection, "projector in", Pass::kBackwardInput) == 0);
  CHECK(count_of(projection, "projector in", Pass::kBackwardWeight) == 1);
  CHECK(count_of(projection, "projector out", Pass::kBackwardInput) == 1);
  const BlockOps vision = encoder_ops(m, leaving({kProjection}));
  CHECK(has_backward(vision, "attention"));
  CHECK(count_of(vision, "projector in", Pass::kBackwardWeight) == 0);
  CHECK(count_of(vision, "projector in", Pass::kBackwardInput) == 1);
  const BlockOps none = encoder_ops(m, leaving({kVision, kProjection}));
  CHECK(std::none_of(none.kernels.begin(), none.kernels.end(),
                     [](const KernelOp& op) { return op.pass != Pass::kForward; }));
}

TEST_CASE("[F-VIT-3] a frozen encoder keeps nothing, but for the projector's inputs") {
  const ModelSpec m = with_vision();
  const ClusterSpec c = plain_cluster(1);
  const auto saved = [&](FrozenParts frozen) {
    const Strategy s = leaving(frozen);
    const BlockContext x{m, c, s, local_shape(m, s)};
    return encoder_saved_bytes(x);
  };
  CHECK(saved({kVision, kProjection}) == 0);
  CHECK(saved({kVision}) == 256 * 2 * (2 * 1024 + 2 * 2048));
  CHECK(saved({}) > 10 * saved({kVision}));
}

TEST_CASE("[F-FLOP-1] frozen parts count the passes that they have") {
  const ModelSpec m = with_vision();
  const double tokens = static_cast<double>(m.max_seq_length);
  const auto flops = [&](FrozenParts frozen) {
    return model_flops(m, m.max_seq_length, tokens, AttentionCount::kFull,
                       trained_parts(leaving(frozen)))
        .si();
  };
  const EncoderFlops once = encoder_flops(m);
  CHECK(flops({}) - flops({kVision}) ==
        Approx(2 * once.vision_model + once.vision_projection).epsilon(1e-9));
  CHECK(flops({kVision}) - flops({kVision, kProjection}) == Approx(once.vision_projection));
  CHECK(flops({}) - flops({kProjection}) == Approx(once.vision_projection));
}

TEST_CASE("frozen parts have weights, but no gradients and no optimizer states") {
  const ModelSpec m = with_vision();
  const ClusterSpec c = plain_cluster(1);
  const auto memory = [&](FrozenParts frozen) {
    Strategy s = leaving(frozen);
    s.zero = 0;
    return cost_of(m, c, complete(s, m, c)).stages.front().memory;
  };
  const MemoryBreakdown all = memory({}), some = memory({kVision});
  const std::int64_t vision = encoder_parameters(m).vision_model;
  CHECK(some.weights == all.weights);
  CHECK((all.gradients - some.gradients).count() == 4 * vision);
  CHECK((all.optimizer - some.optimizer).count() == 12 * vision);
  const MemoryBreakdown projector = memory({kVision, kLanguage});
  CHECK(projector.gradients.count() == 4 * encoder_parameters(m).vision_projection);
  CHECK(frozen_parameters(m, leaving({kVision, kLanguage})) +
            encoder_parameters(m).vision_projection ==
        parameter_count(m).total);
}

TEST_CASE("what is frozen must be there, and leave something to train") {
  ModelSpec m = with_vision();
  const ClusterSpec c = plain_cluster(1);
  const auto message = [&](const Strategy& s) {
    for (const Diagnostic& d : validate(complete(s, m, c), m, c)) {
      if (d.severity == Severity::kError) return d.message;
    }
    return std::string();
  };
  CHECK(message(leaving({kVision, kProjection})).empty());
  CHECK(message(leaving({kVision, kProjection, kLanguage})).find("everything is frozen") == 0);
  Strategy adapted = leaving({kVision});
  adapted.lora.rank = 16;
  CHECK(message(adapted).find("adapters leave every weight") == 0);
  m.encoder.reset();
  CHECK(message(leaving({kVision})).find("no vision encoder") != std::string::npos);
  CHECK(message(leaving({kLanguage})).find("everything is frozen") == 0);
}

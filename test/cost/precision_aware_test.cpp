// What an optimizer with types of its own for all that it holds takes.
#include <cstdint>

#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/support.hpp"
#include "spec/strategy_rules.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

constexpr std::int64_t kShard = 1'000'000'000;
constexpr BlockParameters kParameters{4 * kShard, 0};

Strategy aware(Precision precision) {
  Strategy s = plain_strategy(1, 1, 4);
  s.zero = 1, s.precision = precision;
  s.grad_dtype = precision == Precision::kFp16 ? Dtype::kFp16 : Dtype::kBf16;
  s.runtime.precision_aware_optimizer = s.runtime.fp32_grad_copies = true;
  return s;
}

}  // namespace

TEST_CASE("[F-MEM-14] of fp32 weights the optimizer holds what bf16 weights lack") {
  Strategy s = aware(Precision::kBf16);
  const auto held = [&] { return state_bytes(s, kParameters); };
  CHECK(held().optimizer == Bytes{(2 + 4 + 4) * kShard});
  CHECK(held().update == Bytes{});
  s.optimizer_dtype = Dtype::kBf16;
  CHECK(held().optimizer == Bytes{(2 + 2 + 2) * kShard});
  // Weights, remainders and moments are read and written, gradients passed three times; the whole
  // buffer of gradients is zeroed.
  CHECK(optimizer_traffic(s, kParameters) == Approx((4 + 4 + 8 + 3 * 2) * 1e9 + 4 * 2e9));
  s.runtime.param_remainders = false;
  CHECK(held().optimizer == Bytes{(4 + 2 + 2) * kShard});
  CHECK(held().update == Bytes{4 * kShard});
  CHECK(optimizer_traffic(s, kParameters) == Approx((8 + 2 + 8 + 3 * 2) * 1e9 + 4 * 2e9));
}

TEST_CASE("[F-MEM-14] moments in 16 bits are that optimizer's, under Transformer Engine") {
  Strategy s = aware(Precision::kBf16);
  s.runtime.precision_aware_optimizer = false;
  s.optimizer_dtype = Dtype::kBf16;
  s.runtime.transformer_engine = false;
  CHECK_FALSE(holds_param_remainders(s));
  s.runtime.transformer_engine = true;
  CHECK(holds_param_remainders(s));
  s.optimizer_dtype = Dtype::kFp32;
  CHECK_FALSE(holds_param_remainders(s));
}

TEST_CASE("[F-MEM-14] weights of other types have no remainders") {
  Strategy s = aware(Precision::kFp16);
  const auto held = [&] { return state_bytes(s, kParameters); };
  CHECK(held().optimizer == Bytes{(4 + 4 + 4) * kShard});
  CHECK(held().update == Bytes{});  // but the optimizer reads their gradients
  s = aware(Precision::kFp8);
  s.runtime.fp8_recipe = ScalingRecipe::kDelayed;
  CHECK(held().optimizer == Bytes{(2 + 4 + 4) * kShard});
  s.runtime.fp8_param_gather = true;
  CHECK(held().optimizer == Bytes{(4 + 4 + 4) * kShard});
  CHECK(held().update == Bytes{});
  s.runtime.fp8_param_gather = false;
  s.runtime.fp8_recipe = ScalingRecipe::kMxfp8;  // the framework holds the weights
  CHECK(held().optimizer == Bytes{(4 + 4 + 4) * kShard});
  CHECK(held().update == Bytes{4 * kShard});
  s = aware(Precision::kNvfp4);
  CHECK(held().optimizer == Bytes{(2 + 4 + 4) * kShard});
  s = aware(Precision::kBf16);
  s.offload.optimizer = true;
  CHECK_FALSE(is_precision_aware(s));
}

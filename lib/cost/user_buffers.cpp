#include "cost/user_buffers.hpp"

#include <cstdint>

namespace meshplan {
namespace {

// A buffer is mapped in whole pages, which all ranks of the group map too
// (userbuffers/userbuffers-host.cpp, register_user_buffer_collective: CUDA's granularity of
// multicast objects; cudaMalloc's pages are as large).
constexpr std::int64_t kPage = 2 * kMiB;
Bytes mapped(std::int64_t bytes) { return Bytes{ceil_div(bytes, kPage) * kPage}; }

// Flags and pointers of the peers, 4 bytes each: 64 x 32, twice 2 x 32 x 32 + 32, 8192, 1024 of
// each of five operations, and 3 x 32 x 8192 of regions (userbuffers/userbuffers.h,
// NVTE_REG0_OFFSET and NVTE_REG0_FLAGS).
constexpr std::int64_t kFlags =
    4 * (64 * 32 + 2 * (2 * 32 * 32 + 32) + 8192 + 1024 * 5 + 3 * 32 * 8192);

// pytorch/module/base.py, initialize_ub: every product of a layer whose input is gathered or whose
// output is scattered has a buffer of its own of all the group's tokens, whatever the method:
// qkv_fprop and _dgrad, proj_dgrad and _wgrad, the same of fc1 and fc2; and proj_fprop, fc2_fprop,
// qkv_wgrad, fc1_wgrad. All layers share them. (Transformer Engine before 2.8 has none of
// proj_wgrad and fc2_wgrad.)
constexpr std::int64_t kGathers = 8, kScatters = 4;

}  // namespace

bool has_user_buffers(const Strategy& s) {
  return s.tp > 1 && s.sequence_parallel && s.overlap.tp && s.runtime.transformer_engine;
}

Bytes user_buffer_bytes(const LocalShape& l, const Strategy& s) {
  if (!has_user_buffers(s)) return {};
  const std::int64_t elements = l.tokens * l.hidden;
  const bool fp8 = s.precision == Precision::kFp8;
  const auto set = [&](std::int64_t gathered_each) {
    return mapped(elements * gathered_each) * kGathers + mapped(elements * 2) * kScatters;
  };
  // What is gathered is in 8 bits already. Layers that are left in bf16 have a set of their own.
  Bytes bytes = mapped(kFlags) + set(fp8 ? 1 : 2);
  if (fp8 && has_bf16_layers(s)) bytes += set(2);
  return bytes;
}

}  // namespace meshplan

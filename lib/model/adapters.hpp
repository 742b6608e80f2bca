#pragma once
// Adapters beside frozen linear layers, and what frozen weights cost.
#include <array>
#include <cstdint>

#include "model/context.hpp"
#include "model/operations.hpp"

namespace meshplan {

// Where adapters may sit beside a linear layer.
struct AdapterSite {
  LoraTarget layer = LoraTarget::kQkv;  // one adapter for all of it
  // Projections that are adapted one by one where the targets name them, and their columns.
  struct Part {
    LoraTarget target;
    std::int64_t columns = 0;
  };
  std::array<Part, 3> parts{};
  bool row_parallel = false;  // else column-parallel
  bool of_experts = false;    // one adapter serves all experts of a rank
};
// Of an MLP's first layer, `ffn` wide on this rank.
[[nodiscard]] AdapterSite first_mlp_site(const ModelSpec& m, std::int64_t ffn);

// Those that the strategy's targets name, of a layer y[tokens, n] = x[tokens, k] W.
void append_adapters(const BlockContext& x, const AdapterSite& site, std::int64_t tokens,
                     std::int64_t n, std::int64_t k, BlockOps& ops);

// What `kernels` matrices of `weights` elements together cost besides their products.
void append_frozen_weight(const BlockContext& x, double weights, double kernels, BlockOps& ops);

}  // namespace meshplan

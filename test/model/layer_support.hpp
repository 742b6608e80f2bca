#pragma once
// What tests of kinds of layers ask of them.
#include <algorithm>
#include <string_view>

#include "model/kinds.hpp"
#include "model/parameters.hpp"
#include "support/catch.hpp"

namespace meshplan::test {

// Parameters of a layer of this mixer alone, without its norm.
inline std::int64_t mixer_parameters(const ModelSpec& m, const Mixer& mixer) {
  const LayerParameters p = layer_parameters(m, {mixer, NoneSpec{}});
  return p.attention_linear + p.attention_other + p.mlp_linear + p.router + p.experts;
}

// The first kernel of a name.
inline const KernelOp& kernel_named(const BlockOps& ops, std::string_view name,
                                    Pass pass = Pass::kForward) {
  const auto at = std::find_if(ops.kernels.begin(), ops.kernels.end(), [&](const KernelOp& op) {
    return op.name == name && op.pass == pass;
  });
  REQUIRE(at != ops.kernels.end());
  return *at;
}

}  // namespace meshplan::test

#pragma once
// Sets of parts that a strategy names: what of a layer selective recomputation repeats, CUDA graphs
// capture and the host takes, and what of a model is not trained.
#include <cstdint>
#include <initializer_list>
#include <string>

#include "spec/kinds.hpp"

namespace meshplan {

template <class Module>
class ModuleSet {
 public:
  using Value = Module;

  constexpr ModuleSet() = default;
  constexpr ModuleSet(std::initializer_list<Module> modules) {
    for (const Module m : modules) add(m);
  }

  constexpr void add(Module m) { bits_ |= bit(m); }
  constexpr void erase(Module m) { bits_ &= ~bit(m); }
  [[nodiscard]] constexpr bool has(Module m) const { return (bits_ & bit(m)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  // A number of its own for every set.
  [[nodiscard]] constexpr std::uint32_t id() const { return bits_; }

  bool operator==(const ModuleSet&) const = default;

 private:
  [[nodiscard]] static constexpr std::uint32_t bit(Module m) {
    return std::uint32_t{1} << static_cast<unsigned>(m);
  }

  std::uint32_t bits_ = 0;
};

using RecomputeModules = ModuleSet<RecomputeModule>;
using CudaGraphModules = ModuleSet<CudaGraphModule>;
using OffloadModules = ModuleSet<OffloadModule>;
using FrozenParts = ModuleSet<FrozenPart>;

// "[moe_act,layernorm]", in the order of the enumeration.
[[nodiscard]] std::string key_text(RecomputeModules value);
[[nodiscard]] std::string key_text(CudaGraphModules value);
[[nodiscard]] std::string key_text(OffloadModules value);
[[nodiscard]] std::string key_text(FrozenParts value);

}  // namespace meshplan

#pragma once
// A set of the parts of a layer that selective recomputation repeats.
#include <cstdint>
#include <initializer_list>
#include <string>

#include "spec/kinds.hpp"

namespace meshplan {

class RecomputeModules {
 public:
  constexpr RecomputeModules() = default;
  constexpr RecomputeModules(std::initializer_list<RecomputeModule> modules) {
    for (const RecomputeModule m : modules) add(m);
  }

  constexpr void add(RecomputeModule m) { bits_ |= bit(m); }
  [[nodiscard]] constexpr bool has(RecomputeModule m) const { return (bits_ & bit(m)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  // A number of its own for every set.
  [[nodiscard]] constexpr std::uint32_t id() const { return bits_; }

  bool operator==(const RecomputeModules&) const = default;

 private:
  [[nodiscard]] static constexpr std::uint32_t bit(RecomputeModule m) {
    return std::uint32_t{1} << static_cast<unsigned>(m);
  }

  std::uint32_t bits_ = 0;
};

// "[moe_act,layernorm]", in the order of the enumeration.
[[nodiscard]] std::string key_text(RecomputeModules value);

}  // namespace meshplan

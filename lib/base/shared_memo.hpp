#pragma once
// Values by key, each made once and shared by threads. What is made must not depend on who makes
// it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace meshplan {

template <std::size_t kSize>
using IntegerKey = std::array<std::int64_t, kSize>;

template <std::size_t kSize>
struct IntegerKeyHash {
  std::size_t operator()(const IntegerKey<kSize>& key) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15U;
    for (const std::int64_t value : key) {
      hash ^= static_cast<std::uint64_t>(value);
      hash *= 0xff51afd7ed558ccdU;
      hash ^= hash >> 32U;
    }
    return hash;
  }
};

// Cut into parts with a lock each, so that threads seldom meet.
template <std::size_t kSize, class Value>
class SharedMemo {
 public:
  using Key = IntegerKey<kSize>;

  // The reference stays good. `make` may run more than once at the same time; one result is kept.
  template <class Make>
  const Value& get(const Key& key, Make make) {
    Part& part = parts_[IntegerKeyHash<kSize>()(key) % kParts];
    {
      const std::shared_lock lock(part.mutex);
      if (const auto it = part.values.find(key); it != part.values.end()) return it->second;
    }
    Value made = make();
    const std::unique_lock lock(part.mutex);
    return part.values.try_emplace(key, std::move(made)).first->second;
  }

  [[nodiscard]] std::size_t size() const {
    std::size_t n = 0;
    for (const Part& part : parts_) {
      const std::shared_lock lock(part.mutex);
      n += part.values.size();
    }
    return n;
  }

 private:
  static constexpr std::size_t kParts = 61;
  struct alignas(64) Part {
    mutable std::shared_mutex mutex;
    std::unordered_map<Key, Value, IntegerKeyHash<kSize>> values;
  };
  std::array<Part, kParts> parts_;
};

}  // namespace meshplan

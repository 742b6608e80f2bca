#pragma once
// Random models, clusters and strategies from bytes: what libFuzzer makes up, or what a seed stands
// for. The same bytes give the same case with every compiler and library.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "search/search.hpp"

namespace meshplan::fuzz {

// Decisions read off bytes; zeros once they have run out.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    const auto range = static_cast<std::uint64_t>(high - low) + 1;
    std::uint64_t value = 0;
    for (std::uint64_t left = range - 1; left > 0; left >>= 8U) value = value << 8U | next();
    return low + static_cast<std::int64_t>(value % range);
  }
  bool once_in(std::int64_t n) { return between(0, n - 1) == n - 1; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + between(0, static_cast<std::int64_t>(values.size()) - 1));
  }
  template <class E>
  E name() {
    const auto& rows = NameTable<E>::rows;
    return rows[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(rows.size()) - 1))]
        .value;
  }
  // One of the divisors of n.
  std::int64_t divisor(std::int64_t n);

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;

  std::uint64_t next() { return at_ < size_ ? data_[at_++] : 0; }
};

// The bytes that stand for a seed.
[[nodiscard]] std::vector<std::uint8_t> bytes_of(std::uint64_t seed);

struct Case {
  ModelSpec model;
  ClusterSpec cluster;
  Strategy strategy;
};

enum class Size { kSmall, kAny };  // kSmall: few layers and devices, so that a search is quick

// Sound models and clusters of every kind; the strategy is often legal, and always of their size.
// False where the rules refuse what the bytes stand for.
[[nodiscard]] bool make_case(Choices& choices, Size size, Case& out);

// A search over the case's model and cluster.
[[nodiscard]] SearchRequest make_request(Choices& choices, const Case& c);

}  // namespace meshplan::fuzz

#pragma once
// Physical quantities. The value inside is SI (seconds, bytes per second, operations); a unit
// appears only where text is read (base/quantity.hpp) or written (base/text.hpp).
#include <compare>
#include <cstdint>

#include "base/check.hpp"

namespace meshplan {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  explicit constexpr Quantity(double si) : si_(si) {}
  [[nodiscard]] constexpr double si() const { return si_; }

  constexpr Quantity& operator+=(Quantity o) { return si_ += o.si_, *this; }
  constexpr Quantity& operator-=(Quantity o) { return si_ -= o.si_, *this; }
  constexpr Quantity& operator*=(double f) { return si_ *= f, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity{a.si_ + b.si_}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity{a.si_ - b.si_}; }
  friend constexpr Quantity operator*(Quantity a, double f) { return Quantity{a.si_ * f}; }
  friend constexpr Quantity operator*(double f, Quantity a) { return Quantity{a.si_ * f}; }
  friend constexpr Quantity operator/(Quantity a, double f) { return Quantity{a.si_ / f}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.si_ / b.si_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double si_ = 0;
};

using Seconds = Quantity<struct SecondsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using Flops = Quantity<struct FlopsTag>;                    // a count of operations
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;  // a rate

// Exact count of bytes: whether a plan fits must not depend on rounding. What does not fit into 64
// bits throws InternalError, as the readers bound what they accept.
class Bytes {
 public:
  constexpr Bytes() = default;
  explicit constexpr Bytes(std::int64_t n) : n_(n) {}
  [[nodiscard]] constexpr std::int64_t count() const { return n_; }
  [[nodiscard]] constexpr double si() const { return static_cast<double>(n_); }

  constexpr Bytes& operator+=(Bytes o) { return *this = *this + o; }
  constexpr Bytes& operator-=(Bytes o) { return *this = *this - o; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    PLAN_CHECK(!__builtin_add_overflow(a.n_, b.n_, &a.n_));
    return a;
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) {
    PLAN_CHECK(!__builtin_sub_overflow(a.n_, b.n_, &a.n_));
    return a;
  }
  friend constexpr Bytes operator*(Bytes a, std::int64_t f) {
    PLAN_CHECK(!__builtin_mul_overflow(a.n_, f, &a.n_));
    return a;
  }
  friend constexpr Bytes operator*(std::int64_t f, Bytes a) { return a * f; }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

 private:
  std::int64_t n_ = 0;
};

constexpr Seconds operator/(Bytes n, BytesPerSecond rate) { return Seconds{n.si() / rate.si()}; }
constexpr Seconds operator/(Flops n, FlopsPerSecond rate) { return Seconds{n.si() / rate.si()}; }
constexpr BytesPerSecond operator/(Bytes n, Seconds t) { return BytesPerSecond{n.si() / t.si()}; }
constexpr FlopsPerSecond operator/(Flops n, Seconds t) { return FlopsPerSecond{n.si() / t.si()}; }

// Rounds a fractional number of bytes up, so that an estimate never hides a byte; |n| < 2^63.
constexpr Bytes ceil_bytes(double n) {
  PLAN_CHECK(n > -0x1p63 && n < 0x1p63);
  const auto floor = static_cast<std::int64_t>(n);
  return Bytes{floor + (static_cast<double>(floor) < n ? 1 : 0)};
}

// Smallest integer not below a / b; a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A count as a factor of a formula, and as a place in a list.
constexpr double real(std::int64_t n) { return static_cast<double>(n); }
constexpr std::size_t index(std::int64_t n) { return static_cast<std::size_t>(n); }

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;
inline constexpr std::int64_t kGiB = 1024 * kMiB;

static_assert(Bytes{1'000'000'000} / BytesPerSecond{1e9} == Seconds{1.0});
static_assert(Flops{2e12} / FlopsPerSecond{1e12} == Seconds{2.0});
static_assert(Bytes{10} / Seconds{2.0} == BytesPerSecond{5.0});
static_assert(Flops{10} / Seconds{2.0} == FlopsPerSecond{5.0});
static_assert(ceil_bytes(1.25) == Bytes{2} && ceil_bytes(3.0) == Bytes{3});

}  // namespace meshplan

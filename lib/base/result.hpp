#pragma once
// Value or all diagnostics: how everything that reads what a user gave reports back.
// (std::expected needs C++23.)
#include <utility>
#include <variant>

#include "base/check.hpp"
#include "base/diagnostic.hpp"

namespace meshplan {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}                        // NOLINT: implicit by design
  Result(Diagnostics errors) : state_(std::move(errors)) {}            // NOLINT
  Result(Diagnostic error) : state_(Diagnostics{std::move(error)}) {}  // NOLINT

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] const T& value() const& {
    PLAN_CHECK(ok());
    return std::get<0>(state_);
  }
  [[nodiscard]] T& value() & {
    PLAN_CHECK(ok());
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    PLAN_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  [[nodiscard]] const Diagnostics& errors() const {
    PLAN_CHECK(!ok());
    return std::get<1>(state_);
  }

  const T& operator*() const { return value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Diagnostics> state_;
};

}  // namespace meshplan

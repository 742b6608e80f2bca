#pragma once
// Names of enumerators: one table per enum.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace meshplan {

template <class E>
struct NameTable;  // specialised below: `rows` lists {value, name} in the order of the enumerators

template <class E>
struct NameRow {
  E value;
  std::string_view name;
};

#define MESHPLAN_NAMES(Enum, ...)                                           \
  template <>                                                               \
  struct NameTable<Enum> {                                                  \
    static constexpr auto rows = std::to_array<NameRow<Enum>>(__VA_ARGS__); \
  };                                                                        \
  static_assert(rows_in_order<Enum>())

template <class E>
constexpr bool rows_in_order() {
  for (std::size_t i = 0; i < NameTable<E>::rows.size(); ++i) {
    if (static_cast<std::size_t>(NameTable<E>::rows[i].value) != i) return false;
  }
  return true;
}

template <class E>
[[nodiscard]] constexpr std::string_view name_of(E value) {
  return NameTable<E>::rows[static_cast<std::size_t>(value)].name;
}

template <class E>
[[nodiscard]] constexpr std::optional<E> from_name(std::string_view name) {
  for (const auto& row : NameTable<E>::rows) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

// All names of an enum, in order.
template <class E>
[[nodiscard]] constexpr auto names_of() {
  std::array<std::string_view, NameTable<E>::rows.size()> names{};
  std::transform(NameTable<E>::rows.begin(), NameTable<E>::rows.end(), names.begin(),
                 [](const auto& row) { return row.name; });
  return names;
}

}  // namespace meshplan

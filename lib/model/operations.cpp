#include "model/operations.hpp"

#include <array>

namespace meshplan {

std::string_view name_of(CommDimension d) {
  constexpr std::array<std::string_view, 7> kNames{"tp", "cp",        "ep",  "pp",
                                                   "dp", "embedding", "loss"};
  return kNames[static_cast<std::size_t>(d)];
}

}  // namespace meshplan

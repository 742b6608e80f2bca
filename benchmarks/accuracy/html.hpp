#pragma once
// A report as one self-contained page: scatter plot of predicted against measured step times on
// logarithmic axes, coloured by source, and the tables. Loads nothing.
#include <string>
#include <string_view>

#include "summary.hpp"

namespace meshplan::accuracy {

[[nodiscard]] std::string to_html(const Report& report);
[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace meshplan::accuracy

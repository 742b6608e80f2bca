#pragma once
// Columns of text.
#include <string>
#include <vector>

namespace meshplan::accuracy {

using Cells = std::vector<std::string>;

// One line per row; the first column to the left, the others to the right.
[[nodiscard]] std::string aligned(const std::vector<Cells>& rows);

}  // namespace meshplan::accuracy

#include "text_table.hpp"

#include <algorithm>

namespace meshplan::accuracy {

std::string aligned(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths;
  for (const Cells& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Cells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (i == 0 ? row[i] + space : space + row[i]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace meshplan::accuracy

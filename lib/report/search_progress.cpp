#include "report/search_progress.hpp"

#include "base/text.hpp"

namespace meshplan {

std::string best_so_far(const SearchProgress& now) {
  if (!now.best) return {};
  std::string text = "; best " + human_time(*now.best) + " a step";
  if (now.gap && *now.gap < 1) text += ", none over " + human_percent(*now.gap) + " faster";
  return text;
}

}  // namespace meshplan

#include "compare/launch_ranges.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace meshplan {
namespace {

// "[[8, 16], [16, 32], []]" as PyTorch writes sizes; what follows the list is left alone.
std::vector<std::vector<std::int64_t>> sizes_in(std::string_view text) {
  constexpr std::size_t kMost = 64;
  std::vector<std::vector<std::int64_t>> all;
  int depth = 0;
  for (std::size_t i = 0; i < text.size() && all.size() < kMost; ++i) {
    const char c = text[i];
    if (c == '[' && ++depth == 2) all.emplace_back();
    if (c == ']' && --depth == 0) break;
    if (depth != 2 || c < '0' || c > '9') continue;
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data() + i, text.data() + text.size(), number);
    if (failure != std::errc{}) return {};
    if (all.back().size() < kMost) all.back().push_back(number);
    i = static_cast<std::size_t>(end - text.data()) - 1;
  }
  return all;
}

}  // namespace

ProductShape product_shape(std::string_view op,
                           const std::vector<std::vector<std::int64_t>>& sizes) {
  struct Operator {
    std::string_view name;
    std::size_t first;  // of the two matrices
  };
  constexpr std::array kOperators{Operator{"aten::mm", 0}, Operator{"aten::addmm", 1},
                                  Operator{"aten::bmm", 0}, Operator{"aten::baddbmm", 1},
                                  Operator{"aten::_scaled_mm", 0}};
  const auto* known = std::find_if(kOperators.begin(), kOperators.end(),
                                   [&](const Operator& o) { return o.name == op; });
  if (known == kOperators.end() || sizes.size() < known->first + 2) return {};
  const auto &a = sizes[known->first], &b = sizes[known->first + 1];
  if (a.size() < 2 || a.size() > 3 || b.size() != a.size()) return {};
  const ProductShape shape{a[a.size() - 2], b.back(), a.back(), a.size() == 3 ? a[0] : 1};
  const bool sane = shape.m > 0 && shape.n > 0 && shape.k > 0 && shape.count > 0;
  return sane ? shape : ProductShape{};
}

void LaunchRanges::add(std::int64_t thread, double start, double end, std::string_view text) {
  const std::string_view name = text.substr(0, text.find(','));
  if (name.starts_with("autograd::engine::evaluate_function")) {
    backward_[thread] = true;
    any_backward_ = true;
  }
  if (!name.starts_with("aten::")) return;
  const std::size_t at = text.find("sizes = ");
  if (at == std::string_view::npos) return;
  const ProductShape shape = product_shape(name, sizes_in(text.substr(at)));
  if (shape.m > 0) products_[thread].push_back({start, end, shape});
}

void LaunchRanges::sort() {
  for (auto& [thread, ranges] : products_) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.start < b.start; });
  }
}

ProductShape LaunchRanges::product(std::int64_t thread, double at) const {
  const auto found = products_.find(thread);
  if (found == products_.end()) return {};
  const std::vector<Range>& ranges = found->second;
  auto next = std::upper_bound(ranges.begin(), ranges.end(), at,
                               [](double t, const Range& r) { return t < r.start; });
  // Operators that are products lie in each other two deep at most (aten::addmm, aten::mm).
  constexpr int kDeepest = 4;
  for (int i = 0; i < kDeepest && next != ranges.begin(); ++i) {
    --next;
    if (next->end >= at) return next->shape;
  }
  return {};
}

Direction LaunchRanges::direction(std::int64_t thread) const {
  if (!any_backward_) return Direction::kUnknown;
  return backward_.contains(thread) ? Direction::kBackward : Direction::kForward;
}

}  // namespace meshplan

// Matrix products: their precision, all of them together, and single shapes.
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "compare/losses_parts.hpp"

namespace meshplan {
namespace {

bool explained(const std::vector<TimeLoss>& all) {
  return std::any_of(all.begin(), all.end(), [](const TimeLoss& f) {
    return f.kind == LossKind::kUnfusedAttention || f.kind == LossKind::kRecomputation ||
           f.kind == LossKind::kSmallMicrobatch;
  });
}

// Products that both sides have: how much longer each takes. Without the sizes, of all together.
std::vector<double> ratios(const LossContext& x) {
  std::vector<double> all;
  for (const ComparedProduct& p : x.t.products) {
    if (p.measured.count > 0 && p.predicted.time.si() > 0) {
      all.push_back(p.measured.time / p.predicted.time);
    }
  }
  const OpTime m = x.measured(OpClass::kProduct), p = x.predicted(OpClass::kProduct);
  if (all.empty() && m.time.si() > 0 && p.time.si() > 0) all.push_back(m.time / p.time);
  std::sort(all.begin(), all.end());
  return all;
}

std::string product_text(const ComparedProduct& p) {
  const ProductShape& s = p.shape;
  std::string text =
      with_thousands(s.m) + " x " + with_thousands(s.n) + " x " + with_thousands(s.k);
  if (s.count > 1) text += " (" + with_thousands(s.count) + " at once)";
  return (p.name.empty() ? "" : p.name + ", ") + text;
}

bool is_odd(const ProductShape& s) { return s.m % 64 != 0 || s.n % 64 != 0 || s.k % 64 != 0; }

void add_single(const LossContext& x, const ComparedProduct& p, double usual,
                std::vector<TimeLoss>& all) {
  const Seconds expected = p.predicted.time * usual;
  if (p.measured.time - expected < x.least || p.measured.time < expected * 1.2) return;
  TimeLoss f;
  f.kind = LossKind::kProduct;
  f.what = "the products of " + product_text(p) + " take " +
           human_percent(p.measured.time / expected - 1) + " longer than the others tell";
  f.evidence = against(p.measured.time, p.predicted.time);
  f.remedy = is_odd(p.shape) ? "pad that size to a multiple of 64: kernels fill whole tiles"
                             : "another version of cuBLAS may choose a better kernel for it";
  f.lost = p.measured.time - expected;
  all.push_back(std::move(f));
}

}  // namespace

void find_products(const LossContext& x, std::vector<TimeLoss>& all) {
  if (explained(all)) return;
  const std::vector<double> sorted = ratios(x);
  if (sorted.empty()) return;
  const double usual = sorted[(sorted.size() - 1) / 2];
  const Seconds more =
      x.more(OpClass::kProduct) -
      std::min(x.device().slow_down, std::max(x.more(OpClass::kProduct), Seconds{}));
  const bool narrow = x.plan.strategy.precision != Precision::kFp32 &&
                      x.plan.strategy.precision != Precision::kTf32;
  if (narrow && x.device().wide_products > 0.3 && more >= x.least) {
    TimeLoss f;
    f.kind = LossKind::kPrecision;
    f.what =
        "products run in fp32 or TF32, not in " + std::string(name_of(x.plan.strategy.precision));
    f.evidence = human_percent(x.device().wide_products) + " of their time is in kernels of that " +
                 "name; " +
                 against(x.measured(OpClass::kProduct).time, x.predicted(OpClass::kProduct).time);
    f.remedy = "--bf16, or torch.autocast around what runs outside of it";
    f.lost = more;
    all.push_back(std::move(f));
    return;
  }
  // Most of them longer, and by much the same: the device, not a kernel.
  if (usual > 1.05 && more >= x.least) {
    const auto longer = static_cast<std::size_t>(
        std::count_if(sorted.begin(), sorted.end(), [&](double r) { return r > 1.03; }));
    if (longer * 5 >= sorted.size() * 4) {
      TimeLoss f;
      f.kind = LossKind::kProducts;
      f.what =
          "products are " + human_percent(usual - 1) + " slower than the profile says, all alike";
      f.evidence = against(x.measured(OpClass::kProduct).time, x.predicted(OpClass::kProduct).time);
      f.remedy = "look at clocks and power limit (nvidia-smi -q -d CLOCK,POWER,PERFORMANCE)";
      f.lost = x.predicted(OpClass::kProduct).time * (usual - 1);
      all.push_back(std::move(f));
    }
  }
  for (const ComparedProduct& p : x.t.products) {
    if (p.measured.count > 0 && p.predicted.time.si() > 0)
      add_single(x, p, std::max(usual, 1.0), all);
  }
}

}  // namespace meshplan

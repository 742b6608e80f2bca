#include "product_rates.hpp"

#include <algorithm>

#include "attention_kernels.hpp"
#include "recipes.hpp"
#include "words.hpp"

namespace meshplan::accuracy {

// NVIDIA measures its presets again in every container. On Blackwell, in 8 and 4 bits, steps of one
// dense preset took 0.996 of their time from September to November 2025 (median of 6 presets),
// 0.993 to February 2026 (4), 0.958 to April (12) and 1.012 to June (6); of mixtures and hybrids
// too 0.998, 0.968 and 0.971 up to April, after which their presets changed. On H100 it is 0.97
// to 1.01. So about 5 % went in seven months, and of such a step four fifths are products: a
// hundredth of their time a month in the mean, though it came in leaps. That it goes on before
// September 2025 is taken from MLPerf's fine-tuning of April and September and DGX Cloud's runs of
// May. Sources left out are off by 6.0 % with it (mean of medians), 6.1 with one leap in April, 6.2
// without either; MLPerf's fine-tuning, which chose no constant, by 1.7, 4.0 and 6.7 %. Products in
// 16 bits have no such pairs, and are left as they are.
double product_rate_of(const Source& source, const Run& run, Precision precision) {
  constexpr int kTuned = 26 * 12 + 4, kMonths = 12;
  constexpr double kEachMonth = 0.01;
  if (!is_quantised(precision) || !has_any(run.gpu, {"B200", "B300"})) return 1;
  const int container = stated_release(run.where);
  const int date = container > 0 ? container : software_date(source, run);
  if (date == 0) return 1;
  const int before = kTuned - (date / 100 * 12 + date % 100);
  return 1 - kEachMonth * std::clamp(before, 0, kMonths);
}

}  // namespace meshplan::accuracy

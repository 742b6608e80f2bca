#include "product_rates.hpp"

#include <algorithm>

#include "attention_kernels.hpp"
#include "recipes.hpp"
#include "words.hpp"

namespace meshplan::accuracy {

// NVIDIA measures its presets again in every container. From the containers of September and
// November 2025 and of February 2026 to those of April 2026 and later, steps of one preset on
// Blackwell took 0.94, 0.95 and 0.955 of their time (medians; 405B dense in fp8, mxfp8 and nvfp4
// 0.94, 0.98 and 0.93, 70B 0.95, DeepSeek-V3 0.93 to 0.96), and dense ones stayed as they were
// after that; on H100 they did not change (0.95 to 1.02). Four fifths of such a step are products:
// about a hundredth of their time a month, as far back as the libraries go that know these devices.
// Products in 16 bits show no such change: runs of May and November 2025 ask for the rate that
// Megatron-LM's tests of 2026 do.
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

#pragma once
// Which attention kernel ran, of what a row's words and the date of its software tell.
#include <optional>

#include "run.hpp"
#include "spec/kinds.hpp"

namespace meshplan::accuracy {

// Year and month of the software of NVIDIA's that a row or its table names ("Release 23.09",
// "ngc23.04", "training_results_v3.0", a title's newest release): 2309; 0: none named.
[[nodiscard]] int software_date(const Source& source, const Run& run);

// Of the row's own words; else, where it runs Transformer Engine, what that chose then. Nothing
// where neither tells.
[[nodiscard]] std::optional<AttentionKernel> attention_kernel_of(const Source& source,
                                                                 const Run& run);

}  // namespace meshplan::accuracy

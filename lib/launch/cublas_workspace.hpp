#pragma once
// What CUBLAS_WORKSPACE_CONFIG says of a launch script's environment.
#include <cstdint>
#include <string_view>

namespace meshplan {

// Bytes of ":4096:8" or ":4096:2:16:8": KiB and how many, pair after pair (cuBLAS documentation,
// section on reproducibility; PyTorch CublasHandlePool.cpp, parseChosenWorkspaceSize). 0 where it
// cannot be read, as PyTorch then takes what the device has by default.
[[nodiscard]] std::int64_t cublas_workspace(std::string_view text);

}  // namespace meshplan

#pragma once
// What the ranges that PyTorch marks on its host threads (NVTX, 'nsys profile
// --pytorch=autograd-shapes-nvtx', torch.autograd.profiler.emit_nvtx) say of the kernels that are
// launched inside of them: the sizes of products, and the direction.
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "compare/device_trace.hpp"

namespace meshplan {

// The product of an operator of PyTorch ("aten::mm") with the sizes of its inputs; m 0: it is none,
// or its sizes are not said.
[[nodiscard]] ProductShape product_shape(std::string_view op,
                                         const std::vector<std::vector<std::int64_t>>& sizes);

class LaunchRanges {
 public:
  // A range of a host thread: "aten::mm, seq = 4, op_id = 7, sizes = [[8, 16], [16, 32]]".
  // Microseconds.
  void add(std::int64_t thread, double start, double end, std::string_view text);
  // Once, when all ranges are there.
  void sort();

  // The innermost product that the thread is in at the moment; m 0: none.
  [[nodiscard]] ProductShape product(std::int64_t thread, double at) const;
  // PyTorch runs backward passes in threads of their own; unknown without a mark of one anywhere.
  [[nodiscard]] Direction direction(std::int64_t thread) const;

 private:
  struct Range {
    double start = 0, end = 0;
    ProductShape shape;
  };
  std::map<std::int64_t, std::vector<Range>> products_;
  std::map<std::int64_t, bool> backward_;
  bool any_backward_ = false;
};

}  // namespace meshplan

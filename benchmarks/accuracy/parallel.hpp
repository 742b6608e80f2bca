#pragma once
// Work that threads share.
#include <cstddef>
#include <functional>

namespace meshplan::accuracy {

// Calls `work` once for every place below `size`, on so many threads; rethrows what it throws.
void for_each_place(std::size_t size, int threads, const std::function<void(std::size_t)>& work);

}  // namespace meshplan::accuracy

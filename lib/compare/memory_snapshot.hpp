#pragma once
// The fullest moment of a snapshot of PyTorch's caching allocator.
#include "compare/memory_measure.hpp"
#include "compare/pickle.hpp"

namespace meshplan {

// Of all devices in it the fullest. What was allocated before its history began counts from the
// blocks that are still there. Fails where the pickle is no snapshot.
[[nodiscard]] Result<MemoryMeasure> measured_snapshot(const PickleTree& tree,
                                                      const std::string& file);

// What Python's frames say of an allocation: text of files and functions in lower case, the
// innermost first.
[[nodiscard]] MemoryPart part_of_frames(std::string_view frames);

}  // namespace meshplan

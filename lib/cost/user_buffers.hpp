#pragma once
// What tensor-parallel communication that runs beside matrix products holds of its own.
#include "base/units.hpp"
#include "model/context.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Transformer Engine's user buffers: with overlap.tp where layers are its own (Megatron-LM
// training/initialize.py, _initialize_tp_communicators).
[[nodiscard]] bool has_user_buffers(const Strategy& s);

// [F-UB-1] Device memory of one rank's user buffers. They are not the framework's allocator's.
[[nodiscard]] Bytes user_buffer_bytes(const LocalShape& l, const Strategy& s);

}  // namespace meshplan

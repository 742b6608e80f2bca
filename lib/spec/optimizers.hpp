#pragma once
// What an optimizer keeps of every parameter.
#include "spec/strategy.hpp"

namespace meshplan {

// [F-OPT-3] Bytes of an optimizer's states per trained parameter, fp32 weights aside, o bytes of
// optimizer_dtype each. Adam: two moments, 2 o (Kingma and Ba 1412.6980). 8-bit Adam: two of one
// byte, each with an fp32 scale per block of 256, 2 (1 + 4 / 256); the embedding's table stays in
// 32 bits (Dettmers et al. 2110.02861 sec. 2.3; bitsandbytes optim/optimizer.py, blocksize 256;
// transformers trainer.py, register_module_override of nn.Embedding; tensors below 4,096 elements,
// norms, stay so too and are not counted apart). Adafactor: a sum per row and column, 4 (1 / n +
// 1 / m) of n x m, taken as 8 / hidden_size (Shazeer and Stern 1804.04235 sec. 4). SGD: a momentum,
// o. Muon: a momentum of matrices, o, and Adam for tables and the output layer (Moonlight,
// 2502.16982 sec. 2.2).
struct OptimizerStates {
  double each = 0;       // of weights of layers
  double embedding = 0;  // more, of the embedding's table
  double head = 0;       // more, of the output layer's
};
[[nodiscard]] OptimizerStates optimizer_states(const Strategy& s, std::int64_t hidden_size);

// Whether the states are in unified memory, from which pages go to the host where the device has no
// room (bitsandbytes, is_paged).
[[nodiscard]] bool is_paged(Optimizer o);

// Whether the optimizer says itself in how many bits it keeps states, whatever optimizer_dtype is.
[[nodiscard]] constexpr bool has_own_bits(Optimizer o) {
  return o != Optimizer::kAdam && o != Optimizer::kSgd && o != Optimizer::kMuon;
}

}  // namespace meshplan

#pragma once
// Configurations of NeMo 1 (hydra's YAML with the sections "trainer" and "model"), which trains
// with Megatron-Core: the launcher's conf/training/*.yaml, a megatron_gpt_config.yaml, and what the
// program prints where training begins.
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "io/yaml_tree.hpp"
#include "launch/imported_run.hpp"
#include "launch/shell.hpp"

namespace meshplan {

struct NemoArguments {
  NamedText options;      // Megatron-LM's, each in the line where the YAML has it
  std::int64_t gpus = 0;  // trainer.num_nodes x trainer.devices; 0 where they are not stated
};

[[nodiscard]] bool is_nemo(std::string_view text);

// The configuration as Megatron-LM's arguments. Keys that only NeMo has keep their place as a name
// ("--model.onnx_safe"); one that is not known is an option that is not known. References of
// hydra ("${.hidden_size}", "${multiply:4, ${.hidden_size}}", "${oc.env:NAME}") are followed; what
// they name and no key states comes from the shell's variables. Fails where something is trained
// that the arguments do not say: encoders, adapters of a checkpoint, PyTorch's FSDP.
[[nodiscard]] Result<NemoArguments> nemo_arguments(const NamedText& file, const ShellInputs& shell);

// The same of a log that printed it, where what is not known is passed over.
[[nodiscard]] Result<NemoArguments> printed_nemo_arguments(const NamedText& file);

}  // namespace meshplan

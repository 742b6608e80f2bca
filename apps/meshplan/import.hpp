#pragma once
// `meshplan import`: one row of a table and one function per kind of file.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "console.hpp"
#include "inputs.hpp"
#include "read_run.hpp"

namespace meshplan {

struct ImportFlags {
  CommonFlags common;
  std::string kind, out;
  std::vector<std::string> files;
  std::string cluster, operation, ranks;              // of measurements
  std::string device, nodes, network, nic_bandwidth;  // of topologies
  OpenFlags open;                                     // of runs
  bool report = false;                                // of runs
};

// Returns the exit code.
[[nodiscard]] int import_hf_config(const ImportFlags& flags);
[[nodiscard]] int import_nccl_tests(const ImportFlags& flags);
[[nodiscard]] int import_bench_samples(const ImportFlags& flags);
[[nodiscard]] int import_smi_topology(const ImportFlags& flags);
[[nodiscard]] int import_nccl_topology(const ImportFlags& flags);
[[nodiscard]] int import_megatron_args(const ImportFlags& flags);
[[nodiscard]] int import_deepspeed(const ImportFlags& flags);
[[nodiscard]] int import_torchtitan(const ImportFlags& flags);
[[nodiscard]] int import_lengths(const ImportFlags& flags);
[[nodiscard]] int import_recipe(const ImportFlags& flags);

struct ImportKind {
  std::string_view name;
  std::string_view what;
  int (*run)(const ImportFlags& flags);
  bool several_files = false;
  bool of_cluster = false;   // needs --cluster
  bool of_topology = false;  // takes --device and what else a cluster needs
  bool of_run = false;       // takes --gpus and what else its files may leave open
};
inline constexpr std::array kImportKinds{
    ImportKind{"hf-config", "a Hugging Face config.json", import_hf_config},
    ImportKind{"lengths", "JSON lines with the tokens of each document, for --lengths",
               import_lengths},
    ImportKind{"nccl-tests", "logs or -J files of nccl-tests", import_nccl_tests, true, true},
    ImportKind{"bench-samples", "raw samples of 'meshplan bench'", import_bench_samples, false,
               true},
    ImportKind{"nvidia-smi-topo", "what 'nvidia-smi topo -m' prints", import_smi_topology, false,
               false, true},
    ImportKind{"nccl-topo", "XML of NCCL_TOPO_DUMP_FILE, of RCCL too", import_nccl_topology, false,
               false, true},
    ImportKind{"megatron-args",
               "a script, argument list or functional test's YAML of Megatron-LM, "
               "Megatron-Bridge's run_config.yaml, NeMo 1's configuration, "
               "or an experiment of Primus",
               import_megatron_args, false, false, false, true},
    ImportKind{"deepspeed", "ds_config.json, with the script that starts it, or GPT-NeoX's YAML",
               import_deepspeed, true, false, false, true},
    ImportKind{
        "torchtitan",
        "a job file of v0.2.2, config_registry.py of main, a script with its options, or both",
        import_torchtitan, true, false, false, true},
    ImportKind{"recipe",
               "YAML of axolotl, LLaMA-Factory or torchtune, or a script with Transformers' "
               "Trainer, with accelerate's YAML",
               import_recipe, true, false, false, true}};

// Writes `file_text` to --out, else prints it (with --json the document).
[[nodiscard]] int write_import(const ImportFlags& flags, const std::string& file_text,
                               const std::string& document);

}  // namespace meshplan

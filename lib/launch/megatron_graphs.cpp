// Which parts of a layer Megatron-LM's arguments name for CUDA graphs, and for the host.
#include <algorithm>

#include "launch/megatron_parts.hpp"

namespace meshplan {

// T: cuda_graph_impl, cuda_graph_modules (cuda_graph_scope before) and what they are migrated from.
void read_cuda_graphs(ProgramOptions& options, ImportedRun& run) {
  Runtime& k = run.strategy.runtime;
  std::string impl = options.text("--cuda-graph-impl", "none");
  if (options.has("--enable-cuda-graph")) impl = "local";
  if (options.has("--external-cuda-graph")) impl = "transformer_engine";
  CudaGraphModules modules;
  std::string others;
  bool whole = impl == "full_iteration";
  for (const char* name : {"--cuda-graph-scope", "--cuda-graph-modules"}) {
    const ProgramOption* listed = options.find(name);
    for (const ShellWord& word : listed ? listed->values : std::vector<ShellWord>{}) {
      if (word.text == "full") continue;
      if (word.text == "full_iteration") {
        whole = true;
      } else if (const auto module = from_name<CudaGraphModule>(word.text)) {
        modules.add(*module);
      } else {
        others += (others.empty() ? "" : ", ") + word.text;
      }
    }
  }
  const bool of_layers = impl != "none" && !whole;
  if (!of_layers && !modules.empty()) {
    run.notes.push_back(
        "parts of a layer are named for CUDA graphs, but there are no graphs of "
        "layers: without effect");
  }
  if (impl == "none") return;
  if (!others.empty()) {
    run.notes.push_back("CUDA graphs of " + others + ": what they hold is not modelled");
  }
  k.cuda_graph = whole ? CudaGraph::kFullIteration : CudaGraph::kLayer;
  constexpr IntegerRange kSteps{0, 1'000'000};
  k.cuda_graph_warmup_steps =
      options.number("--cuda-graph-warmup-steps", k.cuda_graph_warmup_steps, kSteps);
  // Graphs of its own it records in a first step without (core/transformer/cuda_graphs.py).
  if (impl == "local")
    k.cuda_graph_warmup_steps = std::max<std::int64_t>(k.cuda_graph_warmup_steps, 1);
  if (whole) return;
  // The module's own graphs hold both.
  if (impl == "local" && modules.has(CudaGraphModule::kMoePreprocess)) {
    modules.add(CudaGraphModule::kMoeRouter);
  }
  if (impl == "local" && modules.has(CudaGraphModule::kMoeRouter)) {
    modules.add(CudaGraphModule::kMoePreprocess);
  }
  k.cuda_graph_modules = modules;
  if (modules.empty() && !others.empty()) k.cuda_graph = CudaGraph::kNone;
}

// T: fine_grained_activation_offloading, offload_modules, activation_offload_fraction.
// The hybrid optimizer copies the weights that it is given: fp32 ones without the precision-aware
// optimizer (core/optimizer/distrib_optimizer.py).
void read_offloaded_optimizer(ProgramOptions& options, Offload& offload) {
  const double fraction = options.real("--optimizer-offload-fraction", 1);
  if (!options.has("--optimizer-cpu-offload") || fraction <= 0) return;
  offload.optimizer = true, offload.optimizer_fraction = fraction;
  offload.overlap_copies = options.has("--overlap-cpu-optimizer-d2h-h2d");
  offload.master_weights = options.has("--use-precision-aware-optimizer");
}

void read_offloaded_modules(ProgramOptions& options, ImportedRun& run) {
  const ProgramOption* listed = options.find("--offload-modules");
  const double fraction = options.real("--activation-offload-fraction", 1);
  if (!options.has("--fine-grained-activation-offloading") || fraction == 0) return;
  run.strategy.offload.activation_fraction = fraction;
  std::string others;
  for (const ShellWord& word : listed ? listed->values : std::vector<ShellWord>{}) {
    if (const auto module = from_name<OffloadModule>(word.text)) {
      run.strategy.offload.modules.add(*module);
    } else {
      others += (others.empty() ? "" : ", ") + word.text;
    }
  }
  if (!others.empty()) {
    run.notes.push_back("inputs of " + others + " stay on the device in the estimate");
  }
}

}  // namespace meshplan

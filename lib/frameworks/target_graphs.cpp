// What Megatron-LM captures in CUDA graphs.
#include "frameworks/target_tables.hpp"

namespace meshplan {

// A whole layer is not captured if it is recomputed, or if its experts take as many tokens as come.
void check_megatron_graphs(const Plan& p, Findings& f) {
  const CudaGraph graph = p.s.runtime.cuda_graph;
  if (graph != CudaGraph::kLayer) return;
  if (p.s.recompute == Recompute::kFull) {
    f.error({"kernels.cuda_graph", "recompute"},
            "full recomputation runs with graphs of the full iteration alone",
            "kernels.cuda_graph=full_iteration");
  }
  const CudaGraphModules& modules = p.s.runtime.cuda_graph_modules;
  const bool padded = p.s.runtime.pad_to_capacity && p.s.runtime.expert_capacity_factor > 0;
  if (p.m.moe && !padded && (modules.empty() || modules.has(CudaGraphModule::kMoe))) {
    f.error({"kernels.cuda_graph", "kernels.cuda_graph_modules"},
            "a layer of experts is not captured whole unless they are padded to a capacity",
            "kernels.cuda_graph_modules=[attn,moe_router,moe_preprocess]");
  }
  if (modules.has(CudaGraphModule::kMlp) && num_moe_layers(p.m) == p.m.num_layers) {
    f.error({"kernels.cuda_graph_modules"}, "module mlp needs a layer without experts",
            "without mlp");
  }
  if (p.s.offload.activations) {
    f.error({"kernels.cuda_graph", "offload.activations"},
            "graphs of layers do not work with activations on the host",
            "kernels.cuda_graph=full_iteration");
  }
}
void mend_megatron_graphs(Strategy& s, const ModelSpec&) {
  s.runtime.cuda_graph = CudaGraph::kFullIteration;
  s.runtime.cuda_graph_modules = {};
}

// What the host would have to look at has no place in a graph of everything.
void check_graph_of_all(const Plan& p, Findings& f) {
  const bool all = p.s.runtime.cuda_graph == CudaGraph::kFullIteration;
  if (!all || !p.s.runtime.check_for_nan_in_loss_and_grad) return;
  f.error({"kernels.cuda_graph", "runtime.check_for_nan_in_loss_and_grad"},
          "a graph of the full iteration leaves nothing to look at losses and gradients",
          "runtime.check_for_nan_in_loss_and_grad=false");
}
void mend_graph_of_all(Strategy& s, const ModelSpec&) {
  s.runtime.check_for_nan_in_loss_and_grad = false;
}

}  // namespace meshplan

// Rules of recomputation and of CUDA graphs by modules, and of offloading by fraction.
#include "spec/legal.hpp"
#include "support/catch.hpp"

namespace meshplan {

TEST_CASE("Rules of modules that are recomputed, of parts that are offloaded, and of proxies") {
  const auto row = GENERATE(values<RuleCase>({
      {"modules without selective recomputation",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.recompute = Recompute::kFull, s.recompute_modules = {RecomputeModule::kMlp};
       },
       "error: 'recompute_modules' is what selective recomputation repeats, but 'recompute' is "
       "full\n"
       "  hint: recompute=selective\n"},
      {"modules",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.recompute = Recompute::kSelective;
         s.recompute_modules = {RecomputeModule::kMoeAct, RecomputeModule::kLayernorm};
       },
       ""},
      {"up-projections of plain attention",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMlaUpProj};
       },
       "error: module mla_up_proj needs latent attention\n"},
      {"streams of a plain residual",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMhc};
       },
       "error: module mhc needs hyper-connections\n"},
      {"streams and a whole MLP",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         s.recompute = Recompute::kSelective, m.mhc_num_residual_streams = 4;
         s.recompute_modules = {RecomputeModule::kMlp, RecomputeModule::kMhc};
       },
       "error: modules mhc and mlp exclude each other\n"},
      {"layers of streams that stay",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.mhc_recompute_layers = 4; },
       "warning: 'runtime.mhc_recompute_layers' does nothing: 'recompute_modules' lacks mhc\n"},
      {"streams in fp32 that are fused",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.fp32_mhc = true; },
       "warning: 'kernels.fp32_mhc' does nothing without hyper-connections that are not fused\n"},
      {"a module of no layer",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMoe};
       },
       "warning: module moe does nothing: no layer has one\n"},
      {"single products",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.recompute = Recompute::kSelective;
         s.recompute_modules = {RecomputeModule::kMoeAct}, s.runtime.grouped_gemm = false;
       },
       "error: module moe_act needs grouped products\n  hint: runtime.grouped_gemm=true\n"},
      {"graphs of modules",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.runtime.cuda_graph = CudaGraph::kLayer;
         s.runtime.cuda_graph_modules = {CudaGraphModule::kAttn, CudaGraphModule::kMoeRouter,
                                         CudaGraphModule::kMoePreprocess};
       },
       "warning: temporaries in the memory pool of CUDA graphs are not counted\n"},
      {"modules of no graph",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.runtime.cuda_graph_modules = {CudaGraphModule::kAttn};
       },
       "error: 'kernels.cuda_graph_modules' is what graphs of layers hold, but "
       "'kernels.cuda_graph' is none\n"
       "  hint: kernels.cuda_graph=layer\n"},
      {"a router twice",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.runtime.cuda_graph = CudaGraph::kLayer;
         s.runtime.cuda_graph_modules = {CudaGraphModule::kMoe, CudaGraphModule::kMoeRouter};
       },
       "warning: temporaries in the memory pool of CUDA graphs are not counted\n"
       "error: module moe_router is a part of module moe\n  hint: without one of them\n"},
      {"what follows a router alone",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.runtime.cuda_graph = CudaGraph::kLayer;
         s.runtime.cuda_graph_modules = {CudaGraphModule::kMoePreprocess};
       },
       "warning: temporaries in the memory pool of CUDA graphs are not counted\n"
       "error: module moe_preprocess needs module moe_router\n  hint: with both\n"},
      {"a graph inside of what is repeated",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.runtime.cuda_graph = CudaGraph::kLayer;
         s.runtime.cuda_graph_modules = {CudaGraphModule::kMoeRouter};
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMoe};
       },
       "warning: temporaries in the memory pool of CUDA graphs are not counted\n"
       "error: a graph of moe_router excludes recomputing module moe\n"
       "  hint: without moe_router\n"},
      {"a graph of no layer",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.runtime.cuda_graph = CudaGraph::kLayer;
         s.runtime.cuda_graph_modules = {CudaGraphModule::kMamba};
       },
       "warning: temporaries in the memory pool of CUDA graphs are not counted\n"
       "warning: module mamba does nothing: no layer has one\n"},
      {"overlapped experts",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 4, s.overlap.ep = true, s.schedule = Schedule::kInterleaved,
         s.vp = 2;
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMoe};
       },
       "error: 'overlap.ep' excludes module moe\n  hint: overlap.ep=false\n"},
      {"overlapped experts in a pipeline that is not interleaved",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 4, s.overlap.ep = true, s.recompute = Recompute::kNone;
       },
       "error: 'overlap.ep' with a pipeline needs schedule interleaved\n"
       "  hint: overlap.ep=false\n"},
      {"weight gradients by themselves without overlapped experts",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 4, s.overlap.delay_wgrad_compute = true;
       },
       "error: 'overlap.delay_wgrad_compute' needs 'overlap.ep'\n"
       "  hint: overlap.delay_wgrad_compute=false\n"},
      {"one queue of the device, and nothing that is spread over several",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.single_device_connection = true; },
       "warning: 'runtime.single_device_connection' does nothing without 'overlap.ep'\n"},
      {"inputs of modules on the host, two ways",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.offload.modules = {OffloadModule::kCoreAttn}, s.offload.activations = true;
         s.pp = 1, s.dp *= 2;
         c.device.host_link = BytesPerSecond{1e9};
       },
       "error: 'offload.modules' and 'offload.activations' are two ways of the same\n"
       "  hint: without one of them\n"},
      {"an output without what made it",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.offload.modules = {OffloadModule::kAttnProj};
         c.device.host_link = BytesPerSecond{1e9};
       },
       "error: module attn_proj needs module core_attn, whose backward pass reads the same\n"
       "  hint: with both\n"},
      {"on the host what is repeated",
       [](Strategy& s, ModelSpec& m, ClusterSpec& c) {
         m = experts(), s.offload.modules = {OffloadModule::kMoeAct};
         s.recompute = Recompute::kSelective, s.recompute_modules = {RecomputeModule::kMoe};
         c.device.host_link = BytesPerSecond{1e9};
       },
       "error: what recomputing module moe drops cannot go to the host: expert_fc1, moe_act\n"
       "  hint: without them\n"},
      {"on the host what no layer has",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.offload.modules = {OffloadModule::kExpertFc1};
         c.device.host_link = BytesPerSecond{1e9};
       },
       "warning: module expert_fc1 does nothing: no layer has one\n"},
      {"a part of no module",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.offload.activation_fraction = 0.5; },
       "warning: 'offload.activation_fraction' does nothing without 'offload.modules'\n"},
      {"none of a module",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.offload.modules = {OffloadModule::kCoreAttn}, s.offload.activation_fraction = 0;
         c.device.host_link = BytesPerSecond{1e9};
       },
       "error: 'offload.activation_fraction' must be over 0 and at most 1, got 0\n"
       "  hint: without 'offload.modules' nothing is offloaded\n"},
      {"a part of nothing",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.offload.optimizer_fraction = 0.5, c.device.host_link = BytesPerSecond{1e9};
       },
       "warning: 'offload.optimizer_fraction' does nothing without 'offload.optimizer'\n"},
      {"what becomes of nothing",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.offload.master_weights = false, s.offload.overlap_copies = true;
       },
       "warning: 'offload.master_weights' does nothing without 'offload.optimizer'\n"
       "warning: 'offload.overlap_copies' does nothing without 'offload.optimizer'\n"},
      {"more than all",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.offload.optimizer = true, s.offload.optimizer_fraction = 1.5;
         c.device.host_link = BytesPerSecond{1e9};
       },
       "error: 'offload.optimizer_fraction' must be over 0 and at most 1, got 1.5\n"
       "  hint: offload.optimizer=false offloads nothing\n"},
      {"a proxy where devices post their messages",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.runtime.dispatch_nvshmem = s.runtime.flex_dispatcher = true;
       },
       "warning: 'kernels.dispatch_nvshmem' does nothing: no host's proxy sends tokens of experts "
       "here\n"},
      {"a proxy where none sends a token",
       [](Strategy& s, ModelSpec& m, ClusterSpec& c) {
         m = experts(), s.runtime.dispatch_nvshmem = true, s.runtime.flex_dispatcher = false;
         c.levels.resize(1), c.levels.back().token_message = Seconds{1e-6};
       },
       "warning: 'kernels.dispatch_nvshmem' does nothing: no host's proxy sends tokens of experts "
       "here\n"},
      {"tokens that are gathered and sent",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 2;
         s.runtime.allgather_dispatcher = s.runtime.flex_dispatcher = true;
       },
       "error: tokens have one dispatcher: 'kernels.allgather_dispatcher' excludes "
       "'kernels.flex_dispatcher'\n  hint: kernels.flex_dispatcher=false\n"},
      {"tokens that are gathered beside other layers",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 2, s.overlap.ep = true;
         s.runtime.allgather_dispatcher = true, s.runtime.flex_dispatcher = false;
       },
       "error: 'overlap.ep' is of tokens that are sent, not gathered\n  hint: overlap.ep=false\n"},
      {"tokens that no rank shares",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts();
         s.runtime.allgather_dispatcher = true, s.runtime.flex_dispatcher = false;
       },
       "warning: 'kernels.allgather_dispatcher' does nothing: no ranks share experts (ep, etp)\n"},
      {"deferred where all wait by themselves",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.runtime.defer_embedding_wgrad_compute = true;
         s.schedule = Schedule::kZbH1;
       },
       "warning: 'runtime.defer_embedding_wgrad_compute' does nothing: it is of pipelines with whole "
       "backward passes, of an output layer that is trained\n"},
      {"shared experts that are not there",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 2, s.overlap.shared_experts = true;
       },
       "warning: 'overlap.shared_experts' does nothing: it is of experts on several ranks (ep) beside "
       "others that every token passes\n"},
      {"both ways to hide tokens",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), m.moe->shared_expert_ffn_hidden_size = 64;
         s.ep = 2, s.overlap.shared_experts = true;
         s.runtime.allgather_dispatcher = true, s.runtime.flex_dispatcher = false;
       },
       "error: 'overlap.shared_experts' is of tokens that are sent, not gathered\n"
       "  hint: overlap.shared_experts=false\n"},
      {"a capacity of nothing",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.expert_capacity_factor = 1; },
       "warning: 'runtime.expert_capacity_factor' does nothing: the model has no experts\n"},
      {"padding to no capacity",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.pad_to_capacity = true; },
       "warning: 'runtime.pad_to_capacity' does nothing without "
       "'runtime.expert_capacity_factor'\n"},
      {"a capacity below nothing",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.expert_capacity_factor = -1; },
       "error: 'runtime.expert_capacity_factor' must be 0, for experts that take what comes, or "
       "more\n"},
      {"groups of no turns",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.microbatch_group_size = 4; },
       "warning: 'runtime.microbatch_group_size' does nothing: the schedule is not interleaved\n"},
      {"a limit of nothing",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.wgrad_deferral_limit = 4; },
       "warning: 'runtime.wgrad_deferral_limit' does nothing without "
       "'runtime.defer_embedding_wgrad_compute'\n"},
      {"a first chunk that is all there is",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.overlap.param_gather_with_optimizer_step = true;
       },
       "warning: 'overlap.param_gather_with_optimizer_step' does nothing: it is of several chunks a "
       "rank (vp) with zero=1 and 'overlap.param_gather'\n"},
      {"owners of nothing",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.layer_wise_param_layout = false; },
       "warning: 'runtime.layer_wise_param_layout' does nothing: no matrices have owners (optimizer "
       "muon with zero=1 and 'runtime.layer_wise_optimizer')\n"},
      {"a proxy where there is one",
       [](Strategy& s, ModelSpec& m, ClusterSpec& c) {
         m = experts(), s.runtime.dispatch_nvshmem = s.runtime.flex_dispatcher = true;
         c.levels.resize(1), c.levels.back().token_message = Seconds{1e-6};
       },
       ""},
  }));
  INFO(row.why);
  CHECK(text_after(row) == row.message);
}

}  // namespace meshplan

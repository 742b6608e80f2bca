#include "cost/ledger.hpp"

#include <algorithm>
#include <array>

#include "cost/memory.hpp"

namespace meshplan {

bool is_there(Lifetime l, Moment m) {
  switch (l) {
    case Lifetime::kPersistent:
      return true;
    case Lifetime::kSaved:
    case Lifetime::kBackward:
      return m == Moment::kBackward || m == Moment::kLayers;
    case Lifetime::kHead:
      return m == Moment::kBackward;
    case Lifetime::kLayers:
      return m == Moment::kLayers;
    case Lifetime::kGradients:
      return m == Moment::kLastLayer || m == Moment::kUpdate;
    case Lifetime::kLastLayer:
      return m == Moment::kLastLayer;
    case Lifetime::kUpdate:
      return m == Moment::kUpdate;
    case Lifetime::kUntilZeroed:
    case Lifetime::kInputs:
      return m == Moment::kUpdate || m == Moment::kBetweenSteps;
    case Lifetime::kMoments:
      return m != Moment::kCapture;
    case Lifetime::kCapture:
      return m == Moment::kCapture;
    case Lifetime::kOutside:
      return false;
  }
  return false;
}

namespace {

struct KeptRow {
  Kept kept;
  std::string_view name, formula, source;
};
constexpr std::array<KeptRow, kNumKept> kKeptRows{{
    {Kept::kMathWorkspace, "cuBLAS workspaces", "F-MEM-7",
     "PyTorch aten/src/ATen/cuda/CublasHandlePool.cpp"},
    {Kept::kEngineWorkspace, "Transformer Engine workspace", "F-MEM-7",
     "TransformerEngine pytorch/module/base.py, get_cublas_workspace_size_bytes"},
    {Kept::kOverlapWorkspace, "workspace of overlapped products", "F-UB-1",
     "TransformerEngine pytorch/cpp_extensions/gemm.py, get_cublas_workspace"},
    {Kept::kGroupedWorkspace, "grouped products' workspaces", "F-MEM-7",
     "TransformerEngine pytorch/module/base.py, get_multi_stream_cublas_workspace"},
    {Kept::kGatheredInput, "gathered input", "F-MEM-8",
     "Megatron-Core utils.py, GlobalMemoryBuffer"},
    {Kept::kLayerDummies, "unread gradients of layers", "F-MEM-9",
     "TransformerEngine pytorch/module/base.py, get_dummy_wgrad"},
    {Kept::kHeadDummy, "unread gradient of the output layer", "F-MEM-9",
     "Megatron-Core tensor_parallel/layers.py (e7c55de99e)"},
    {Kept::kLowWeights, "8-bit copies of weights", "F-MEM-10",
     "TransformerEngine pytorch/module/linear.py, is_first_microbatch"},
    {Kept::kReductionBuckets, "reduction buckets", "F-MEM-2",
     "DeepSpeed runtime/zero/stage_1_and_2.py"},
}};

constexpr std::string_view kStateSource = "Rajbhandari et al. 1910.02054 sec. 5";

}  // namespace

Ledger ledger_of(const RankMemory& whole, const Offload& offload) {
  const RankMemory rank = without_pool(whole);
  const bool captures = rank.graph_saved > Bytes{};
  Ledger ledger;
  const auto add = [&](std::string_view name, std::string_view formula, std::string_view source,
                       Lifetime lifetime, Bytes bytes) {
    if (bytes > Bytes{}) ledger.entries.push_back({name, formula, source, lifetime, bytes});
  };
  const StateBytes states = on_device(rank.states, offload);
  const bool late = states.late > Bytes{};
  add("weights", "F-ZERO-2", kStateSource, Lifetime::kPersistent, states.weights);
  add("gradients", late ? "F-MEM-5" : "F-ZERO-2", kStateSource,
      late ? Lifetime::kGradients : Lifetime::kPersistent, states.gradients);
  const Bytes early = captures ? std::min(states.optimizer, rank.states.master) : states.optimizer;
  add("optimizer states", "F-ZERO-2", kStateSource, Lifetime::kPersistent, early);
  add("the optimizer's moments", "F-ZERO-2", kStateSource, Lifetime::kMoments,
      states.optimizer - early);
  for (const KeptRow& row : kKeptRows) {
    add(row.name, row.formula, row.source, Lifetime::kPersistent, rank.kept[row.kept]);
  }
  const Bytes saved = offload.activations ? rank.resident : rank.activations;
  const Bytes graphs = std::min(rank.graph_inputs, saved);
  add("inputs of CUDA graphs", "F-GRAPH-1",
      "Megatron-Core transformer_layer.py, get_layer_static_inputs", Lifetime::kPersistent, graphs);
  if (captures) {
    const std::string_view pool = "TransformerEngine pytorch/graph.py, _make_graphed_callables";
    add("saved in CUDA graphs", "F-GRAPH-2", pool, Lifetime::kCapture, rank.graph_saved);
    add("temporaries in CUDA graphs", "F-GRAPH-2", pool, Lifetime::kCapture,
        rank.buffers.in_graphs);
  }
  // Two moments where the output layer gives back what it saved before the layers' turn.
  const Bytes given_back = std::min(rank.given_back, saved);
  const bool two = given_back > Bytes{};
  const Bytes kept_saved = saved - given_back;
  const Bytes copied_back = two ? std::min(rank.copied_back, kept_saved) : Bytes{};
  const Bytes left = kept_saved - std::min(graphs + copied_back, kept_saved);
  add("saved activations", "F-ACT-MEM-1", "Korthikanti et al. 2205.05198 sec. 4", Lifetime::kSaved,
      left);
  add("copied back from the host", "F-OFF-8", "Transformer Engine cpu_offload.py",
      Lifetime::kLayers, copied_back);
  add("saved by the output layer", "F-MEM-13", "PyTorch torch/csrc/autograd/engine.cpp",
      Lifetime::kHead, saved - graphs - left - copied_back);
  const BufferBytes& buffers = rank.buffers;
  const Bytes others = buffers.gathered + buffers.messages;
  const std::string_view in_use = "what the block's backward pass has in use";
  if (two) {
    const DeferredBytes& deferred = buffers.deferred;
    add("temporaries of the output layer", "F-ACT-MEM-1", in_use, Lifetime::kHead,
        buffers.ends - others - deferred.beside_loss);
    const std::string_view name = "waiting for the output layer's weight gradients";
    const std::string_view source = "Megatron-Core tensor_parallel/layers.py, grad_output_buffer";
    add(name, "F-MEM-17", source, Lifetime::kHead, deferred.beside_loss);
    add(name, "F-MEM-17", source, Lifetime::kLayers, deferred.behind_loss);
    add("late gradients of the output layer", "F-MEM-5", "torch/optim/optimizer.py",
        Lifetime::kLayers, buffers.head_gradients);
  }
  add("temporaries of the widest block", "F-ACT-MEM-1", in_use,
      two ? Lifetime::kLayers : Lifetime::kBackward,
      two ? buffers.layers - buffers.head_gradients - others - buffers.deferred.behind_loss
          : std::max(buffers.ends, buffers.layers) - others);
  add("gathered weights and a whole gradient", "F-ZERO-1", "PyTorch FSDP, 2304.11277",
      Lifetime::kBackward, buffers.gathered);
  add("messages in flight", "F-MEM-4", "two receives and two sends of a pipeline; gathered inputs",
      Lifetime::kBackward, buffers.messages);
  if (late) {
    add("the last layer's, beyond gradients to come", "F-MEM-5", "torch/optim/optimizer.py",
        Lifetime::kLastLayer, buffers.last_layer);
  } else {
    add("fp32 copies of gradients", "F-ZERO-2", "Megatron-Core core/optimizer/optimizer.py",
        states.stays > Bytes{} ? Lifetime::kUntilZeroed : Lifetime::kUpdate, states.update);
  }
  add("last inputs of chunks", "F-MEM-11",
      "Megatron-Core transformer/transformer_block.py, set_input_tensor", Lifetime::kInputs,
      rank.inputs);
  add("user buffers", "F-UB-1", "TransformerEngine pytorch/module/base.py, initialize_ub",
      Lifetime::kOutside, rank.user_buffers);
  Bytes most;
  for (const Moment m : {Moment::kCapture, Moment::kBackward, Moment::kLayers, Moment::kLastLayer,
                         Moment::kUpdate, Moment::kBetweenSteps}) {
    if ((m == Moment::kLastLayer && !late) || (m == Moment::kLayers && !two)) continue;
    if (m == Moment::kCapture && !captures) continue;
    MomentBytes here{m, {}};
    for (const LedgerEntry& e : ledger.entries) {
      if (is_there(e.lifetime, m)) here.allocated += e.bytes;
    }
    if (here.allocated > most) most = here.allocated, ledger.fullest = m;
    ledger.moments.push_back(here);
  }
  return ledger;
}

}  // namespace meshplan

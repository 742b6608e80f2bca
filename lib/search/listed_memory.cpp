#include "search/listed_memory.hpp"

#include "model/block_table.hpp"
#include "model/packing.hpp"
#include "model/parts.hpp"

namespace meshplan {

bool lists_change_only_saved(const Strategy& s) {
  return s.flash_attention && s.offload.modules.empty() && !s.overlap.ep;
}

PerBlock<SavedActivations> listed_saved(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                        const LayerPrefix& prefix, const BlockCosts& blocks) {
  PerBlock<SavedActivations> saved(blocks.size());
  for (std::size_t k = 0; k < blocks.size(); ++k) saved[k] = blocks[k].saved;
  const BlockContext x{m, c, s, local_shape(m, s)};
  const Strategy wide = unquantised(s);
  const BlockContext in_bf16{m, c, wide, x.shape};
  for (std::size_t i = 0; i < prefix.table.layers.size(); ++i) {
    const BlockContext& own = prefix.table.in_bf16[i] ? in_bf16 : x;
    saved[kFirstLayerBlock + i].selective =
        layer_activations(own, prefix.table.layers[i]).selective;
  }
  if (m.mtp_layers == 0) return saved;
  // Beside its layer the prediction of more tokens keeps the same whatever is recomputed.
  const SavedActivations layer = layer_activations(x, mtp_layer(m));
  SavedActivations& mtp = saved[mtp_block(blocks.size())];
  mtp.selective = layer.selective + (mtp.none - layer.none);
  return saved;
}

}  // namespace meshplan

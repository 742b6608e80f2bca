// Residuals of several streams, and of earlier layers: what Megatron-LM and Megatron-Bridge have.
#include "frameworks/target_tables.hpp"

namespace meshplan {

// transformer_config.py: enable_mhc_connections; pipelines have them in the dev branch that
// Megatron-Bridge's recipes need.
void check_streams(Target t, const Strategy& s, const ModelSpec& m, Findings& f) {
  if (m.mhc_num_residual_streams == 1) return;
  const bool bridge = t == Target::kMegatronBridge && !s.runtime.fused_mhc;
  if (bridge && !s.runtime.fp32_mhc) {
    f.error({"kernels.fp32_mhc"}, "hyper-connections of the dev branch work in fp32",
            "kernels.fp32_mhc=true");
  }
  if (t != Target::kMegatron) return;
  if (s.runtime.fp32_mhc) {
    f.error({"kernels.fp32_mhc"}, "Megatron-LM's hyper-connections work in the training precision",
            "kernels.fp32_mhc=false");
  }
  if (s.pp > 1) {
    f.error({"pp", "mhc_num_residual_streams"}, "Megatron-LM has no pipelines of hyper-connections",
            "pp=1");
  }
  if (s.runtime.fused_mhc) {
    f.error({"kernels.fused_mhc"}, "Megatron-LM's hyper-connections are not fused",
            "kernels.fused_mhc=false");
  }
}

// Megatron-Bridge models/kimi: kimi_k3_spec.py refuses virtual stages, kimi_k3_layers.py context
// parallelism; mixtures are PyTorch's operations (kimi_k3_ops.py).
void check_attention_residuals(Target t, const Strategy& s, const ModelSpec& m, Findings& f) {
  if (m.attn_res_block_size == 0 || t != Target::kMegatronBridge) return;
  if (s.vp > 1) f.error({"vp"}, "Megatron-Bridge's Kimi K3 has no virtual stages", "vp=1");
  if (s.cp > 1) f.error({"cp"}, "Megatron-Bridge's Kimi K3 has no context parallelism", "cp=1");
  if (s.runtime.fused_attn_res) {
    f.error({"kernels.fused_attn_res"}, "Megatron-Bridge's attention residuals are not fused",
            "kernels.fused_attn_res=false");
  }
}

}  // namespace meshplan

// Options that Pai-Megatron-Patch has beside those of Megatron-LM: megatron_patch/arguments.py.
#include "launch/option_table.hpp"

namespace meshplan {
namespace {

constexpr OptionGroup kPai[] = {
    {OptionEffect::kModelled, "Pai-Megatron-Patch's own",
     R"(
transformer-type intermediate-size extra-vocab-size patch-tokenizer-type moe-topk
shared-moe-ffn-hidden-size qk-nope-head-dim qk-rope-head-dim num-shared-experts
enable-shared-expert/0 sliding-window use-llama2-rotary-position-embeddings/0
use-mistral-rotary-position-embeddings/0 use-te/0
)"},
    {OptionEffect::kNotModelled, "it is estimated as without",
     R"(
use-alibi-mask/0 use-normhead/0 attention-head-type moe/0 router-type
moe-input-feature-slicing/0 disable-bias-linear-fc/0 disable-bias-attn-fc/0
disable-parallel-output/0 optimizer-offload-policy optimizer-offload-auto-threshold
optimizer-offload-chunk-size cpu-offloading/0 train-mode adaptive-seq-len/0 freeze-LM/0
freeze-ViT/0 freeze-llm/0 freeze-clip-vision-tower/0 tune-mm-mlp-adapter/0
position-encoding-2d/0
)"},
    {OptionEffect::kNoEffect, "data, tokenizer, evaluation",
     R"(
max-padding-length dataset epochs keep-last/0 data-dir transformer-timers/0
text-generate-input-file text-generate-output-file text-generate-gt-file time/0 eval-dev/0
input-len generation-length top-p top-k repetition_penalty repetition-penalty source-seq-len
target-seq-len z-loss-weight mm-use-im-start-end/0 mm-use-im-patch-token/0 image-folder
mm-vision-select-layer vision-tower image-aspect-ratio version mm-projector-type image-size
rotary-scale-factor cvcuda-image-processing/0 task-list verbosity eval-fp32/0 num-fewshot
convert-checkpoint-from-megatron-to-transformers/0 dataset-config prompt-path
language-model-type vision-model-type disable-vision-class-token/0
allow-missing-vision-projection-checkpoint/0 dataloader-save use-tiling/0 max-num-tiles
use-thumbnail/0 dataloader-seq-length num-frames online-evaluation-config
tokenizer-prompt-format special-tokens/* image-tag-type
)"},
};

}  // namespace

std::span<const OptionGroup> pai_groups() { return kPai; }

}  // namespace meshplan

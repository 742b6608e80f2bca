#!/usr/bin/env python3
"""Overrides of exports for Megatron-Bridge are those that its own translation makes of the same
plan's Megatron-LM arguments.

usage: megatron-bridge_test.py MESHPLAN

Needs MESHPLAN_BRIDGE_CHECKOUT, a folder with the source of Megatron-Bridge; without it it is
skipped (77). What runs of it: scripts/translate_mlm_to_bridge.py.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source folder stays as it is
import stand_ins  # noqa: E402

PLANS = [
    ("llama-3.1-70b", 64, "tp=4,pp=4,vp=5,schedule=interleaved,sequence_parallel=true"),
    ("llama-3.1-70b", 64, "tp=4,pp=4,stage_layers=[19,21,21,19],recompute=full"),
    ("llama-3.1-405b", 128, "tp=8,pp=16,sequence_parallel=true,recompute=selective,recompute_modules=[mlp]"),
    ("mixtral-8x7b", 64, "tp=2,sequence_parallel=true,pp=2,ep=8,etp=2"),
    ("mixtral-8x7b", 64, "ep=8,kernels.flex_dispatcher=true"),
    ("deepseek-v3", 256, "ep=8,pp=4,recompute=full"),
    ("llama-3.1-8b", 32, "cp=4,cp_kind=ulysses"),
    ("llama-2-13b", 16, "zero=3"),
    ("qwen3-32b", 32, "tp=2,precision=fp8,grad_dtype=bf16"),
    ("qwen3-32b", 32, "tp=2,precision=fp8,kernels.num_layers_at_start_in_bf16=1,"
                      "kernels.num_layers_at_end_in_bf16=1"),
    ("llama-2-7b", 16, "zero=1,offload.optimizer=true"),
]
# Fields of configurations there whose options the translation lists as unknown or leaves out.
UNTRANSLATED = {"comm_overlap.tp_comm_overlap", "comm_overlap.overlap_moe_expert_parallel_comm",
                "comm_overlap.overlap_p2p_comm", "model.recompute_modules", "model.cp_comm_type",
                "model.num_layers_in_first_pipeline_stage", "model.moe_flex_dispatcher_backend",
                "model.num_layers_in_last_pipeline_stage", "model.init_model_with_meta_device",
                "ddp.use_megatron_fsdp", "mixed_precision.bf16",
                "mixed_precision.grad_reduce_in_fp32", "mixed_precision.fp8_param_gather",
                "mixed_precision.fp4", "mixed_precision.fp8_dot_product_attention",
                "mixed_precision.first_last_layers_bf16",
                "mixed_precision.num_layers_at_start_in_bf16",
                "mixed_precision.num_layers_at_end_in_bf16",
                "ddp.data_parallel_sharding_strategy", "ddp.megatron_fsdp_main_grads_dtype",
                "ddp.megatron_fsdp_grad_comm_dtype", "optimizer.use_precision_aware_optimizer",
                "optimizer.optimizer_cpu_offload", "optimizer.optimizer_offload_fraction",
                "rerun_state_machine.check_for_nan_in_loss", "model.apply_rope_fusion",
                "model.cross_entropy_fusion_impl"}
PARTS = ("model.tensor", "model.sequence_p", "model.pipeline", "model.virtual", "model.context_p",
         "model.cp_", "model.expert", "model.num_layers_in", "model.micro", "model.recompute",
         "model.moe_token", "model.moe_flex", "ddp.", "train.", "dist.")
NOT_PLANNED = {"train.train_iters"}


def overrides(text):
    return dict(word.split("=", 1) for word in re.findall(r"^ +([a-z_.0-9]+=\S+)", text, re.M))


def plain(value):
    return value.strip("\"'").lower()


def compare(ours, theirs):
    # A named recipe stands for what the translation sets one by one; where none does, so are ours.
    fp8 = "mixed_precision.fp8" in theirs
    named = ours.get("mixed_precision", "")
    if fp8 != ("fp8" in named or "mixed_precision.fp8" in ours):
        yield f"precision {named or 'in fields'}"
    for key, value in ours.items():
        if fp8 and key == "mixed_precision":
            continue
        if key in theirs and plain(theirs[key]) != plain(value):
            yield f"{key}: {value}, translated {theirs[key]}"
        if key not in theirs and key not in UNTRANSLATED:
            yield f"{key} is not what the translation writes"
    for key, value in theirs.items():
        if key.startswith(PARTS) and key not in ours and key not in NOT_PLANNED:
            yield f"{key}={value} is missing"


def main():
    checkout = stand_ins.checkout("MESHPLAN_BRIDGE_CHECKOUT", "Megatron-Bridge", ())
    translate = pathlib.Path(checkout) / "scripts/translate_mlm_to_bridge.py"
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (model, gpus, keys) in enumerate(PLANS):
            out = pathlib.Path(folder) / str(number)
            for target in ("megatron", "megatron-bridge"):
                stand_ins.export(sys.argv[1], target, model, gpus, keys, out / target, "megatron")
            words = json.loads((out / "megatron/launch.json").read_text(encoding="utf-8"))
            flags = " ".join(f"'{word}'" if " " in word or "(" in word or "|" in word else word
                             for part in words["arguments"].values() for word in part)
            theirs = subprocess.run([sys.executable, "-B", translate, "--args", flags], check=True,
                                    capture_output=True, text=True).stdout
            ours = json.loads((out / "megatron-bridge/launch.json").read_text(encoding="utf-8"))
            plan = dict(word.split("=", 1) for word in ours["arguments"]["plan"])
            found = list(compare(plan, overrides(theirs)))
            failed += bool(found)
            print(f"{model} {keys}: {'; '.join(found) or 'as translated'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

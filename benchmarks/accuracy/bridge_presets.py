#!/usr/bin/env python3
"""Reads the pre-training presets of NVIDIA's performance tables out of a clone of Megatron-Bridge.

  bridge_presets.py CLONE > bridge_presets.jsonl

One line per preset of scripts/performance/configs/*/*workload_base_configs.py in each tag that a
container of docs/performance-summary*.md was made from: what it is for (model, GPU, precision), the
layout that the table prints, and what the table does not print. The files hold dataclasses of
numbers and words alone; they are run with that class and nothing else in reach.
"""
import dataclasses
import json
import re
import subprocess
import sys
import types

# Container of the tables -> tag. Nothing later than 0.5 has presets of this form.
TAGS = {"25.11": "v0.2.0", "26.02": "v0.3.0", "26.02.01": "v0.3.1", "26.04": "v0.4.0",
        "26.04.01": "v0.4.2", "26.06": "v0.5.0", "26.06.01": "v0.5.1"}
FILES = re.compile(r"(deepseek|qwen3?|gpt_oss|kimi|llama\d*)/(\w+_)?workload_base_configs\.py$")
TUNING = re.compile(r"SFT|LORA")
MODELS = {"DEEPSEEK_V3": "deepseekv3", "QWEN3_30B": "qwen330b", "QWEN3_235B": "qwen3235b",
          "QWEN3_NEXT_80B": "qwen3next80b", "GPT_OSS_120B": "gptoss120b",
          "GPT_OSS_20B": "gptoss20b", "KIMI_K2": "kimik2", "LLAMA3_8B": "llama38b",
          "LLAMA3_70B": "llama370b", "LLAMA31_405B": "llama31405b"}
GPUS = ("GB300", "GB200", "B300", "B200", "H100")
PRECISIONS = {"BF16": "bf16", "FP8_MX": "mxfp8", "FP8_CS": "fp8", "FP8_SC": "fp8 blockwise",
              "NVFP4": "nvfp4"}
LAYOUT = {"tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size",
          "vp": "virtual_pipeline_model_parallel_size", "cp": "context_parallel_size",
          "ep": "expert_model_parallel_size",
          "micro_batch": "micro_batch_size"}


def git(clone, *arguments):
    return subprocess.run(["git", "-C", clone, *arguments], check=True, capture_output=True,
                          text=True).stdout


def named(table, name):
    """The value of the first key that occurs in the preset's name."""
    return next((value for key, value in table.items() if key in name), None)


def layers_of_chunks(layout):
    """Layers of each model chunk of a pipeline layout, "Et*4|(t*4|)*14tmL" or lists of parts.

    Megatron-Core, core/transformer/pipeline_parallel_layer_layout.py: t is a decoder layer.
    """
    if isinstance(layout, str):
        for times in (r"\(([^()]*)\)\*(\d+)", r"(\w)\*(\d+)"):
            layout = re.sub(times, lambda found: found[1] * int(found[2]), layout)
        return [chunk.count("t") for chunk in layout.split("|")]
    return [chunk.count("decoder") for chunk in layout or []]


def preset_class(text):
    """The dataclass WorkloadBaseConfig of utils.py, by itself."""
    source = re.search(r"@dataclass\nclass WorkloadBaseConfig:.*?(?=\n\S)", text, re.S)[0]
    module = types.ModuleType("utils.utils")
    exec("from dataclasses import dataclass\nfrom typing import *\n" + source, module.__dict__)
    return module


def presets(clone, container, tag):
    utils = preset_class(git(clone, "show", f"{tag}:scripts/performance/utils/utils.py"))
    sys.modules["utils"], sys.modules["utils.utils"] = types.ModuleType("utils"), utils
    paths = git(clone, "ls-tree", "-r", "--name-only", tag, "scripts/performance/configs").split()
    for path in filter(FILES.search, paths):
        module = {"__name__": path}
        exec(git(clone, "show", f"{tag}:{path}"), module)
        for name, value in module.items():
            if isinstance(value, utils.WorkloadBaseConfig) and not (
                    "LARGE_SCALE" in name or TUNING.search(name)):
                yield name, dataclasses.asdict(value)


def graphs(preset):
    """What is captured: Megatron-Core's own graphs hold a whole iteration here."""
    kind, scope = preset.get("cuda_graph_impl") or "", preset.get("cuda_graph_scope") or []
    if kind == "local" and scope == "full_iteration":
        kind = scope
    return {"cuda_graph": kind, "cuda_graph_scope": scope if isinstance(scope, list) else []}


def lines(clone):
    seen = set()
    for container, tag in TAGS.items():
        for name, preset in presets(clone, container, tag):
            model = named(MODELS, name)
            gpu = next((g for g in GPUS if f"_{g}_" in name), None)
            # Before 0.3 one preset serves every precision that has none of its own.
            precision = named(PRECISIONS, name)
            if model is None or gpu is None or (precision is None and "BASE" not in name):
                continue
            line = {"container": container, "model": model, "gpu": gpu,
                    "precision": precision or ""}
            line |= {key: preset[field] or 1 for key, field in LAYOUT.items()}
            line |= {"global_batch": preset["global_batch_size"],
                     "recompute_modules": preset.get("recompute_modules") or [],
                     "a2a_overlap": bool(preset.get("moe_a2a_overlap")),
                     "flex_dispatcher": bool(preset.get("moe_flex_dispatcher_backend")),
                     "fp8_attention": bool(preset.get("fp8_dot_product_attention")),
                     "fused_experts": bool(preset.get("cutedsl_fused_grouped_mlp")),
                     **graphs(preset)}
            if preset.get("recompute_num_layers"):
                line["recompute_num_layers"] = preset["recompute_num_layers"]
            if preset.get("cpu_offloading_num_layers"):
                line["offloaded_layers"] = preset["cpu_offloading_num_layers"]
            if preset.get("pp_layout"):
                line["chunk_layers"] = layers_of_chunks(preset["pp_layout"])
            text = json.dumps(line, separators=(",", ":"))
            if text not in seen:
                yield text
            seen.add(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for text in lines(sys.argv[1]):
        print(text)

#!/usr/bin/env python3
"""Reads the pre-training presets of NVIDIA's performance tables out of a clone of Megatron-Bridge.

  bridge_presets.py CLONE > bridge_presets.jsonl

One line per preset of scripts/performance/configs/*/*workload_base_configs.py in each tag that a
container of docs/performance-summary*.md was made from: what it is for (model, GPU, precision), the
layout that the table prints, and what the table does not print, with what the scripts set in the
environment. The files hold dataclasses of numbers and words alone; they are run with that class and
nothing else in reach, and so is the one method that sets a model's environment.
"""
import ast
import dataclasses
import logging
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
# As scripts/performance calls them: its family and recipe.
RECIPES = {"deepseekv3": ("deepseek", "deepseek_v3"), "qwen330b": ("qwen", "qwen3_30b_a3b"),
           "qwen3235b": ("qwen", "qwen3_235b_a22b"), "qwen3next80b": ("qwen", "qwen3_next_80b_a3b"),
           "gptoss120b": ("gpt_oss", "gpt_oss_120b"), "gptoss20b": ("gpt_oss", "gpt_oss_20b"),
           "kimik2": ("kimi", "kimi_k2"), "llama38b": ("llama", "llama3_8b"),
           "llama370b": ("llama", "llama3_70b"), "llama31405b": ("llama", "llama31_405b")}
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


def method(text, name):
    """A method of that file's classes as a function, by itself; nothing where there is none."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            for argument in node.args.args:
                argument.annotation = None
            space = {"logger": logging.getLogger()}
            exec(compile(ast.Module([node], []), name, "exec"), space)
            return space[name]
    return None


def constant(text, name):
    """A table of words that a file gives that name; empty where there is none."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == [name]:
            return ast.literal_eval(node.value)
    return {}


def environments(clone, tag):
    """What a run of (model, GPU, precision) has in its environment on a cluster with Slurm."""
    scripts = f"{tag}:scripts/performance/"
    common = constant(git(clone, "show", scripts + "utils/executors.py"), "PERF_ENV_VARS")
    add = method(git(clone, "show", scripts + "perf_plugins.py"), "_set_model_specific_environment_variables")

    def environment(model, gpu, precision, preset):
        family, recipe = RECIPES[model]
        values = {"self": None, "task": None, "model_family_name": family, "model_recipe_name": recipe,
                  "executor": types.SimpleNamespace(env_vars=dict(common)), "gpu": gpu.lower(),
                  "compute_dtype": precision.lower(), "train_task": "pretrain", "use_tokendrop": False,
                  "model_name": recipe.split("_")[0], "model_size": recipe.split("_")[1],
                  "workload_base_config": types.SimpleNamespace(**preset)}
        add(*[values[name] for name in add.__code__.co_varnames[:add.__code__.co_argcount]])
        return values["executor"].env_vars

    return environment


def lines(clone):
    seen = set()
    for container, tag in TAGS.items():
        environment = environments(clone, tag)
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
            set_there = environment(model, gpu, next((p for p in PRECISIONS if p in name), "BF16"), preset)
            if "expandable_segments:True" in set_there.get("PYTORCH_CUDA_ALLOC_CONF", ""):
                line["expandable_segments"] = True
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

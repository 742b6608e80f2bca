#!/usr/bin/env python3
"""Overrides of exports name what torchtune's recipes read, with builders and optimizers that exist.

usage: torchtune_test.py MESHPLAN

Needs MESHPLAN_TORCHTUNE_CHECKOUT, a folder with the source of torchtune; without it it is skipped
(77). Its recipes need PyTorch, so they are read as text: the keys that a recipe asks its
configuration for, the arguments of a model's builder and of a tokenizer and a data set.
"""
import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
PURE = "master_weights=false,grad_dtype=bf16,optimizer_dtype=bf16,"
ATTENTION = "lora.targets=[q_proj,v_proj],"
PLANS = [
    ("dgx-h100", 8, PURE + "zero=3,recompute=full,packing=pack", "full_finetune_distributed"),
    ("dgx-h100", 16, PURE + "zero=2,zero_group=8,packing=pack", "full_finetune_distributed"),
    ("dgx-h100", 8, PURE + "zero=3,tp=2,packing=pad", "full_finetune_distributed"),
    ("dgx-h100", 8, PURE + "zero=3,cp=2,cp_kind=ring,packing=pad", "full_finetune_distributed"),
    ("dgx-h100", 8, PURE + "zero=3,lora.rank=8," + ATTENTION + "packing=pack", "lora_finetune_distributed"),
    ("rtx-4090", 1, PURE.replace("optimizer_dtype=bf16", "optimizer=paged_adam8bit") + "lora.rank=8," + ATTENTION +
     "lora.frozen_dtype=nf4,recompute=full,packing=pack", "lora_finetune_single_device"),
    ("dgx-h100", 8, PURE + "zero=3,loss=dpo,micro_batch=2,packing=pad", "full_dpo_distributed"),
    ("dgx-h100", 8, PURE + "zero=3,loss=dpo,micro_batch=2,lora.rank=8," + ATTENTION + "packing=pad",
     "lora_dpo_distributed"),
]


def asked_for(text):
    """Keys that a recipe reads: cfg.batch_size, cfg.get("compile", ...)."""
    return set(re.findall(r"\bcfg\.([a-z_]+)\b(?!\()", text)) | set(re.findall(r"\bcfg\.get\(\s*\"([a-z_]+)\"", text))


def arguments_of(checkout, folder, function):
    """Arguments of a function below a folder of the checkout."""
    for file in sorted(pathlib.Path(checkout, folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == function:
                return {a.arg for a in node.args.args + node.args.kwonlyargs}
    return set()


def overrides(script):
    block = re.search(r"^plan=\((.*?)^\)", script, re.S | re.M)[1]
    return dict(line.strip().strip("'").split("=", 1) for line in block.splitlines() if line.strip())


def problems(checkout, script, recipe):
    if f" {recipe} --config" not in script:
        yield f"the script does not start {recipe}"
        return
    read = asked_for(pathlib.Path(checkout, "recipes", recipe + ".py").read_text(encoding="utf-8"))
    lora = arguments_of(checkout, "torchtune/models/llama3_1", "lora_llama3_1_8b")
    inside = {"model": lora, "dataset": {"packed"}, "optimizer": {"_component_"}, "tokenizer": {"max_seq_len"}}
    for key, value in overrides(script).items():
        first, _, rest = key.partition(".")
        if first not in read:
            yield f"{recipe} does not read {first}"
        if rest and rest not in inside.get(first, ()):
            yield f"{key} is nothing that {first} takes"
        if key == "model.lora_attn_modules":
            known = (pathlib.Path(checkout, "torchtune/modules/peft/_utils.py")).read_text(encoding="utf-8")
            for name in value.strip("[]").split(","):
                if f'"{name}"' not in known:
                    yield f"{name} is none of LORA_ATTN_MODULES"


def main():
    checkout = os.environ.get("MESHPLAN_TORCHTUNE_CHECKOUT")
    if not checkout:
        print("skipped: MESHPLAN_TORCHTUNE_CHECKOUT names no checkout")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for cluster, gpus, keys, recipe in PLANS:
            out = pathlib.Path(folder, "out")
            subprocess.run([sys.argv[1], "export", "--model", "llama-3.1-8b", "--cluster", cluster, "--gpus", str(gpus),
                            "--global-batch", "256", "--seq-len", "4096", "--framework", "fsdp", "--format",
                            "torchtune", "--strategy", keys, "--out", str(out), "-q"], check=True)
            script = next(out.glob("*.sh")).read_text(encoding="utf-8")
            for problem in problems(checkout, script, recipe):
                print(f"{keys}: {problem}")
                failures += 1
    # The check itself finds what is wrong.
    start = "plan=(\n  %s\n)\nexec tune run full_finetune_distributed --config x"
    for wrong in ("batch_sizes=1", "model.lora_rnk=8", "model.lora_attn_modules=[w7]", "dataset.packing=True"):
        if not list(problems(checkout, start % wrong, "full_finetune_distributed")):
            print(f"not found to be wrong: {wrong}")
            failures += 1
    print(f"{len(PLANS)} scripts, {failures} problems")
    return 1 if failures else 0


sys.exit(main())

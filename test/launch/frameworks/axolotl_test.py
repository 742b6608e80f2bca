#!/usr/bin/env python3
"""Recipes of exports say what axolotl's schema knows, with values that it takes.

usage: axolotl_test.py MESHPLAN

Needs MESHPLAN_AXOLOTL_CHECKOUT, a folder with the source of axolotl, and Debian's python3-yaml;
without them it is skipped (77). Its classes need pydantic 2 and transformers, so they are read as
text: the fields of the configuration and of its parts, and the values of those that list them.
"""
import ast
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
PLANS = [
    ("llama-3.1-8b", "dgx-h100", 8, "zero=3,recompute=full,packing=none"),
    ("llama-3.1-8b", "dgx-h100", 16, "zero=2,zero_group=8,packing=none"),
    ("llama-3.1-8b", "dgx-h100", 32, "zero=3,cp=4,cp_kind=allgather,packing=pack"),
    ("llama-3.1-8b", "dgx-h100", 32, "zero=3,cp=2,cp_kind=ring,packing=pad"),
    ("llama-3.1-8b", "dgx-h100", 8, "zero=3,tp=2,precision=fp8"),
    ("llama-3.1-8b", "rtx-4090", 1, "lora.rank=16,lora.targets=[all-linear],lora.frozen_dtype=nf4,recompute=full"),
    ("llama-3.1-8b", "dgx-h100", 8, "zero=3,lora.rank=8,lora.targets=[q_proj,v_proj],lora.frozen_dtype=int8"),
    ("llama-3.1-8b", "rtx-4090", 1, "lora.rank=16,lora.targets=[all-linear],kernels.fused_lora=true"),
    ("llama-3.1-8b", "dgx-h100", 8, "zero=3,kernels.fused_optimizer=false,packing=none"),
    ("qwen3-8b", "dgx-h100", 8, "zero=3,micro_batch=2,loss=dpo,packing=pad,optimizer=adam8bit"),
    ("qwen3-8b", "dgx-h100", 8, "zero=0,optimizer=muon"),
]
ENUMS = {"rl": "RLType", "ring_attn_func": "RingAttnFunc"}  # fields whose values are a class's


def classes(checkout):
    """Fields of each class below utils/schemas: name -> values where they are listed, else None."""
    found = {}
    for file in sorted(pathlib.Path(checkout, "src/axolotl/utils/schemas").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            fields = found.setdefault(node.name, {})
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    fields[item.target.id] = literals(item.annotation)
                elif isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant):
                    fields[item.targets[0].id] = [item.value.value]
    return found


def literals(annotation):
    """Of `Literal["a", "b"] | None`, and of nothing that takes other values too."""
    values = []
    for part in ast.walk(annotation):
        if isinstance(part, ast.Subscript) and getattr(part.value, "id", "") == "Literal":
            items = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            values += [item.value for item in items]
    others = {part.id for part in ast.walk(annotation) if isinstance(part, ast.Name)}
    return values if values and others == {"Literal"} else None


def problems(recipe, known):
    fields = {}
    for name, own in known.items():
        if "Config" in name:
            fields |= own
    for key, value in recipe.items():
        if key not in fields:
            yield f"{key} is no field"
        elif fields[key] and value not in fields[key]:
            yield f"{key}: {value} is none of {fields[key]}"
    for key, value in (recipe.get("fsdp_config") or {}).items():
        if key not in known["FSDPConfig"]:
            yield f"fsdp_config.{key} is no field"
        elif known["FSDPConfig"][key] and value not in known["FSDPConfig"][key]:
            yield f"fsdp_config.{key}: {value} is none of {known['FSDPConfig'][key]}"
    for key, enum in ENUMS.items():
        values = [value for listed in known[enum].values() for value in listed or []]
        if key in recipe and recipe[key] not in values:
            yield f"{key}: {recipe[key]} is none of {values}"


def main():
    checkout = os.environ.get("MESHPLAN_AXOLOTL_CHECKOUT")
    try:
        import yaml
    except ImportError:
        yaml = None
    if not checkout or yaml is None:
        print("skipped: MESHPLAN_AXOLOTL_CHECKOUT names no checkout, or there is no python3-yaml")
        return 77
    known = classes(checkout)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for model, cluster, gpus, keys in PLANS:
            out = pathlib.Path(folder, "out")
            # Packed rows and ring attention have no faster kernel.
            attention = "" if "packing=none" in keys else "kernels.attention=flash2,"
            subprocess.run([sys.argv[1], "export", "--model", model, "--cluster", cluster, "--gpus", str(gpus),
                            "--global-batch", "256", "--seq-len", "4096", "--framework", "fsdp", "--format",
                            "axolotl", "--strategy", attention + keys, "--out", str(out), "-q"], check=True)
            recipe = yaml.safe_load((out / "axolotl.yaml").read_text(encoding="utf-8"))
            for problem in problems(recipe, known):
                print(f"{model} {keys}: {problem}")
                failures += 1
    # The check itself finds what is wrong.
    for wrong in ({"sample_packings": True}, {"rl": "dqo"}, {"fsdp_config": {"reshard": True}},
                  {"fsdp_config": {"state_dict_type": "WHOLE"}}, {"ring_attn_func": "spiral"}):
        if not list(problems(wrong, known)):
            print(f"not found to be wrong: {wrong}")
            failures += 1
    print(f"{len(PLANS)} recipes, {failures} problems")
    return 1 if failures else 0


sys.exit(main())

#!/usr/bin/env python3
"""Job files of exports fit torchtitan's own configuration and device mesh.

usage: torchtitan_test.py MESHPLAN

Needs MESHPLAN_TORCHTITAN_CHECKOUT, a folder with the source of torchtitan v0.2.2, and Debian's
python3-torch; without them it is skipped (77). What runs of torchtitan: JobConfig's sections,
fields, types and choices, ParallelDims, and the flavors of its models.
"""
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import types
import typing

sys.dont_write_bytecode = True  # the source folder stays as it is
import stand_ins  # noqa: E402

PLANS = [
    ("llama-3.1-8b", 64, "tp=2,sequence_parallel=true"),
    ("llama-3.1-70b", 64, "tp=4,sequence_parallel=true,pp=4,vp=5,schedule=interleaved,recompute=full"),
    ("llama-3.1-405b", 128, "tp=8,sequence_parallel=true,pp=16,zero=2,recompute=selective"),
    ("qwen3-235b-a22b", 128, "ep=16"),
    ("llama-3.1-8b", 32, "cp=4,zero_group=8"),
    ("qwen3-8b", 32, "pp=4,vp=2,schedule=zb-v"),
    ("gpt-oss-120b", 64, "ep=8,precision=fp8"),
    ("llama-3.1-8b", 8, "zero=0"),
]


def fits(value, kind):
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in args)
    if origin is typing.Literal:
        return value in args
    if origin is list:
        return isinstance(value, list) and all(fits(v, args[0]) for v in value)
    if kind is float:
        return isinstance(value, (int, float))
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


def check_fields(values, config, path=""):
    """Every key of the file is a field of torchtitan's dataclasses, of its type."""
    kinds = typing.get_type_hints(config)
    for key, value in values.items():
        if key not in kinds:
            raise ValueError(f"{path}{key} is no field")
        if dataclasses.is_dataclass(kinds[key]):
            check_fields(value, kinds[key], f"{path}{key}.")
        elif not fits(value, kinds[key]):
            raise ValueError(f"{path}{key} = {value!r} is not {kinds[key]}")


def check(path, config, dims, checkout):
    text = path.read_text(encoding="utf-8")
    job = tomllib.loads(text)
    world = int(re.search(r"^# world: (\d+)", text, re.MULTILINE).group(1))
    check_fields(job, config)
    p = job["parallelism"]
    mesh = dims(dp_replicate=p["data_parallel_replicate_degree"],
                dp_shard=p["data_parallel_shard_degree"], cp=p["context_parallel_degree"],
                tp=p["tensor_parallel_degree"], pp=p["pipeline_parallel_degree"],
                ep=p.get("expert_parallel_degree", 1),
                etp=p.get("expert_tensor_parallel_degree", 1), world_size=world)
    source = (pathlib.Path(checkout) / "torchtitan/models" / job["model"]["name"] / "__init__.py")
    if f'"{job["model"]["flavor"]}"' not in source.read_text(encoding="utf-8"):
        raise ValueError(f"no flavor {job['model']}")
    training = job["training"]
    once = training["local_batch_size"] * mesh.dp_replicate * mesh.dp_shard
    if training["global_batch_size"] % once:
        raise ValueError(f"global batch {training['global_batch_size']} of {once} at once")


def main():
    checkout = stand_ins.checkout("MESHPLAN_TORCHTITAN_CHECKOUT", "torchtitan v0.2.2", ("torch",))
    stand_ins.install(90)
    sys.path.insert(0, checkout)
    # The two files alone: the package itself imports what only a GPU machine has.
    for name in ("torchtitan", "torchtitan.config", "torchtitan.distributed", "torchtitan.tools"):
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(checkout, *name.split("."))]
        sys.modules[name] = module
    from torchtitan.config.job_config import JobConfig
    for name, names in (("torchtitan.tools.logging", {"logger": None}),
                        ("torchtitan.tools.utils", {"device_type": "cuda"})):
        module = types.ModuleType(name)
        vars(module).update(names)
        sys.modules[name] = module
    from torchtitan.distributed.parallel_dims import ParallelDims
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (model, gpus, keys) in enumerate(PLANS):
            out = pathlib.Path(folder) / str(number)
            subprocess.run([sys.argv[1], "export", "--model", model, "--cluster", "dgx-h100",
                            "--gpus", str(gpus), "--global-batch", "512", "--seq-len", "8192",
                            "--framework", "torchtitan", "--strategy", keys, "--format",
                            "torchtitan", "--out", out, "-q"], check=True,
                           stderr=subprocess.DEVNULL)
            try:
                check(out / "torchtitan.toml", JobConfig, ParallelDims, checkout)
                print(f"{model} {keys}: accepted")
            except (ValueError, AssertionError) as problem:
                failed += 1
                print(f"{model} {keys}: {problem}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

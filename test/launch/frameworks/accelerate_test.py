#!/usr/bin/env python3
"""Configurations of exports are accepted by accelerate's own launcher and plugins.

usage: accelerate_test.py MESHPLAN

Needs MESHPLAN_ACCELERATE_CHECKOUT, a folder with the source of Hugging Face accelerate, and
Debian's python3-torch and python3-yaml; without them it is skipped (77). What runs of accelerate:
the configuration file's class, `accelerate launch`'s parser and checks, the environment that
workers see, FullyShardedDataParallelPlugin and ParallelismConfig built from it.
"""
import contextlib
import importlib.metadata
import io
import os
import pathlib
import sys
import tempfile
import types
import warnings

sys.dont_write_bytecode = True  # the source folder stays as it is
import stand_ins  # noqa: E402

PLANS = [
    ("llama-3.1-8b", 8, "zero=3"),
    ("llama-3.1-8b", 64, "zero=2,recompute=full"),
    ("llama-2-13b", 16, "zero=3,zero_group=8"),
    ("llama-3.1-8b", 32, "zero=3,cp=4,cp_kind=ring"),
    ("llama-3.1-8b", 32, "zero=3,cp=4,cp_kind=allgather,zero_group=16"),
    ("llama-3.1-8b", 32, "zero=3,tp=2"),
    ("qwen3-8b", 16, "zero=3,precision=fp16"),
    ("llama-2-7b", 8, "zero=3,precision=fp32"),
]
REFUSED = [
    ("processes", "num_processes: 8", "num_processes: 6"),
    ("unknown key", "same_network: true", "same_networks: true"),
    ("resharding", "fsdp_reshard_after_forward: true", "fsdp_reshard_after_forward: FULL_SHARD"),
]


class Holder:
    def __init__(self, **values):
        vars(self).update(values)


def load(checkout):
    """The modules, with what PyTorch 1.13 lacks of FSDP2's value classes."""
    sys.path.insert(0, os.path.join(checkout, "src"))
    real = importlib.metadata.version
    # tensor parallelism asks how old transformers is
    known = {"accelerate": "0.0", "transformers": "4.55.0"}
    importlib.metadata.version = lambda name: known.get(name) or real(name)
    stand_ins.install(90)
    stand_ins.add_absent(("huggingface_hub", "safetensors"))
    import torch
    import torch.distributed.fsdp as fsdp
    torch.cuda.is_available, torch.cuda.current_device = (lambda: True), (lambda: 0)
    old = torch.__version__.startswith("1.")
    if old:
        import torch.distributed.fsdp.fully_sharded_data_parallel as inner
        fsdp.OffloadPolicy = type("OffloadPolicy", (Holder,), {})
        fsdp.CPUOffloadPolicy = type("CPUOffloadPolicy", (fsdp.OffloadPolicy,), {})
        fsdp.MixedPrecisionPolicy = type("MixedPrecisionPolicy", (Holder,), {})
        for name in ("FullOptimStateDictConfig", "ShardedOptimStateDictConfig",
                     "FullStateDictConfig", "ShardedStateDictConfig"):
            setattr(inner, name, type(name, (Holder,), {}))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import accelerate.commands.config.config_args as arguments
        import accelerate.commands.launch as launch
        import accelerate.parallelism_config as parallelism
        import accelerate.utils.dataclasses as dataclasses
        import accelerate.utils.launch as environment
    if old:
        dataclasses.is_torch_version = lambda operation, version: True
    return types.SimpleNamespace(arguments=arguments, launch=launch, parallelism=parallelism,
                                 dataclasses=dataclasses, environment=environment)


def check(path, accelerate):
    """Raises what accelerate raises."""
    kept = dict(os.environ)
    sys.argv = ["accelerate"]
    try:
        config = accelerate.arguments.load_config_from_file(str(path))
        parser = accelerate.launch.launch_command_parser()
        args = parser.parse_args(["--config_file", str(path), "train.py"])
        args = accelerate.launch._validate_launch_command(args)[0]
        seen = accelerate.environment.prepare_multi_gpu_env(args)
        os.environ.update({key: str(value) for key, value in seen.items()})
        plugin = accelerate.dataclasses.FullyShardedDataParallelPlugin()
        mesh = accelerate.parallelism.ParallelismConfig()
        mesh._validate_accelerator(types.SimpleNamespace(
            multi_device=False, num_processes=args.num_processes, is_main_process=True,
            is_fsdp2=plugin.fsdp_version == 2, distributed_type=config.distributed_type))
        for name in list(config.fsdp_config) + list(config.parallelism_config):
            known = hasattr(args, name) or hasattr(args, f"parallelism_config_{name}")
            if not known and not hasattr(args, f"fsdp_{name}"):
                raise ValueError(f"nothing reads {name}")
        return mesh
    finally:
        for key in set(os.environ) - set(kept):
            del os.environ[key]
        os.environ.update(kept)


def main():
    checkout = stand_ins.checkout("MESHPLAN_ACCELERATE_CHECKOUT", "accelerate", ("torch", "yaml"))
    warnings.simplefilter("ignore")
    meshplan = sys.argv[1]
    accelerate = load(checkout)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for number, (model, gpus, keys) in enumerate(PLANS):
            out = folder / str(number)
            stand_ins.export(meshplan, "accelerate", model, gpus, keys, out, "fsdp")
            try:
                mesh = check(out / "accelerate.yaml", accelerate)
                if mesh.total_size != gpus:
                    raise ValueError(f"a mesh of {mesh.total_size} ranks")
                print(f"{model} {keys}: accepted")
            except (Exception, SystemExit) as problem:  # noqa: BLE001
                failed += 1
                print(f"{model} {keys}: {type(problem).__name__}: {problem}")
        text = (folder / "0/accelerate.yaml").read_text(encoding="utf-8")
        for name, old, new in REFUSED:
            assert old in text, old
            changed = folder / "changed.yaml"
            changed.write_text(text.replace(old, new), encoding="utf-8")
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    check(changed, accelerate)
                failed += 1
                print(f"{name}: accepted, though it must not be")
            except (Exception, SystemExit):  # noqa: BLE001
                print(f"{name}: refused")
    stand_ins.leave(failed)


if __name__ == "__main__":
    main()

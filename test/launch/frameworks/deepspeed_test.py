#!/usr/bin/env python3
"""Configurations of exports are accepted by DeepSpeed's own code, which reads all of their keys.

usage: deepspeed_test.py MESHPLAN

Needs MESHPLAN_DEEPSPEED_CHECKOUT, a folder with the source of DeepSpeed, and Debian's
python3-torch, python3-pydantic and python3-cpuinfo; without them it is skipped (77). What runs of
DeepSpeed: DeepSpeedConfig with its batch arithmetic, the engine's sanity check, the pipeline
engine's, and the checks of automatic expert parallelism.
"""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import warnings

sys.dont_write_bytecode = True  # the source folder stays as it is
import stand_ins  # noqa: E402

# Model, GPUs, strategy. What DeepSpeed must refuse comes last, as a change of the first.
PLANS = [
    ("llama-2-7b", 8, "zero=3"),
    ("llama-2-13b", 16, "zero=2,overlap.param_gather=false"),
    ("llama-2-7b", 16, "zero=1,tp=2,overlap.param_gather=false"),
    ("llama-2-7b", 16, "zero=1,pp=4,recompute=full,overlap.param_gather=false"),
    ("llama-3.1-8b", 16, "zero=3,cp=4,cp_kind=ulysses"),
    ("mixtral-8x7b", 32, "zero=1,ep=8,overlap.param_gather=false"),
    ("llama-2-7b", 8, "zero=2,offload.optimizer=true,overlap.param_gather=false"),
    ("llama-2-7b", 8, "zero=3,zero_group=4"),
    ("llama-3.1-8b", 8, "zero=0"),
    ("gpt3-175b", 64, "framework=megatron-deepspeed,tp=8,pp=4,precision=fp16,seq_len=2048"),
    ("llama-2-70b", 64, "framework=megatron-deepspeed,tp=4,pp=4,zero=1,recompute=full"),
    ("qwen3-8b", 32, "zero=3,recompute=full"),
]
REFUSED = [
    ("batch", {"train_batch_size": 63}),
    ("both precisions", {"fp16": {"enabled": True}}),
    ("stage", {"zero_optimization": {"stage": 4}}),
    ("unknown key", {"zero_optimization": {"stage": 3, "overlap": True}}),
    ("sum with ZeRO-3", {"gradient_allreduce_op": "sum"}),
]
# deepspeed/__init__.py builds its mesh of it before the engine reads the rest.
READ_ELSEWHERE = {"data_parallel_size"}


class Noted(dict):
    """A dictionary that knows which of its keys were asked for."""

    def __init__(self, values):
        super().__init__(values)
        self.asked = set()

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)

    def __deepcopy__(self, memo):
        return self


def load(checkout):
    os.environ["DS_ACCELERATOR"] = "cpu"
    stand_ins.install(90)
    stand_ins.add_absent(("hjson", "einops", "ninja"))
    stand_ins.replace([f"deepspeed.compile.{name}" for name in (
        "backend", "custom_ops", "init_sp", "init_tp", "init_z1", "init_z3", "passes")])
    import pydantic_names
    pydantic_names.install()
    sys.modules["hjson"] = types.SimpleNamespace(load=json.load, loads=json.loads)
    sys.path.insert(0, checkout)
    here = os.getcwd()
    os.chdir(checkout)  # the version is read from a file there
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import deepspeed.runtime.config as config
        from deepspeed.accelerator import get_accelerator
        from deepspeed.module_inject import auto_ep_config
        from deepspeed.runtime.engine import DeepSpeedEngine
    os.chdir(here)
    kind = type(get_accelerator())
    kind.is_fp16_supported = kind.is_bf16_supported = lambda self: True
    import logging
    logging.disable(logging.CRITICAL)
    return config, DeepSpeedEngine, auto_ep_config


def check(values, strategy, world, deepspeed):
    """Raises what DeepSpeed raises."""
    config, engine_class, auto_ep = deepspeed
    tp, pp = strategy["tp"], strategy["pp"]
    config.dist = types.SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda group=None: world)
    split = tp * pp > 1  # as Megatron's or the pipeline's grid tells it
    mpu = types.SimpleNamespace(get_data_parallel_world_size=lambda: world // (tp * pp))
    noted = Noted(values)
    found = config.DeepSpeedConfig(noted, mpu if split else None)
    engine = object.__new__(engine_class)
    vars(engine).update(_config=found, client_optimizer=None, client_lr_scheduler=None,
                        pipeline_parallelism=pp > 1, optimizer=None)
    engine._do_sanity_check()
    # runtime/pipe/engine.py:76.
    if pp > 1 and engine.zero_optimization_stage() > 1:
        raise ValueError("a pipeline with ZeRO-2 or 3")
    experts = found.expert_parallel_config
    if experts.enabled:
        auto_ep.validate_autoep_config(
            experts, world, pp, found.tensor_parallel_config.autotp_size, strategy["cp"],
            zero_stage=int(found.zero_config.stage))
    unread = set(noted) - noted.asked - READ_ELSEWHERE
    if unread:
        raise ValueError(f"nothing reads {sorted(unread)}")
    wanted = strategy["global_batch"]
    if found.train_batch_size != wanted:
        raise ValueError(f"train_batch_size {found.train_batch_size}, not {wanted}")


def main():
    checkout = stand_ins.checkout("MESHPLAN_DEEPSPEED_CHECKOUT", "DeepSpeed", ("torch", "pydantic"))
    warnings.simplefilter("ignore")
    deepspeed = load(checkout)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (model, gpus, keys) in enumerate(PLANS):
            out = pathlib.Path(folder) / str(number)
            stand_ins.export(sys.argv[1], "deepspeed", model, gpus, keys, out)
            values = json.loads((out / "ds_config.json").read_text(encoding="utf-8"))
            sizes = json.loads((out / "launch.json").read_text(encoding="utf-8"))["sizes"]
            try:
                check(values, sizes, gpus, deepspeed)
                print(f"{model} {keys}: accepted")
            except Exception as problem:  # noqa: BLE001: whatever DeepSpeed raises is the finding
                failed += 1
                print(f"{model} {keys}: {type(problem).__name__}: {problem}")
        first = json.loads((pathlib.Path(folder) / "0/ds_config.json").read_text(encoding="utf-8"))
        sizes = json.loads((pathlib.Path(folder) / "0/launch.json").read_text(encoding="utf-8"))
        for name, change in REFUSED:
            try:
                check({**first, **change}, sizes["sizes"], PLANS[0][1], deepspeed)
                failed += 1
                print(f"{name}: accepted, though it must not be")
            except Exception:  # noqa: BLE001
                print(f"{name}: refused")
    stand_ins.leave(failed)


if __name__ == "__main__":
    main()

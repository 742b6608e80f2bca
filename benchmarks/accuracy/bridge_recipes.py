#!/usr/bin/env python3
"""Reads the recipes that NVIDIA's model verification cards name out of a clone of Megatron-Bridge.

  bridge_recipes.py CLONE [COMMIT] > bridge_recipes.jsonl

One line per recipe of src/megatron/bridge/perf_recipes and .../recipes
("qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"). A recipe is a function that assigns to a tree of
settings; its own modules are read from the commit and run, and whatever else they import is an
object that keeps what is assigned to it and knows nothing more. Left out of a line are ones and
empty values, what the recipe does not assign, and false, but for switches that a model's defaults
may turn on.
"""
import importlib
import importlib.abc
import importlib.machinery
import json
import re
import subprocess
import sys
import types

from bridge_presets import layers_of_chunks

COMMIT = "067f987df03b8355b03192d88d70f1709fedf51a"  # of the cards and of the tables' 26.08 container
FOLDERS = ("perf_recipes", "recipes")
RUN = tuple(f"megatron.bridge.{name}" for name in FOLDERS) + (
    "megatron.bridge.utils.cuda_graph", "megatron.bridge.training.flex_dispatcher_backend")
KEPT = ("megatron", "torch", "transformers", "transformer_engine", "omegaconf", "huggingface_hub",
        "nvidia_resiliency_ext")
NAME = re.compile(r"^def (([a-z]\w+?)_(pretrain|sft|peft)_?(\w*?)_?config)\(", re.M)
GPUS = ("gb300", "gb200", "b300", "b200", "h100")
PRECISIONS = {"bf16": "bf16", "fp8cs": "fp8", "fp8mx": "mxfp8", "fp8sc": "fp8 blockwise",
              "nvfp4": "nvfp4"}
SWITCHES = ("fp32_gradients", "overlap_grad_reduce", "overlap_param_gather", "router_fusion",
            "rope_fusion")  # false is not the same as unassigned
LAYOUT = {"tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size",
          "vp": "virtual_pipeline_model_parallel_size", "cp": "context_parallel_size",
          "ep": "expert_model_parallel_size"}


class Settings:
    """Keeps what is assigned to it; any other attribute is an empty, false Settings."""

    def __init__(self, *_, **given):
        self.__dict__.update(given)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, Settings())

    def __call__(self, *_, **given):
        return Settings(**given)

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(())

    def __getitem__(self, _):
        return Settings()

    def __or__(self, _):
        return Settings()

    __ror__ = __truediv__ = __add__ = __radd__ = __sub__ = __mul__ = __floordiv__ = __or__

    def __lt__(self, _):
        return False

    __gt__ = __le__ = __ge__ = __contains__ = __lt__

    def __int__(self):
        return 0

    def __float__(self):
        return 0.0


class Kind(type):
    """A class of another package: its members are their names' Settings, its items their keys."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Settings(name=name)

    def __getitem__(cls, key):
        return key


class Kept(types.ModuleType):
    """Another package's module: classes where a name starts in upper case, else Settings."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        new = Kind(name, (Settings,), {}) if name[0].isupper() else Settings()
        return self.__dict__.setdefault(name, new)


class Commit(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The modules of a commit, where RUN names them; stand-ins for other packages."""

    def __init__(self, clone, commit):
        self.clone, self.commit = clone, commit
        self.files = set(self.git("ls-tree", "-r", "--name-only", commit, "src/megatron/bridge")
                         .split())

    def git(self, *arguments):
        return subprocess.run(["git", "-C", self.clone, *arguments], check=True,
                              capture_output=True, text=True).stdout

    def source(self, path):
        return self.git("show", f"{self.commit}:{path}")

    def path(self, name):
        base = "src/" + name.replace(".", "/")
        paths = [p for p in (base + ".py", base + "/__init__.py") if p in self.files]
        return paths[0] if paths and name.startswith(RUN) else None

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in KEPT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return types.ModuleType(spec.name) if self.path(spec.name) else Kept(spec.name)

    def exec_module(self, module):
        path = self.path(module.__name__)
        if path:
            module.__file__ = "/" + path
            exec(compile(self.source(path), path, "exec"), module.__dict__)


def stated(settings, name):
    value = getattr(settings, name) if isinstance(settings, Settings) else None
    return None if isinstance(value, Settings) else value


def line(folder, match, cfg):
    name, model, _, rest = match
    words = rest.split("_")
    m, overlap = cfg.model, cfg.comm_overlap
    environment = cfg.env_vars if isinstance(cfg.env_vars, dict) else {}
    scope = stated(m, "cuda_graph_modules") or stated(m, "cuda_graph_scope")
    return {
        "recipe": name, "tuned": folder == "perf_recipes",
        "model": model.replace("_", ""),
        "gpu": next((w.upper() for w in words if w in GPUS), ""),
        "precision": next((PRECISIONS[w] for w in words if w in PRECISIONS), ""),
        **{key: stated(m, field) or 1 for key, field in LAYOUT.items()},
        "micro_batch": stated(cfg.train, "micro_batch_size"),
        "global_batch": stated(cfg.train, "global_batch_size"),
        "recompute": stated(m, "recompute_granularity") or "none",
        "recompute_modules": [str(x) for x in stated(m, "recompute_modules") or []],
        "expandable_segments": "expandable_segments:True" in environment.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        "a2a_overlap": bool(stated(overlap, "overlap_moe_expert_parallel_comm")),
        "flex_dispatcher": stated(m, "moe_token_dispatcher_type") == "flex",
        "fp8_attention": bool(stated(cfg.mixed_precision, "fp8_dot_product_attention")),
        "fused_experts": bool(stated(m, "use_transformer_engine_op_fuser")),
        "cuda_graph": stated(m, "cuda_graph_impl") or "none",
        "cuda_graph_scope": scope if isinstance(scope, list) else [],
        "fp32_gradients": stated(cfg.ddp, "grad_reduce_in_fp32"),
        "overlap_grad_reduce": stated(cfg.ddp, "overlap_grad_reduce"),
        "overlap_param_gather": stated(cfg.ddp, "overlap_param_gather"),
        "router_fusion": stated(m, "moe_router_fusion"),
        "rope_fusion": stated(m, "apply_rope_fusion"),
        "loss": stated(m, "cross_entropy_fusion_impl"),
        "deferred_head": bool(stated(overlap, "defer_embedding_wgrad_compute")),
        "wgrad_deferral_limit": stated(overlap, "wgrad_deferral_limit") or 0,
        "chunk_layers": layers_of_chunks(stated(m, "pipeline_model_parallel_layout")),
    }


def is_told(key, value):
    if isinstance(value, bool):
        return value or key in SWITCHES
    return value is not None and value not in (0, 1, "", [])


def lines(commit):
    sys.meta_path.insert(0, commit)
    for folder in FOLDERS:
        start = f"src/megatron/bridge/{folder}/"
        for path in sorted(p for p in commit.files if p.startswith(start) and p.endswith(".py")):
            matches = NAME.findall(commit.source(path))
            if not matches:
                continue
            module = importlib.import_module(path[len("src/"):-len(".py")].replace("/", "."))
            for match in matches:
                try:
                    cfg = getattr(module, match[0])()
                except (TypeError, ValueError, NotImplementedError) as error:
                    print(f"left out: {match[0]}: {error}", file=sys.stderr)
                    continue
                yield line(folder, match, cfg)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for found in lines(Commit(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else COMMIT)):
        text = {key: value for key, value in found.items() if is_told(key, value)}
        print(json.dumps(text, separators=(",", ":")))

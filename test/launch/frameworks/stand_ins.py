"""Empty names for the modules that a checkout of a training framework imports and this machine
lacks (CUDA, Triton, Transformer Engine, newer PyTorch), so that its parsers and checks can run on
any computer. A stand-in computes nothing: calling one gives another."""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import types
import typing

SKIPPED = 77
SYSTEM_PYTHON = "/usr/bin/python3"


def checkout(variable, framework, modules):
    """The folder that the variable names, with a Python that has the modules; else the end."""
    folder = os.environ.get(variable, "")
    if not folder:
        print(f"{variable} names no checkout of {framework}")
        sys.exit(SKIPPED)
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing and os.path.exists(SYSTEM_PYTHON) and not os.environ.get("MESHPLAN_SYSTEM_PYTHON"):
        # A Python of the user's own goes before Debian's, which has the packages.
        os.environ["MESHPLAN_SYSTEM_PYTHON"] = "tried"
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    if missing:
        print(f"this Python lacks {', '.join(missing)} (Debian: python3-torch and its like)")
        sys.exit(SKIPPED)
    return folder


def leave(failed):
    """Ends at once: threads of stand-ins and frameworks do not matter any more."""
    sys.stdout.flush()
    os._exit(1 if failed else 0)


def export(program, target, model, gpus, keys, out, framework=None):
    subprocess.run([program, "export", "--model", model, "--cluster", "dgx-h100", "--gpus",
                    str(gpus), "--global-batch", "512", *([] if "seq_len" in keys else
                                                          ["--seq-len", "4096"]),
                    *([] if "framework" in keys else ["--framework", framework or target]),
                    "--strategy", keys, "--format", target, "--out", str(out), "-q"],
                   check=True, stderr=subprocess.DEVNULL)


def add_absent(names):
    """More modules that need not be there."""
    sys.meta_path.append(_Finder(lambda n: n.split(".")[0] in names))


def replace(names):
    """Modules of the checkout that want a newer PyTorch than there is."""
    sys.meta_path.insert(0, _Finder(
        lambda n: any(n == name or n.startswith(name + ".") for name in names)))


class _Meta(type(typing.Protocol)):  # mixes with ABC and Protocol bases
    def __getattr__(cls, name):
        if name.startswith(("__", "_torchdynamo", "_is_protocol", "_is_runtime", "_abc")):
            raise AttributeError(name)
        return stand_in(f"{cls.__name__}.{name}")

    def __call__(cls, *args, **kwargs):
        if len(args) == 3 and isinstance(args[0], str) and isinstance(args[2], dict):
            return super().__call__(*args, **kwargs)  # a base class
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]  # a decorator
        return stand_in(cls.__name__ + "()")

    def __getitem__(cls, key):
        return cls

    def __iter__(cls):
        return iter(())

    def __or__(cls, other):
        return cls

    __ror__ = __or__


def stand_in(name):
    return _Meta(name, (), {"_is_protocol": False})


class _Module(types.ModuleType):
    __version__ = "3.2.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = stand_in(name)
        setattr(self, name, value)
        return value

    # `from package import Missing` gives a module: let it be used as a class.
    def __or__(self, other):
        return self

    __ror__ = __or__

    def __call__(self, *args, **kwargs):
        return stand_in(self.__name__)(*args, **kwargs)

    def __getitem__(self, key):
        return self

    def __mro_entries__(self, bases):
        return (stand_in(self.__name__.rsplit(".", 1)[-1]),)


class _Loader(importlib.abc.Loader):
    def create_module(self, spec):
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, wanted):
        self.wanted = wanted

    def find_spec(self, name, path, target=None):
        if self.wanted(name):
            return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True)
        return None


# Present in Debian 12's PyTorch 1.13 and not importable under Python 3.11.
_BROKEN = ("torch.distributed._shard", "torch.distributed.checkpoint")
_NEWER = (("torch", "float8_e8m0fnu"), ("torch", "float8_e4m3fn"), ("torch", "float8_e5m2"),
          ("torch.cuda.memory", "CUDAPluggableAllocator"), ("torch.cuda", "MemPool"),
          ("torch.distributed", "DeviceMesh"), ("torch.optim.optimizer", "ParamsT"))


def install(compute_capability):
    """Before the framework is imported; PyTorch must be there."""
    os.environ["PYTORCH_JIT"] = "0"
    sys.dont_write_bytecode = True
    import torch
    if torch.__version__.startswith("1."):
        sys.meta_path.insert(0, _Finder(
            lambda n: any(n == b or n.startswith(b + ".") for b in _BROKEN)))
    sys.meta_path.append(_Finder(
        lambda n: n.split(".")[0] == "triton" or n.startswith(("torch.", "numpy."))))
    if not hasattr(typing, "override"):
        typing.override = lambda f: f
    for module, name in _NEWER:
        owner = importlib.import_module(module)
        if not hasattr(owner, name):
            setattr(owner, name, stand_in(name))
    torch.compile = lambda f=None, **_: f if callable(f) else (lambda g: g)
    major, minor = divmod(compute_capability, 10)
    torch.cuda.get_device_capability = lambda *a, **k: (major, minor)
    torch.cuda.get_device_properties = lambda *a, **k: types.SimpleNamespace(
        major=major, minor=minor, name="stand-in", multi_processor_count=132,
        total_memory=80 << 30)


def add_fused_adam():
    """After the framework is imported: it looks at the arguments of Transformer Engine's Adam."""
    class FusedAdam:
        def __init__(self, master_weight_dtype=None, exp_avg_dtype=None, exp_avg_sq_dtype=None,
                     use_decoupled_grad=False):
            pass

    for name in ("transformer_engine", "transformer_engine.pytorch"):
        sys.modules.setdefault(name, types.ModuleType(name))
    module = types.ModuleType("transformer_engine.pytorch.optimizers")
    module.FusedAdam = FusedAdam
    sys.modules[module.__name__] = module

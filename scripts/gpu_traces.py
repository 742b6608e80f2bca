#!/usr/bin/env python3
"""Traces of training steps on one GPU with one fault planted in each, read by `meshplan compare`: its
verdict must name what was planted first, and nothing where nothing was planted.

usage: gpu_traces.py --program MESHPLAN --cluster CLUSTER --out FOLDER [--only NAME,...] [--list]

Writes FOLDER/traces/NAME.json.gz, FOLDER/traces.json and FOLDER/traces.txt. Ends with 0 if at most
one verdict is wrong, 1 if not, 77 without PyTorch or a GPU.
"""
import argparse
import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import time

from gpu_switches import BASE, optimizers
from gpu_training import build, case, model_file, rotary_angles, torch_on_gpu

# What nothing explains of a step that nothing was planted in.
UNEXPLAINED = 0.08


def planted(name, kinds, **change):
    return {"name": name, "kinds": kinds, **change}


# `kinds`: what may come first in the verdict. `trained`: what runs, where it is not what the strategy
# says.
FAULTS = [
    planted("nothing", []),
    planted("unfused-attention", ["unfused-attention"], trained={"attention": "unfused"}),
    planted("unfused-norm", ["unfused-norm"], trained={"norm": "unfused"}),
    planted("unfused-optimizer", ["unfused-optimizer"], update="single"),
    planted("recomputation", ["recomputation"], trained={"recompute": "full"}),
    planted("small-microbatch", ["small-microbatch"], parts=2),
    planted("fp32-product", ["precision"], product="fp32"),
    planted("slow-product", ["product", "products"], product="twice"),
    planted("starved-host", ["host-bound"], hook=0.03),
    planted("data-loading", ["data-loading"], loader=0.2),
    planted("allocations", ["allocations"], empty=True),
    planted("copies", ["copies"], copied=2**31),
    planted("unfused-elementwise", ["unfused-elementwise"], extra=12),
]


def shape(**switches):
    return case("llama", 4, 4096, 32, 32, 11008, 32000, 2048, 4, **switches)


class Slow:
    """Batches that take their time."""

    def __init__(self, c, seconds):
        self.c, self.seconds = c, seconds

    def __len__(self):
        return 1000

    def __getitem__(self, _):
        import torch
        time.sleep(self.seconds / self.c["micro"])
        return torch.randint(self.c["vocab"], (self.c["seq"],))


def plant(torch, model, fault):
    """Changes of modules that the model's description does not have."""
    for block in model.blocks:
        if "hook" in fault:
            block.register_forward_pre_hook(lambda *_: time.sleep(fault["hook"]))
        if fault.get("empty"):
            block.register_forward_hook(lambda *_: torch.cuda.empty_cache())
            block.register_full_backward_hook(lambda *_: torch.cuda.empty_cache())
        if fault.get("product") == "twice":
            # The same product once more, its result unused: the kernel is there, as with a bad layout.
            block.down.register_forward_hook(
                lambda m, i, out: [torch.nn.functional.linear(i[0].detach(), m.weight.detach())
                                   for _ in range(6)] and None)
        if fault.get("product") == "fp32":
            linear = torch.nn.functional.linear
            for module in (block.up, block.gate, block.down):
                module.forward = lambda x, m=module: linear(x.float(), m.weight.float()).to(x.dtype)
        if "extra" in fault:
            def more(_, __, out):
                for _ in range(fault["extra"]):
                    out = out * 1.0
                return out
            block.up.register_forward_hook(more)


def record(torch, fault, path):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.profiler import ProfilerActivity, profile, schedule
    device = torch.device("cuda")
    torch.manual_seed(1)
    c = shape(**fault.get("trained", {}))
    with torch.device(device):
        model = build(torch, c).to(torch.bfloat16)
    plant(torch, model, fault)
    single = fault.get("update") == "single"
    used = ([torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False, fused=False)] if single
            else optimizers(torch, model, c))
    angles = rotary_angles(torch, c, device)
    loader = iter(torch.utils.data.DataLoader(Slow(c, fault.get("loader", 0)), batch_size=c["micro"],
                                              pin_memory=True))
    pageable = torch.zeros(fault.get("copied", 0), dtype=torch.uint8)

    def step():
        tokens = next(loader).to(device, non_blocking=True)
        if fault.get("copied"):
            pageable.to(device)
        for o in used:
            o.zero_grad(set_to_none=True)
        parts = tokens.chunk(fault.get("parts", 1))
        for part in parts:
            (model(part, part, angles) / len(parts)).backward()
        for o in used:
            o.step()

    wait, steps = 4, 3
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True,
                     schedule=schedule(wait=wait, warmup=2, active=steps)) as profiler:
            for _ in range(wait + 2 + steps):
                step()
                profiler.step()
    plain = path.with_suffix("")
    profiler.export_chrome_trace(str(plain))
    with open(plain, "rb") as source, gzip.open(path, "wb", 9) as packed:
        shutil.copyfileobj(source, packed)
    plain.unlink()


def verdict(arguments, folder, trace):
    """The document of `meshplan compare` about a trace."""
    c = shape()
    model = folder / "traced-model.json"
    model.write_text(json.dumps(model_file(c)))
    keys = dict(BASE, micro_batch=str(c["micro"]))
    run = subprocess.run(
        [arguments.program, "compare", "--trace", str(trace), "--model", str(model), "--cluster",
         arguments.cluster, "--gpus", "1", "--strategy", ",".join(f"{k}={v}" for k, v in keys.items()),
         "--global-batch", str(c["micro"]), "--seq-len", str(c["seq"]), "--json"],
        capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"meshplan compare ended with {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)


def judged(fault, document):
    """(whether the verdict is right, its first lines)"""
    run = document["runs"][0]
    losses = run["losses"]
    shown = [f"{loss['kind']} {1e3 * loss['lost_s']:.1f} ms" for loss in losses[:3]]
    if fault["kinds"]:
        return bool(losses) and losses[0]["kind"] in fault["kinds"], shown
    measured = run["step_time_s"]["measured"]
    return sum(loss["lost_s"] for loss in losses) <= UNEXPLAINED * measured, shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="meshplan")
    parser.add_argument("--cluster", default="hgx-h200")
    parser.add_argument("--out", default=".")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true", help="what is planted")
    arguments = parser.parse_args()
    chosen = [f for f in FAULTS if not arguments.only or f["name"] in arguments.only.split(",")]
    if arguments.list:
        for f in chosen:
            print(f["name"], "->", " or ".join(f["kinds"]) or "nothing")
        return 0
    torch = torch_on_gpu("gpu_traces")
    if torch is None:
        return 77
    folder = pathlib.Path(arguments.out)
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    rows, lines = [], []
    for fault in chosen:
        path = folder / "traces" / f"{fault['name']}.json.gz"
        try:
            record(torch, fault, path)
            right, shown = judged(fault, verdict(arguments, folder, path))
        except Exception as problem:  # the others can still be judged
            right, shown = False, [f"{type(problem).__name__}: {problem}"]
        torch.cuda.empty_cache()
        rows.append({"planted": fault["name"], "right": right, "verdict": shown})
        lines.append(f"{fault['name']:22} {'right' if right else 'WRONG'}  {'; '.join(shown)}")
        (folder / "traces.json").write_text(json.dumps(rows, indent=2) + "\n")
    text = "\n".join(lines) + f"\n{sum(r['right'] for r in rows)} of {len(rows)} right\n"
    (folder / "traces.txt").write_text(text)
    print(text, end="")
    return 0 if sum(not r["right"] for r in rows) <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What the two clocks of a training step take by themselves on one GPU: the seconds in which the host
issues a layer's forward and backward pass and the optimizer's update, with kernels too small to
matter; and the power, the clock and the rate of the device under products, other kernels and waiting.

usage: gpu_clocks.py --out FOLDER [--seconds S]

Writes FOLDER/clocks.json and FOLDER/clocks.txt. Ends with 77 without PyTorch or a GPU.
"""
import argparse
import json
import pathlib
import statistics
import sys
import threading
import time

from gpu_training import build, case, rotary_angles, torch_on_gpu


def host_seconds(torch, c, **optimizer):
    """Host seconds to issue (forward, backward, update), the device never behind."""
    device = torch.device("cuda")
    with torch.device(device):
        model = build(torch, c).to(torch.bfloat16)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, **optimizer)
    tokens = torch.randint(c["vocab"], (c["micro"], c["seq"]), device=device)
    angles = rotary_angles(torch, c, device)
    taken = []
    for _ in range(25):
        adam.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = model(tokens, tokens, angles)
        forward = time.perf_counter()
        torch.cuda.synchronize()
        backward = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        torch.cuda.synchronize()
        update = time.perf_counter()
        adam.step()
        taken.append((forward - begin, end - backward, time.perf_counter() - update))
    return [statistics.median(t) for t in zip(*taken[5:])]


def host_rows(torch):
    rows = []
    for family, recompute in (("gpt", "none"), ("llama", "none"), ("llama", "full")):
        small = [case(family, n, 128, 4, 4, 512, 1024, 64, 1, recompute) for n in (4, 12)]
        for update in ({"fused": True}, {"foreach": True}):
            few, many = (host_seconds(torch, c, **update) for c in small)
            rows.append({"family": family, "recompute": recompute, "update": next(iter(update)),
                         "layer_forward_s": (many[0] - few[0]) / 8,
                         "layer_backward_s": (many[1] - few[1]) / 8,
                         "layer_update_s": (many[2] - few[2]) / 8,
                         "rest_s": [a - (b - a) / 2 for a, b in zip(few, many)]})
    return rows


class Meter:
    """Power and clock of the device every few milliseconds while a block runs."""

    def __init__(self, nvml, handle):
        self.nvml, self.handle, self.samples, self.on = nvml, handle, [], False

    def look(self):
        while self.on:
            now = time.monotonic()
            self.samples.append((now, self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1e3,
                                 self.nvml.nvmlDeviceGetClockInfo(self.handle, 1)))
            time.sleep(0.02)

    def __enter__(self):
        self.samples, self.on = [], True
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.on = False
        self.thread.join()

    def settled(self):
        """Means of the last half: what nvml calls power is a mean over up to a second."""
        half = self.samples[len(self.samples) // 2:]
        return (statistics.mean(s[1] for s in half), statistics.mean(s[2] for s in half))


def works(torch):
    """(name, FLOPs or bytes of one run, what runs once)"""
    device = "cuda"
    half = torch.bfloat16
    a, b = (torch.randn(8192, 8192, device=device, dtype=half) for _ in "ab")
    zeros = torch.zeros(8192, 8192, device=device, dtype=half)
    small = torch.randn(1024, 1024, device=device, dtype=half)
    thin = torch.randn(8192, 1024, device=device, dtype=half)
    a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=device)
    long = torch.randn(1 << 29, device=device, dtype=half)
    out = torch.empty_like(long)
    q = torch.randn(1, 32, 8192, 128, device=device, dtype=half)
    attend = torch.nn.functional.scaled_dot_product_attention
    n = 8192
    yield "product 8192, bf16", 2 * n**3, lambda: a @ b
    yield "product 8192, bf16, zeros", 2 * n**3, lambda: zeros @ zeros
    yield "product 8192, fp8", 2 * n**3, lambda: torch._scaled_mm(a8, b8, one, one, out_dtype=half)
    yield "product k = 1024, bf16", 2 * n * n * 1024, lambda: thin @ thin.t()
    yield "product 1024, bf16", 2 * 1024**3, lambda: small @ small
    yield "attention, causal, 8192", 2 * 32 * n * n * 128, lambda: attend(q, q, q, is_causal=True)
    yield "copy", 4 * long.numel(), lambda: out.copy_(long)
    yield "gelu", 4 * long.numel(), lambda: torch.nn.functional.gelu(long)


def once(torch, run):
    """Seconds of one run, after three to warm up."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def under_load(torch, meter, run, amount, seconds, share=1.0):
    """Power, clock and rate while a run is repeated, waiting between bursts of 20 ms."""
    burst = max(1, round(0.02 / once(torch, run)))
    busy, runs, start = 0.0, 0, time.monotonic()
    with meter:
        while time.monotonic() - start < seconds:
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(burst):
                run()
            last.record()
            last.synchronize()
            took = first.elapsed_time(last) / 1e3
            if time.monotonic() - start > seconds / 2:
                busy, runs = busy + took, runs + burst
            if share < 1:
                time.sleep(took * (1 / share - 1))
    watts, clock = meter.settled()
    return {"power_w": watts, "clock_mhz": clock, "rate_per_s": runs * amount / busy}


def mixed(torch, meter, product, other, seconds, share):
    """A product and other kernels by turns, `share` of the time in products."""
    ratio = once(torch, product) / share * (1 - share) / once(torch, other)
    start, debt, spent, runs = time.monotonic(), 0.0, 0.0, 0
    with meter:
        while time.monotonic() - start < seconds:
            events = []
            for _ in range(8):
                first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                first.record()
                product()
                last.record()
                events.append((first, last))
                debt += ratio
                while debt >= 1:
                    other()
                    debt -= 1
            torch.cuda.synchronize()
            if time.monotonic() - start > seconds / 2:
                spent += sum(a.elapsed_time(b) for a, b in events) / 1e3
                runs += len(events)
    watts, clock = meter.settled()
    return {"power_w": watts, "clock_mhz": clock, "product_s": spent / runs}


def power_rows(torch, seconds):
    import pynvml
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    meter = Meter(pynvml, handle)
    rows = []
    time.sleep(1)
    with meter:
        time.sleep(2)
    watts, clock = meter.settled()
    rows.append({"work": "nothing", "power_w": watts, "clock_mhz": clock})
    kept = {}
    for name, amount, run in works(torch):
        kept[name] = (amount, run)
        rows.append({"work": name, **under_load(torch, meter, run, amount, seconds)})
    amount, product = kept["product 8192, bf16"]
    for share in (0.75, 0.5, 0.25):
        rows.append({"work": "product 8192, bf16, and waiting", "share": share,
                     **under_load(torch, meter, product, amount, seconds, share)})
    for share in (0.9, 0.75, 0.5, 0.25):
        rows.append({"work": "product 8192, bf16, and gelu", "share": share,
                     **mixed(torch, meter, product, kept["gelu"][1], seconds, share)})
    limits = {"power_limit_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3,
              "highest_clock_mhz": pynvml.nvmlDeviceGetMaxClockInfo(handle, 1)}
    return rows, limits


def text_of(document):
    lines = []
    for r in document["host"]:
        lines.append(f"host, {r['family']}, recompute {r['recompute']}, {r['update']} update: a layer's forward "
                     f"{1e6 * r['layer_forward_s']:.0f} us, backward {1e6 * r['layer_backward_s']:.0f} us, "
                     f"update {1e6 * r['layer_update_s']:.1f} us; the rest "
                     + ", ".join(f"{1e6 * t:.0f}" for t in r["rest_s"]) + " us")
    for r in document.get("power", []):
        share = f" {100 * r['share']:.0f} %" if "share" in r else ""
        rate = f", {r['rate_per_s'] / 1e12:.1f} T/s" if "rate_per_s" in r else ""
        each = f", product {1e3 * r['product_s']:.3f} ms" if "product_s" in r else ""
        lines.append(f"{r['work']}{share}: {r['power_w']:.0f} W at {r['clock_mhz']:.0f} MHz{rate}{each}")
    lines.append(str(document.get("limits", "")))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default=".")
    parser.add_argument("--seconds", type=float, default=4, help="of each work under the power meter")
    arguments = parser.parse_args()
    torch = torch_on_gpu("gpu_clocks")
    if torch is None:
        return 77
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    document = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "host": host_rows(torch)}
    failed = False
    try:
        document["power"], document["limits"] = power_rows(torch, arguments.seconds)
    except Exception as problem:  # no management library, or one that does not tell
        print(f"gpu_clocks: no power: {type(problem).__name__}: {problem}", file=sys.stderr)
        failed = True
    (folder / "clocks.json").write_text(json.dumps(document, indent=2) + "\n")
    (folder / "clocks.txt").write_text(text_of(document))
    print(text_of(document), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

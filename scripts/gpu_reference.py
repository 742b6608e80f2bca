#!/usr/bin/env python3
"""Trains small GPT and Llama models with PyTorch on one GPU and compares step time and peak memory
with what `meshplan estimate` says about them. The training code is plain PyTorch: eager kernels,
bf16 weights and AdamW states, the fused optimizer, FlashAttention, with and without recomputation.

usage: gpu_reference.py --program MESHPLAN --cluster CLUSTER[,CLUSTER...] --out FOLDER
                        [--budget SECONDS] [--only NAME,...] [--list]

Several clusters (the shipped one, then the profile that bench measured) predict the same runs; the
last one is judged, the others are shown. One layer of some cases is timed by itself, forward and
backward, against the sum of its kernels' predictions: the median of measured over predicted is what
the sum leaves out. The host time of an eager kernel launch is measured and shown beside the
launch_gap of the clusters. Writes FOLDER/reference.json and FOLDER/reference.txt. Ends with 0 if all
medians are within their limits (step time 10 %, layer time 5 %, memory 3 %), 1 if not or if a case
failed, 77 without PyTorch or a GPU.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

from gpu_training import build, case, model_file, rotary_angles, torch_on_gpu

LIMITS = {"step_time": 0.10, "layer_time": 0.05, "peak_memory": 0.03}
# Training runs for weeks: what counts is the time after the power limit has settled the clocks.
WARM_UP, WARM_UP_SECONDS, STEPS = 3, 1.5, 7
LAYER_STEPS, LAYERS_IN_A_ROW, MOST_LAYERS = 20, 4, 4


# The most telling first: the time may run out. Pairs that differ in their layers alone give the time
# of one layer.
CASES = [
    case("llama", 4, 4096, 32, 32, 11008, 32000, 4096, 1),
    case("llama", 8, 4096, 32, 32, 11008, 32000, 4096, 1),
    case("gpt", 4, 4096, 32, 32, 16384, 51200, 2048, 2),
    case("gpt", 8, 4096, 32, 32, 16384, 51200, 2048, 2),
    case("llama", 8, 4096, 32, 32, 11008, 32000, 4096, 1, "full"),
    case("gpt", 8, 4096, 32, 32, 16384, 51200, 2048, 2, "full"),
    case("llama", 4, 4096, 32, 8, 14336, 128256, 8192, 1),
    case("llama", 2, 8192, 64, 8, 28672, 32000, 4096, 1),
    case("llama", 4, 8192, 64, 8, 28672, 32000, 4096, 1),
    case("gpt", 24, 2048, 16, 16, 8192, 51200, 2048, 4),
    case("llama", 16, 2048, 32, 8, 8192, 128256, 4096, 2),
    case("gpt", 12, 768, 12, 12, 3072, 51200, 1024, 16),
    # What the host issues takes longer than what the device does.
    case("gpt", 24, 512, 8, 8, 2048, 51200, 512, 2),
    case("llama", 16, 1024, 16, 16, 2816, 32000, 1024, 1),
    case("llama", 8, 4096, 32, 32, 11008, 32000, 2048, 4, "full"),
]


def strategy(c):
    """What the training code below does, in meshplan's keys."""
    keys = {"framework": "fsdp", "tp": 1, "pp": 1, "dp": 1, "zero": 0, "micro_batch": c["micro"],
            "precision": "bf16", "master_weights": False, "grad_dtype": "bf16",
            "optimizer_dtype": "bf16", "recompute": c["recompute"], "flash_attention": True,
            "kernels.attention": "flash2", "kernels.fused_norm": True, "kernels.fused_rope": False,
            "kernels.fused_activation": False, "kernels.fused_dropout_add": False,
            "kernels.fused_cross_entropy": False, "kernels.fused_grad_accumulation": False,
            "kernels.fused_optimizer": True}
    text = {True: "true", False: "false"}
    return ",".join(f"{k}={text.get(v, v) if isinstance(v, bool) else v}" for k, v in keys.items())


def estimated_plan(program, cluster, c, folder):
    """The document of meshplan estimate about a case."""
    path = pathlib.Path(folder) / f"{c['name']}.json"
    path.write_text(json.dumps(model_file(c)))
    run = subprocess.run(
        [program, "estimate", "--model", str(path), "--cluster", cluster, "--gpus", "1", "--strategy",
         strategy(c), "--global-batch", str(c["micro"]), "--seq-len", str(c["seq"]), "--json"],
        capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{c['name']}: meshplan estimate ended with {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)


def estimate(program, cluster, c, folder):
    """(step time, bytes of tensors at the peak) that meshplan expects."""
    plan = estimated_plan(program, cluster, c, folder)["plan"]
    memory = plan["memory"][0]
    # max_memory_allocated counts tensors: neither the context nor what the allocator holds back.
    return plan["step_time_s"], memory["peak_bytes"] - memory["reserved_bytes"]


def estimate_layer(program, cluster, c, folder):
    """(seconds of one layer forward and backward, host seconds of one launch) that meshplan expects.
    The first is what two layers more add to the kernels of a step."""
    kernels = []
    for more in (0, 2):
        taller = dict(c, layers=2 + more, name=f"{c['name']}-{2 + more}")
        document = estimated_plan(program, cluster, taller, folder)
        stage = document["plan"]["stages"][0]
        kernels.append(stage["forward_s"] + stage["backward_s"])
    gap = seconds_of(document["cluster"]["spec"]["device"]["launch_gap"])
    return (kernels[1] - kernels[0]) / 2, gap


def seconds_of(text):
    """Seconds of a quantity as files have it, "6 us"."""
    value, unit = text.split()
    return float(value) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def measure(torch, c):
    """(step time in seconds, bytes of tensors at the peak, spread) of one case on the GPU."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    device = torch.device("cuda")
    torch.manual_seed(1)
    with torch.device(device):
        model = build(torch, c).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(c["vocab"], (c["micro"], c["seq"]), device=device)
    targets = torch.randint(c["vocab"], (c["micro"], c["seq"]), device=device)
    angles = rotary_angles(torch, c, device)
    times, step, first, warm = [], 0, time.monotonic(), False
    torch.cuda.synchronize()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        while len(times) < STEPS:
            if not warm and step >= WARM_UP and time.monotonic() - first >= WARM_UP_SECONDS:
                warm = True
                torch.cuda.reset_peak_memory_stats()
            step += 1
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            optimizer.zero_grad(set_to_none=True)
            loss = model(tokens, targets, angles)
            loss.backward()
            optimizer.step()
            end.record()
            torch.cuda.synchronize()
            if warm:
                times.append(begin.elapsed_time(end) / 1e3)
    if not math.isfinite(loss.item()):
        raise RuntimeError(f"{c['name']}: the loss is {loss.item()}")
    peak = torch.cuda.max_memory_allocated()
    del model, optimizer, loss
    torch.cuda.empty_cache()
    return statistics.median(times), peak, (max(times) - min(times)) / statistics.median(times)


def measure_layer(torch, c):
    """Seconds of one layer of a case, forward and backward, with the gradient of its input."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    device = torch.device("cuda")
    torch.manual_seed(1)
    with torch.device(device):
        block = build(torch, dict(c, layers=1)).blocks[0].to(torch.bfloat16)
    x = torch.randn(c["micro"], c["seq"], c["hidden"], device=device, dtype=torch.bfloat16,
                    requires_grad=True)
    gradient = torch.randn_like(x)
    angles = rotary_angles(torch, c, device)
    times, first, warm = [], time.monotonic(), False
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        while len(times) < LAYER_STEPS:
            warm = warm or time.monotonic() - first >= WARM_UP_SECONDS
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            # Several in a row: the host is ahead of the device then, as it is within a model.
            for _ in range(LAYERS_IN_A_ROW):
                block(x, angles).backward(gradient)
            end.record()
            torch.cuda.synchronize()
            block.zero_grad(set_to_none=True)
            x.grad = None
            if warm:
                times.append(begin.elapsed_time(end) / 1e3 / LAYERS_IN_A_ROW)
    return statistics.median(times)


def measure_launch_gap(torch, launches=400, repeats=15):
    """Host seconds that PyTorch takes to issue one small kernel of a forward pass that is trained:
    an addition whose result is new, with autograd's record of it. So few in a row that the queue of
    the device takes them all."""
    x = torch.zeros(1024, device="cuda", requires_grad=True)
    one = torch.ones(1024, device="cuda")
    times = []
    for repeat in range(1 + repeats):
        y = x
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(launches):
            y = y + one
        if repeat > 0:
            times.append((time.perf_counter() - begin) / launches)
    torch.cuda.synchronize()
    return statistics.median(times)


def layer_rows(rows):
    """Pairs of cases that differ in their number of layers give the time of one layer."""
    found = []
    for a in rows:
        for b in rows:
            same = all(a["case"][k] == b["case"][k] for k in a["case"] if k not in ("name", "layers"))
            more = b["case"]["layers"] - a["case"]["layers"]
            if not same or more <= 0:
                continue
            found.append({"name": f"layer of {b['case']['name']}",
                          "predicted": (b["predicted_step_s"] - a["predicted_step_s"]) / more,
                          "measured": (b["measured_step_s"] - a["measured_step_s"]) / more})
    return found


def relative(predicted, measured):
    return predicted / measured - 1


def single_layer_errors(layers, cluster):
    return [relative(r["predicted_s"][cluster], r["measured_s"]) for r in (layers or {"rows": []})["rows"]]


def summarise(rows, layers=None, cluster=None):
    """Median absolute errors, and whether each keeps its limit. None where nothing was measured.
    Times of a layer are those of single layers and what layers add to a step."""
    errors = {
        "step_time": [relative(r["predicted_step_s"], r["measured_step_s"]) for r in rows],
        "layer_time": [relative(r["predicted"], r["measured"]) for r in layer_rows(rows)]
                      + single_layer_errors(layers, cluster),
        "peak_memory": [relative(r["predicted_bytes"], r["measured_bytes"]) for r in rows],
    }
    medians = {k: statistics.median(map(abs, v)) if v else None for k, v in errors.items()}
    within = {k: m is not None and m <= LIMITS[k] for k, m in medians.items()}
    return {"cases": len(rows), "median_error": medians, "limit": LIMITS, "within": within}


def seen_by(rows, cluster):
    """The rows with another cluster's predictions."""
    return [dict(r, predicted_step_s=r["predictions"][cluster]["step_s"],
                 predicted_bytes=r["predictions"][cluster]["bytes"]) for r in rows]


def others_text(rows, clusters, layers):
    """One line for each cluster that is not judged."""
    lines = []
    for cluster in clusters[:-1]:
        medians = summarise(seen_by(rows, cluster), layers, cluster)["median_error"]
        shown = ", ".join(f"{name} {100 * m:.1f} %" for name, m in medians.items() if m is not None)
        lines.append(f"median errors with {cluster}: {shown}\n")
    return "".join(lines)


def report_text(rows, summary):
    lines = [f"{'case':36} {'predicted':>10} {'measured':>10} {'error':>8}   "
             f"{'predicted':>10} {'measured':>10} {'error':>8}"]
    for r in rows:
        time_error = relative(r["predicted_step_s"], r["measured_step_s"])
        memory_error = relative(r["predicted_bytes"], r["measured_bytes"])
        lines.append(
            f"{r['case']['name']:36} {1e3 * r['predicted_step_s']:7.1f} ms {1e3 * r['measured_step_s']:7.1f} ms "
            f"{100 * time_error:+7.1f}%   {r['predicted_bytes'] / 2**30:6.2f} GiB "
            f"{r['measured_bytes'] / 2**30:6.2f} GiB {100 * memory_error:+7.1f}%")
    for r in layer_rows(rows):
        lines.append(f"{r['name']:36} {1e3 * r['predicted']:7.2f} ms {1e3 * r['measured']:7.2f} ms "
                     f"{100 * relative(r['predicted'], r['measured']):+7.1f}%")
    for name, median in summary["median_error"].items():
        shown = "nothing measured" if median is None else f"{100 * median:.1f} %"
        word = "within" if summary["within"][name] else "NOT within"
        lines.append(f"median error of {name}: {shown}, {word} {100 * LIMITS[name]:.0f} %")
    return "\n".join(lines) + "\n"


def single_layers(torch, arguments, cases, clusters):
    """What one layer by itself takes, against the sum of its kernels' predictions, and the launch gap.
    A case that cannot be estimated or run is named; none is judged: the steps' cases are."""
    folder = pathlib.Path(arguments.out)
    rows, failed, seen, gaps = [], [], set(), {}
    for c in cases:
        shape = tuple(c[k] for k in ("family", "hidden", "heads", "groups", "ffn", "seq", "micro"))
        if c["recompute"] != "none" or shape in seen or len(rows) >= MOST_LAYERS:
            continue
        seen.add(shape)
        try:
            predicted = {}
            for cluster in clusters:
                predicted[cluster], gaps[cluster] = estimate_layer(arguments.program, cluster, c, folder)
            rows.append({"name": c["name"], "measured_s": measure_layer(torch, c),
                         "predicted_s": predicted})
        except RuntimeError as problem:
            print(f"the layer of {c['name']} failed: {problem}", file=sys.stderr)
            failed.append(c["name"])
            torch.cuda.empty_cache()
    factors = {cluster: statistics.median(r["measured_s"] / r["predicted_s"][cluster] for r in rows)
               for cluster in clusters} if rows else {}
    return {"rows": rows, "failed": failed, "residual_factor": factors,
            "launch_gap_s": measure_launch_gap(torch), "launch_gap_of_clusters_s": gaps}


def layers_text(layers):
    lines = []
    for r in layers["rows"]:
        shown = ", ".join(f"{1e3 * t:.2f} ms with {cluster}" for cluster, t in r["predicted_s"].items())
        lines.append(f"one layer of {r['name']}: measured {1e3 * r['measured_s']:.2f} ms, its kernels "
                     f"{shown}\n")
    for cluster, factor in layers["residual_factor"].items():
        lines.append(f"measured layer over the sum of its kernels with {cluster}: {factor:.3f}\n")
    shown = ", ".join(f"{1e6 * gap:.1f} us of {cluster}"
                      for cluster, gap in layers["launch_gap_of_clusters_s"].items())
    lines.append(f"host time of one eager launch: {1e6 * layers['launch_gap_s']:.1f} us; launch_gap "
                 f"{shown}\n")
    return "".join(lines)


def run(torch, arguments, cases, clusters, layers=None):
    """(rows, the names of cases that failed)"""
    rows, failed, end = [], [], time.monotonic() + arguments.budget
    folder = pathlib.Path(arguments.out)
    for c in cases:
        if time.monotonic() > end:
            print(f"time is up before {c['name']}", file=sys.stderr)
            break
        try:
            predictions = {cluster: dict(zip(("step_s", "bytes"),
                                             estimate(arguments.program, cluster, c, folder)))
                           for cluster in clusters}
            measured_s, measured_bytes, spread = measure(torch, c)
        except torch.cuda.OutOfMemoryError:
            print(f"{c['name']} does not fit on this GPU", file=sys.stderr)
            torch.cuda.empty_cache()
            continue
        except RuntimeError as problem:
            # A plan that meshplan refuses, or a kernel that this PyTorch lacks: not the others' cost.
            print(f"{c['name']} failed: {problem}", file=sys.stderr)
            failed.append(c["name"])
            continue
        judged = predictions[clusters[-1]]
        rows.append({"case": c, "predicted_step_s": judged["step_s"], "measured_step_s": measured_s,
                     "spread": spread, "predicted_bytes": judged["bytes"],
                     "measured_bytes": measured_bytes, "predictions": predictions})
        # Kept after every case, whatever happens to the next.
        document = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rows": rows,
                    "failed": failed, "summary": summarise(rows, layers, clusters[-1]),
                    "single_layers": layers}
        partial = folder / "reference.json.part"
        partial.write_text(json.dumps(document, indent=2) + "\n")
        os.replace(partial, folder / "reference.json")
    return rows, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="meshplan")
    parser.add_argument("--cluster", default="hgx-h200")
    parser.add_argument("--out", default=".")
    parser.add_argument("--budget", type=float, default=180)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true", help="the cases and their estimates alone")
    arguments = parser.parse_args()
    clusters = arguments.cluster.split(",")
    cases = [c for c in CASES if not arguments.only or c["name"] in arguments.only.split(",")]
    pathlib.Path(arguments.out).mkdir(parents=True, exist_ok=True)
    if arguments.list:
        for c in cases:
            t, n = estimate(arguments.program, clusters[-1], c, arguments.out)
            print(f"{c['name']:36} {1e3 * t:9.1f} ms {n / 2**30:7.2f} GiB")
        return 0
    torch = torch_on_gpu("gpu_reference")
    if torch is None:
        return 77
    begin = time.monotonic()
    layers = single_layers(torch, arguments, cases, clusters)
    arguments.budget -= time.monotonic() - begin
    rows, failed = run(torch, arguments, cases, clusters, layers)
    summary = summarise(rows, layers, clusters[-1])
    text = (report_text(rows, summary) + others_text(rows, clusters, layers)
            + layers_text(layers))
    (pathlib.Path(arguments.out) / "reference.txt").write_text(text)
    print(text, end="")
    return 0 if all(summary["within"].values()) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())

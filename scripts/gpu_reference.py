#!/usr/bin/env python3
"""Trains small GPT and Llama models with PyTorch on one GPU and compares step time and peak memory
with what `meshplan estimate` says about them. The training code is plain PyTorch: eager kernels,
bf16 weights and AdamW states, the fused optimizer, FlashAttention, with and without recomputation.

usage: gpu_reference.py --program MESHPLAN --cluster CLUSTER[,CLUSTER...] --out FOLDER
                        [--budget SECONDS] [--only NAME,...] [--list]

Several clusters (the shipped one, then the profile that bench measured) predict the same runs; the
last one is judged, the others are shown. Writes FOLDER/reference.json and FOLDER/reference.txt. Ends
with 0 if all medians are within their limits (step time 10 %, layer time 5 %, memory 3 %), 1 if not
or if a case failed, 77 without PyTorch or a GPU.
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

LIMITS = {"step_time": 0.10, "layer_time": 0.05, "peak_memory": 0.03}
WARM_UP, STEPS = 3, 7


def case(family, layers, hidden, heads, groups, ffn, vocab, seq, micro, recompute="none"):
    name = f"{family}-l{layers}-h{hidden}-s{seq}-b{micro}" + ("" if recompute == "none" else "-full")
    return {"name": name, "family": family, "layers": layers, "hidden": hidden, "heads": heads,
            "groups": groups, "ffn": ffn, "vocab": vocab, "seq": seq, "micro": micro,
            "recompute": recompute}


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
    case("llama", 8, 4096, 32, 32, 11008, 32000, 2048, 4, "full"),
]


def model_file(c):
    """The case as a model file (JSON, which is YAML)."""
    gpt = c["family"] == "gpt"
    return {
        "name": c["name"], "num_layers": c["layers"], "hidden_size": c["hidden"],
        "num_attention_heads": c["heads"], "num_query_groups": c["groups"],
        "ffn_hidden_size": c["ffn"], "gated_mlp": not gpt, "activation": "gelu" if gpt else "silu",
        "norm": "layernorm" if gpt else "rmsnorm",
        "position_embedding": "learned" if gpt else "rope", "vocab_size": c["vocab"],
        "tied_embeddings": False, "linear_bias": gpt, "dropout": 0.0, "max_seq_length": c["seq"],
        "attention": {"kind": "mha" if c["groups"] == c["heads"] else "gqa"},
        "source": "a case of scripts/gpu_reference.py",
    }


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


def estimate(program, cluster, c, folder):
    """(step time, bytes of tensors at the peak) that meshplan expects."""
    path = pathlib.Path(folder) / f"{c['name']}.json"
    path.write_text(json.dumps(model_file(c)))
    run = subprocess.run(
        [program, "estimate", "--model", str(path), "--cluster", cluster, "--gpus", "1", "--strategy",
         strategy(c), "--global-batch", str(c["micro"]), "--seq-len", str(c["seq"]), "--json"],
        capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{c['name']}: meshplan estimate ended with {run.returncode}: {run.stderr}")
    plan = json.loads(run.stdout)["plan"]
    memory = plan["memory"][0]
    # max_memory_allocated counts tensors: neither the context nor what the allocator holds back.
    return plan["step_time_s"], memory["peak_bytes"] - memory["reserved_bytes"]


def build(torch, c):
    """The model of a case: plain modules, as a reader of a paper would write them."""
    nn, functional = torch.nn, torch.nn.functional
    gpt, hidden, head = c["family"] == "gpt", c["hidden"], c["hidden"] // c["heads"]

    def linear(n_in, n_out, bias=gpt):
        return nn.Linear(n_in, n_out, bias=bias)

    def norm():
        return nn.LayerNorm(hidden) if gpt else nn.RMSNorm(hidden, eps=1e-5)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = norm(), norm()
            self.qkv = linear(hidden, (c["heads"] + 2 * c["groups"]) * head)
            self.out = linear(hidden, hidden)
            self.up = linear(hidden, c["ffn"] * (1 if gpt else 2))
            self.down = linear(c["ffn"], hidden)

        def forward(self, x, angles):
            b, s, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(
                [c["heads"] * head, c["groups"] * head, c["groups"] * head], dim=-1)
            q = q.view(b, s, c["heads"], head).transpose(1, 2)
            k = k.view(b, s, c["groups"], head).transpose(1, 2)
            v = v.view(b, s, c["groups"], head).transpose(1, 2)
            if not gpt:
                q, k = rotate(q, *angles), rotate(k, *angles)
            a = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                        enable_gqa=c["groups"] != c["heads"])
            x = x + self.out(a.transpose(1, 2).reshape(b, s, hidden))
            y = self.up(self.norm2(x))
            if gpt:
                y = functional.gelu(y)
            else:
                gate, value = y.chunk(2, dim=-1)
                y = functional.silu(gate) * value
            return x + self.down(y)

    def rotate(x, cosine, sine):
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(c["vocab"], hidden)
            self.places = nn.Embedding(c["seq"], hidden) if gpt else None
            self.blocks = nn.ModuleList(Block() for _ in range(c["layers"]))
            self.norm = norm()
            self.head = linear(hidden, c["vocab"], bias=False)

        def forward(self, tokens, targets, angles):
            x = self.embed(tokens)
            if self.places is not None:
                x = x + self.places.weight
            for block in self.blocks:
                if c["recompute"] == "full":
                    x = torch.utils.checkpoint.checkpoint(block, x, angles, use_reentrant=False)
                else:
                    x = block(x, angles)
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.view(-1, c["vocab"]).float(), targets.view(-1))

    return Model()


def rotary_angles(torch, c, device):
    half = c["hidden"] // c["heads"] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float32, device=device) / half)
    angles = torch.arange(c["seq"], dtype=torch.float32, device=device)[:, None] * rates
    return angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)


def measure(torch, c):
    """(step time in seconds, bytes of tensors at the peak, spread) of one case on the GPU."""
    import torch.utils.checkpoint  # noqa: F401  (not loaded by itself everywhere)
    from torch.nn.attention import SDPBackend, sdpa_kernel
    device = torch.device("cuda")
    torch.manual_seed(1)
    with torch.device(device):
        model = build(torch, c).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(c["vocab"], (c["micro"], c["seq"]), device=device)
    targets = torch.randint(c["vocab"], (c["micro"], c["seq"]), device=device)
    angles = rotary_angles(torch, c, device)
    times = []
    torch.cuda.synchronize()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for step in range(WARM_UP + STEPS):
            if step == WARM_UP:
                torch.cuda.reset_peak_memory_stats()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            optimizer.zero_grad(set_to_none=True)
            loss = model(tokens, targets, angles)
            loss.backward()
            optimizer.step()
            end.record()
            torch.cuda.synchronize()
            if step >= WARM_UP:
                times.append(begin.elapsed_time(end) / 1e3)
    if not math.isfinite(loss.item()):
        raise RuntimeError(f"{c['name']}: the loss is {loss.item()}")
    peak = torch.cuda.max_memory_allocated()
    del model, optimizer, loss
    torch.cuda.empty_cache()
    return statistics.median(times), peak, (max(times) - min(times)) / statistics.median(times)


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


def summarise(rows):
    """Median absolute errors, and whether each keeps its limit. None where nothing was measured."""
    errors = {
        "step_time": [relative(r["predicted_step_s"], r["measured_step_s"]) for r in rows],
        "layer_time": [relative(r["predicted"], r["measured"]) for r in layer_rows(rows)],
        "peak_memory": [relative(r["predicted_bytes"], r["measured_bytes"]) for r in rows],
    }
    medians = {k: statistics.median(map(abs, v)) if v else None for k, v in errors.items()}
    within = {k: m is not None and m <= LIMITS[k] for k, m in medians.items()}
    return {"cases": len(rows), "median_error": medians, "limit": LIMITS, "within": within}


def seen_by(rows, cluster):
    """The rows with another cluster's predictions."""
    return [dict(r, predicted_step_s=r["predictions"][cluster]["step_s"],
                 predicted_bytes=r["predictions"][cluster]["bytes"]) for r in rows]


def others_text(rows, clusters):
    """One line for each cluster that is not judged."""
    lines = []
    for cluster in clusters[:-1]:
        medians = summarise(seen_by(rows, cluster))["median_error"]
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


def run(torch, arguments, cases, clusters):
    """(rows, the names of cases that failed)"""
    rows, failed, end = [], [], time.monotonic() + arguments.budget
    folder = pathlib.Path(arguments.out)
    for c in cases:
        if time.monotonic() > end:
            print(f"time is up before {c['name']}", file=sys.stderr)
            break
        predictions = {cluster: dict(zip(("step_s", "bytes"),
                                         estimate(arguments.program, cluster, c, folder)))
                       for cluster in clusters}
        try:
            measured_s, measured_bytes, spread = measure(torch, c)
        except torch.cuda.OutOfMemoryError:
            print(f"{c['name']} does not fit on this GPU", file=sys.stderr)
            torch.cuda.empty_cache()
            continue
        except RuntimeError as problem:  # a kernel that this PyTorch lacks must not cost the others
            print(f"{c['name']} failed: {problem}", file=sys.stderr)
            failed.append(c["name"])
            continue
        judged = predictions[clusters[-1]]
        rows.append({"case": c, "predicted_step_s": judged["step_s"], "measured_step_s": measured_s,
                     "spread": spread, "predicted_bytes": judged["bytes"],
                     "measured_bytes": measured_bytes, "predictions": predictions})
        # Kept after every case, whatever happens to the next.
        document = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rows": rows,
                    "failed": failed, "summary": summarise(rows)}
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
    try:
        import torch
    except ImportError:
        print("gpu_reference: there is no PyTorch here", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("gpu_reference: PyTorch finds no GPU here", file=sys.stderr)
        return 77
    rows, failed = run(torch, arguments, cases, clusters)
    summary = summarise(rows)
    text = report_text(rows, summary) + others_text(rows, clusters)
    (pathlib.Path(arguments.out) / "reference.txt").write_text(text)
    print(text, end="")
    return 0 if all(summary["within"].values()) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())

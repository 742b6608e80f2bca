#!/usr/bin/env python3
"""Predicts training runs of Megatron-LM's continuous integration and compares memory and step time.

score.py MESHPLAN [--rows FILE] [--floor FILE [--raise]] [--only TEXT]
MESHPLAN is the program. Each run becomes a launch script that `import megatron-args` and `estimate`
read, as a user would. --floor fails where an error is larger than that file allows; --raise writes
today's errors where they are smaller, never larger. See README.md here for what is compared.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

CLUSTER = {"dgx_h100": "dgx-h100", "dgx_a100": "dgx-a100-80gb", "dgx_gb200": "gb200-nvl72"}
RUNS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runs.jsonl")
# A change in the last digits, as another compiler makes it, is no change.
TOLERANCE = 0.0005


def runs(path):
    """Every measurement with the launch that it is of."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            launch = json.loads(line)
            for measured in launch.pop("measured"):
                yield launch, measured


def called(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def launch_script(launch):
    exports = [f"export {k}={shlex.quote(v)}\n" for k, v in launch["environment"].items()]
    return ("#!/bin/bash\n" + "".join(exports) +
            f"torchrun --nproc-per-node {launch['gpus_per_node']} --nnodes {launch['nodes']} "
            f"{launch['script']} {launch['arguments']}\n")


def predict(program, run):
    """The plan, or why there is none."""
    launch, measured = run
    with tempfile.TemporaryDirectory() as scratch:
        script, out = os.path.join(scratch, "train.sh"), os.path.join(scratch, "out")
        with open(script, "w", encoding="utf-8") as file:
            file.write(launch_script(launch))
        read = called(program, "import", "megatron-args", script, "--out", out,
                      "--release", measured["date"])
        if read.returncode != 0:
            return "import: " + read.stderr.strip().splitlines()[0]
        said = called(program, "estimate", "--model", os.path.join(out, "model.yaml"),
                      "--strategy", os.path.join(out, "strategy.yaml"),
                      "--cluster", CLUSTER[measured["platform"]], "--json")
        try:
            answer = json.loads(said.stdout)
        except ValueError:
            return "estimate: " + said.stderr.strip()
        if "plan" not in answer:
            why = answer.get("infeasible", {}).get("messages") or [said.stderr.strip()]
            return "estimate: " + why[0]
        return answer["plan"]


def row(run, plan):
    measured = run[1]
    memory = plan["memory"][-1]  # the last rank's is what is logged
    static = sum(memory[k] for k in ("weights_bytes", "gradients_bytes", "optimizer_bytes"))
    static += memory.get("persistent_buffers_bytes", 0)
    peak = memory["peak_bytes"] - memory["reserved_bytes"]
    compared = {"static": (static, measured["allocated"]), "peak": (peak, measured.get("peak")),
                "step": (plan["step_time_s"], measured.get("step_s"))}
    errors = {k: p / m - 1 for k, (p, m) in compared.items() if m}
    return {"id": measured["id"], "large": measured.get("large", False), "date": measured["date"],
            "platform": measured["platform"], "static_bytes": static, "peak_bytes": peak,
            "measured_static_bytes": measured["allocated"],
            "measured_peak_bytes": measured.get("peak"), **errors}


def summary(rows, refused):
    """Median error by part and by what is compared; how many runs have no prediction."""
    result = {"refused": len(refused)}
    for part, chosen in (("all", rows), ("large", [r for r in rows if r["large"]])):
        for key in ("static", "peak", "step"):
            errors = [r[key] for r in chosen if key in r]
            if not errors:
                continue
            result[f"{part} {key}"] = statistics.median(map(abs, errors))
            print(f"{part:5} {key:6} n {len(errors):3}  median error "
                  f"{100 * result[f'{part} {key}']:6.2f} %  bias {100 * statistics.median(errors):+6.1f} %"
                  f"  within 5 %: {100 * sum(abs(e) <= .05 for e in errors) / len(errors):3.0f} %")
    return result


def check(floor_path, errors, lower):
    with open(floor_path, encoding="utf-8") as file:
        floor = json.load(file)
    worse = [k for k in floor if k not in errors or errors[k] > floor[k] + TOLERANCE]
    for key in worse:
        print(f"{key}: {errors.get(key)}, the floor allows {floor[key]}")
    if lower:
        best = {k: min(errors.get(k, v), v) for k, v in floor.items()}
        with open(floor_path, "w", encoding="utf-8") as file:
            json.dump({k: round(v, 4) for k, v in sorted(best.items())}, file, indent=2)
            file.write("\n")
    return 1 if worse else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--rows", help="writes every run's errors as JSON")
    parser.add_argument("--floor", help="errors that are allowed, as JSON")
    parser.add_argument("--raise", dest="lower", action="store_true")
    parser.add_argument("--only", default="", help="runs whose name has this in it")
    chosen = parser.parse_args()
    all_runs = [r for r in runs(chosen.runs) if chosen.only in r[1]["id"]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        plans = list(pool.map(lambda r: predict(chosen.program, r), all_runs))
    refused = [p for p in plans if isinstance(p, str)]
    rows = [row(r, p) for r, p in zip(all_runs, plans) if not isinstance(p, str)]
    errors = summary(rows, refused)
    print(f"{len(all_runs)} runs, {len(refused)} refused")
    for why, count in collections.Counter(refused).most_common():
        print(f"  {count:3} {why}")
    if chosen.rows:
        with open(chosen.rows, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return check(chosen.floor, errors, chosen.lower) if chosen.floor else 0


if __name__ == "__main__":
    sys.exit(main())

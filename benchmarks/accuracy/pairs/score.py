#!/usr/bin/env python3
"""Predicts pairs of measured runs that differ in one switch, and compares what the switch changes.

score.py MESHPLAN [--pairs FILE]
MESHPLAN is the program. Of each group in FILE the first case is what the others are compared with. A
change is met if it has the measured one's sign and misses it by 30 % or 0.5 GB at most (memory), by 3
points of the step time (time); a measured change of less than 0.1 GB or a point has no sign. Fails
where one is missed that the file does not name as missed. See README.md here.
"""
import argparse
import json
import os
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def predict(program, group, case):
    """Allocated bytes of the fullest rank in GB, and seconds of a step."""
    model = group["model"]
    if model.endswith(".yaml"):
        model = os.path.join(FOLDER, model)
    said = subprocess.run(
        [program, "estimate", "--model", model, "--cluster", group["cluster"], "--gpus",
         str(group["gpus"]), "--strategy", group["strategy"] + "," + case["keys"], "--json"],
        capture_output=True, text=True, check=False)
    answer = json.loads(said.stdout)
    if "plan" not in answer:
        sys.exit(f"{case['keys']}: no prediction: {said.stdout}")
    plan = answer["plan"]
    if group.get("memory") == "persistent":
        held = ["weights_bytes", "gradients_bytes", "optimizer_bytes", "persistent_buffers_bytes"]
        memory = max(sum(m[name] for name in held) for m in plan["memory"])
    else:
        memory = max(m["peak_bytes"] - m["reserved_bytes"] for m in plan["memory"])
    return {"memory_gb": memory / 1e9, "step_s": plan["step_time_s"]}


def has_sign(measured, predicted, noise):
    return abs(measured) < noise or (measured > 0) == (predicted > 0)


def compare(kind, before, after, predicted_before, predicted_after):
    """Measured and predicted change, and whether the prediction meets it."""
    if kind == "memory_gb":
        measured, predicted = after - before, predicted_after - predicted_before
        near, noise = max(0.5, 0.3 * abs(measured)), 0.1
    else:
        measured = 100 * (after / before - 1)
        predicted = 100 * (predicted_after / predicted_before - 1)
        near, noise = 3, 1
    return measured, predicted, (has_sign(measured, predicted, noise) and
                                 abs(predicted - measured) <= near)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--pairs", default=os.path.join(FOLDER, "pairs.json"))
    chosen = parser.parse_args()
    with open(chosen.pairs, encoding="utf-8") as file:
        groups = json.load(file)
    wrong = 0
    for group in groups:
        print(f"{group['what']}: {group['model'].removesuffix('.yaml')}, {group['gpus']} GPUs")
        first, *others = group["cases"]
        reference = predict(chosen.program, group, first)
        for case in others:
            prediction = predict(chosen.program, group, case)
            for kind, unit in (("memory_gb", "GB"), ("step_s", "%")):
                if kind not in case:
                    continue
                measured, predicted, met = compare(kind, first[kind], case[kind], reference[kind],
                                                   prediction[kind])
                known = kind in case.get("missed", [])
                wrong += not met and not known
                note = "met" if met else "missed"
                if met == known:
                    note += ", unlike before"
                print(f"  {case['keys']:60} {unit:2} measured {measured:+7.2f} "
                      f"predicted {predicted:+7.2f}  {note}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

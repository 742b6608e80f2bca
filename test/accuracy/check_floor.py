#!/usr/bin/env python3
"""Compares the accuracy on published runs with the floor that was reached before.

check_floor.py PROGRAM FOLDER FLOOR [--raise]
PROGRAM is meshplan-accuracy, FOLDER holds the published runs, FLOOR is a JSON file of the largest
errors allowed (fractions). Fails if any error grew; --raise writes the errors of this run where they
are smaller, never larger.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

# A change in the last digits, as another compiler makes it, is no change.
TOLERANCE = 0.001


def report(program, folder):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "accuracy.json")
        subprocess.run([program, folder, "--json", path], check=True, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def measured(program, folder):
    result = report(program, folder)
    errors = {"macro": result["macro"]["step_time"]["median_abs"]}
    for name, source in result["sources"].items():
        if source["step_time"]:
            errors[name] = source["step_time"]["median_abs"]
    return errors


def main():
    program, folder, floor_path = sys.argv[1:4]
    with open(floor_path, encoding="utf-8") as file:
        floor = json.load(file)
    errors = measured(program, folder)
    failures = 0
    for name in sorted(set(floor) | set(errors)):
        allowed, error = floor.get(name), errors.get(name)
        if error is None or not math.isfinite(error):
            print(f"{name}: in the floor, but not scored")
            failures += 1
        elif allowed is not None and error > allowed + TOLERANCE:
            print(f"{name}: median error {error:.4f}, the floor allows {allowed:.4f}")
            failures += 1
    if "--raise" in sys.argv[4:]:
        better = {k: round(min(v, floor.get(k, math.inf)), 4) for k, v in sorted(errors.items())}
        temporary = floor_path + ".new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(better, file, indent=2)
            file.write("\n")
        os.replace(temporary, floor_path)
    print(f"{len(errors)} errors, {failures} above the floor")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

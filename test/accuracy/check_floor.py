#!/usr/bin/env python3
"""Compares the accuracy on published runs with the floor that was reached before.

check_floor.py PROGRAM FOLDER FLOOR [--raise | --rechosen]
PROGRAM is meshplan-accuracy, FOLDER holds the published runs, FLOOR is a JSON file of the largest
errors allowed (fractions). Fails if any error grew; --raise writes the errors of this run where they
are smaller, never larger. --rechosen is for constants that `--cross-validate` chose anew on all
sources: sources may then trade, and their errors of this run are written, but the mean over sources
must not grow.
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
        for part in ("memory", "longest_sequence"):
            if source.get(part):
                errors[f"{name}, {part.replace('_', ' ')}"] = source[part]["median_abs"]
    for name, error in errors.items():
        if error is None or not math.isfinite(error):
            sys.exit(f"{name}: its error is no number")
    return errors


def above(floor, errors):
    """Names of errors that are missing or larger than the floor allows, printed as they are found."""
    names = []
    for name in sorted(set(floor) | set(errors)):
        allowed, error = floor.get(name), errors.get(name)
        if error is None:
            print(f"{name}: in the floor, but not scored")
            names.append(name)
        elif allowed is not None and error > allowed + TOLERANCE:
            print(f"{name}: median error {error:.4f}, the floor allows {allowed:.4f}")
            names.append(name)
    return names


def write(path, floor):
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump({name: round(value, 4) for name, value in sorted(floor.items())}, file, indent=2)
        file.write("\n")
    os.replace(temporary, path)


def main(arguments):
    program, folder, floor_path = arguments[:3]
    options = arguments[3:]
    with open(floor_path, encoding="utf-8") as file:
        floor = json.load(file)
    errors = measured(program, folder)
    names = above(floor, errors)
    if "--rechosen" in options:
        names = [n for n in names if n == "macro" or n not in errors]
        if not names:
            write(floor_path, errors | {"macro": min(errors["macro"], floor["macro"])})
    elif "--raise" in options:
        write(floor_path, {n: min(errors.get(n, math.inf), floor.get(n, math.inf))
                           for n in set(floor) | set(errors)})
    print(f"{len(errors)} errors, {len(names)} above the floor")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

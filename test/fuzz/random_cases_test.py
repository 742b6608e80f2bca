#!/usr/bin/env python3
"""Random models, clusters, strategies and searches: the program checks the invariants, this script
holds every document against its JSON Schema.

usage: random_cases_test.py PROGRAM SCHEMA_FOLDER estimate|search FIRST_SEED COUNT
"""
import collections
import json
import pathlib
import subprocess
import sys

import jsonschema

AT_LEAST = 0.2  # of the estimates must be of strategies that fit: else the cases are worth nothing


def main():
    program, schemas, what, first, count = sys.argv[1:]
    run = subprocess.run([program, what, first, count], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(run.stderr[-2000:])
        sys.exit(f"random_cases ended with {run.returncode}; the last seed named above is why")
    validators, seen = {}, collections.Counter()
    for line in run.stdout.splitlines():
        case = json.loads(line)
        name = case["schema"]
        if name not in validators:
            text = (pathlib.Path(schemas) / f"{name}.schema.json").read_text(encoding="utf-8")
            validators[name] = jsonschema.Draft7Validator(json.loads(text))
        errors = [e.message[:300] for e in validators[name].iter_errors(case["document"])]
        if errors:
            sys.exit(f"seed {case['seed']}: {name}: {errors[0]}")
        document = case["document"]
        seen[name] += 1
        seen["feasible"] += bool(document.get("plans")) or document.get("verdict") == "feasible"
    print(dict(seen))
    if seen["feasible"] < AT_LEAST * sum(n for name, n in seen.items() if name != "feasible"):
        sys.exit("too few of the cases are feasible")


if __name__ == "__main__":
    main()

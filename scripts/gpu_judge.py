#!/usr/bin/env python3
"""Judges what `meshplan bench --json` wrote, for scripts/gpu_check: that a command ended well says
only that nothing was wrong, which also holds where nothing was measured.

usage: gpu_judge.py checked FILE [--complete] [--allow WORDS] KIND...
       gpu_judge.py profile FILE NUMBER...
       gpu_judge.py products FILE [--limit SHARE]
  checked    every KIND (as --only has them, or gemm/bf16/forward, attention/backward, memory/adam)
             has samples, the results of all samples are correct, and nothing was skipped but for the
             device's size (fp8 too where no KIND names it) or for a reason with these WORDS; --complete:
             and the time was enough for all of them
  profile    a profile was made, with each NUMBER (as gemm.sustained.bf16) from samples
  products   the median error of products whose shapes the fit was kept from is within 5 %
Says what it found; ends with 0 if all of it is so, else with 1.
"""
import argparse
import json
import pathlib
import sys

# What may be left out: an operation that needs more memory than this device has.
ALLOWED_SKIPS = ("of the device's",)
# Kinds whose results nobody can compare: an empty kernel has none.
WITHOUT_RESULT = ("launch",)
PRODUCT_LIMIT = 0.05


def names_of(operation):
    """Under which names a KIND may ask for a sample: memory, memory/adam, gemm/bf16/forward, ..."""
    kind = operation["kind"]
    details = {"collective": [operation.get("collective")],
               "gemm": [operation.get("precision"), operation.get("layout")],
               "attention": ["backward" if operation.get("backward") else "forward"],
               "memory": [operation.get("kernel")], "copy": [operation.get("direction")],
               "launch": ["graph" if operation.get("graph") else "stream"]}.get(kind, [])
    return ["/".join([kind, *details[:n]]) for n in range(len(details) + 1)]


def judge_checked(document, kinds, complete=False, allowed=()):
    """What is missing of a proof that these kinds compute what they have to: sentences."""
    problems = []
    found = {}
    for sample in document["samples"]:
        for name in names_of(sample["operation"]):
            found[name] = found.get(name, 0) + 1
        state = sample["correctness"]
        if state == "wrong":
            problems.append(f"wrong: {sample['text']}")
        elif state != "correct" and sample["operation"]["kind"] not in WITHOUT_RESULT:
            problems.append(f"its result was not looked at: {sample['text']}")
    problems += [f"nothing was measured of {kind}" for kind in kinds if not found.get(kind)]
    # A device without fp8 is not asked for it.
    unasked = [] if any("fp8" in kind for kind in kinds) else [" fp8"]
    problems += [f"left out: {skip['text']}: {skip['reason']}" for skip in document["skipped"]
                 if not any(words in skip["reason"] for words in (*ALLOWED_SKIPS, *allowed))
                 and not any(words in skip["text"] for words in unasked)]
    if complete and (document["not_reached"] > 0 or document["end"] != "complete"):
        problems.append(f"it ended {document['end']}, before {document['not_reached']} operations")
    return problems


def judge_profile(document, numbers):
    """What is missing of a profile with these numbers of the device."""
    if document["wrong_results"] > 0:
        return [f"{document['wrong_results']} results are wrong"]
    profile = document.get("profile")
    if profile is None or "file" not in profile:
        return ["no profile was made"]
    measured = {n["key"]: n["errors"]["samples"] for n in profile["numbers"]}
    return [f"{number} was not measured" for number in numbers if measured.get(number, 0) < 1]


def judge_products(document, limit=PRODUCT_LIMIT):
    """(what is wrong with the predictions of unseen products, a line for each fit)"""
    lines, problems = [], []
    for n in document.get("profile", {}).get("numbers", []):
        if not n["key"].startswith("gemm.") or n["errors"]["held_out_p90"] <= 0:
            continue
        error = n["errors"]["held_out_median"]
        lines.append(f"{n['key']}: median error of shapes held out {100 * error:.1f} %, 90th percentile "
                     f"{100 * n['errors']['held_out_p90']:.1f} %, {n['errors']['samples']} samples")
        if error > limit:
            problems.append(f"{n['key']}: {100 * error:.1f} % is NOT within {100 * limit:.0f} %")
    if not lines:
        problems.append("no products were held out of a fit")
    return problems, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("checked", "profile", "products"))
    parser.add_argument("file")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--limit", type=float, default=PRODUCT_LIMIT)
    arguments = parser.parse_intermixed_args()
    try:
        document = json.loads(pathlib.Path(arguments.file).read_text())
    except (OSError, ValueError) as problem:
        print(f"gpu_judge: {arguments.file}: {problem}", file=sys.stderr)
        return 1
    lines = []
    if arguments.what == "checked":
        problems = judge_checked(document, arguments.names, arguments.complete, arguments.allow)
    elif arguments.what == "profile":
        problems = judge_profile(document, arguments.names)
    else:
        problems, lines = judge_products(document, arguments.limit)
    print("\n".join([*lines, *problems] or ["as it has to be"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

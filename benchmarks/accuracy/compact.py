#!/usr/bin/env python3
"""Turns a folder of published runs (YAML, one file per source) into the compact form of
published.hpp: one .jsonl per source, every field that is scored or mapped, and where it is from.

  compact.py SOURCE_FOLDER TARGET_FOLDER [--use score,feasibility]
  compact.py SOURCE_FOLDER TARGET_FOLDER --use sanity --memory-only NAME,NAME
  compact.py SOURCE_FOLDER TARGET_FOLDER --use sanity --complete NAME,NAME

The second form takes files whose rows tell their memory, but not what they computed: lengths of
samples, the GPU. They are written as NAME_memory, of use `memory`. The third form takes files whose
tables leave out what the presets of their code state (bridge_presets.jsonl): they are scored.
"""

import argparse
import collections
import json
import pathlib

import yaml

# What describes the file; `where` and `arch_from` keep the origin of each row.
HEAD = ["schema", "use", "source", "hardware", "note"]
SKIPPED_ROW_KEYS = {"source_kind"}
# Other measured values restate the step time under one FLOP convention or another.
KEPT_MEASURED = ("step_time_s", "memory", "max_context")
KEPT_DERIVED = ("step_time_s", "step_time_how")
# What configurations say that rows name and leave out, by their names. Read at the rows' commit of
# mlcommons/training_results_v5.0, 0fdc28f0: those of Giga Computing, Supermicro and Lambda, the first
# by the name of NVIDIA's, export FP8_ACT=1, and NVIDIA's megatron_gpt_peft_tuning_config.yaml takes
# activation_func_fp8_input_store from it.
OF_CONFIGURATIONS = {
    name: "SwiGLU input stored in FP8 (activation_func_fp8_input_store)"
    for name in ("config_DGXB200_1x8x1xtp1pp1cp1.sh", "config_GB200_2x4x1xtp1pp1cp1.sh",
                 "config_AS-A126GS-TNBR_1x8x1xtp1pp1cp1.sh", "config_1ccB200_1x8x1xtp1pp1cp1.sh")}


def with_configuration(row):
    """The row with a note of what its configuration says more, where that is known."""
    where = row.get("where") or ""
    for name, note in OF_CONFIGURATIONS.items():
        if "training_results_v5.0" in where and f"/{name}" in where:
            row["notes"] = "; ".join(filter(None, [note, row.get("notes")]))
    return row


def kept(section, words):
    """The entries of a measured or derived section whose key has one of the words."""
    return {k: v for k, v in (section or {}).items() if any(w in k for w in words)}


def compact_row(row):
    row = {k: v for k, v in row.items() if k not in SKIPPED_ROW_KEYS}
    row["measured"] = kept(row.get("measured"), KEPT_MEASURED)
    row["derived"] = kept(row.get("derived"), KEPT_DERIVED)
    if row["measured"].get("step_time_s") == row["derived"].get("step_time_s"):
        row["derived"] = {}
    return {k: v for k, v in row.items() if v not in (None, {}, "")}


def model_names(rows):
    """A short name for every distinct model section."""
    names = {}
    for row in rows:
        text = json.dumps(row.get("model"), sort_keys=True)
        base = (row.get("model") or {}).get("name", "model")
        if text not in names:
            names[text] = f"{base}#{len(names) + 1}"
    return names


def defaults_of(rows):
    """The commonest value of every key that at least half of the rows share."""
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        for key, value in row.items():
            if key not in ("id", "where"):
                counts[key][json.dumps(value, sort_keys=True)] += 1
    common = {}
    for key, values in counts.items():
        text, times = values.most_common(1)[0]
        if 2 * times > len(rows) > 1:
            common[key] = json.loads(text)
    return common


def difference(row, defaults):
    """The row with what equals a default left out and what it lacks set to null."""
    short = {k: v for k, v in row.items() if k not in defaults or defaults[k] != v}
    for key in defaults:
        if key not in row:
            short[key] = None
    return short


def compact(file):
    head = {k: file[k] for k in HEAD if k in file}
    rows = [with_configuration(compact_row(row)) for row in file.get("runs") or []]
    names = model_names(rows)
    head["models"] = {name: json.loads(text) for text, name in names.items()}
    for row in rows:
        row["model"] = names[json.dumps(row.get("model"), sort_keys=True)]
    head["defaults"] = defaults_of(rows)
    if "rows" in file:
        head["rows"] = len(file["rows"])
    lines = [head] + [difference(row, head["defaults"]) for row in rows]
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
                   for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--use", default="score,feasibility",
                        help="which files, by their `use` (default: %(default)s)")
    parser.add_argument("--memory-only", metavar="NAMES",
                        help="of these files only rows that state their memory, as use `memory`")
    parser.add_argument("--complete", metavar="NAMES",
                        help="these files alone, as use `score`")
    options = parser.parse_args()
    memory_only = options.memory_only.split(",") if options.memory_only else []
    complete = options.complete.split(",") if options.complete else []
    options.target.mkdir(parents=True, exist_ok=True)
    wanted = options.use.split(",")
    for path in sorted(options.source.glob("*.yaml")):
        file = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        name = path.stem
        named = memory_only + complete
        if file.get("use") not in wanted or (named and name not in named):
            continue
        if complete:
            file["use"] = "score"
            name = name.removesuffix(".sanity")
        if memory_only:
            file["use"] = "memory"
            file["runs"] = [row for row in file["runs"] if kept(row.get("measured"), ("memory",))]
            name = name.removesuffix(".sanity").removesuffix("_memory") + "_memory"
        text = compact(file)
        (options.target / (name + ".jsonl")).write_text(text, encoding="utf-8")
        print(f"{name}: {len(file.get('runs') or [])} runs, {len(text)} bytes")


if __name__ == "__main__":
    main()

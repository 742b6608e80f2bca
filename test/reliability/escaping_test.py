#!/usr/bin/env python3
"""Names from files are data everywhere: no shell, no YAML, TOML, JSON or HTML parser and no terminal
takes a part of them for anything else.

usage: escaping_test.py PROGRAM [unittest arguments]
"""
import html.parser
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

from hostile import HOSTILE, ROOT, cluster, device, document

try:
    import tomllib
except ImportError:  # Python 3.10 and before
    tomllib = None

PROGRAM = ""
FORMATS = ("megatron", "slurm", "deepspeed", "torchtitan", "megatron-bridge", "accelerate", "axolotl", "torchtune")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u061c\u200e\u200f\ufeff]")
COLOUR = re.compile("\x1b\\[[0-9;]*m")


def strings(value):
    """All texts of a document, its keys too."""
    if isinstance(value, str):
        return [value]
    parts = value if isinstance(value, list) else [*value, *value.values()] if isinstance(value, dict) else []
    return [text for part in parts for text in strings(part)]


class Scripts(html.parser.HTMLParser):
    """Elements and attributes of a page, outside of its own scripts."""

    def __init__(self):
        super().__init__()
        self.tags, self.handlers = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


class Escaping(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshplan-escaping-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        fakes = self.folder / "bin"
        fakes.mkdir()
        for name in ("torchrun", "srun", "accelerate", "deepspeed", "python", "python3", "scontrol"):
            # Not sh: a hostile word must not be able to choose what runs.
            (fakes / name).write_text("#!/bin/sh\nprintf 'ran\\n'\n")
            (fakes / name).chmod(0o755)

    def inputs(self, name):
        # JSON's escapes are YAML's, but for pairs of surrogates.
        quoted = json.dumps(name, ensure_ascii=max(name) < "\U00010000")
        (self.folder / "model.yaml").write_text(
            f"name: {quoted}\nnum_layers: 4\nhidden_size: 256\nnum_attention_heads: 4\nffn_hidden_size: 1024\n"
            f"gated_mlp: true\nactivation: silu\nnorm: rmsnorm\nvocab_size: 1024\nmax_seq_length: 512\nsource: {quoted}\n")
        (self.folder / "cluster.yaml").write_text(
            f"name: {quoted}\ndevice: h100-sxm-80gb\nnodes: 2\ngpus_per_node: 4\nsource: {quoted}\nlevels:\n"
            f"  - {{name: {quoted}, span: 4, bandwidth: 450 GB/s, latency: 3 us, kind: nvswitch}}\n"
            "  - {name: net, span: all, bandwidth: 50 GB/s, latency: 8 us, kind: infiniband}\n")
        return ["--model", "./model.yaml", "--cluster", "./cluster.yaml", "--global-batch", "16", "--seq-len", "512"]

    def run_program(self, *arguments, **options):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, check=False, timeout=120,
                              **options)

    def assert_nothing_ran(self, name):
        owned = [str(p) for p in self.folder.rglob("owned*")]
        self.assertEqual(owned, [], name)

    def test_every_export(self):
        environment = dict(os.environ, PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}", MEGATRON_PATH="/m",
                           NODE_RANK="0", MASTER_ADDR="a", SLURM_JOB_ID="7", SLURM_CPUS_ON_NODE="8",
                           SLURM_JOB_NODELIST="n", SLURM_SUBMIT_DIR=str(self.folder))
        written = 0
        for name in HOSTILE:
            workload = self.inputs(name)
            for form in FORMATS:
                with self.subTest(name=name, format=form):
                    out = self.folder / "job"
                    shutil.rmtree(out, ignore_errors=True)
                    done = self.run_program("export", *workload, "--strategy", "tp=2,pp=2" if form in FORMATS[:2] else "zero=1",
                                            "--format", form, "--out", "job", "-q")
                    self.assertIn(done.returncode, (0, 1, 2), done.stderr)
                    if done.returncode != 0:
                        continue
                    written += 1
                    for file in out.iterdir():
                        self.check_file(file, environment, name)
        self.assertGreater(written, 2 * len(HOSTILE))

    def check_file(self, file, environment, name):
        text = file.read_text()
        kind = file.suffix
        if kind in (".sh", ".sbatch", ".args"):
            self.assertEqual(subprocess.run(["bash", "-n", file], check=False, capture_output=True).returncode, 0)
            self.assertNotRegex(text, "\x1b|\x07")
            if kind == ".sbatch":
                allowed = ("--job-name=", "--nodes=", "--ntasks-per-node=", "--gpus-per-node=", "--exclusive", "--output=")
                for line in text.splitlines():
                    if line.startswith("#SBATCH"):
                        self.assertTrue(line[8:].startswith(allowed), line)
                        self.assertRegex(line[8:], r"^[-\w=.%]+$")
            subprocess.run(["bash", file.name], cwd=file.parent, env=environment, check=False, capture_output=True,
                           stdin=subprocess.DEVNULL, timeout=30)
            self.assert_nothing_ran(name)
        elif kind == ".json":
            json.loads(text)
        elif kind in (".yaml", ".yml"):
            yaml.safe_load(text)
        elif kind == ".toml" and tomllib:
            tomllib.loads(text)
        elif kind == ".py":
            compile(text, file.name, "exec")

    def test_imported_clusters_keep_what_logs_call_their_variables(self):
        devices = [{"group": 0, "hostname": "h", "device_info": "H100"}] * 8
        results = [{"size": 1 << i, "out_of_place": {"time": 10 + (1 << i) * 1e-5, "nwrong": 0}} for i in range(10, 24)]
        written = 0
        for name in HOSTILE + ["A: 1\nnodes: 7\nx", "D: {a", "E\t", "? x", "k "]:
            key, value = "NCCL_" + name.replace("=", "-"), name
            log = {"nccl_version": 22300, "args": ["all_reduce_perf"], "env": [f"{key}={value}"], "start_time": name,
                   "config": {"nthreads": 1, "ngpus": 1, "devices": devices}, "results": results}
            (self.folder / "log.json").write_text(json.dumps(log, ensure_ascii=max(name) < "\U00010000"))
            with self.subTest(name=name):
                done = self.run_program("import", "nccl-tests", "log.json", "--cluster", "dgx-h100", "--out", "measured.yaml", "-q")
                self.assertEqual(done.returncode, 0, done.stderr)
                cluster = yaml.safe_load((self.folder / "measured.yaml").read_text())
                self.assertEqual(cluster["measured"]["environment"], {key: value})
                self.assertEqual(cluster["nodes"], 2048)
                again = self.run_program("estimate", "--model", "llama-2-7b", "--cluster", "./measured.yaml", "--gpus", "8",
                                         "--strategy", "tp=1", "--global-batch", "8", "--seq-len", "512", "-q")
                self.assertIn(again.returncode, (0, 1), again.stderr)
                written += 1
        self.assertEqual(written, len(HOSTILE) + 5)

    def written(self, *arguments):
        """The profile that a command writes, which the next one reads."""
        done = self.run_program(*arguments, "--out", "measured.yaml", "-q")
        self.assertEqual(done.returncode, 0, done.stderr)
        profile = yaml.safe_load((self.folder / "measured.yaml").read_text())
        again = self.run_program("estimate", "--model", "llama-2-7b", "--cluster", "./measured.yaml", "--strategy", "tp=1",
                                 "--gpus", "2", "--global-batch", "8", "--seq-len", "512", "-q")
        self.assertIn(again.returncode, (0, 1), again.stderr)
        self.assert_nothing_ran(arguments)
        return profile

    def assert_kept(self, profile, given):
        for key in ("name", "source"):
            self.assertEqual(profile[key], given[key])
        self.assertEqual([level["name"] for level in profile["levels"]], [level["name"] for level in given["levels"]])
        self.assertEqual(profile["device"]["name"], given["device"]["name"])

    def test_profiles_of_benchmarks_keep_the_names(self):
        for name in HOSTILE:
            ranks = [{"rank": r, "local_rank": r, "node": 0, "host": name, "device": name, "device_id": name} for r in (0, 1)]
            versions = {"driver": name, "cuda": name, "nccl": name, "v" + name: name}
            lines = [{"record": "machine", "backend": "nccl", "accelerator": True, "nodes": 1, "ranks_per_node": 2,
                      "device_memory_bytes": 0, "versions": versions, "environment": {"NCCL_" + name: name}, "date": name,
                      "time_sliced": False, "ranks": ranks}]
            for size in (1 << i for i in range(10, 24)):
                operation = {"kind": "collective", "collective": "all-reduce", "bytes": size, "dtype": "fp32", "bidirectional": False,
                             "group": {"size": 2, "stride": 1, "nodes": 1, "concurrent": True}}
                time = 1e-5 + size * 1e-10
                lines.append({"record": "sample", "operation": operation, "median_s": time, "spread": 0.0, "calls": 1, "outliers": 0,
                              "throttled": False, "slowest_rank": 0, "correctness": "correct", "note": name, "times_s": [time]})
            (self.folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            given = cluster(name, device(name, {name: name, "peak" + name: name}))
            (self.folder / "cluster.yaml").write_text(document(given))
            with self.subTest(name=name):
                imported = ["import", "bench-samples", "samples.jsonl", "--cluster", "./cluster.yaml"]
                profile = self.written(*imported)
                self.assert_kept(profile, given)
                self.assertEqual(profile["device"]["sources"], given["device"]["sources"])
                self.assertEqual({fit["level"] for fit in profile["collectives"]}, {name})
                measured = profile["measured"]
                for key in ("host", "gpu", "driver", "cuda", "nccl", "date"):
                    self.assertEqual(measured[key], name)
                self.assertEqual(measured["environment"], {"NCCL_" + name: name})
                self.assertEqual(measured["notes"]["v" + name], name)
                done = self.run_program(*imported, "--json")
                self.assertIn(name, strings(json.loads(done.stdout.decode())))
                self.assert_inert(self.on_terminal(*imported))

    def test_profiles_fitted_to_logs_keep_the_names(self):
        log = "".join(f" iteration {i}/ 6 | consumed samples: {64 * i} | elapsed time per iteration (ms): {t} | global batch size: 64 |\n"
                      for i, t in enumerate((50000.0, 10010.0, 9990.0, 10000.0, 10010.0, 9990.0), 1))
        model = yaml.safe_load((ROOT / "models/llama-2-7b.yaml").read_text())
        for name in HOSTILE:
            (self.folder / "model.yaml").write_text(document(dict(model, name=name)))
            given = cluster(name, device(name, {name: name}), gpus=8)
            (self.folder / "cluster.yaml").write_text(document(given))
            file = "log " + name.replace("/", "-")[:100]
            (self.folder / file).write_text(log)
            with self.subTest(name=name):
                fit = ["calibrate", "--model", "./model.yaml", "--cluster", "./cluster.yaml", "--seq-len", "4096", "--log", file,
                       "--strategy", "tp=2,micro_batch=1"]
                profile = self.written(*fit)
                self.assert_kept(profile, given)
                sources, before = profile["device"]["sources"], given["device"]["sources"]
                learnt = {key: basis for key, basis in sources.items() if key not in before}
                self.assertIn("gemm.sustained.bf16", learnt)
                for basis in learnt.values():
                    self.assertIn("to 1 run of " + name, basis)
                self.assertEqual({key: sources[key] for key in before}, before)
                done = self.run_program(*fit, "--json")
                self.assertTrue({name, file} <= set(strings(json.loads(done.stdout.decode()))))
                self.assert_inert(self.on_terminal(*fit))

    def test_a_profile_that_nobody_could_read_is_not_written(self):
        # No text of a file is longer than 64 KiB: a basis that quotes such a model is.
        model = (ROOT / "models/llama-2-7b.yaml").read_text().replace("name: llama-2-7b", "name: " + "m" * 65_500)
        (self.folder / "model.yaml").write_text(model)
        (self.folder / "run.log").write_text("".join(
            f" iteration {i}/ 6 | consumed samples: {64 * i} | elapsed time per iteration (ms): 10000.0 | global batch size: 64 |\n"
            for i in range(1, 7)))
        fit = ["calibrate", "--model", "./model.yaml", "--cluster", "dgx-a100-80gb", "--gpus", "8", "--seq-len", "4096",
               "--log", "run.log", "--strategy", "tp=2,micro_batch=1"]
        self.assertEqual(self.run_program(*fit).returncode, 0)
        for before in (None, "the old one"):
            if before:
                (self.folder / "measured.yaml").write_text(before)
            done = self.run_program(*fit, "--out", "measured.yaml")
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"a text longer than 64 KiB", done.stderr)
            self.assertIn(b"could not be read back, so it is not written", done.stderr)
            self.assertEqual([p.read_text() for p in self.folder.glob("measured*")], [before] if before else [])

    def test_a_device_called_like_a_file_is_written_out(self):
        # Only shipped devices are named: a path would lead elsewhere from another folder.
        spec = device("./device.yaml", {})
        (self.folder / "device.yaml").write_text(document(spec))
        (self.folder / "cluster.yaml").write_text(document(dict(cluster("c", "./device.yaml"))))
        (self.folder / "log.json").write_text(json.dumps(
            {"nccl_version": 22300, "args": ["all_reduce_perf"], "env": [], "start_time": "",
             "config": {"nthreads": 1, "ngpus": 1, "devices": [{"group": 0, "hostname": "h", "device_info": "H100"}] * 2},
             "results": [{"size": 1 << i, "out_of_place": {"time": 10 + (1 << i) * 1e-5, "nwrong": 0}} for i in range(10, 24)]}))
        profile = self.written("import", "nccl-tests", "log.json", "--cluster", "./cluster.yaml")
        self.assertEqual(profile["device"]["name"], "./device.yaml")

    def test_plans_and_models_are_read_back(self):
        for name in HOSTILE:
            with self.subTest(name=name):
                done = self.run_program("plan", *self.inputs(name), "--space", "megatron", "--out", "plans", "--top", "1", "-q")
                self.assertEqual(done.returncode, 0, done.stderr)
                done = self.run_program("export", "--plans", "plans/plans.json", "--format", "megatron")
                self.assertEqual(done.returncode, 0, done.stderr)
                config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "num_hidden_layers": 4,
                          "num_attention_heads": 4, "intermediate_size": 1024, "vocab_size": 1024, "max_position_embeddings": 512,
                          "_name_or_path": name}
                (self.folder / "config.json").write_text(document(config))
                done = self.run_program("import", "hf-config", "config.json", "--out", "imported.yaml")
                self.assertEqual(done.returncode, 0, done.stderr)
                workload = self.inputs(name)
                workload[1] = "./imported.yaml"
                done = self.run_program("estimate", *workload, "--strategy", "tp=2", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_json_keeps_the_name(self):
        for name in HOSTILE:
            with self.subTest(name=name):
                done = self.run_program("estimate", *self.inputs(name), "--strategy", "tp=2", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                document = json.loads(done.stdout.decode())
                self.assertEqual(document["model"]["name"], name)

    def test_the_report(self):
        for name in HOSTILE:
            with self.subTest(name=name):
                done = self.run_program("plan", *self.inputs(name), "--html", "r.html", "--top", "1", "-q")
                if b"built without the HTML report" in done.stderr:
                    self.skipTest("no page in this build")
                self.assertEqual(done.returncode, 0, done.stderr)
                page = (self.folder / "r.html").read_text()
                plain = self.tags_of("plain")
                parser = Scripts()
                parser.feed(page)
                self.assertEqual((parser.tags, parser.handlers), plain)

    def tags_of(self, name):
        if not hasattr(self, "plain"):
            kept = {n: (self.folder / n).read_text() for n in ("model.yaml", "cluster.yaml")}
            self.run_program("plan", *self.inputs(name), "--html", "plain.html", "--top", "1", "-q")
            parser = Scripts()
            parser.feed((self.folder / "plain.html").read_text())
            self.plain = (parser.tags, parser.handlers)
            for n, text in kept.items():
                (self.folder / n).write_text(text)
        return self.plain

    def on_terminal(self, *arguments):
        """What a terminal gets on both streams."""
        master, slave = pty.openpty()
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=slave,
                                   stderr=slave, env={k: v for k, v in os.environ.items() if k != "CI"})
        os.close(slave)
        output = b""
        while True:
            try:
                block = os.read(master, 65536)
            except OSError:
                break
            if not block:
                break
            output += block
        process.wait(120)
        os.close(master)
        return output.decode(errors="surrogateescape").replace("\r\n", "\n")

    def assert_inert(self, text):
        # The progress bar returns to the line's start and erases its rest; colours are the program's own.
        shown = COLOUR.sub("", text).replace("\r", "").replace("\x1b[K", "")
        self.assertIsNone(CONTROL.search(shown), ascii(shown)[:400])

    def test_terminals_get_no_control_characters(self):
        for name in HOSTILE:
            workload = self.inputs(name)
            for command in (["estimate", *workload, "--strategy", "tp=2"], ["plan", *workload, "--top", "1"],
                            ["estimate", *workload, "--strategy", "tp=2", "--json"], ["plan", *workload, "-v", "--top", "1"],
                            ["estimate", *workload, "--strategy", "tp=999"],
                            ["export", *workload, "--strategy", "tp=2", "--format", "megatron"]):
                with self.subTest(name=name, command=command[0]):
                    self.assert_inert(self.on_terminal(*command))

    def test_errors_name_hostile_arguments_and_files_harmlessly(self):
        for name in HOSTILE:
            if "\x00" in name:
                continue
            for command in (["estimate", "--model", name], ["estimate", "--strategy", name + "=1"], ["lint", name], [name],
                            ["--" + name], ["list", name], ["import", name, name], ["plan", "--cluster", name],
                            ["export", "--format", name], ["report", "--plans", name, "--html", name + "/x"]):
                with self.subTest(command=command):
                    self.assert_inert(self.on_terminal(*command))
        self.assert_nothing_ran("arguments")

    def test_errors_in_files_are_harmless(self):
        for name in HOSTILE:
            quoted = json.dumps(name, ensure_ascii=max(name) < "\U00010000")
            for text in (f"{quoted}: 1\n", f"name: x\nnorm: {quoted}\n", f"num_layers: {quoted}\n", f"moe: {{{quoted}: 2}}\n"):
                (self.folder / "bad.yaml").write_text(text)
                with self.subTest(text=text):
                    self.assert_inert(self.on_terminal("estimate", "--model", "./bad.yaml"))


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

#!/usr/bin/env python3
"""Names in what bench and validate write: profiles, devices, samples and documents hold them as they
are, whatever they look like, and nothing of them is run.

usage: names_test.py PROGRAM MPI FAKES PLUGIN_FOLDER [unittest arguments]
MPI is "mpi", or "-" where the build has none; FAKES and PLUGIN_FOLDER are "-" without the plug-in of CUDA.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import yaml

from jobs import TINY_MODEL, Job

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "reliability"))
from hostile import HOSTILE, cluster, device, document  # noqa: E402

PROGRAM, MPI, FAKES, PLUGINS = "", "-", "-", "-"
# What is not in a name is in the sources of the device and in the environment.
NAMES = ["$(touch owned)\"'`touch owned`", "</script><script>alert(1)</script>", "a\nnodes: 7", "\x7f\u2028\u202e\x1b[2J", "null"]
SOURCES = {f"{name}{i}": name for i, name in enumerate(HOSTILE)}


def pair(name, sources):
    """A cluster of two devices."""
    given = cluster(name, device(name, sources), gpus=2)
    given["levels"].pop(0)
    return given


class Names(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def job(self, *arguments, **options):
        job = Job([*arguments], cwd=self.folder, **options)
        self.addCleanup(job.kill)
        codes, out, err = job.end(120)
        self.assertEqual([str(p) for p in self.folder.rglob("owned*")], [])
        return codes[0], out[0], err[0]

    def bench(self, name, environment):
        given = pair(name, SOURCES)
        (self.folder / "cluster.yaml").write_text(document(given))
        return given, self.job(
            PROGRAM, "bench", "--backend", "nccl", "--only", "copy", "--repetitions", "1", "--budget", "1 s",
            "--cluster", "./cluster.yaml", "--out", "here.yaml", "--device-out", "devices", "--json",
            ranks=[{"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}],
            environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS, "FAKE_CUDA_STEADY": "1", **environment})

    def test_a_benchmark_keeps_the_names_and_makes_no_file_of_a_strange_one(self):
        if FAKES == "-":
            self.skipTest("this build has no plug-in of CUDA")
        (self.folder / "devices").mkdir()
        environment = {f"NCCL_{key.replace('=', '-')}": value for key, value in SOURCES.items()}
        for name in NAMES:
            with self.subTest(name=name):
                given, (code, out, err) = self.bench(name, {**environment, "FAKE_CUDA_NAME": name + "\rname: x"})
                is_file = "/" not in name and name.isprintable()
                self.assertEqual(code, 0 if is_file else 2, err)
                profile = yaml.safe_load((self.folder / "here.yaml").read_text())
                self.assertEqual((profile["name"], profile["source"], profile["nodes"]), (name, name, 1))
                self.assertEqual(profile["levels"][0]["name"], given["levels"][0]["name"])
                self.assertEqual(profile["device"]["name"], name)
                self.assertEqual(profile["measured"]["gpu"], name + "\rname: x")
                for found in (profile["device"]["sources"], profile["measured"]["environment"]):
                    self.assertTrue(set(HOSTILE) <= set(found.values()))
                self.assertEqual(json.loads(out)["machine"]["ranks"][0]["device"], name + "\rname: x")
                machine = json.loads((self.folder / "here.samples.jsonl").read_text().split("\n")[0])
                self.assertEqual(machine["environment"], {**machine["environment"], **environment})
                self.assert_read("./here.yaml")
                files = [p.name for p in (self.folder / "devices").iterdir()]
                self.assertEqual(files, [name + ".yaml"] if is_file else [])
                if not is_file:
                    self.assertIn("no file can be called", err)
                    continue
                file = self.folder / "devices" / (name + ".yaml")
                spec = yaml.safe_load(file.read_text())
                self.assertEqual((spec["name"], spec["measured"]["gpu"]), (name, name + "\rname: x"))
                self.assertEqual(spec["sources"], SOURCES | spec["sources"])
                file.rename(self.folder / "device.yaml")
                (self.folder / "of_device.yaml").write_text(document(dict(given, device="./device.yaml")))
                self.assert_read("./of_device.yaml")

    def assert_read(self, profile):
        done = subprocess.run([PROGRAM, "estimate", "--model", "llama-2-7b", "--cluster", profile, "--strategy", "tp=2",
                               "--global-batch", "8", "--seq-len", "512", "-q"],
                              cwd=self.folder, capture_output=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)

    def plans(self, name, given):
        if MPI == "-":
            self.skipTest("this build has no MPI")
        (self.folder / "model.yaml").write_text(TINY_MODEL.replace("name: tiny", "name: " + document(name)))
        (self.folder / "cluster.yaml").write_text(document(given))
        done = subprocess.run([PROGRAM, "plan", "--model", "./model.yaml", "--cluster", "./cluster.yaml", "--global-batch", "8",
                               "--seq-len", "256", "--top", "1", "--fix", "tp=2", "--json"],
                              cwd=self.folder, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.folder / "plans.json").write_bytes(done.stdout)

    def validate(self, *arguments):
        return self.job("mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", PROGRAM, "validate", "--backend", "mpi",
                        "--plans", "plans.json", "--repetitions", "3", "--budget", "2 s", "--tolerance", "1000%",
                        "--update-profile", "here.yaml", *arguments)

    def test_a_validation_keeps_the_names(self):
        for name in NAMES:
            given = pair(name, SOURCES)
            self.plans(name, given)
            with self.subTest(name=name):
                code, out, err = self.validate("--json")
                self.assertEqual(code, 0, err)
                found = json.loads(out)
                self.assertEqual((found["model"], found["cluster"]), (name, name))
                profile = yaml.safe_load((self.folder / "here.yaml").read_text())
                self.assertEqual((profile["name"], profile["source"], profile["nodes"]), (name, name, 1))
                self.assertEqual(profile["levels"][0]["name"], given["levels"][0]["name"])
                self.assertEqual({fit["level"] for fit in profile["collectives"]}, {given["levels"][0]["name"]})
                self.assertEqual((profile["device"]["name"], profile["device"]["sources"]), (name, SOURCES))
                self.assert_read("./here.yaml")

    def test_a_profile_that_nobody_could_read_is_not_written_and_what_was_measured_is_shown(self):
        # 12 MiB of characters that are escaped, which takes twice the room: more than a file may have.
        self.plans("plain", pair("plain", {}))
        plans = json.loads((self.folder / "plans.json").read_text())
        plans["cluster"]["spec"]["device"]["sources"] = {f"key{i}": "\u2028" * 20_000 for i in range(200)}
        (self.folder / "plans.json").write_text(json.dumps(plans, ensure_ascii=False))
        (self.folder / "here.yaml").write_text("the old one")
        code, out, err = self.validate()
        self.assertEqual(code, 2, err)
        self.assertIn("Plan 1", out)
        self.assertIn("could not be read back, so it is not written", err)
        self.assertEqual((self.folder / "here.yaml").read_text(), "the old one")


if __name__ == "__main__":
    PROGRAM, MPI, FAKES, PLUGINS = sys.argv[1:5]
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])

#!/usr/bin/env python3
"""Attention through cuDNN's graph interface, on a library that runs such graphs on the host: what the
plug-in's graphs compute is compared with float64 by the plug-in itself.

usage: attention_test.py PROGRAM FAKES PLUGIN_FOLDER [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from jobs import TINY_MODEL, Job

PROGRAM, FAKES, PLUGINS = "", "", ""


class Attention(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def validate(self, model="", environment=None, context=""):
        """(exit code, output, standard error) of a run with the attention of a small model."""
        text = TINY_MODEL.replace("hidden_size: 256", "hidden_size: 64")
        text = text.replace("ffn_hidden_size: 1024", "ffn_hidden_size: 128")
        text = text.replace("vocab_size: 2048", "vocab_size: 256").replace("layers: 4", "layers: 1")
        (self.folder / "tiny.yaml").write_text(text + model)
        # Kernels of a plan for two devices are those of one of them.
        fixed = "recompute=none,flash_attention=true" + (f",cp=2,cp_kind={context}" if context else "")
        plan = subprocess.run(
            [PROGRAM, "plan", "--model", "tiny.yaml", "--cluster", "hgx-h200", "--gpus",
             "2" if context else "1", "--global-batch", "2", "--seq-len", "32", "--top", "1", "--fix",
             fixed, "--json"],
            cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(plan.returncode, 0, plan.stderr)
        (self.folder / "plans.json").write_text(plan.stdout)
        job = Job([PROGRAM, "validate", "--backend", "nccl", "--plans", "plans.json", "--repetitions",
                   "3", "--json"], cwd=self.folder,
                  environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS,
                               "MESHPLAN_CUDNN_LIBRARY": os.path.join(FAKES, "libcudnn.so.9"),
                               **(environment or {})})
        self.addCleanup(job.kill)
        codes, out, err = job.end(240)
        return codes[0], out[0], err[0]

    def validated(self, **how):
        """{operation name: fidelity, reason} of the attention of a small model, and the failures."""
        code, out, err = self.validate(**how)
        # Rows of 64 are none for the memory-bound kernels: not measured, which is no failure; a host
        # is far from what an H200 was predicted to do.
        self.assertEqual(code, 1, err)
        document = json.loads(out)
        operations = document["plans"][0]["operations"]
        found = {o["name"]: o for o in operations if "attention" in o.get("planned", "")}
        self.assertTrue(found, [o["name"] for o in operations])
        return found, [f for f in document["failures"] if "attention" in json.dumps(f)]

    def test_what_the_graphs_compute_is_attention(self):
        for groups in ("", "num_query_groups: 2\n"):  # every head its own keys; heads that share them
            found, failures = self.validated(model=groups)
            self.assertEqual(failures, [])
            self.assertEqual({o["fidelity"] for o in found.values()}, {"measured"}, found)
            self.assertTrue(any("backward" in name for name in found), found)

    def test_context_parallel_ranks_compute_their_parts_of_the_mask(self):
        # A ring: the own 16 tokens, masked; all of them with half of the other rank's keys, and half of
        # them with all of those. Keys gathered: the first 8 tokens, and the last 8 of all 32.
        parts = {"ring": {"16x16": True, "16x8": False, "8x16": False},
                 "allgather": {"8x8": True, "8x32": True}}
        for kind, wanted in parts.items():
            found, failures = self.validated(context=kind)
            self.assertEqual(failures, [])
            self.assertEqual({o["fidelity"] for o in found.values()}, {"measured"}, found)
            got = {o["planned"].split(" tokens")[0].split()[-1]: o["planned"].startswith("causal")
                   for o in found.values()}
            self.assertEqual(got, wanted)
            self.assertEqual(len(found), 2 * len(wanted), found)  # forward and backward

    def test_a_graph_without_an_engine_is_said_so(self):
        found, failures = self.validated(environment={"FAKE_CUDNN_REFUSES": "1"})
        self.assertEqual(failures, [])
        for operation in found.values():
            self.assertEqual(operation["fidelity"], "predicted")
            self.assertIn("cuDNN has no kernel for this attention", json.dumps(operation))

    def test_versions_with_known_faults_are_not_measured(self):
        # Keys of 32 tokens: no multiple of 128.
        for version, words, which in (("91001", "attention has known faults in cuDNN 9.10.0", ""),
                                      ("90501", "backward pass needs cuDNN 9.6 or later", "backward"),
                                      ("91500", "needs keys in multiples of 128", "backward")):
            found, failures = self.validated(environment={"FAKE_CUDNN_VERSION": version})
            self.assertEqual(failures, [])
            for name, operation in found.items():
                refused = which in name
                self.assertEqual(operation["fidelity"], "predicted" if refused else "measured", name)
                self.assertEqual(words in json.dumps(operation), refused, operation)

    def test_a_graph_that_cannot_be_compiled_costs_no_other_operation(self):
        for status in ("4001", "4004", "3002"):
            found, failures = self.validated(environment={"FAKE_CUDNN_STATUS": status})
            self.assertEqual(failures, [])
            self.assertEqual({o["fidelity"] for o in found.values()}, {"predicted"}, status)

    def test_a_device_that_fails_ends_the_run(self):
        for status in ("5000", "5003", "4002"):
            code, _, err = self.validate(environment={"FAKE_CUDNN_STATUS": status})
            self.assertEqual(code, 3, err)
            self.assertRegex(err, "failed during .*attention.*: cuDNN's attention")

    def test_a_machine_without_cudnn_is_told_so(self):
        found, failures = self.validated(environment={"MESHPLAN_CUDNN_LIBRARY": "libnowhere.so"})
        self.assertEqual(failures, [])
        for operation in found.values():
            self.assertIn("attention needs cuDNN 9, which is not on this machine",
                          json.dumps(operation))


if __name__ == "__main__":
    PROGRAM, FAKES, PLUGINS = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

#!/usr/bin/env python3
"""What scripts/gpu_reference.py and scripts/gpu_check do without a GPU.

usage: reference_test.py SOURCE_DIR PROGRAM [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

SOURCE, PROGRAM = "", ""


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, os.path.join(SOURCE, "scripts"))
        import gpu_reference
        cls.reference = gpu_reference

    def test_every_case_is_a_model_and_a_strategy_that_meshplan_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            for c in self.reference.CASES:
                seconds, size = self.reference.estimate(PROGRAM, "hgx-h200", c, folder)
                self.assertGreater(seconds, 0)
                # bf16 weights, gradients and two AdamW states at least: 8 bytes per parameter.
                blocks = c["layers"] * 4 * c["hidden"] ** 2
                self.assertGreater(size, 8 * blocks)

    def test_errors_are_judged_by_their_medians(self):
        def row(layers, predicted, measured, memory):
            c = self.reference.case("gpt", layers, 64, 4, 4, 256, 1000, 128, 1)
            return {"case": c, "predicted_step_s": predicted, "measured_step_s": measured,
                    "predicted_bytes": memory, "measured_bytes": 100}
        good = [row(2, 1.05, 1.0, 101), row(4, 2.09, 2.0, 102)]
        summary = self.reference.summarise(good)
        self.assertAlmostEqual(summary["median_error"]["step_time"], (0.05 + 0.045) / 2)
        # One layer: (2.09 - 1.05) / 2 against (2.0 - 1.0) / 2.
        self.assertAlmostEqual(summary["median_error"]["layer_time"], 0.04)
        self.assertEqual(summary["within"], {"step_time": True, "layer_time": True,
                                             "peak_memory": True})
        bad = self.reference.summarise([row(2, 1.2, 1.0, 110)])
        self.assertEqual(bad["within"], {"step_time": False, "layer_time": False,
                                         "peak_memory": False})
        self.assertIsNone(bad["median_error"]["layer_time"])
        self.assertIn("NOT within", self.reference.report_text([row(2, 1.2, 1.0, 110)], bad))

    def test_the_last_cluster_is_judged_and_the_others_are_shown(self):
        c = self.reference.case("gpt", 2, 64, 4, 4, 256, 1000, 128, 1)
        row = {"case": c, "predicted_step_s": 1.05, "measured_step_s": 1.0, "predicted_bytes": 101,
               "measured_bytes": 100, "predictions": {"shipped": {"step_s": 1.3, "bytes": 150},
                                                      "measured": {"step_s": 1.05, "bytes": 101}}}
        text = self.reference.others_text([row], ["shipped", "measured"])
        self.assertEqual(text, "median errors with shipped: step_time 30.0 %, peak_memory 50.0 %\n")
        self.assertEqual(self.reference.others_text([row], ["measured"]), "")

    def test_a_case_that_fails_or_does_not_fit_costs_no_other(self):
        oom = type("OutOfMemoryError", (RuntimeError,), {})
        torch = types.SimpleNamespace(__version__="2", cuda=types.SimpleNamespace(
            OutOfMemoryError=oom, empty_cache=lambda: None, get_device_name=lambda: "a GPU"))
        outcomes = [(1.9, 101, 0.01), oom("full"), RuntimeError("no kernel"), (1.9, 101, 0.01)]
        arguments = types.SimpleNamespace(program="meshplan", budget=100)
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(self.reference, "measure", side_effect=outcomes), \
                mock.patch.object(self.reference, "estimate", lambda p, cluster, c, f:
                                  (2.0 if cluster == "judged" else 1.0, 100)):
            arguments.out = folder
            cases = self.reference.CASES[:4]
            rows, failed = self.reference.run(torch, arguments, cases, ["shown", "judged"])
            kept = json.loads((pathlib.Path(folder) / "reference.json").read_text())
        self.assertEqual([r["case"]["name"] for r in rows], [cases[0]["name"], cases[3]["name"]])
        self.assertEqual(failed, [cases[2]["name"]])
        self.assertEqual({r["predicted_step_s"] for r in rows}, {2.0})
        self.assertEqual(kept["failed"], failed)
        self.assertEqual(len(kept["rows"]), 2)

    def test_without_a_gpu_both_say_so(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(SOURCE, "scripts", "gpu_reference.py")
            run = subprocess.run([sys.executable, script, "--program", PROGRAM, "--out", folder],
                                 capture_output=True, text=True, check=False,
                                 env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
            self.assertEqual(run.returncode, 77)
            self.assertRegex(run.stderr, "no PyTorch here|no GPU here")
            check = os.path.join(SOURCE, "scripts", "gpu_check")
            run = subprocess.run([check, "--program", PROGRAM, "--out", folder], capture_output=True,
                                 text=True, check=False, env=dict(os.environ, PATH="/usr/bin:/bin"))
            self.assertEqual(run.returncode, 77, run.stdout + run.stderr)
            self.assertIn("there is no GPU here", run.stderr)

    def test_the_check_says_what_it_would_do(self):
        check = pathlib.Path(SOURCE) / "scripts" / "gpu_check"
        run = subprocess.run([check, "--list"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0)
        self.assertLess(sum(int(line.split()[1]) for line in run.stdout.splitlines()), 660)
        for step in ("plug-in", "kernels", "bench", "two_ranks", "four_ranks", "reference"):
            self.assertIn(step, run.stdout)


if __name__ == "__main__":
    SOURCE, PROGRAM = sys.argv[1:3]
    sys.dont_write_bytecode = True
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

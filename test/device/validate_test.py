#!/usr/bin/env python3
"""meshplan validate with two ranks of MPI: measured communication from plan to updated profile, and a
rank that is killed on the way.

usage: validate_test.py PROGRAM VALIDATE_JSON SCHEMA_FOLDER [unittest arguments]
"""
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

from jobs import TINY_MODEL, Job

PROGRAM, VALIDATE, SCHEMAS = "", "", ""
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
RANK = "OMPI_COMM_WORLD_RANK"


class Validate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tiny.yaml").write_text(TINY_MODEL)

    def plan(self, name, cluster="workstation", fixed="pp=1"):
        done = subprocess.run(
            [PROGRAM, "plan", "--model", "tiny.yaml", "--cluster", cluster, "--gpus", "2",
             "--global-batch", "8", "--seq-len", "256", "--top", "3", "--fix", fixed, "--json"],
            cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.folder / name).write_text(done.stdout)

    def job(self, plans, *arguments):
        job = Job([*MPIRUN, "-n", "2", PROGRAM, "validate", "--backend", "mpi", "--plans", plans,
                   *arguments], cwd=self.folder)
        self.addCleanup(job.kill)
        return job

    def validated(self, plans, *arguments):
        codes, out, err = self.job(plans, "--repetitions", "9", "--json", *arguments).end()
        self.assertIn(codes, ([0], [1]), err)
        check = subprocess.run(
            [sys.executable, VALIDATE, os.path.join(SCHEMAS, "validation.schema.json")],
            input=out[0], capture_output=True, text=True, check=False)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        document = json.loads(out[0])
        self.assertEqual(codes, [0 if document["within_tolerance"] else 1])
        return document

    def assert_structure(self, document, covered=True):
        self.assertEqual(document["failures"], [])
        self.assertGreater(document["samples"], 0)
        self.assertEqual(sorted(p["new_rank"] for p in document["plans"]),
                         list(range(1, len(document["plans"]) + 1)))
        times = [p["step_time_s"] for p in sorted(document["plans"], key=lambda p: p["new_rank"])]
        self.assertEqual(times, sorted(times))
        for plan in document["plans"]:
            if covered:
                self.assertGreater(plan["coverage"], 0)
            self.assertAlmostEqual(plan["coverage"] + plan["extrapolated"] + plan["unmeasured"], 1)
            for operation in plan["operations"]:
                communicates = "group" in operation
                self.assertEqual(operation["fidelity"], "measured" if communicates else "predicted")
                if communicates:
                    run = operation["run"]
                    self.assertAlmostEqual(run["ratio"], run["measured_s"] / run["predicted_s"])

    def bench(self):
        """A profile of this machine, as two ranks measure it."""
        job = Job([*MPIRUN, "-n", "2", PROGRAM, "bench", "--backend", "mpi", "--out", "here.yaml",
                   "--largest", "8 MiB", "--budget", "60 s", "--repetitions", "9", "--quiet"], cwd=self.folder)
        self.addCleanup(job.kill)
        codes, _, err = job.end(180)
        self.assertEqual(codes, [0], err)

    @staticmethod
    def times(document):
        """{operation: (predicted, measured)}, each operation once."""
        return {json.dumps([o["part"], o["name"], o["run"]["predicted_s"]]):
                (o["run"]["predicted_s"], o["run"]["measured_s"])
                for p in document["plans"] for o in p["operations"] if "run" in o}

    def assert_measured_curves(self, document):
        """Predictions of the profile are its own curves: within what was measured around them."""
        samples = [json.loads(line) for line in
                   (self.folder / "here.samples.jsonl").read_text().splitlines()[1:]]
        by_kind = {}
        for s in samples:
            if not s["operation"]["bidirectional"]:
                by_kind.setdefault(s["operation"]["collective"], []).append(s["median_s"])
        for plan in document["plans"]:
            for o in plan["operations"]:
                if "run" in o and o["name"] in by_kind:
                    seen = by_kind[o["name"]]
                    self.assertGreater(o["run"]["predicted_s"], 0.5 * min(seen))
                    self.assertLess(o["run"]["predicted_s"], 4 * max(seen))

    def test_bench_profile_plan_and_validation_agree_on_measured_communication(self):
        # On a machine that others load too, single operations are off; most of them must be near.
        # Two validations of the same plans show how well the machine repeats itself: no prediction
        # can be nearer than that. A new attempt measures everything anew.
        attempts = []
        until = time.monotonic() + 300
        while not attempts or time.monotonic() < until:
            self.bench()
            one, two = {}, {}
            # What tensor parallelism sends is waited for; what data parallelism does is hidden behind
            # these slow processors' work, so it covers nothing of the step.
            for fixed, covered in (("tp=2", True), ("dp=2,zero=1", False)):
                self.plan("plans.json", cluster="here.yaml", fixed=fixed)
                first, second = (self.validated("plans.json") for _ in range(2))
                for document, times in ((first, one), (second, two)):
                    self.assert_structure(document, covered)
                    self.assert_measured_curves(document)
                    times.update(self.times(document))
            self.assertEqual(set(one), set(two))
            self.assertGreater(len(one), 3)
            far = statistics.median(abs(math.log(m / p)) for p, m in one.values())
            repeats = statistics.median(abs(math.log(one[k][1] / two[k][1])) for k in one)
            attempts.append((far, repeats))
            if far <= math.log(2):
                break
        far, repeats = min(attempts)
        print("median of measured over predicted: factor", [round(math.exp(f), 2) for f, _ in attempts],
              "; of two measurements:", [round(math.exp(r), 2) for _, r in attempts])
        self.assertLessEqual(far, math.log(2) + repeats)

    def test_a_validation_feeds_its_measurements_into_the_profile(self):
        self.plan("plans.json", fixed="dp=2,zero=1")
        first = self.validated("plans.json", "--update-profile", "here.yaml")
        self.assert_structure(first)
        # Two processes are no PCIe workstation.
        far = [o["run"]["ratio"] for p in first["plans"] for o in p["operations"] if "run" in o]
        self.assertTrue(any(not 0.5 < ratio < 2 for ratio in far), far)
        # The plans of that profile are predicted by what was measured: a measured point comes back
        # as it went in.
        measured = {(o["part"], o["name"], o["run"]["measured_s"])
                    for p in first["plans"] for o in p["operations"] if "run" in o}
        self.plan("again.json", cluster="here.yaml", fixed="dp=2,zero=1")
        second = self.validated("again.json")
        self.assert_structure(second, covered=False)
        predicted = [o["run"]["predicted_s"] for p in second["plans"] for o in p["operations"]
                     if "run" in o]
        back = sum(any(abs(p / m - 1) < 0.02 for _, _, m in measured) for p in predicted)
        self.assertGreater(back, 0, (sorted(measured), predicted))

    def test_ranks_that_read_different_plans_are_refused(self):
        self.plan("plans.json")
        self.plan("others.json", fixed="tp=2")
        job = Job([*MPIRUN, "-n", "1", PROGRAM, "validate", "--backend", "mpi", "--plans", "plans.json",
                   ":", "-n", "1", PROGRAM, "validate", "--backend", "mpi", "--plans", "others.json"],
                  cwd=self.folder)
        self.addCleanup(job.kill)
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3], err)
        self.assertRegex(err[0], r"rank 1 on \S+ \(process \d+\) reads the profile [0-9a-f]{16}")

    def test_a_tolerance_that_is_missed_is_an_exit_code(self):
        # Without launches, which would hide slower collectives of so small a model.
        self.plan("plans.json", fixed="tp=2,kernels.host_factor=0")
        codes, out, _ = self.job("plans.json", "--tolerance", "0", "--top", "1").end()
        self.assertEqual(codes, [1])
        self.assertIn("Plan 1", out[0])

    def test_a_killed_rank_ends_the_run_with_what_was_measured(self):
        self.plan("plans.json", fixed="tp=2")
        # So many repetitions that the first operations last until somebody is killed.
        job = self.job("plans.json", "--repetitions", "100000", "--budget", "300 s", "--json")
        until = time.monotonic() + 20
        pid = None
        while pid is None and time.monotonic() < until:
            time.sleep(0.3)
            try:
                pid = job.rank_pid(1, RANK)
            except AssertionError:
                continue
        self.assertIsNotNone(pid)
        time.sleep(2.5)  # in the middle of its measurements
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        codes, _, err = job.end(limit=45)
        self.assertLess(time.monotonic() - killed, 30)
        self.assertNotEqual(codes, [0])
        self.assertRegex(err[0], r"rank 1")
        self.assertRegex(err[0], r"(all-reduce|all-gather|reduce-scatter|send-recv) of [0-9.]+ ")
        self.assertEqual(job.orphans(), {})


if __name__ == "__main__":
    PROGRAM, VALIDATE, SCHEMAS = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

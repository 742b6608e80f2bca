#!/usr/bin/env python3
"""Groups whose ranks are not evenly spaced, and rings over several nodes, by ranks that are processes:
eight of MPI, eight of NCCL on libraries that stand for CUDA's, and four of MPI on two nodes, which are
host names of this machine.

usage: groups_test.py PROGRAM MPI|- FAKES|- PLUGIN_FOLDER|- [unittest arguments]
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

from jobs import TINY_MODEL, Job

PROGRAM, MPI, FAKES, PLUGINS = (sys.argv + 4 * ["-"])[1:5]
RANKS = 8
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
# Context parallel ranks are neighbours, the pipeline lies between them and data parallelism.
RUNS = {"size": 4, "stride": 1, "run": 2, "jump": 4}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def can_name_hosts():
    done = subprocess.run(["unshare", "-u", "hostname", "elsewhere"], capture_output=True, check=False)
    return done.returncode == 0


class Groups(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # Small enough for libraries that multiply matrices on the host, eight ranks at once.
        model = TINY_MODEL.replace("hidden_size: 256", "hidden_size: 64")
        model = model.replace("ffn_hidden_size: 1024", "ffn_hidden_size: 128")
        (self.folder / "tiny.yaml").write_text(model.replace("vocab_size: 2048", "vocab_size: 256"))

    def plan(self, cluster, gpus, fixed, seq_len=128):
        done = subprocess.run(
            [PROGRAM, "plan", "--model", "tiny.yaml", "--cluster", cluster, "--gpus", str(gpus),
             "--global-batch", "8", "--seq-len", str(seq_len), "--top", "1", "--space", "full", "--fix",
             fixed, "--json"], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.folder / "plans.json").write_text(done.stdout)

    def validated(self, job, limit=240):
        self.addCleanup(job.kill)
        codes, out, err = job.end(limit)
        text = next(o for o in out if o)
        document = json.loads(text)
        return codes, document["plans"][0]["operations"], document["failures"], err

    def assert_runs(self, operations, failures):
        self.assertEqual([f for f in failures if "groups of" in f], [])
        found = [o for o in operations if o.get("run", {}).get("group") == RUNS]
        self.assertTrue(found, operations)
        for operation in found:
            self.assertEqual(operation["part"], "dp")
            self.assertEqual(operation["fidelity"], "measured", operation)
            self.assertEqual(operation["group"]["first_ranks"], [0, 1, 4, 5])
            self.assertEqual(operation["group"]["groups_at_once"], 2)
            self.assertIn("as runs of 2, 4 apart", operation["planned"])
        for operation in operations:
            if operation["part"] in ("cp", "pp"):  # beside them, evenly spaced
                self.assertEqual(operation["fidelity"], "measured", operation)

    def plan_of_runs(self):
        self.plan("dgx-h100", RANKS,
                  "tp=1,cp=2,pp=2,dp=2,ep=1,order=tp-cp-ep-pp-dp,cp_kind=ring,schedule=1f1b")

    @unittest.skipIf(MPI == "-", "this build has no MPI")
    def test_ranks_of_mpi_reduce_in_runs(self):
        self.plan_of_runs()
        job = Job([*MPIRUN, "-n", str(RANKS), PROGRAM, "validate", "--backend", "mpi", "--plans",
                   "plans.json", "--repetitions", "3", "--json"], cwd=self.folder)
        codes, operations, failures, err = self.validated(job)
        self.assertIn(codes, ([0], [1]), err)
        self.assert_runs(operations, failures)

    @unittest.skipIf(FAKES == "-", "this build has no plug-in of CUDA")
    def test_ranks_of_nccl_reduce_in_runs(self):
        self.plan_of_runs()
        port = str(free_port())
        ranks = [{"RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(RANKS),
                  "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                 for r in range(RANKS)]
        job = Job([PROGRAM, "validate", "--backend", "nccl", "--plans", "plans.json", "--repetitions",
                   "3", "--json"], ranks=ranks, cwd=self.folder,
                  environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS,
                               "MESHPLAN_CUDNN_LIBRARY": "libnowhere.so"})
        # Rows of 64 are none for the memory-bound kernels, which is no failure; a host's memory is far
        # from the NVLink of the prediction.
        codes, operations, failures, err = self.validated(job)
        self.assertEqual(codes[0], 1, err)
        self.assertEqual(failures, [])
        self.assert_runs(operations, failures)

    @unittest.skipIf(MPI == "-" or not can_name_hosts(), "no MPI, or host names cannot be chosen here")
    def test_a_ring_over_two_nodes_is_measured_as_one(self):
        def ranks_of(host, *arguments):
            return ["-n", "2", "unshare", "-u", "sh", "-c", f'hostname {host}; exec "$@"', "sh",
                    PROGRAM, *arguments]

        def job(*arguments):
            return Job([*MPIRUN, *ranks_of("node-a", *arguments), ":",
                        *ranks_of("node-b", *arguments)], cwd=self.folder)

        bench = job("bench", "--backend", "mpi", "--out", "here.yaml", "--largest", "256 KiB",
                    "--repetitions", "3", "--budget", "60 s", "--quiet")
        self.addCleanup(bench.kill)
        codes, _, err = bench.end(180)
        self.assertEqual(codes, [0], err)
        profile = (self.folder / "here.yaml").read_text()
        self.assertIn("nodes: 2", profile)
        self.assertIn("bidirectional: true", profile)
        self.plan("here.yaml", 4, "tp=1,cp=4,pp=1,dp=1,ep=1,cp_kind=ring")
        codes, operations, failures, err = self.validated(
            job("validate", "--backend", "mpi", "--plans", "plans.json", "--repetitions", "3", "--json"))
        self.assertIn(codes, ([0], [1]), err)
        self.assertEqual(failures, [])
        rings = [o for o in operations if o["part"] == "cp"]
        self.assertEqual(len(rings), 2, operations)  # forward; backward with the gradients
        for ring in rings:
            self.assertEqual(ring["name"], "send-recv")
            self.assertTrue(ring["bidirectional"])
            self.assertEqual(ring["fidelity"], "measured", ring)
            self.assertEqual(ring["group"]["level"], "network")
            self.assertEqual(ring["run"]["group"], {"size": 4, "stride": 1})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])

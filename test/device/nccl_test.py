#!/usr/bin/env python3
"""The CUDA and NCCL plug-in against small libraries that stand for CUDA, cuBLASLt and NCCL: ranks are
processes, data really moves, kernels do nothing. What is tested is everything around the kernels.

usage: nccl_test.py PROGRAM FAKES PLUGIN_FOLDER [unittest arguments]
"""
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from jobs import TINY_MODEL, Job, samples, wait_for

PROGRAM, FAKES, PLUGINS = "", "", ""


def free_port():
    """A port with a free one above it, on which the ranks meet; below those that outgoing
    connections are given, which could take it meanwhile."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


class NcclBench(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.samples = os.path.join(self.folder.name, "samples.jsonl")

    def job(self, *arguments, ranks=2, environment=None, of_rank=None, command="bench", cwd=None):
        """Ranks as torchrun starts them."""
        port = str(free_port())
        each = [{"RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(ranks),
                 "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                 **(of_rank or {}).get(r, {})} for r in range(ranks)]
        job = Job([PROGRAM, command, "--backend", "nccl", *arguments], ranks=each, cwd=cwd,
                  environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS,
                               **(environment or {})})
        self.addCleanup(job.kill)
        return job

    def test_srun_starts_the_same_job(self):
        # As srun sets them, with or without PMIx: the ranks meet on the step's first node.
        step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "localhost"}
        ranks = [dict(step, SLURM_PROCID=str(r), SLURM_LOCALID=str(r), PMIX_RANK=str(r))
                 for r in range(2)]
        job = Job([PROGRAM, "bench", "--backend", "nccl", "--only", "collective", "--largest", "64 B",
                   "--repetitions", "3", "--samples", self.samples], ranks=ranks,
                  environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS})
        self.addCleanup(job.kill)
        codes, _, err = job.end(60)
        self.assertEqual(codes, [0, 0], err)
        self.assertEqual(len(samples(self.samples)[0]["ranks"]), 2)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_mpirun_brings_the_ranks_of_nccl_together(self):
        if not os.path.exists(os.path.join(PLUGINS, "libmeshplan_mpi.so")):
            self.skipTest("this build has no MPI plug-in")
        job = Job(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", PROGRAM, "bench",
                   "--backend", "nccl", "--only", "collective", "--largest", "64 B", "--repetitions",
                   "3", "--samples", self.samples],
                  environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS})
        self.addCleanup(job.kill)
        codes, _, err = job.end(60)
        self.assertEqual(codes, [0], err)
        machine = samples(self.samples)[0]
        self.assertEqual(machine["backend"], "nccl")
        self.assertEqual([r["local_rank"] for r in machine["ranks"]], [0, 1])

    def collectives(self, *arguments, largest="4 KiB", **options):
        return self.job("--only", "collective", "--largest", largest, "--repetitions", "1",
                        "--samples", self.samples, *arguments, **options)

    def faulty(self, fault, *arguments):
        return self.collectives("--timeout", "5 s", *arguments,
                                environment={"FAKE_NCCL_FAULT": fault})

    def assert_gone(self, job):
        self.assertEqual(job.orphans(), {})

    def test_two_and_four_ranks_move_their_data(self):
        for ranks in (2, 4):
            codes, out, err = self.collectives(ranks=ranks).end(120)
            self.assertEqual(codes, [0] * ranks, err)
            machine, found = samples(self.samples)
            self.assertEqual(machine["backend"], "nccl")
            self.assertFalse(machine["time_sliced"])
            self.assertEqual({s["correctness"] for s in found}, {"correct"})
            self.assertEqual(max(s["operation"]["group"]["size"] for s in found), ranks)
            self.assertEqual(out[1:], [""] * (ranks - 1))  # one rank prints

    def test_the_profile_of_a_known_gpu_starts_from_its_shipped_cluster(self):
        out = os.path.join(self.folder.name, "here.yaml")
        codes, _, err = self.collectives("--out", out, largest="64 KiB",
                                         environment={"FAKE_CUDA_NAME": "NVIDIA H200",
                                                      "FAKE_CUDA_STEADY": "1"}).end(120)
        self.assertEqual(codes, [0, 0], err)
        self.assertIn("taken from cluster 'hgx-h200'", err[0])
        with open(out) as file:
            text = file.read()
        for part in ("name: hgx-h200", "operation: all-reduce", "method: meshplan bench (nccl)",
                     "gpu: NVIDIA H200", "cuda: 13.0", "nccl: 2.28.9"):
            self.assertIn(part, text.replace('"', ""))

    def test_a_gpu_that_nobody_knows_has_to_be_described(self):
        out = os.path.join(self.folder.name, "here.yaml")
        codes, _, err = self.collectives("--out", out).end(60)
        self.assertEqual(codes[0], 2, err)
        self.assertIn("no shipped device is what the driver calls 'Fake GPU'", err[0])
        codes, _, err = self.collectives("--out", out, "--cluster", "dgx-h100",
                                         environment={"FAKE_CUDA_STEADY": "1"}).end(120)
        self.assertEqual(codes, [0, 0], err)
        self.assertTrue(os.path.exists(out))

    def test_no_profile_is_made_of_time_slices(self):
        out = os.path.join(self.folder.name, "here.yaml")
        shared = {r: {"NCCL_HOSTID": f"rank{r}"} for r in range(2)}
        codes, _, err = self.collectives("--out", out, of_rank=shared,
                                         environment={"FAKE_CUDA_SHARED": "1"}).end(120)
        self.assertEqual(codes, [0, 0], err)
        self.assertIn("several ranks share one device", err[0])
        self.assertFalse(os.path.exists(out))

    def test_ranks_that_share_a_device_are_time_sliced(self):
        shared = {r: {"NCCL_HOSTID": f"rank{r}"} for r in range(2)}
        codes, out, err = self.collectives(environment={"FAKE_CUDA_SHARED": "1"},
                                           of_rank=shared).end(120)
        self.assertEqual(codes, [0, 0], err)
        self.assertTrue(samples(self.samples)[0]["time_sliced"])
        self.assertIn("never a bandwidth", out[0].replace("\n", " "))

    def test_one_gpu_is_measured_without_collectives(self):
        codes, _, err = self.job("--only", "launch", "--repetitions", "3", "--samples", self.samples,
                                 ranks=1).end(120)
        self.assertEqual(codes, [0], err)
        self.assertEqual({s["operation"]["kind"] for s in samples(self.samples)[1]}, {"launch"})

    def test_kernels_that_do_nothing_are_noticed(self):
        codes, out, err = self.job("--only", "memory", "--repetitions", "1", "--budget", "4 s",
                                   "--samples", self.samples, ranks=1).end(120)
        self.assertEqual(codes, [3], err)
        self.assertIn("WRONG: ", out[0])

    def test_a_wrong_result_is_noticed(self):
        codes, out, err = self.faulty("1:1:wrong").end(60)
        self.assertEqual(codes[0], 3, err)
        self.assertRegex(out[0], r"WRONG: .* rank 1 on")

    def test_a_rank_that_dies_in_a_collective_is_named(self):
        job = self.faulty("1:200:die")
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3, -signal.SIGKILL], err)
        self.assertRegex(err[0], r"rank 1 on \S+ \(process \d+\) died during .* of \d.* in groups")
        self.assert_gone(job)

    def test_a_rank_killed_from_outside_is_named(self):
        job = self.collectives("--budget", "200 s", largest="64 MiB")
        wait_for("the first samples", lambda: len(samples(self.samples)[1]) >= 5)
        os.kill(job.processes[1].pid, signal.SIGKILL)
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3, -signal.SIGKILL], err)
        self.assertRegex(err[0], r"rank 1 on \S+ \(process \d+\) died during ")
        self.assertGreaterEqual(len(samples(self.samples)[1]), 5)
        self.assert_gone(job)

    def test_a_collective_that_hangs_ends_with_an_error(self):
        job = self.faulty("1:200:hang")
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3, 3], err)
        # The devices answer: both ranks that wait are named, none is blamed.
        self.assertRegex(err[0], r"rank 0 on \S+ \(process \d+\), rank 1 on \S+ \(process \d+\), did "
                                 r"not get through within 5.00 s: .* of \d.* in groups")
        self.assert_gone(job)

    def test_a_device_that_hangs_is_named_though_all_ranks_stop_at_the_same_call(self):
        job = self.collectives("--timeout", "6 s", of_rank={1: {"FAKE_CUDA_HANG_AFTER": "600"}})
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3, 3], err)
        self.assertRegex(err[0], r"the device of rank 1 on \S+ \(process \d+\) stopped answering "
                                 r"during .* of \d.* in groups")
        self.assert_gone(job)

    def test_a_rank_that_stops_is_ended(self):
        job = self.collectives("--budget", "200 s", largest="64 MiB")
        wait_for("the first samples", lambda: len(samples(self.samples)[1]) >= 5)
        os.kill(job.processes[1].pid, signal.SIGSTOP)
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3, -signal.SIGKILL], err)
        self.assertRegex(err[0], r"rank 1 on \S+ \(process \d+\) stopped answering during ")
        self.assert_gone(job)

    def test_an_error_of_nccl_names_rank_and_operation(self):
        job = self.faulty("1:200:error")
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3, 3], err)
        self.assertRegex(err[0], r"rank 1 on .* failed during .* in groups of 2: .*remote process")
        self.assert_gone(job)

    def assert_ends(self, job, pattern, codes=(3, 3)):
        """Within half a minute, with that message of rank 0, and nothing stays behind."""
        found, _, err = job.end(30)
        self.assertEqual(found, list(codes), err)
        self.assertRegex(err[0], pattern)
        self.assert_gone(job)

    def test_ranks_that_do_not_connect_are_named(self):
        both = (r"rank 0 on \S+ \(process \d+\), rank 1 on \S+ \(process \d+\), did not get through "
                r"within 5.00 s: ")
        died = r"rank 1 on \S+ \(process \d+\) died during "
        failed = r"rank 1 on \S+ \(process \d+\) failed during "
        first = r"all-reduce of 8.00 B bf16 in groups of 2"
        for fault, pattern, code in (
                ("init-hang", both + "connecting the ranks", 3),
                ("init-die", died + "connecting the ranks", -signal.SIGKILL),
                ("init-error", failed + "connecting the ranks: NCCL's initialisation: remote", 3),
                ("split-hang", both + first, 3),
                ("split-die", died + first, -signal.SIGKILL),
                ("split-error", failed + first + ": NCCL's split: remote process", 3)):
            with self.subTest(fault):
                self.assert_ends(self.faulty("1:1:" + fault), pattern, (3, code))

    def test_an_abort_that_hangs_holds_nobody(self):
        job = self.collectives("--timeout", "5 s", of_rank={
            r: {"FAKE_NCCL_FAULT": f} for r, f in enumerate(("0:1:abort-hang", "1:200:hang"))})
        self.assert_ends(job, r"did not get through within 5.00 s: .* of \d.* in groups of 2")

    def test_a_device_that_fails_is_named(self):
        job = self.collectives("--timeout", "5 s", of_rank={1: {"FAKE_CUDA_BREAK_AFTER": "600"}})
        self.assert_ends(job, r"rank 1 on \S+ \(process \d+\) failed during .* of \d.* in groups of 2"
                              r": cuda\w+.*: an illegal memory access was encountered")

    def test_a_rank_without_memory_leaves_out_what_does_not_fit(self):
        codes, out, err = self.collectives(largest="2 KiB",
                                           of_rank={1: {"FAKE_CUDA_MEMORY": "700"}}).end(120)
        self.assertEqual(codes, [0, 0], err)
        self.assertRegex(out[0].replace("\n", " "),
                         r"rank 1 on \S+ \(process \d+\) cannot run .*out of memory")
        sizes = {s["operation"]["bytes"] for s in samples(self.samples)[1]}
        self.assertEqual(max(sizes), 512)

    def test_an_nccl_that_lacks_a_function_is_told_so(self):
        other = {"MESHPLAN_NCCL_LIBRARY": os.path.join(FAKES, "libcublasLt.so.13")}
        self.assert_ends(self.collectives(of_rank={1: other}),
                         r"rank 1 on \S+ .*this NCCL has no nccl\w+: 2.18 or later is needed")

    def gemms(self, **environment):
        return self.job("--only", "gemm", "--repetitions", "1", "--budget", "2 s", "--samples",
                        self.samples, ranks=1, environment=environment)

    def test_products_without_an_algorithm_are_left_out(self):
        codes, out, err = self.gemms(FAKE_CUBLAS_NONE="1").end(60)
        self.assertEqual(codes, [0], err)
        self.assertIn("cuBLASLt has no algorithm for this product", out[0].replace("\n", " "))
        self.assertEqual(samples(self.samples)[1], [])

    def test_a_product_that_fails_is_named(self):
        self.assert_ends(self.gemms(FAKE_CUBLAS_FAIL="1"),
                         r"rank 0 on \S+ \(process \d+\) failed during forward gemm 8192x8192x8192 bf16: "
                         r"cublasLtMatmul: status 13", (3,))

    def test_a_throttled_device_is_noticed(self):
        for clock, throttled in (("1980", False), ("1200", True)):
            codes, _, err = self.job("--only", "launch", "--repetitions", "3", "--samples", self.samples,
                                     ranks=1, environment={
                                         "LD_LIBRARY_PATH": f"{FAKES}:{FAKES}/nvml",
                                         "FAKE_NVML_CLOCK": clock}).end(60)
            self.assertEqual(codes, [0], err)
            machine, found = samples(self.samples)
            self.assertEqual(machine["versions"]["driver"], "999.01")
            self.assertEqual({s["throttled"] for s in found}, {throttled})

    def validation(self, ranks, environment):
        """Of a model so small that its products can be done on the host."""
        folder = pathlib.Path(self.folder.name)
        model = TINY_MODEL.replace("hidden_size: 256", "hidden_size: 64").replace("layers: 4", "layers: 1")
        model = model.replace("ffn_hidden_size: 1024", "ffn_hidden_size: 128")
        (folder / "tiny.yaml").write_text(model.replace("vocab_size: 2048", "vocab_size: 256"))
        done = subprocess.run(
            [PROGRAM, "plan", "--model", "tiny.yaml", "--cluster", "dgx-h100", "--gpus", str(ranks),
             "--global-batch", "4", "--seq-len", "64", "--top", "1", "--fix", f"tp={ranks}", "--json"],
            cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (folder / "plans.json").write_text(done.stdout)
        return self.job("--plans", "plans.json", "--repetitions", "3", command="validate", ranks=ranks,
                        environment={"MESHPLAN_CUDNN_LIBRARY": "libnowhere.so", **environment},
                        cwd=folder)

    def test_a_product_that_is_not_added_is_wrong(self):
        codes, _, err = self.validation(1, {"FAKE_CUBLAS_REPLACE": "1"}).end(60)
        self.assertEqual(codes, [3], err)
        wrong = [line for line in err[0].splitlines() if line.startswith("error: ")]
        self.assertTrue(wrong)
        for line in wrong:
            self.assertRegex(line, r"wrong result of weight-gradient gemm .*: 24 wrong elements")

    def test_sums_of_parts_in_16_bits_are_not_asked_for(self):
        # A host is far from what an H100 was predicted to do; its products are right.
        codes, _, err = self.validation(1, {"FAKE_CUBLAS_ROUNDS": "1"}).end(60)
        self.assertEqual(codes, [1], err)
        self.assertNotIn("wrong result", err[0])

    def test_a_rank_killed_in_a_validation_is_named(self):
        job = self.validation(2, {"FAKE_NCCL_FAULT": "1:20:die"})
        self.assert_ends(job, r"rank 1 on \S+ \(process \d+\) died during \S+ of [\d.]+ \w+ ",
                         (3, -signal.SIGKILL))

    def test_a_slow_rank_is_named(self):
        codes, out, err = self.job("--only", "launch", "--repetitions", "5", "--samples", self.samples,
                                   environment={"FAKE_CUDA_STEADY": "1"},
                                   of_rank={1: {"FAKE_CUDA_SLOWER": "1.3"}}).end(120)
        self.assertEqual(codes, [0, 0], err)
        # Of one of the two operations the device keeps the time, of the other the host, which is busy.
        lags = [s["lag"] for s in samples(self.samples)[1] if s["slowest_rank"] == 1]
        self.assertTrue(any(abs(lag - 0.3) < 1e-3 for lag in lags), lags)
        self.assertRegex(out[0].replace("\n", " "),
                         r"SLOW: rank 1 on \S+ takes +[\d.]+ +% +longer +than +the +others +in +[12] +of +2 +operations")

    def test_different_versions_are_refused(self):
        job = self.collectives(of_rank={1: {"FAKE_NCCL_VERSION": "22703"}})
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3, 3], err)
        self.assertRegex(err[0], r"rank 1 on .* has nccl 2\.27\.3, rank 0 on .* has 2\.28\.9")
        self.assert_gone(job)

    def test_different_devices_are_refused(self):
        codes, _, err = self.collectives(of_rank={1: {"FAKE_CUDA_NAME": "Another"}}).end(30)
        self.assertEqual(codes, [3, 3], err)
        self.assertIn("has the device Another", err[0])

    def test_a_machine_without_a_driver_is_told_so(self):
        codes, _, err = self.collectives(ranks=1,
                                         environment={"FAKE_CUDA_DEVICES": "no-driver"}).end(30)
        self.assertEqual(codes, [3])
        self.assertIn("there is no driver of NVIDIA here", err[0])

    def test_a_machine_without_nccl_is_told_so(self):
        codes, _, err = self.collectives(environment={"MESHPLAN_NCCL_LIBRARY": "libnowhere.so"}).end(30)
        self.assertEqual(codes, [3, 3])
        self.assertIn("NCCL is needed to measure communication and is not on this machine", err[0])

    def test_a_rank_that_never_starts_is_named(self):
        port = str(free_port())
        job = Job([PROGRAM, "bench", "--backend", "nccl", "--timeout", "2 s"],
                  environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS, "RANK": "0",
                               "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                               "MASTER_PORT": port})
        self.addCleanup(job.kill)
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3])
        self.assertRegex(err[0], r"rank 1 of 2 did not come to port \d+ in time")


if __name__ == "__main__":
    PROGRAM, FAKES, PLUGINS = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

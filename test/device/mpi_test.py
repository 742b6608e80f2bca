#!/usr/bin/env python3
"""meshplan bench with two ranks of MPI, and what happens when one of them dies, hangs or differs.

usage: mpi_test.py PROGRAM VALIDATE_JSON SCHEMA_FOLDER [unittest arguments]
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from jobs import TINY_MODEL, Job, samples, wait_for

PROGRAM, VALIDATE, SCHEMAS = "", "", ""
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
RANK = "OMPI_COMM_WORLD_RANK"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class MpiBench(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.samples = os.path.join(self.folder.name, "samples.jsonl")

    def job(self, *arguments, ranks=2, **options):
        job = Job([*MPIRUN, "-n", str(ranks), PROGRAM, "bench", "--backend", "mpi", *arguments],
                  **options)
        self.addCleanup(job.kill)
        return job

    def running(self, *arguments):
        """A job in the middle of its measurements."""
        job = self.job("--samples", self.samples, "--budget", "200 s", *arguments)
        wait_for("the first samples", lambda: len(samples(self.samples)[1]) >= 5)
        return job

    def assert_gone(self, job):
        self.assertEqual(job.orphans(), {})

    def test_two_ranks_measure_everything_that_fits_the_time(self):
        codes, out, err = self.job("--samples", self.samples, "--budget", "20 s", "--largest",
                                   "256 KiB", "--repetitions", "5", "--json").end()
        self.assertEqual(codes, [0], err)
        check = subprocess.run([sys.executable, VALIDATE, os.path.join(SCHEMAS, "bench.schema.json")],
                               input=out[0], capture_output=True, text=True)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        machine, found = samples(self.samples)
        self.assertEqual(len(machine["ranks"]), 2)
        self.assertIn("mpi", machine["versions"])
        kinds = {(s["operation"]["collective"], s["operation"]["bidirectional"]) for s in found}
        self.assertEqual(len(kinds), 7)
        self.assertEqual({s["correctness"] for s in found}, {"correct"})
        for s in found:
            self.assertGreater(s["median_s"], 0)
            self.assertGreaterEqual(len(s["times_s"]), 1)
        reduces = {s["operation"]["bytes"]: s["median_s"] for s in found
                   if s["operation"]["collective"] == "all-reduce"}
        self.assertGreater(reduces[max(reduces)], reduces[min(reduces)])

    def profiled(self, *arguments, **options):
        return self.job("--out", "here.yaml", "--repetitions", "5", *arguments,
                        cwd=self.folder.name, **options)

    def estimate(self, profile):
        """The profile as a cluster: one all-reduce plan's estimate as a document."""
        (pathlib.Path(self.folder.name) / "tiny.yaml").write_text(TINY_MODEL)
        done = subprocess.run(
            [PROGRAM, "estimate", "--model", "tiny.yaml", "--cluster", profile, "--gpus", "2",
             "--strategy", "tp=2,sequence_parallel=false,micro_batch=1", "--global-batch", "1",
             "--seq-len", "128", "--json"],
            cwd=self.folder.name, capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def test_a_profile_is_written_with_its_samples_and_compared_with_a_log(self):
        rows = "\n".join(f"{1 << p:12} {1 << (p - 2):12} float sum -1 {10.0 * 2 ** (p / 4):8.2f} 1.0 1.0 0 "
                         f"{10.0:8.2f} 1.0 1.0 0" for p in range(6, 16))
        (pathlib.Path(self.folder.name) / "log.txt").write_text(
            "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
            "# Collective test starting: all_reduce_perf\n"
            "# Using devices\n"
            "#  Rank  0 Group  0 Pid   4200 on   here device  0 [0000:19:00] CPU\n"
            "#  Rank  1 Group  0 Pid   4201 on   here device  1 [0000:29:00] CPU\n"
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
            "time   algbw   busbw  #wrong \n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
            "(us)  (GB/s)  (GB/s)         \n" + rows + "\n")
        codes, out, err = self.profiled("--budget", "30 s", "--largest", "256 KiB", "--compare",
                                        "log.txt", "--json").end()
        self.assertEqual(codes, [0], err)
        check = subprocess.run([sys.executable, VALIDATE, os.path.join(SCHEMAS, "bench.schema.json")],
                               input=out[0], capture_output=True, text=True, check=False)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        profile = json.loads(out[0])["profile"]
        self.assertEqual(profile["file"], "here.yaml")
        self.assertGreaterEqual(len(profile["fits"]), 3)
        for fit in profile["fits"]:
            self.assertGreater(len(fit["samples"]), 3)
            self.assertGreaterEqual(fit["errors"]["residual_median"], 0)
        # A level's latency is that of a message and its answer.
        text = pathlib.Path(self.folder.name, "here.yaml").read_text()
        self.assertIn("latency half of a ping-pong", text)
        self.assertNotIn("was not measured", str(profile["warnings"]))
        self.assertEqual(len(profile["comparison"]), 10)
        for row in profile["comparison"]:
            self.assertAlmostEqual(row["ratio"], row["profile_s"] / row["log_s"])
            self.assertTrue(row["from_measured_curve"])
        machine, found = samples(os.path.join(self.folder.name, "here.samples.jsonl"))
        text = (pathlib.Path(self.folder.name) / "here.yaml").read_text()
        for part in (f"date: {machine['date']}"[:20], f"host: {machine['ranks'][0]['host']}",
                     "method: meshplan bench (mpi)", "samples: here.samples.jsonl", "held_out_median"):
            self.assertIn(part, text.replace('"', ""))
        # What was measured is what is predicted with.
        plan = self.estimate("here.yaml")["plan"]
        reduced = [c for c in plan["communication"] if c["operation"] == "all-reduce"]
        self.assertTrue(reduced)
        points = {s["operation"]["bytes"]: s["median_s"] for s in found
                  if s["operation"]["collective"] == "all-reduce"}
        for entry in reduced:
            if not min(points) <= entry["bytes"] <= max(points):
                continue
            below = max(b for b in points if b <= entry["bytes"])
            above = min(b for b in points if b >= entry["bytes"])
            least, most = sorted((points[below], points[above]))
            self.assertGreater(entry["time_each_s"], 0.3 * least)
            self.assertLess(entry["time_each_s"], 3 * most)

    def test_a_profile_survives_whatever_ends_the_run(self):
        profile = pathlib.Path(self.folder.name) / "here.yaml"
        raw = os.path.join(self.folder.name, "here.samples.jsonl")
        for end in ("Ctrl-C", "kill"):
            profile.unlink(missing_ok=True)
            job = self.profiled("--budget", "200 s")
            wait_for("a profile", profile.exists, limit=120)
            if end == "kill":
                os.kill(job.rank_pid(1, RANK), signal.SIGKILL)
            else:
                job.processes[0].send_signal(signal.SIGINT)
            codes, _, err = job.end(30)
            self.assertNotEqual(codes, [0], err)
            self.assert_gone(job)
            self.estimate("here.yaml")
        before = len(samples(raw)[1])
        codes, _, err = self.profiled("--budget", "5 s", "--resume").end()
        self.assertEqual(codes, [0], err)
        self.assertGreaterEqual(len(samples(raw)[1]), before)
        self.estimate("here.yaml")

    def test_a_cluster_that_the_machine_does_not_fit_is_refused_before_measuring(self):
        codes, _, err = self.profiled("--cluster", "workstation", ranks=5).end(60)
        self.assertEqual(codes, [2])
        self.assertIn("cluster 'workstation' has 1 nodes of 4 devices, this job 1 of 5 ranks", err[0])
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_a_run_is_resumed_where_it_ended(self):
        fast = ["--samples", self.samples, "--largest", "64 B", "--repetitions", "3"]
        self.assertEqual(self.job(*fast, "--budget", "60 s").end()[0], [0])
        before = pathlib.Path(self.samples).read_text()
        codes, out, err = self.job(*fast, "--budget", "60 s", "--resume").end()
        self.assertEqual(codes, [0], err)
        # Seven operations of four sizes, ping-pongs of two.
        self.assertIn("30 of them from before", out[0])
        self.assertEqual(before.splitlines()[1:],
                         pathlib.Path(self.samples).read_text().splitlines()[1:])

    def test_three_ranks_leave_the_odd_one_idle_in_pairs(self):
        codes, out, err = self.job("--samples", self.samples, "--largest", "64 B", "--repetitions",
                                   "3", ranks=3).end()
        self.assertEqual(codes, [0], err)
        _, found = samples(self.samples)
        self.assertEqual({s["operation"]["group"]["size"] for s in found}, {2, 3})
        self.assertEqual({s["correctness"] for s in found}, {"correct"})

    def test_a_killed_rank_is_named_with_the_operation(self):
        job = self.running()
        pid = job.rank_pid(1, RANK)
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        codes, _, err = job.end(30)
        self.assertLess(time.monotonic() - began, 30)
        self.assertNotEqual(codes, [0])  # of mpirun: 137, the killed rank's, or 3
        self.assertRegex(err[0], rf"rank 1 on \S+ \(process {pid}\) died during .* of \d.* in groups|died during the measurements, before .* of \d")
        self.assertIn("samples are kept in", err[0])
        self.assertGreaterEqual(len(samples(self.samples)[1]), 5)
        self.assert_gone(job)

    def test_the_other_rank_ends_with_3_when_nobody_else_ends_it(self):
        # mpirun ends every rank when one is killed; a shell around each keeps that from hiding what
        # the program itself does.
        shell = 'trap "" TERM; "$@"; echo "rank $OMPI_COMM_WORLD_RANK ended with $?" >&2; exit 0'
        job = Job([*MPIRUN, "-n", "2", "sh", "-c", shell, "sh", PROGRAM, "bench", "--backend", "mpi",
                   "--samples", self.samples, "--budget", "200 s"])
        self.addCleanup(job.kill)
        wait_for("the first samples", lambda: len(samples(self.samples)[1]) >= 5)
        os.kill(job.rank_pid(1, RANK), signal.SIGKILL)
        _, _, err = job.end(30)
        self.assertIn("rank 0 ended with 3", err[0])
        self.assertIn("rank 1 ended with 137", err[0])
        self.assert_gone(job)

    def test_killed_rank_zero_takes_the_others_with_it(self):
        job = self.running()
        os.kill(job.rank_pid(0, RANK), signal.SIGKILL)
        codes, _, _ = job.end(30)
        self.assertNotEqual(codes, [0])
        self.assert_gone(job)

    def test_a_rank_that_hangs_is_named_and_ended(self):
        job = self.running()
        pid = job.rank_pid(1, RANK)
        os.kill(pid, signal.SIGSTOP)
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3], err)
        self.assertRegex(err[0], rf"rank 1 on \S+ \(process {pid}\) stopped answering during ")
        self.assert_gone(job)

    def test_ctrl_c_keeps_what_was_measured(self):
        job = self.running()
        job.processes[0].send_signal(signal.SIGINT)
        codes, _, _ = job.end(30)
        self.assertNotEqual(codes, [0])
        self.assertGreaterEqual(len(samples(self.samples)[1]), 5)
        self.assert_gone(job)

    def test_ranks_that_were_started_differently_are_refused(self):
        job = Job([*MPIRUN, "-n", "1", PROGRAM, "bench", "--backend", "mpi", ":", "-n", "1", PROGRAM,
                   "bench", "--backend", "mpi", "--timeout", "19 s"])
        self.addCleanup(job.kill)
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3], err)
        self.assertRegex(err[0], r"rank 1 on \S+ \(process \d+\) was started with")
        self.assert_gone(job)

    def test_a_rank_that_never_comes_is_named(self):
        # The second rank joins MPI's job but is no meshplan.
        job = Job([*MPIRUN, "-n", "1", PROGRAM, "bench", "--backend", "mpi", "--timeout", "3 s", ":",
                   "-n", "1", "sleep", "60"])
        self.addCleanup(job.kill)
        codes, _, err = job.end(30)
        self.assertNotEqual(codes, [0])
        self.assertIn("in time", err[0])
        self.assert_gone(job)

    def test_a_taken_port_is_an_error(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            job = self.job(environment={"MESHPLAN_RENDEZVOUS": f"127.0.0.1:{port}"})
            codes, _, err = job.end(30)
        self.assertEqual(codes, [3], err)
        self.assertIn(f"rank 0 cannot listen on 127.0.0.1:{port}: Address already in use", err[0])
        self.assert_gone(job)

    def test_garbage_on_the_control_port_changes_nothing(self):
        port = free_port()
        stop = threading.Event()
        sent = []

        def pester():
            while not stop.is_set():
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=1) as s:
                        s.sendall(b"\x40\x00\x00\x00" + os.urandom(64))
                        sent.append(1)
                except OSError:
                    pass
                time.sleep(0.002)

        thread = threading.Thread(target=pester)
        thread.start()
        try:
            job = self.job("--largest", "64 B", "--repetitions", "3",
                           environment={"MESHPLAN_RENDEZVOUS": f"127.0.0.1:{port}"})
            codes, out, err = job.end()
        finally:
            stop.set()
            thread.join()
        self.assertEqual(codes, [0], err)
        self.assertIn("Everything was measured", out[0])

    def test_a_missing_plug_in_is_said_plainly(self):
        job = self.job(ranks=1, environment={"MESHPLAN_PLUGINS": self.folder.name})
        codes, _, err = job.end(30)
        self.assertEqual(codes, [3])
        self.assertIn(f"there is no libmeshplan_mpi.so in {self.folder.name}", err[0])

    def test_a_plug_in_whose_library_is_missing_names_it(self):
        source = os.path.join(self.folder.name, "plugin.c")
        pathlib.Path(source).write_text("int nowhere(void); int call(void) { return nowhere(); }\n")
        empty = os.path.join(self.folder.name, "empty.c")
        pathlib.Path(empty).write_text("int nowhere(void) { return 0; }\n")
        library = os.path.join(self.folder.name, "libnowhere.so.7")
        subprocess.run(["cc", "-shared", "-fPIC", empty, "-o", library, "-Wl,-soname,libnowhere.so.7"],
                       check=True)
        plugin = os.path.join(self.folder.name, "libmeshplan_mpi.so")
        subprocess.run(["cc", "-shared", "-fPIC", source, library, "-o", plugin], check=True)
        os.remove(library)
        codes, _, err = self.job(ranks=1, environment={"MESHPLAN_PLUGINS": self.folder.name}).end(30)
        self.assertEqual(codes, [3])
        self.assertIn("needs the library libnowhere.so.7, which is not on this machine", err[0])

    def test_one_rank_has_nothing_to_measure(self):
        codes, _, err = self.job(ranks=1).end(30)
        self.assertEqual(codes, [2])
        self.assertIn("there is nothing to measure with one rank and no GPU", err[0])


if __name__ == "__main__":
    # A shell starts what runs in its background deaf to it, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    PROGRAM, VALIDATE, SCHEMAS = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

#!/usr/bin/env python3
"""meshplan bench with two ranks of MPI, and what happens when one of them dies, hangs or differs.

usage: mpi_test.py PROGRAM VALIDATE_JSON SCHEMA_FOLDER [unittest arguments]
"""
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

from jobs import Job, samples, wait_for

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

    def test_a_run_is_resumed_where_it_ended(self):
        fast = ["--samples", self.samples, "--largest", "64 B", "--repetitions", "3"]
        self.assertEqual(self.job(*fast, "--budget", "60 s").end()[0], [0])
        before = pathlib.Path(self.samples).read_text()
        codes, out, err = self.job(*fast, "--budget", "60 s", "--resume").end()
        self.assertEqual(codes, [0], err)
        self.assertIn("28 of them from before", out[0])
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
    PROGRAM, VALIDATE, SCHEMAS = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

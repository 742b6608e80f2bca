#!/usr/bin/env python3
"""Output files under every misfortune: kill -9 at random points, full disks, limits, folders and files
that may not be written, closed pipes and streams, signals, links, and writers beside each other. A
file is always the old one or the whole new one.

usage: files_test.py PROGRAM WRITE_LOOP [unittest arguments]
"""
import contextlib
import os
import pathlib
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, WRITE_LOOP = "", ""
# A sanitizer's build needs more of it.
PATIENCE = int(os.environ.get("MESHPLAN_PATIENCE", "1"))
KILLS = 1000
TEMPORARY = ".meshplan-tmp-"
MODEL = """name: tiny
num_layers: 2
hidden_size: 64
num_attention_heads: 4
ffn_hidden_size: 256
vocab_size: 1000
max_seq_length: 128
"""
WORKLOAD = ["--model", "tiny.yaml", "--cluster", "workstation", "--gpus", "2", "--global-batch", "4",
            "--seq-len", "128"]
SMI = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n"


def is_root():
    return os.geteuid() == 0


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshplan-files-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        os.chmod(self.folder, 0o755)
        (self.folder / "tiny.yaml").write_text(MODEL)
        (self.folder / "smi.txt").write_text(SMI)

    def run_program(self, *arguments, **options):
        options = {"cwd": self.folder, "capture_output": True, "text": True, "timeout": 120 * PATIENCE, **options}
        return subprocess.run([PROGRAM, *arguments], check=False, **options)

    def left_over(self, folder=None):
        return sorted(p.name for p in pathlib.Path(folder or self.folder).rglob(TEMPORARY + "*"))


class KilledWriters(Folder):
    def assert_whole(self, path, size):
        text = path.read_text()
        first, last = text.split("\n", 1)[0], text.rstrip("\n").rsplit("\n", 1)[-1]
        self.assertTrue(first.startswith("begin "), first)
        self.assertEqual(first.split()[1:], last.split()[1:])
        self.assertEqual(len(text), size + len(first) + len(last) + 3)

    def kill_often(self, folder, times):
        """Every time the file must be whole; what is left over must not matter."""
        size, path, dice = 100_000, pathlib.Path(folder) / "out", random.Random(7)
        subprocess.run([WRITE_LOOP, path, str(size), "1"], check=True, capture_output=True)
        for _ in range(times):
            process = subprocess.Popen([WRITE_LOOP, path, str(size)], stdout=subprocess.DEVNULL)
            time.sleep(dice.uniform(0, 0.006))
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assert_whole(path, size)
        for name in self.left_over(folder):
            os.utime(pathlib.Path(folder) / name, (0, 0))
        subprocess.run([WRITE_LOOP, path, str(size), "1"], check=True, capture_output=True)
        self.assertEqual(self.left_over(folder), [])

    def test_kill_at_random_points(self):
        memory = pathlib.Path("/dev/shm")  # no disk to wait for: more points are hit
        if os.access(memory, os.W_OK):
            with tempfile.TemporaryDirectory(dir=memory) as folder:
                self.kill_often(folder, KILLS * 9 // 10)
        self.kill_often(self.folder, KILLS // 10)

    def test_a_living_writers_temporary_file_stays(self):
        import fcntl
        held, fresh = self.folder / (TEMPORARY + "held00"), self.folder / (TEMPORARY + "fresh0")
        fresh.write_text("x")
        with open(held, "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.utime(held, (0, 0))
            subprocess.run([WRITE_LOOP, self.folder / "out", "10", "1"], check=True, capture_output=True)
        self.assertEqual(self.left_over(), [fresh.name, held.name])

    def test_writers_beside_each_other(self):
        path, size = self.folder / "out", 50_000
        writers = [subprocess.Popen([WRITE_LOOP, path, str(size), "60"], stdout=subprocess.DEVNULL)
                   for _ in range(6)]
        while any(w.poll() is None for w in writers):
            if path.exists():
                self.assert_whole(path, size)
        self.assertEqual([w.returncode for w in writers], [0] * 6)
        self.assertEqual(self.left_over(), [])


class Outputs(Folder):
    """Every command that writes a file, as (arguments without the file, name of the file)."""

    def setUp(self):
        super().setUp()
        made = self.run_program("plan", *WORKLOAD, "--out", ".", "-q")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertTrue((self.folder / "plans.json").exists())
        log = "".join(f" iteration {i}/ 9 | elapsed time per iteration (ms): 9.0 | global batch size: 4 |\n"
                      for i in range(1, 10))
        (self.folder / "train.log").write_text(log)

    def commands(self):
        strategy = ["--strategy", "tp=2"]
        yield ["plan", *WORKLOAD, "--out", "out"], "out/plans.json"
        yield ["export", *WORKLOAD, *strategy, "--format", "megatron", "--out", "out"], "out/train.sh"
        yield ["export", *WORKLOAD, *strategy, "--format", "slurm", "--out", "out"], "out/train.sbatch"
        yield ["import", "nvidia-smi-topo", "smi.txt", "--device", "h100-pcie-80gb", "--out", "out/c"], "out/c"
        if self.has_page():
            yield ["plan", *WORKLOAD, "--html", "out/r.html"], "out/r.html"
            yield ["report", "--plans", "plans.json", "--html", "out/r.html"], "out/r.html"
        yield ["report", "--plans", "plans.json", "--trace", "out/t.json"], "out/t.json"

    def has_page(self):
        probe = self.run_program("report", "--plans", "plans.json", "--html", "/dev/null")
        return "built without the HTML report" not in probe.stderr

    def each(self):
        for command, name in self.commands():
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            (self.folder / "out").mkdir()
            with self.subTest(command=" ".join(command)):
                yield command, self.folder / name

    def assert_refused(self, done, path, before, reason):
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(path.read_text() if path.exists() else None, before)
        self.assertEqual(self.left_over(), [])

    def test_each_writes_its_file(self):
        for command, path in self.each():
            done = self.run_program(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(path.stat().st_size, 100)
            self.assertEqual(self.left_over(), [])

    def test_a_limit_on_file_sizes(self):
        for command, path in self.each():
            path.write_text("old")
            done = self.run_program(*command, preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (100, 100)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                capture_output=False)
            self.assert_refused(done, path, "old", "File too large")

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = is_root() and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8k,mode=755", "tmpfs", disk], check=False,
            capture_output=True).returncode == 0
        if not mounted:
            self.skipTest("mounting a small tmpfs is not permitted here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        (disk / "plans.json").write_text("old")
        (disk / "filler").write_bytes(b"x" * 4000)
        done = self.run_program("plan", *WORKLOAD, "--out", "disk")
        self.assert_refused(done, disk / "plans.json", "old", "No space left on device")
        self.assertIn("make room", done.stderr)

    def test_a_folder_that_may_not_be_written(self):
        options = {"preexec_fn": as_nobody} if is_root() else {}
        if is_root() and subprocess.run([PROGRAM, "--version"], check=False, capture_output=True,
                                        **options).returncode != 0:
            self.skipTest("another user may not start the program here")
        for command, path in self.each():
            path.write_text("old")
            os.chmod(path.parent, 0o555)
            self.assert_refused(self.run_program(*command, **options), path, "old", "Permission denied")
            os.chmod(path.parent, 0o755)

    def test_a_file_that_may_not_be_written(self):
        if is_root():
            self.skipTest("nothing is forbidden to root")
        for command, path in self.each():
            path.write_text("old")
            os.chmod(path, 0o444)
            self.assert_refused(self.run_program(*command), path, "old", "Permission denied")

    def test_a_link_stays_and_its_target_is_replaced(self):
        for command, path in self.each():
            target = self.folder / "elsewhere"
            target.mkdir(exist_ok=True)
            (target / "real").write_text("old")
            path.symlink_to("../elsewhere/real")
            done = self.run_program(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(path.is_symlink())
            self.assertGreater((target / "real").stat().st_size, 100)
            shutil.rmtree(target)

    def test_the_mode_stays(self):
        for command, path in self.each():
            path.write_text("old")
            os.chmod(path, 0o640)
            self.assertEqual(self.run_program(*command).returncode, 0)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o640)

    def test_devices_and_pipes_are_written_to(self):
        before = os.stat("/dev/null")
        self.assertEqual(self.run_program("report", "--plans", "plans.json", "--trace", "/dev/null").returncode, 0)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        self.assertEqual(os.stat("/dev/null").st_ino, before.st_ino)
        done = self.run_program("report", "--plans", "plans.json", "--trace", "/dev/stdout", "-q")
        self.assertIn("traceEvents", done.stdout)
        full = self.run_program("report", "--plans", "plans.json", "--trace", "/dev/full")
        self.assertEqual(full.returncode, 2)
        self.assertIn("No space left on device", full.stderr)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))


class Streams(Folder):
    COMMANDS = [["list", "models"], ["list", "clusters", "--json"], ["plan", *WORKLOAD],
                ["plan", *WORKLOAD, "--json"], ["estimate", *WORKLOAD, "--strategy", "tp=2"], ["--help"],
                ["export", *WORKLOAD, "--strategy", "tp=2", "--format", "megatron"],
                ["import", "nvidia-smi-topo", "smi.txt", "--device", "h100-pcie-80gb"]]

    def test_a_reader_that_is_gone_is_no_failure(self):
        for command in self.COMMANDS:
            with self.subTest(command=command):
                process = subprocess.Popen([PROGRAM, *command, *([] if command == ["--help"] else ["-q"])],
                                           cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                process.stdout.close()
                error = process.stderr.read()
                process.stderr.close()
                self.assertEqual(process.wait(120), 0)
                self.assertEqual(error, b"")

    def test_a_full_standard_output_is_a_failure(self):
        for command in self.COMMANDS:
            with self.subTest(command=command), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([PROGRAM, *command], cwd=self.folder, stdout=full, check=False,
                                      stderr=subprocess.PIPE, text=True, timeout=120 * PATIENCE)
                self.assertEqual(done.returncode, 2)
                self.assertIn("cannot write to standard output: No space left on device", done.stderr)

    def test_closed_standard_streams_reach_no_file(self):
        for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
            with self.subTest(closed=closed):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                line = " ".join(["exec", PROGRAM, "plan", *WORKLOAD, "--out", "out", "-v", closed])
                subprocess.run(["sh", "-c", line], cwd=self.folder, check=False, capture_output=True)
                text = (self.folder / "out" / "plans.json").read_text()
                self.assertTrue(text.startswith("{\n") and text.endswith("}\n"))
                self.assertEqual(sorted(p.name for p in (self.folder / "out").iterdir()),
                                 ["plans.json", "plans.txt"])


class Signals(Folder):
    # Long enough for a signal to come in between, on any machine.
    LONG = ["plan", "--model", "deepseek-v3", "--cluster", "dgx-h100", "--gpus", "2048", "--global-batch",
            "15360", "--seq-len", "4096", "--sensitivity", "--pareto", "--out", "out"]

    def end(self, number, after):
        process = subprocess.Popen([PROGRAM, *self.LONG], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        time.sleep(after)
        process.send_signal(number)
        sent = time.monotonic()
        _, error = process.communicate(timeout=60)
        return process.returncode, error, time.monotonic() - sent

    def test_signals_end_it_at_once_and_with_a_word(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                (self.folder / "out").mkdir(exist_ok=True)
                (self.folder / "out" / "plans.json").write_text("old")
                code, error, took = self.end(number, 0.3)
                self.assertEqual(code, -number)
                self.assertIn("interrupted: files are as they were before, or complete", error)
                self.assertLess(took, 5)
                self.assertEqual((self.folder / "out" / "plans.json").read_text(), "old")
                self.assertEqual(self.left_over(), [])

    def test_an_interrupt_keeps_what_was_found(self):
        """The first one ends the search, not the program: with a plan or without, files are whole."""
        (self.folder / "out").mkdir(exist_ok=True)
        (self.folder / "out" / "plans.json").write_text("old")
        code, _, took = self.end(signal.SIGINT, 0.3)
        self.assertIn(code, (0, 1))
        self.assertLess(took, 30)
        text = (self.folder / "out" / "plans.json").read_text()
        self.assertTrue(text == "old" or text.startswith("{\n") and text.endswith("}\n"))
        self.assertEqual(self.left_over(), [])

    def test_signals_while_files_are_written(self):
        dice = random.Random(3)
        for _ in range(60):
            process = subprocess.Popen([WRITE_LOOP, self.folder / "out", "200000"], text=True,
                                       stdout=subprocess.PIPE)
            process.stdout.readline()
            process.stdout.close()
            time.sleep(dice.uniform(0, 0.01))
            process.send_signal(dice.choice([signal.SIGINT, signal.SIGTERM]))
            process.wait()
            self.assertIn("\nend ", (self.folder / "out").read_text())
            self.assertEqual(self.left_over(), [])

    def test_what_ignores_hangups_goes_on(self):
        ignored = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        process = subprocess.Popen([PROGRAM, *self.LONG, "-q"], cwd=self.folder, preexec_fn=ignored,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(0.2)
        process.send_signal(signal.SIGHUP)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.assertEqual(process.wait(1), 0)
        process.kill()
        process.communicate()


if __name__ == "__main__":
    # A shell starts what runs in its background deaf to it, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    PROGRAM, WRITE_LOOP = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

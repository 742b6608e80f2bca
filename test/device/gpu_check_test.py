#!/usr/bin/env python3
"""scripts/gpu_check and scripts/gpu_bundle with libraries that stand for CUDA's: a rehearsal of the
call on a machine with a GPU.

usage: gpu_check_test.py SOURCE_DIR PROGRAM FAKES PLUGIN_FOLDER [unittest arguments]
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from jobs import Job

SOURCE, PROGRAM, FAKES, PLUGINS = "", "", "", ""
SMI = """#!/bin/sh
case "$*" in
  -L) echo "GPU 0: Fake GPU (UUID: GPU-0)" ;;
  *compute_cap*) echo 9.0 ;;
  *) echo "a fake nvidia-smi" ;;
esac
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "nvidia-smi").write_text(SMI)
        (tools / "nvidia-smi").chmod(0o755)
        self.path = f"{tools}:{os.environ['PATH']}"

    def check(self, *arguments, environment=None, limit=240):
        """(exit code, summary, standard error) of one call; its files come into the folder `all`."""
        out = self.folder / "results"
        job = Job([os.path.join(SOURCE, "scripts", "gpu_check"), "--program", PROGRAM, "--plugins",
                   PLUGINS, "--out", str(out), *arguments],
                  environment={"PATH": self.path, "LD_LIBRARY_PATH": FAKES, "FAKE_CUDA_SHARED": "1",
                               "MESHPLAN_NCCL_LIBRARY": os.path.join(FAKES, "libnccl.so.2"),
                               "MESHPLAN_CUDNN_LIBRARY": os.path.join(FAKES, "libcudnn.so.9"),
                               **(environment or {})})
        self.addCleanup(job.kill)
        codes, _, err = job.end(limit)
        self.assertEqual(job.orphans(), {})
        # Few files, for machines that hand back few.
        self.assertLessEqual(len(list(out.rglob("*"))), 8)
        with tarfile.open(out / "results.tar.gz") as packed:
            packed.extractall(self.folder / "all", filter="data")
        summary = json.loads((out / "summary.json").read_text())["steps"]
        self.assertEqual(json.loads((self.folder / "all" / "summary.json").read_text())["steps"],
                         summary)
        return codes[0], {name: s["result"] for name, s in summary.items()}, err[0]

    def test_steps_pass_fail_and_are_skipped_each_by_itself(self):
        code, steps, err = self.check("--only", "environment,plug-in,reference,two_ranks")
        self.assertEqual(code, 1, err)
        # There is no PyTorch, or no GPU for it.
        self.assertEqual(steps, {"environment": "passed", "plug-in": "passed",
                                 "reference": "skipped", "two_ranks": "passed"}, err)
        out = self.folder / "all"
        self.assertEqual((out / "plug-in.folder").read_text().strip(), PLUGINS)
        machine = json.loads((out / "time-sliced-2-ranks.jsonl").read_text().splitlines()[0])
        self.assertTrue(machine["time_sliced"])
        self.assertTrue((out / "two_ranks.log").exists())
        kept = {file.name for file in (self.folder / "results").iterdir()}
        self.assertEqual(kept, {"summary.json", "results.tar.gz", "judged.txt"})
        judged = (self.folder / "results" / "judged.txt").read_text()
        self.assertEqual(judged, "-- time-sliced-2-ranks-0.json\nas it has to be\n")

    def test_kernels_that_do_nothing_are_noticed_in_the_time_that_is_left(self):
        code, steps, err = self.check("--only", "kernels", "--budget", "25")
        self.assertEqual(code, 1, err)
        # Where the host is too busy to get that far, it is no proof either.
        self.assertIn(steps["kernels"], ("failed with 3", "failed with 1"), err)
        log = (self.folder / "all" / "kernels.log").read_text()
        self.assertRegex(log, r"(?m)^wrong: rmsnorm of|^nothing was measured of memory/rmsnorm$")

    def test_what_was_not_measured_is_not_proved(self):
        # A run that ends well and has measured nothing.
        idle = self.folder / "tools" / "idle"
        idle.write_text("""#!/bin/sh
[ "$1" = bench ] || exec echo 1
echo '{"samples": [], "skipped": [], "not_reached": 0, "end": "complete", "wrong_results": 0}'
""")
        idle.chmod(0o755)
        only = "kernels,gemm,bench,products,two_ranks"
        code, steps, err = self.check("--program", str(idle), "--only", only)
        self.assertEqual(code, 1, err)
        self.assertEqual(steps, {name: "failed with 1" for name in only.split(",")}, err)
        log = (self.folder / "all" / "gemm.log").read_text()
        self.assertIn("nothing was measured of attention/backward", log)
        self.assertIn("nothing was measured of gemm/fp8/weight-gradient", log)

    def test_what_was_measured_makes_a_device_file(self):
        out = self.folder / "devices"
        out.mkdir()
        samples = str(self.folder / "samples.jsonl")
        for more in (["--only", "launch"],
                     ["--only", "copy", "--resume", "--budget", "5 s", "--device-out", str(out)]):
            job = Job([PROGRAM, "bench", "--backend", "nccl", "--samples", samples, "--json", *more],
                      environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS,
                                   "FAKE_CUDA_NAME": "NVIDIA H200"})
            self.addCleanup(job.kill)
            codes, written, err = job.end(240)
            self.assertEqual(codes, [0], err)
        profile = json.loads(written[0])["profile"]
        self.assertEqual(profile["device_file"], str(out / "h200-sxm-141gb.yaml"))
        self.assertEqual([n["key"] for n in profile["numbers"]], ["host_link"])
        self.assertIn("empty kernel launch", profile["facts"])
        # It stands where the shipped one does, and plans are made with it.
        data = self.folder / "data"
        for folder in ("models", "hardware-profiles"):
            shutil.copytree(os.path.join(SOURCE, folder), data / folder)
        device = data / "hardware-profiles" / "devices" / "h200-sxm-141gb.yaml"
        shutil.copy(out / device.name, device)
        run = subprocess.run([PROGRAM, "estimate", "--model", "llama-2-7b", "--cluster", "hgx-h200",
                              "--gpus", "1", "--strategy", "micro_batch=1", "--global-batch", "1",
                              "--seq-len", "2048", "--json"], capture_output=True, text=True,
                             check=False, env=dict(os.environ, MESHPLAN_DATA=str(data)))
        self.assertEqual(run.returncode, 0, run.stderr)
        read = json.loads(run.stdout)["cluster"]["spec"]["device"]
        self.assertEqual(read["launch_gap"], "6 us")
        self.assertEqual(read["sources"]["measured.gpu"], "NVIDIA H200")
        self.assertEqual(read["sources"]["measured.empty kernel launch"],
                         profile["facts"]["empty kernel launch"])
        self.assertIn("meshplan bench (nccl) on NVIDIA H200", read["sources"]["host_link"])

    def test_pytorch_does_not_get_the_libraries_of_the_plug_in(self):
        (self.folder / "tools" / "python-that-tells").write_text(
            '#!/bin/sh\n[ "$1" != -c ] || exit 0\necho "given <$LD_LIBRARY_PATH>" >&2\nexit 1\n')
        (self.folder / "tools" / "python-that-tells").chmod(0o755)
        self.check("--only", "reference", environment={"PYTHON": "python-that-tells"})
        log = (self.folder / "all" / "reference.log").read_text()
        self.assertEqual(log.strip(), f"given <{FAKES}>")

    def test_a_step_that_hangs_is_ended_and_the_rest_left_out(self):
        code, steps, err = self.check("--only", "two_ranks,four_ranks", "--budget", "9",
                                      environment={"FAKE_NCCL_FAULT": "1:20:hang"})
        self.assertEqual(code, 1, err)
        self.assertEqual(steps, {"two_ranks": "timed out", "four_ranks": "left out"}, err)

    def test_wrong_arguments_are_usage_errors(self):
        for arguments in (["--budget", "soon"], ["--nonsense"], ["--out"]):
            run = subprocess.run([os.path.join(SOURCE, "scripts", "gpu_check"), *arguments],
                                 capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)

    def test_a_bundle_runs_from_anywhere(self):
        out = self.folder / "bundle"
        script = os.path.join(SOURCE, "scripts", "gpu_bundle")
        made = subprocess.run([script, "--program", PROGRAM, "--out", str(out)], capture_output=True,
                              text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        moved = self.folder / "elsewhere"
        out.rename(moved)
        plain = {"PATH": "/usr/bin:/bin"}
        run = subprocess.run([moved / "meshplan", "estimate", "--model", "llama-2-7b", "--cluster",
                              "hgx-h200", "--gpus", "1", "--strategy", "micro_batch=1",
                              "--global-batch", "1", "--seq-len", "2048"], env=plain, cwd="/",
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        # Where the machine's C library is too old: everything from the bundle, the loader included.
        loader = next((moved / "lib-c").glob("ld-linux*"))
        libraries = ":".join(str(moved / name) for name in ("lib", "lib-cxx", "lib-c"))
        run = subprocess.run([loader, "--library-path", libraries, moved / "bin" / "meshplan",
                              "--version"], env=plain, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        (moved / ".bundle").unlink()
        refused = subprocess.run([script, "--program", PROGRAM, "--out", str(moved)],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is no bundle", refused.stderr)


if __name__ == "__main__":
    SOURCE, PROGRAM, FAKES, PLUGINS = sys.argv[1:5]
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])

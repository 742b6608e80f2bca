#!/usr/bin/env python3
"""The project of benchmarks/device by itself, as a machine with CUDA but without the packages of
meshplan builds it.

usage: standalone_test.py SOURCE_DIR PROGRAM FAKES CMAKE NVCC [unittest arguments]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from jobs import Job, samples

SOURCE, PROGRAM, FAKES, CMAKE, NVCC = "", "", "", "", ""


class Standalone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.build = os.path.join(self.folder, "build")

    def cmake(self, *arguments):
        environment = dict(os.environ, CUDACXX=NVCC)
        return subprocess.run([CMAKE, *arguments], env=environment, capture_output=True, text=True,
                              check=False)

    def configure(self, *arguments):
        return self.cmake("-S", os.path.join(SOURCE, "benchmarks", "device"), "-B", self.build,
                          "-DCMAKE_CUDA_ARCHITECTURES=90", "-DCMAKE_BUILD_TYPE=None", *arguments)

    def test_it_is_built_and_loaded(self):
        generator = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
        done = self.configure("-G", generator)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.cmake("--build", self.build, "-j", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        plugins = os.path.join(self.build, "plugins")
        self.assertEqual(os.listdir(plugins), ["libmeshplan_cuda.so"])
        found = os.path.join(self.folder, "samples.jsonl")
        job = Job([PROGRAM, "bench", "--backend", "nccl", "--only", "launch", "--repetitions", "3",
                   "--samples", found],
                  environment={"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": plugins})
        self.addCleanup(job.kill)
        codes, _, err = job.end(60)
        self.assertEqual(codes, [0], err)
        self.assertEqual(len(samples(found)[1]), 2)

    def test_what_it_lacks_is_an_error(self):
        done = self.configure("-DCUDA_cublasLt_LIBRARY=")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        text = " ".join(done.stderr.split())
        self.assertIn("The CUDA plug-in needs CUDA 13 with nvcc and cuBLASLt: there is no cublasLt", text)


if __name__ == "__main__":
    SOURCE, PROGRAM, FAKES, CMAKE, NVCC = sys.argv[1:6]
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])

#!/usr/bin/env python3
"""Ranks that do not find each other, and strangers that find them: each failure has its own message
with cause and remedy, exit code 3, within the deadline, and no process stays.

usage: meeting_test.py PROGRAM FAKES PLUGIN_FOLDER [unittest arguments]
"""
import json
import os
import random
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

from jobs import Job, samples

PROGRAM, FAKES, PLUGINS = "", "", ""
TIMEOUT_S = 3
SPARE_S = 6  # to start and to end


def free_port():
    """A port with a free one above it, on which the ranks meet."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


class Meeting(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.samples = os.path.join(self.folder.name, "samples.jsonl")

    def job(self, ranks, world=2, timeout=TIMEOUT_S, **environment):
        port = environment.pop("port", None) or free_port()
        base = {"LD_LIBRARY_PATH": FAKES, "MESHPLAN_PLUGINS": PLUGINS, "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), **environment}
        job = Job([PROGRAM, "bench", "--backend", "nccl", "--only", "collective", "--largest", "4 KiB",
                   "--repetitions", "2", "--samples", self.samples, "--timeout", f"{timeout} s"],
                  environment=base, ranks=[{"RANK": str(r), "LOCAL_RANK": str(r)} for r in ranks])
        self.addCleanup(job.kill)
        return job

    def assert_fails(self, job, message, remedy):
        begin = time.monotonic()
        codes, _, errors = job.end(TIMEOUT_S + SPARE_S + 20)
        self.assertLess(time.monotonic() - begin, TIMEOUT_S + SPARE_S)
        self.assertEqual(set(codes), {3}, errors)
        text = " ".join(errors[0].split())
        self.assertRegex(text, message)
        self.assertRegex(text, remedy)
        self.assertEqual(job.orphans(), {})

    def test_a_wrong_host_name(self):
        wrong = {"MASTER_ADDR": "no-such-host.invalid"}
        self.assert_fails(self.job([0], **wrong), r"rank 0 cannot listen on no-such-host\.invalid:\d+: ", "MASTER_ADDR")
        job = self.job([1], **wrong)
        codes, _, errors = job.end(60)
        self.assertEqual(codes, [3])
        self.assertIn("rank 0's host 'no-such-host.invalid' is not known here", errors[0])

    def test_an_address_of_another_host(self):
        self.assert_fails(self.job([0], MASTER_ADDR="192.0.2.1"),
                          r"rank 0 cannot listen on 192\.0\.2\.1:\d+: Cannot assign requested address",
                          "rank 0 must run on the host of MASTER_ADDR")

    def test_a_port_that_refuses(self):
        job = self.job([1])
        begin = time.monotonic()
        codes, _, errors = job.end(60)
        self.assertEqual(codes, [3])
        self.assertLess(time.monotonic() - begin, TIMEOUT_S + SPARE_S)
        self.assertRegex(errors[0], r"cannot reach rank 0 at 127\.0\.0\.1:\d+: Connection refused")
        self.assertEqual(job.orphans(), {})

    def test_a_port_that_is_taken(self):
        port = free_port()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port + 1))
            taken.listen()
            self.assert_fails(self.job([0], port=port), "rank 0 cannot listen on .*: Address already in use",
                              "MESHPLAN_RENDEZVOUS=host:port names another")

    def test_something_else_listens_there(self):
        for answer in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 4096, b"\x00" * 4096,
                       struct.pack("<I", 20) + b'{"type": "heartbeat"'):
            with self.subTest(answer=answer[:10]), socket.socket() as other:
                port = free_port()
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind(("127.0.0.1", port + 1))
                other.listen()

                def serve(server=other, text=answer):
                    try:
                        peer, _ = server.accept()
                        peer.recv(4096)
                        peer.sendall(text)
                        peer.close()
                    except OSError:
                        pass

                threading.Thread(target=serve, daemon=True).start()
                job = self.job([1], port=port)
                codes, _, errors = job.end(60)
                self.assertEqual(codes, [3])
                self.assertRegex(errors[0], "let rank 1 .* not in|not meshplan|did not answer")
                self.assertEqual(job.orphans(), {})

    def test_a_rank_of_another_job(self):
        port = free_port()
        own = self.job([0], port=port, MESHPLAN_JOB_TOKEN="one")
        other = self.job([1], port=port, MESHPLAN_JOB_TOKEN="another")
        codes, _, errors = other.end(60)
        self.assertEqual(codes, [3])
        self.assertIn("not in", errors[0])
        self.assert_fails(own, "rank 1 of 2 did not come to port", "--timeout waits longer")

    def test_garbage_does_not_disturb_a_job(self):
        port, dice, stop = free_port(), random.Random(5), threading.Event()

        def disturb():
            while not stop.is_set():
                try:
                    with socket.create_connection(("127.0.0.1", port + 1), timeout=0.2) as s:
                        hello = json.dumps({"type": "hello", "token": "guess", "rank": 1}).encode()
                        s.sendall(dice.choice([
                            b"GET / HTTP/1.1\r\n\r\n", dice.randbytes(200), struct.pack("<I", 2**32 - 1),
                            struct.pack("<I", len(hello)) + hello, struct.pack("<I", 5) + b"x", b"\0" * 65536]))
                except OSError:
                    time.sleep(0.005)

        threads = [threading.Thread(target=disturb) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        job = self.job([0, 1], port=port, timeout=20)
        codes, _, errors = job.end(120)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(codes, [0, 0], errors)
        self.assertEqual({s["correctness"] for s in samples(self.samples)[1]}, {"correct"})
        self.assertEqual(job.orphans(), {})

    def test_it_listens_on_its_own_address_alone(self):
        port = free_port()
        job = self.job([0], port=port, timeout=20)
        heard = set()
        for _ in range(300):
            with open("/proc/net/tcp", encoding="ascii") as table:
                rows = [line.split() for line in table][1:]
            heard = {row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port + 1:04X}")}
            if heard:
                break
            time.sleep(0.05)
        self.assertEqual(heard, {f"0100007F:{port + 1:04X}"})
        with open("/proc/net/tcp6", encoding="ascii") as table:
            self.assertNotIn(f":{port + 1:04X} ", "".join(line for line in table if " 0A " in line))
        job.kill()
        job.end(30)

    def test_a_missing_plug_in(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assert_fails(self.job([0], world=1, MESHPLAN_PLUGINS=empty),
                              "the backend 'nccl' is not installed: there is no libmeshplan_cuda.so in", "MESHPLAN_PLUGINS")
            with open(os.path.join(empty, "libmeshplan_cuda.so"), "wb") as file:
                file.write(b"\x7fELF garbage")
            self.assert_fails(self.job([0], world=1, MESHPLAN_PLUGINS=empty), "the backend 'nccl' cannot be loaded", "hint: ")

    def test_a_driver_that_is_too_old(self):
        self.assert_fails(self.job([0], world=1, FAKE_CUDA_DEVICES="old-driver"),
                          r"the driver of NVIDIA is too old: it goes up to CUDA 12\.2, this plug-in needs CUDA 13\.0",
                          "install a newer driver")


if __name__ == "__main__":
    PROGRAM, FAKES, PLUGINS = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

"""Starts meshplan as the ranks of a job, finds them again, and checks how they end."""
import json
import os
import pathlib
import signal
import subprocess
import time
import uuid

MARK = "MESHPLAN_TEST_JOB"
TINY_MODEL = """\
name: tiny
num_layers: 4
hidden_size: 256
num_attention_heads: 8
ffn_hidden_size: 1024
gated_mlp: true
activation: silu
norm: rmsnorm
position_embedding: rope
vocab_size: 2048
max_seq_length: 512
"""


class Job:
    """Processes that share a mark in their environment, by which each of them can be found."""

    def __init__(self, command, environment=None, ranks=None, cwd=None):
        self.mark = uuid.uuid4().hex
        base = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "SLURM_"))}
        base.update({MARK: self.mark, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}, **(environment or {}))
        if command[0] == "mpirun":
            base["LSAN_OPTIONS"] = "detect_leaks=0"  # Open MPI does not free all that it takes
        # One process that starts the ranks (mpirun), or each rank with its own environment.
        self.processes = [
            subprocess.Popen(command, env=dict(base, **extra), cwd=cwd, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True)
            for extra in (ranks or [{}])]

    def pids(self):
        """All living processes of the job: {pid: environment}."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                raw = (entry / "environ").read_bytes().decode(errors="replace")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            values = dict(line.split("=", 1) for line in raw.split("\0") if "=" in line)
            if values.get(MARK) == self.mark and state not in "ZX":
                found[int(entry.name)] = values
        return found

    def rank_pid(self, rank, variable):
        """The meshplan process of one rank."""
        for pid, values in self.pids().items():
            name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            if values.get(variable) == str(rank) and name == "meshplan":
                return pid
        raise AssertionError(f"rank {rank} does not run")

    def end(self, limit=60):
        """Waits; (exit codes, standard outputs, standard errors) of the processes started here."""
        until = time.monotonic() + limit
        outputs = []
        for process in self.processes:
            try:
                outputs.append(process.communicate(timeout=max(0.1, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"still running after {limit} s: "
                                     f"{process.communicate()}") from None
        codes = [process.returncode for process in self.processes]
        return codes, [o for o, _ in outputs], [e for _, e in outputs]

    def orphans(self, limit=8):
        """Processes of the job that are still there after a moment."""
        until = time.monotonic() + limit
        while self.pids() and time.monotonic() < until:
            time.sleep(0.1)
        return self.pids()

    def kill(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def wait_for(what, condition, limit=60):
    until = time.monotonic() + limit
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {limit} s")


def samples(path):
    """(machine, samples) of a samples file; empty while there is none."""
    try:
        lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    except FileNotFoundError:
        return None, []
    assert lines[0]["record"] == "machine", lines[0]
    assert all(line["record"] == "sample" for line in lines[1:])
    return lines[0], lines[1:]

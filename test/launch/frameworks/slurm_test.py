#!/usr/bin/env python3
"""Scripts of exports are sound shell, and sbatch's own parser takes their options.

usage: slurm_test.py MESHPLAN

shellcheck and sbatch (Debian: slurm-client) are asked where they are; without both it is skipped
(77). No controller is needed: sbatch looks for one only when it has read all options.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
# Target's framework, model, GPUs, strategy.
PLANS = [
    ("megatron", "llama-3.1-70b", 64, "tp=4,pp=4,vp=5,schedule=interleaved,sequence_parallel=true"),
    ("megatron", "llama-2-7b", 8, "zero=3,recompute=full"),
    ("megatron", "deepseek-v3", 256, "ep=8,pp=4,recompute=full"),
    ("deepspeed", "llama-2-7b", 16, "zero=3"),
    ("megatron-deepspeed", "llama-2-70b", 64, "tp=4,pp=4,zero=1,recompute=full"),
    ("torchtitan", "llama-3.1-8b", 64, "tp=2,sequence_parallel=true"),
    ("fsdp", "llama-3.1-8b", 64, "zero=2,recompute=full"),
    ("fsdp", "llama-3.1-8b", 4, "zero=3"),
]
CONTROLLER = "Unable to contact slurm controller"
CONFIG = """ClusterName=x
SlurmctldHost=localhost
SlurmctldTimeout=1
MessageTimeout=2
GresTypes=gpu
NodeName=n[1-64] Gres=gpu:8
PartitionName=p Nodes=ALL
AuthType=auth/none
"""


def said(command, **options):
    run = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    return run.returncode, (run.stdout + run.stderr).strip()


def sbatch(script, config):
    _, text = said(["sbatch", "--test-only", str(script)], timeout=60,
                   env={**os.environ, "SLURM_CONF": str(config)})
    return None if not text or CONTROLLER in text else text


def problems(folder, config):
    scripts = [folder / "train.sbatch", folder / "train.sh"]
    for script in scripts:
        code, text = said(["bash", "-n", str(script)])
        if code:
            yield f"bash -n: {text}"
    if shutil.which("shellcheck"):
        code, text = said(["shellcheck", *map(str, scripts)])
        if code:
            yield text
    if shutil.which("sbatch"):
        refusal = sbatch(scripts[0], config)
        if refusal:
            yield f"sbatch: {refusal}"


def main():
    present = [tool for tool in ("shellcheck", "sbatch") if shutil.which(tool)]
    if not present:
        print("neither shellcheck nor sbatch is installed")
        sys.exit(SKIPPED)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        config = folder / "slurm.conf"
        config.write_text(CONFIG, encoding="utf-8")
        for number, (framework, model, gpus, keys) in enumerate(PLANS):
            out = folder / str(number)
            subprocess.run([sys.argv[1], "export", "--model", model, "--cluster", "dgx-h100",
                            "--gpus", str(gpus), "--global-batch", "512", "--seq-len", "4096",
                            "--framework", framework, "--strategy", keys, "--format", "slurm",
                            "--out", str(out), "-q"], check=True, stderr=subprocess.DEVNULL)
            found = list(problems(out, config))
            failed += len(found)
            print(f"{framework}, {model}: {'; '.join(found) or 'fine for ' + ' and '.join(present)}")
        # The parser does refuse what is wrong.
        wrong = folder / "wrong.sbatch"
        text = (folder / "0/train.sbatch").read_text(encoding="utf-8")
        wrong.write_text(text.replace("--gpus-per-node=8", "--gpus-per-nodes=8"), encoding="utf-8")
        if "sbatch" in present and sbatch(wrong, config) is None:
            failed += 1
            print("sbatch took an option that it does not have")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

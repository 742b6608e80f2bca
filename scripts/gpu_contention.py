#!/usr/bin/env python3
"""How much slower products, attention and memory-bound kernels run on a GPU while a few of its
multiprocessors move data, as the kernels of a collective do: one block of threads per channel of
NCCL. What the device's overlap_slowdown stands for.

usage: gpu_contention.py --out FOLDER [--seconds SECONDS]

Writes FOLDER/contention.json and FOLDER/contention.txt: seconds of each work alone and beside
copies of 8, 16, 24 and 32 blocks, and what the copies then move. Ends with 0, with 77 without
PyTorch, Triton or a GPU.
"""
import argparse
import json
import pathlib
import sys

from gpu_training import torch_on_gpu

BLOCKS = (0, 8, 16, 24, 32)


def copier(torch):
    """A function that copies with so many blocks, each its share again and again."""
    import triton
    import triton.language as tl

    @triton.jit
    def copy(source, target, share, rounds, SIZE: tl.constexpr):
        begin = tl.program_id(0).to(tl.int64) * share
        offsets = tl.arange(0, SIZE)
        for _ in range(rounds):
            for at in range(0, share, SIZE):
                where = begin + at + offsets
                tl.store(target + where, tl.load(source + where))

    size, share = 8192, 1 << 22  # 16 MiB a block: more than the cache holds of all
    source = torch.empty(max(BLOCKS) * share, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)

    def run(blocks, rounds):
        copy[(blocks,)](source, target, share, rounds, SIZE=size, num_warps=16)
        return 2 * 4 * share * blocks * rounds  # bytes read and written

    return run


def works(torch):
    def product(m, n, k):
        a = torch.randn(m, k, dtype=torch.bfloat16, device="cuda")
        b = torch.randn(k, n, dtype=torch.bfloat16, device="cuda")
        return lambda: torch.mm(a, b)

    q, k, v = (torch.randn(1, 32, 8192, 128, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    x = torch.randn(1 << 28, dtype=torch.bfloat16, device="cuda")
    return {"product 8192 x 8192 x 8192": product(8192, 8192, 8192),
            "product 4096 x 14336 x 4096": product(4096, 14336, 4096),
            "attention, causal, 8192": lambda: torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True),
            "gelu": lambda: torch.nn.functional.gelu(x)}


def timed(torch, work, times, copy, blocks, rounds):
    """Seconds of one call, and bytes a second that the copies moved meanwhile."""
    beside = torch.cuda.Stream()
    begin, end, copied = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    torch.cuda.synchronize()
    start = torch.cuda.Event(enable_timing=True)
    moved = 0
    with torch.cuda.stream(beside):
        start.record()
        if blocks:
            moved = copy(blocks, rounds)
        copied.record()
    begin.record()
    for _ in range(times):
        work()
    end.record()
    torch.cuda.synchronize()
    each = begin.elapsed_time(end) / 1e3 / times
    copying = start.elapsed_time(copied) / 1e3
    return each, (moved / copying if blocks else 0), copying


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    arguments = parser.parse_args()
    torch = torch_on_gpu("gpu_contention")
    if torch is None:
        return 77
    try:
        copy = copier(torch)
        copy(8, 1)
    except ImportError:
        print("skipped: no Triton")
        return 77
    rows = []
    for name, work in works(torch).items():
        for _ in range(3):
            work()
        once, _, _ = timed(torch, work, 20, copy, 0, 0)
        times = max(20, int(arguments.seconds / once))
        alone = None
        for blocks in BLOCKS:
            # The copies outlast the work three times over.
            rounds = 1
            if blocks:
                _, _, copying = timed(torch, work, 1, copy, blocks, 4)
                rounds = max(1, int(3 * 4 * times * once / copying))
            each, rate, copying = timed(torch, work, times, copy, blocks, rounds)
            alone = alone or each
            rows.append({"work": name, "blocks": blocks, "seconds": each, "slowdown": each / alone,
                         "copied_bytes_per_s": rate, "covered": copying >= times * each or not blocks})
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    result = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "multiprocessors": sms, "rows": rows}
    (folder / "contention.json").write_text(json.dumps(result, indent=1) + "\n")
    text = f"{'work':30} {'blocks':>6} {'ms':>9} {'slowdown':>9} {'copied GB/s':>12}\n"
    for row in rows:
        text += (f"{row['work']:30} {row['blocks']:6} {row['seconds'] * 1e3:9.3f} {row['slowdown']:9.3f} "
                 f"{row['copied_bytes_per_s'] / 1e9:12.0f}{'' if row['covered'] else '  copies ended first'}\n")
    (folder / "contention.txt").write_text(text)
    print(text, end="")
    return 0


sys.exit(main())

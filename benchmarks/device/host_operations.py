#!/usr/bin/env python3
"""Host time of small PyTorch operations that autograd records, and of those of which it records nothing.

usage: benchmarks/device/host_operations.py

Each works on eight elements on the CPU, so that nearly all of its time is the call itself: Python's,
the dispatcher's, and that of autograd. PyTorch 1.13 on an x86 server of 2024: without autograd they take
0.48 to 0.77 of the time, 0.63 and 0.64 in the median of two runs. Formula [F-ROPE-2] counts two thirds.
"""

import statistics
import sys
import time

CALLS, ROUNDS = 20_000, 7


def microseconds(call):
    for _ in range(CALLS // 20):
        call()
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - start) / CALLS)
    return best * 1e6


def main():
    try:
        import torch
    except ImportError:
        sys.exit("PyTorch is not installed: apt-get install python3-torch")
    torch.set_num_threads(1)
    plain, recorded = torch.ones(8), torch.ones(8, requires_grad=True)
    other, places = torch.ones(8), torch.arange(8)
    operations = {
        "mul": lambda x: x * other, "add": lambda x: x + other, "neg": lambda x: -x,
        "cos": lambda x: x.cos(), "cat": lambda x: torch.cat((x, x)),
        "index": lambda x: x[places], "to": lambda x: x.to(torch.bfloat16),
    }
    print(f"PyTorch {torch.__version__}\n{'':8}{'plain':>8}{'recorded':>10}{'share':>8}")
    shares = []
    for name, operation in operations.items():
        without = microseconds(lambda: operation(plain))
        with_it = microseconds(lambda: operation(recorded))
        shares.append(without / with_it)
        print(f"{name:8}{without:6.2f} us{with_it:7.2f} us{shares[-1]:8.2f}")
    print(f"median {statistics.median(shares):.2f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What PyTorch's caching allocator holds where samples of a training run differ in length.

simulate.py [--orders N] [--samples N] [--lengths N ...] [--dropped]

Plays the allocations of LoRA with full recomputation (one model of 32 layers of 4,096, one sample of
log-normal length a step, cut at a longest one or, --dropped, drawn again) through the rules of c10/cuda/CUDACachingAllocator.cpp
of PyTorch 2.1: best fit, segments as large as what was asked for, blocks split above 1 MiB, neighbours
of one segment joined. Prints, for each longest length, how many times as much as the activations need
the allocator holds at the most: over orders of the samples, which is all that differs between them.
"""
import argparse
import bisect
import math
import random

MIB = 1 << 20
HIDDEN, FFN, KV, VOCAB, LAYERS, RANK, WEIGHTS = 4096, 11008, 512, 64000, 32, 8, int(12.1e9)
MEAN, DEVIATION, SHORTEST = 3234.4, 2547.5, 91  # of ms-swift's samples, in tokens


class Block:
    __slots__ = ("size", "small", "free", "before", "after", "number")

    def __init__(self, size, small, before, after, number):
        self.size, self.small, self.free, self.number = size, small, True, number
        self.before, self.after = before, after


class Allocator:
    """Bytes `allocated` and `reserved` at the most."""

    def __init__(self):
        self.pools = {True: [], False: []}  # free blocks, (size, number), by whether they are small
        self.by_number, self.made = {}, 0
        self.reserved = self.now = self.allocated = 0

    def _new(self, size, small, before=None, after=None):
        block = Block(size, small, before, after, self.made)
        self.by_number[self.made] = block
        self.made += 1
        return block

    def _put(self, block):
        bisect.insort(self.pools[block.small], (block.size, block.number))
        block.free = True

    def _take_out(self, block):
        pool = self.pools[block.small]
        pool.pop(bisect.bisect_left(pool, (block.size, block.number)))

    def take(self, size):
        size = max(512, -(-int(size) // 512) * 512)
        small = size <= MIB
        pool = self.pools[small]
        at = bisect.bisect_left(pool, (size, -1))
        if at < len(pool):
            block = self.by_number[pool.pop(at)[1]]
        else:
            segment = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            self.reserved += segment
            block = self._new(segment, small)
        rest = block.size - size
        if rest >= 512 if small else rest > MIB:
            block.size = size
            block.after = self._new(rest, small, block, block.after)
            if block.after.after:
                block.after.after.before = block.after
            self._put(block.after)
        block.free = False
        self.now += block.size
        self.allocated = max(self.allocated, self.now)
        return block

    def give(self, *blocks):
        for block in blocks:
            self.now -= block.size
            if block.before and block.before.free:
                self._take_out(block.before)
                block = self._join(block.before)
            if block.after and block.after.free:
                self._take_out(block.after)
                block = self._join(block)
            self._put(block)

    def _join(self, first):
        second = first.after
        first.size += second.size
        first.after = second.after
        if second.after:
            second.after.before = first
        del self.by_number[second.number]
        return first


def norm(a, t, saved):
    wide, other, sums = a.take(4 * HIDDEN * t), a.take(4 * HIDDEN * t), a.take(4 * t)
    a.give(other)
    scaled, narrow = a.take(4 * HIDDEN * t), a.take(2 * HIDDEN * t)
    a.give(scaled)
    out = a.take(2 * HIDDEN * t)
    keep(a, saved, wide, sums, narrow)
    return out


def keep(a, saved, *blocks):
    """For the backward pass, where there is one."""
    if saved is None:
        a.give(*blocks)
    else:
        saved.extend(blocks)


def forward(a, t, saved):
    """One layer; its output."""
    first = norm(a, t, saved)
    made = []
    for width in (HIDDEN, KV, KV):
        base, mask, dropped = a.take(2 * width * t), a.take(HIDDEN * t), a.take(2 * HIDDEN * t)
        down, up, out = a.take(2 * RANK * t), a.take(2 * width * t), a.take(2 * width * t)
        a.give(base, up)
        keep(a, saved, mask, dropped, down)
        made.append(out)
    keep(a, saved, first)
    query, key = a.take(2 * HIDDEN * t), a.take(2 * KV * t)
    a.give(made[0], made[1])
    out, sums = a.take(2 * HIDDEN * t), a.take(4 * 32 * t)
    projected = a.take(2 * HIDDEN * t)
    keep(a, saved, query, key, made[2], sums, out)
    residual = a.take(2 * HIDDEN * t)
    a.give(projected)
    second = norm(a, t, saved)
    gate, active, up = a.take(2 * FFN * t), a.take(2 * FFN * t), a.take(2 * FFN * t)
    product = a.take(2 * FFN * t)
    keep(a, saved, gate, active, up)
    a.give(second)
    down = a.take(2 * HIDDEN * t)
    a.give(product)
    output = a.take(2 * HIDDEN * t)
    a.give(down)
    keep(a, saved, residual)
    return output


def backward(a, t, saved, gradient):
    """The layer's input gradient."""
    product, up = a.take(2 * FFN * t), a.take(2 * FFN * t)
    active = a.take(2 * FFN * t)
    a.give(product)
    gate = a.take(2 * FFN * t)
    a.give(active)
    of_norm = a.take(2 * HIDDEN * t)
    a.give(up, gate)
    wide, narrow = a.take(4 * HIDDEN * t), a.take(2 * HIDDEN * t)
    a.give(of_norm, wide)
    residual = a.take(2 * HIDDEN * t)
    a.give(narrow, gradient)
    out, query = a.take(2 * HIDDEN * t), a.take(2 * HIDDEN * t)
    key, value, sums = a.take(2 * KV * t), a.take(2 * KV * t), a.take(4 * HIDDEN * t)
    a.give(sums, out)
    of_norm = a.take(2 * HIDDEN * t)
    for part in (query, key, value):
        adapted, total = a.take(2 * HIDDEN * t), a.take(2 * HIDDEN * t)
        a.give(of_norm, adapted, part)
        of_norm = total
    wide, narrow = a.take(4 * HIDDEN * t), a.take(2 * HIDDEN * t)
    a.give(of_norm, wide)
    gradient = a.take(2 * HIDDEN * t)
    a.give(narrow, residual, *saved)
    return gradient


def step(a, t):
    """One sample of t tokens: forwards, PyTorch's loss of fp32 logits, each layer again and back."""
    inputs = [a.take(2 * HIDDEN * t)]
    for _ in range(LAYERS):
        inputs.append(forward(a, t, None))
    normed, logits = a.take(2 * HIDDEN * t), a.take(2 * VOCAB * t)
    wide = a.take(4 * VOCAB * t)
    a.give(logits)
    scores = a.take(4 * VOCAB * t)
    a.give(wide)
    picked, of_scores = a.take(4 * VOCAB * t), a.take(4 * VOCAB * t)
    a.give(picked, scores)
    whole = a.take(4 * VOCAB * t)
    a.give(of_scores)
    narrow = a.take(2 * VOCAB * t)
    a.give(whole)
    gradient = a.take(2 * HIDDEN * t)
    a.give(narrow, normed, inputs.pop())
    while inputs:
        saved = []
        a.give(forward(a, t, saved))
        gradient = backward(a, t, saved, gradient)
        a.give(inputs.pop())
    a.give(gradient)


def growth(longest, samples, seed, dropped):
    dice = random.Random(seed)
    variance = math.log(1 + (DEVIATION / MEAN) ** 2)
    allocator = Allocator()
    allocator.take(WEIGHTS)
    weights = allocator.now
    for _ in range(samples):
        length = longest + 1
        while length > longest:
            length = dice.lognormvariate(math.log(MEAN) - variance / 2, math.sqrt(variance))
            if not dropped:
                break
        step(allocator, min(longest, max(SHORTEST, int(length))))
    return (allocator.reserved - weights) / (allocator.allocated - weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--orders", type=int, default=20, help="of the samples")
    parser.add_argument("--samples", type=int, default=40, help="of a run")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--dropped", action="store_true", help="longer samples are left out")
    arguments = parser.parse_args()
    print("longest  least  median  most")
    for longest in arguments.lengths:
        all_orders = sorted(growth(longest, arguments.samples, seed, arguments.dropped)
                            for seed in range(arguments.orders))
        middle = all_orders[len(all_orders) // 2]
        print(f"{longest:7,}  {all_orders[0]:5.2f}  {middle:6.2f}  {all_orders[-1]:4.2f}")


if __name__ == "__main__":
    main()

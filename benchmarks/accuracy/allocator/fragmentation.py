#!/usr/bin/env python3
"""What of a device's memory PyTorch's caching allocator cannot use where microbatches are all alike.

fragmentation.py [--steps N]

Plays the allocations of a rank's layers, by Megatron-Core's 1F1B and interleaved schedules, through
the rules of c10/cuda/CUDACachingAllocator.cpp: once with segments as large as what was first asked for
(simulate.py), once with segments that grow (expandable_segments:True). Of the latter a page of 20 MiB
(2 MiB for what is small) that holds nothing is given back when memory runs out, and mapped again where
it is needed: what cannot be used lies in pages that hold something. Prints, over what is allocated at
the most, what both lose of what comes and goes, and what pages hold at the most while none is given back.
"""
import argparse
import bisect
import dataclasses
import itertools
import random
import statistics

from simulate import MIB, Allocator

VOCAB = 128256


class Piece:
    """Of a heap's addresses."""
    __slots__ = ("heap", "start", "size", "free", "before", "after")

    def __init__(self, heap, start, size, before, after):
        self.heap, self.start, self.size, self.free = heap, start, size, True
        self.before, self.after = before, after

    def key(self):
        return (self.size, self.start)


class Heap:
    """One segment that grows: best fit, and new pages at its end."""

    def __init__(self, page, least_rest):
        self.page, self.least_rest = page, least_rest
        self.free, self.last, self.end = [], None, 0
        self.used = {}  # page -> pieces in use that it holds a part of

    def take(self, size):
        at = bisect.bisect_left(self.free, (size, -1), key=Piece.key)
        if at < len(self.free):
            piece = self.free.pop(at)
        elif self.last is not None and self.last.free:  # the end grows
            piece = self.last
            self.free.remove(piece)
            piece.size = size
        else:
            piece = Piece(self, self.last.start + self.last.size if self.last else 0, size, self.last, None)
            if self.last:
                self.last.after = piece
            self.last = piece
        rest = piece.size - size
        if rest >= self.least_rest:
            piece.size = size
            self._insert(Piece(self, piece.start + size, rest, piece, piece.after))
        piece.free = False
        self.end = max(self.end, self.last.start + self.last.size)
        for page in self._pages(piece):
            self.used[page] = self.used.get(page, 0) + 1
        return piece

    def give(self, piece):
        for page in self._pages(piece):
            self.used[page] -= 1
            if self.used[page] == 0:
                del self.used[page]
        for other in (piece.before, piece.after):
            if other is None or not other.free:
                continue
            self.free.remove(other)
            piece.start = min(piece.start, other.start)
            piece.size += other.size
            if other is piece.before:
                piece.before = other.before
            else:
                piece.after = other.after
        self._insert(piece)

    def _pages(self, piece):
        return range(piece.start // self.page, (piece.start + piece.size - 1) // self.page + 1)

    def _insert(self, piece):
        piece.free = True
        if piece.before:
            piece.before.after = piece
        if piece.after:
            piece.after.before = piece
        else:
            self.last = piece
        bisect.insort(self.free, piece, key=Piece.key)


class Expandable:
    """Bytes `allocated` at the most, in pages that `held` something, and in all pages of `mapped`."""

    def __init__(self):
        self.small, self.large = Heap(2 * MIB, 512), Heap(20 * MIB, MIB + 1)
        self.now = self.allocated = self.held = self.mapped = 0

    def take(self, size):
        size = max(512, -(-int(size) // 512) * 512)
        piece = (self.small if size <= MIB else self.large).take(size)
        self.now += piece.size
        heaps = (self.small, self.large)
        self.allocated = max(self.allocated, self.now)
        self.held = max(self.held, sum(len(h.used) * h.page for h in heaps))
        self.mapped = max(self.mapped, sum(-(-h.end // h.page) * h.page for h in heaps))
        return piece

    def give(self, *pieces):
        for piece in pieces:
            self.now -= piece.size
            piece.heap.give(piece)


@dataclasses.dataclass
class Layer:
    """A layer of Transformer Engine in 16 bits on one of tp ranks with sequence parallelism."""
    hidden: int
    ffn: int
    kv: int
    tokens: int
    tp: int = 1
    experts: int = 0  # of which every token takes 8
    dice: random.Random = dataclasses.field(default_factory=lambda: random.Random(1))

    def wide(self, a):
        return a.take(2 * self.tokens * self.hidden)

    def part(self, a):
        return a.take(2 * self.tokens * self.hidden // self.tp)

    def scattered(self, a, whole):
        if self.tp == 1:
            return whole
        part = self.part(a)
        a.give(whole)
        return part

    def gathered(self, a):
        """Of tensor ranks, until the product has read it."""
        return [self.wide(a)] if self.tp > 1 else []

    def kv_part(self, a):
        return a.take(2 * self.tokens * self.kv // self.tp)

    def of_ffn(self, a, columns, tokens):
        return a.take(2 * tokens * columns * self.ffn // self.tp)

    def forward(self, a):
        """Everything that the backward pass needs, the output last."""
        saved = [self.part(a), a.take(4 * self.tokens // self.tp)]
        whole = self.gathered(a)
        fused = a.take(2 * self.tokens * (self.hidden + 2 * self.kv) // self.tp)
        a.give(*whole)
        saved += [self.part(a), self.kv_part(a), self.kv_part(a)]
        a.give(fused)
        saved += [self.part(a), a.take(4 * self.tokens * (self.hidden // 128) // self.tp)]
        projected = self.scattered(a, self.wide(a))
        saved += [self.part(a)]
        a.give(projected)
        saved += [self.part(a), a.take(4 * self.tokens // self.tp)]
        tokens = self.tokens
        if self.experts:
            saved += [a.take(4 * tokens * self.experts), a.take(64 * tokens)]
            tokens = int(8 * tokens * self.dice.uniform(0.8, 1.2))  # who is busy differs
            saved.append(a.take(2 * tokens * self.hidden))
        whole = self.gathered(a)
        saved += [self.of_ffn(a, 2, tokens), self.of_ffn(a, 1, tokens)]
        out = a.take(2 * tokens * self.hidden)
        a.give(*whole)
        if self.experts:
            combined = self.wide(a)
            a.give(out)
            out = combined
        out = self.scattered(a, out)
        saved.append(self.part(a))
        a.give(out)
        return saved

    def backward(self, a, saved, gradient):
        """The layer's input gradient."""
        whole = self.gathered(a)
        active = self.of_ffn(a, 1, self.tokens)
        a.give(*whole)
        first = self.of_ffn(a, 2, self.tokens)
        a.give(active)
        of_input = self.wide(a)
        a.give(*self.gathered(a), first)
        of_input = self.scattered(a, of_input)
        of_norm = self.part(a)
        a.give(of_input, gradient)
        of_attention = self.part(a)
        parts = [self.part(a), self.kv_part(a), self.kv_part(a)]
        a.give(of_attention)
        fused = a.take(2 * self.tokens * (self.hidden + 2 * self.kv) // self.tp)
        a.give(*parts)
        of_input = self.wide(a)
        a.give(fused)
        of_input = self.scattered(a, of_input)
        out = self.part(a)
        a.give(of_input, of_norm, *saved)
        return out


@dataclasses.dataclass
class Rank:
    """The first of p, of v chunks of so many layers, some of them recomputed."""
    p: int
    v: int
    microbatches: int
    layers: int
    recomputed: int

    def tasks(self):
        """(whether forward, chunk, microbatch) in Megatron-Core's order."""
        total = self.v * self.microbatches
        ahead = min(total, self.p - 1 if self.v == 1 else 2 * (self.p - 1) + (self.v - 1) * self.p)

        def task(number, forward):
            of_round, within = divmod(number, self.p * self.v)
            chunk, microbatch = divmod(within, self.p)
            return forward, chunk if forward else self.v - 1 - chunk, of_round * self.p + microbatch

        for number in range(total + ahead):
            if number < total:
                yield task(number, True)
            if number >= ahead:
                yield task(number - ahead, False)

    def chunk_forward(self, a, layer):
        kept = [[layer.part(a)]]
        for number in range(self.layers):
            saved = layer.forward(a)
            if number < self.recomputed:
                a.give(*saved[:-1])
                saved = saved[-1:]
            kept.append(saved)
        if self.p == 1:  # with the output layer: logits, a loss in fp32, its gradient
            logits = a.take(2 * layer.tokens * VOCAB // layer.tp)
            wide = a.take(4 * layer.tokens * VOCAB // layer.tp)
            a.give(logits)
            gradient = a.take(2 * layer.tokens * VOCAB // layer.tp)
            a.give(wide, gradient)
        return kept

    def chunk_backward(self, a, layer, kept):
        gradient = layer.part(a)
        for number in reversed(range(self.layers)):
            saved = kept.pop()
            if number < self.recomputed:
                saved += layer.forward(a)
            gradient = layer.backward(a, saved, gradient)
        a.give(gradient, *kept.pop())

    def play(self, a, layer, steps):
        layer.dice.seed(1)
        for _ in range(steps):
            kept = {}
            for forward, chunk, microbatch in self.tasks():
                if forward:
                    kept[chunk, microbatch] = self.chunk_forward(a, layer)
                else:
                    self.chunk_backward(a, layer, kept.pop((chunk, microbatch)))
        return a


LAYERS = {"8B": Layer(4096, 14336, 1024, 8192), "13B": Layer(5120, 13824, 5120, 2048),
          "70B, tp 4": Layer(8192, 28672, 1024, 8192, tp=4),
          "405B, tp 8": Layer(16384, 53248, 1024, 8192, tp=8),
          "64 experts": Layer(4096, 1536, 1024, 4096, experts=64),
          "32 experts": Layer(7168, 2048, 1024, 4096, experts=32)}
RANKS = [Rank(1, 1, 4, 32, 0), Rank(4, 1, 8, 4, 0), Rank(8, 1, 16, 4, 2), Rank(4, 4, 16, 2, 0),
         Rank(8, 4, 16, 2, 0), Rank(8, 4, 16, 2, 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2)
    steps = parser.parse_args().steps
    print("layer       ranks  chunks  recomputed  allocated GiB  segments %  pages %  pages kept %")
    lost = {"segments": [], "pages": [], "pages kept": []}
    for (name, layer), rank in itertools.product(LAYERS.items(), RANKS):
        segments, pages = (rank.play(a, layer, steps) for a in (Allocator(), Expandable()))
        row = {"segments": segments.reserved / segments.allocated - 1,
               "pages": pages.held / pages.allocated - 1,
               "pages kept": pages.mapped / pages.allocated - 1}
        for key, value in row.items():
            lost[key].append(100 * value)
        print(f"{name:10}  {rank.p:5}  {rank.v:6}  {rank.recomputed:2} of {rank.layers:4}  "
              f"{pages.allocated / 2 ** 30:13.1f}  {100 * row['segments']:10.1f}  "
              f"{100 * row['pages']:7.1f}  {100 * row['pages kept']:12.1f}")
    for what, of in (("mean", statistics.mean), ("median", statistics.median), ("90 %", lambda v: statistics.quantiles(v, n=10)[-1])):
        print(f"{what:48}  {of(lost['segments']):10.1f}  {of(lost['pages']):7.1f}  {of(lost['pages kept']):12.1f}")


if __name__ == "__main__":
    main()

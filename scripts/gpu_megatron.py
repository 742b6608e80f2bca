#!/usr/bin/env python3
"""Runs Megatron-LM's own training loop on one GPU, on small models with random tokens, and says what
the host issues and how long it takes: by module of the forward pass, and by part of a step.

usage: gpu_megatron.py --megatron-lm FOLDER --out FOLDER [--budget SECONDS] [--only "NAME; ..."] [--list]

Needs a checkout of Megatron-LM (core 0.17) and PyTorch; neither Transformer Engine nor apex, since
the layers are Megatron's local ones. The experts of a mixture, which are local there only one by one,
are two grouped products of PyTorch. Writes FOLDER/megatron.json (benchmarks/device/h200-megatron.json
is one). Ends with 77 without PyTorch, a GPU or the checkout, 1 if a run failed.
"""
import argparse
import bisect
import collections
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from gpu_training import torch_on_gpu

COMMON = """--transformer-impl local --no-persist-layer-norm --no-gradient-accumulation-fusion
 --no-masked-softmax-fusion --tokenizer-type NullTokenizer --vocab-size 32000 --mock-data --bf16 --lr 1e-4
 --min-lr 1e-5 --lr-decay-style cosine --lr-decay-iters 1000 --clip-grad 1.0 --weight-decay 0.1
 --eval-iters 0 --eval-interval 100000 --num-workers 0 --seed 1 --no-create-attention-mask-in-dataloader
 --no-check-for-nan-in-loss-and-grad --no-save-optim --no-load-optim --no-load-rng --log-interval 1
 --distributed-backend nccl""".split()
ITERATIONS, PROFILED, MEDIAN_OF = 14, 8, 5


def dense(layers, global_batch, more=""):
    return (f"--num-layers {layers} --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
            f"--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size {global_batch} {more}")


def mixture(layers, hidden, more=""):
    wide = hidden > 512
    return (f"--num-layers {layers} --hidden-size {hidden} --num-attention-heads {32 if wide else 8} "
            f"--kv-channels {128 if wide else 32} --group-query-attention --num-query-groups 4 "
            f"--ffn-hidden-size {4 * hidden} --seq-length 1024 --max-position-embeddings 1024 "
            "--micro-batch-size 1 --global-batch-size 4 --normalization RMSNorm --swiglu "
            "--disable-bias-linear --position-embedding-type rope --no-rope-fusion "
            "--untie-embeddings-and-output-weights --num-experts 128 --moe-router-topk 8 "
            f"--moe-ffn-hidden-size {768 if wide else 128} --moe-grouped-gemm "
            "--moe-token-dispatcher-type alltoall --moe-router-load-balancing-type aux_loss "
            "--moe-aux-loss-coeff 1e-3 --moe-router-dtype fp32 --attention-dropout 0 --hidden-dropout 0 "
            + more)


SIGMOID = ("--moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-num-groups 8 "
           "--moe-router-group-topk 4 --moe-shared-expert-intermediate-size 128")
RUNS = {
    "dense, 12 layers": dense(12, 32),
    "mixture, 6 layers": mixture(6, 256),
    "mixture, 2 layers": mixture(2, 256),
    "mixture, 6 layers, sigmoid scores": mixture(6, 256, SIGMOID),
    "dense, 24 layers": dense(24, 32),
    "dense, 16 microbatches": dense(12, 64),
    "dense, norms and zeros logged": dense(12, 32, "--log-params-norm --log-num-zeros-in-grad"),
    "dense, sharded optimizer": dense(
        12, 32, "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"),
    "mixture, wide": mixture(4, 2048),
}


# --- one run, in a process of its own ----------------------------------------------------------------

class Watch:
    """Host seconds and calls of functions; while `profiling`, ranges of their names too."""

    def __init__(self, torch):
        self.torch, self.profiling, self.now = torch, False, collections.Counter()

    def over(self, owner, attribute, label):
        inner = getattr(owner, attribute)

        @functools.wraps(inner)
        def watched(*a, **k):
            begin = time.perf_counter()
            try:
                if self.profiling:
                    with self.torch.profiler.record_function("watch:" + label):
                        return inner(*a, **k)
                return inner(*a, **k)
            finally:
                self.now[label] += time.perf_counter() - begin
                self.now["calls of " + label] += 1

        setattr(owner, attribute, watched)


def kind_of(call):
    for word, kind in (("LaunchKernel", "launch"), ("Memcpy", "memcpy"), ("Memset", "memset"),
                       ("Synchronize", "sync")):
        if word in call:
            return kind
    return None


def issued(path):
    """What the host issued inside of each watched function, and in the whole step, by a Kineto trace."""
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]
    calls = collections.defaultdict(list)
    for e in events:
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and kind_of(e["name"]):
            calls[e["tid"]].append((e["ts"], kind_of(e["name"])))
    for of_thread in calls.values():
        of_thread.sort()
    by_label, ranges = collections.defaultdict(collections.Counter), collections.Counter()
    for e in events:
        if e.get("cat") != "user_annotation" or not e["name"].startswith("watch:"):
            continue
        label, of_thread = e["name"][6:], calls.get(e["tid"], [])
        ranges[label] += 1
        for ts, kind in of_thread[bisect.bisect_left(of_thread, (e["ts"], "")):]:
            if ts > e["ts"] + e["dur"]:
                break
            by_label[label][kind] += 1
    each = {label: {kind: round(n / ranges[label], 1) for kind, n in counts.items()}
            for label, counts in by_label.items()}
    total = collections.Counter(kind for of_thread in calls.values() for _, kind in of_thread)
    kernels = sum(e["dur"] for e in events if e.get("cat") == "kernel")
    return {"issued_per_call": each, "issued_per_step": dict(total),
            "kernels_ms_per_step": round(kernels / 1e3, 1)}


def replace_experts(torch, watch):
    """Experts as two grouped products: Megatron-LM has that of Transformer Engine alone."""
    from megatron.core.models import backends
    from megatron.core.transformer.module import MegatronModule

    class Experts(MegatronModule):
        def __init__(self, n, config, pg_collection=None):
            del pg_collection
            super().__init__(config=config)
            h, f = config.hidden_size, config.moe_ffn_hidden_size
            self.up, self.down = (
                torch.nn.Parameter(torch.empty(n, rows, columns, device=torch.cuda.current_device(),
                                               dtype=config.params_dtype).normal_(0, 0.02))
                for rows, columns in ((h, 2 * f), (f, h)))
            for weight in (self.up, self.down):
                weight.allreduce = True

        def forward(self, x, tokens_per_expert, probabilities):
            offsets = tokens_per_expert.cuda(non_blocking=True).cumsum(0).to(torch.int32)
            gate, up = torch.chunk(torch._grouped_mm(x, self.up, offs=offsets), 2, -1)
            y = (torch.nn.functional.silu(gate) * up * probabilities.unsqueeze(-1)).to(x.dtype)
            return torch._grouped_mm(y, self.down, offs=offsets), None

        def sharded_state_dict(self, *_, **__):
            return {}

        def backward_dw(self):
            pass

    watch.over(Experts, "forward", "experts")
    backends.LocalSpecProvider.grouped_mlp_modules = lambda _, __: Experts


def random_batches(torch, training):
    """Batches of one set of random tokens instead of a dataset, whose index wants a compiler."""
    from megatron.core.rerun_state_machine import RerunDataIterator
    from megatron.training import get_args

    def iterators(_):
        args = get_args()
        args.do_train, args.do_valid, args.do_test = True, False, False
        b, s = args.micro_batch_size, args.seq_length
        tokens = torch.randint(0, args.padded_vocab_size - 2, (b, s + 1))
        batch = {"tokens": tokens[:, :-1], "labels": tokens[:, 1:], "loss_mask": torch.ones(b, s),
                 "position_ids": torch.arange(s).repeat(b, 1)}
        batch = {name: value.contiguous().pin_memory() for name, value in batch.items()}

        def forever():
            while True:
                yield dict(batch)
        return RerunDataIterator(forever()), None, None

    training.build_train_valid_test_data_iterators = iterators


def watch_modules(watch):
    from megatron.core.optimizer import optimizer
    from megatron.core.pipeline_parallel import schedules
    from megatron.core.transformer import attention, transformer_layer
    from megatron.core.transformer.moe import moe_layer, router, token_dispatcher
    watch.over(schedules, "forward_step", "forward_step")
    watch.over(schedules, "backward_step", "backward_step")
    watch.over(transformer_layer.TransformerLayer, "forward", "layer")
    watch.over(attention.SelfAttention, "forward", "attention")
    watch.over(moe_layer.MoELayer, "forward", "moe_layer")
    watch.over(router.TopKRouter, "forward", "router")
    for part in ("dispatch_preprocess", "token_dispatch", "dispatch_postprocess", "combine_preprocess",
                 "token_combine", "combine_postprocess"):
        watch.over(token_dispatcher.MoEAlltoAllTokenDispatcher, part, part)
    watch.over(optimizer.MegatronOptimizer, "get_grad_norm", "grad_norm")
    watch.over(optimizer.MixedPrecisionOptimizer, "step_with_ready_grads", "step_with_ready_grads")


def watch_steps(torch, training, watch, trace):
    """A row of host seconds for every step but the profiled one, of which it keeps the trace."""
    inner, rows = training.train_step, []

    def step(*a, **k):
        torch.cuda.synchronize()
        if len(rows) == PROFILED and not trace.exists():
            activities = torch.profiler.ProfilerActivity
            watch.profiling = True
            with torch.profiler.profile(activities=[activities.CPU, activities.CUDA]) as profile:
                out = inner(*a, **k)
                torch.cuda.synchronize()
            watch.profiling = False
            profile.export_chrome_trace(str(trace))
            return out
        watch.now.clear()
        begin = time.perf_counter()
        out = inner(*a, **k)
        torch.cuda.synchronize()
        rows.append(dict(watch.now, train_step=time.perf_counter() - begin))
        return out

    training.train_step = step
    return rows


def summary_of(rows):
    last = rows[-MEDIAN_OF:]
    median = {name: statistics.median(r.get(name, 0) for r in last) for name in last[0]}
    layers = median.pop("calls of layer")
    parts = {n: v for n, v in median.items() if not n.startswith("calls of ")}
    step = ("train_step", "forward_step", "backward_step", "grad_norm", "step_with_ready_grads")
    return {"layers_forward_per_step": layers, "microbatches": median["calls of forward_step"],
            "ms_per_layer_forward": {n: round(1e3 * v / layers, 3) for n, v in parts.items()
                                     if n not in step},
            "ms_per_step": {n: round(1e3 * parts[n], 2) for n in step}}


def run_one(checkout, folder, arguments):
    """Trains and leaves what was seen in FOLDER/result.json."""
    sys.path.insert(0, str(checkout))
    sys.argv = ["pretrain_gpt.py", *arguments]
    import torch
    import pretrain_gpt
    from megatron.training import training
    watch = Watch(torch)
    random_batches(torch, training)
    watch_modules(watch)
    rows = watch_steps(torch, training, watch, folder / "trace.json")
    if "--num-experts" in arguments:
        replace_experts(torch, watch)
    pretrain_gpt.train_valid_test_datasets_provider.is_distributed = True
    try:
        pretrain_gpt.pretrain(
            pretrain_gpt.train_valid_test_datasets_provider,
            functools.partial(pretrain_gpt.model_provider, pretrain_gpt.gpt_builder),
            pretrain_gpt.ModelType.encoder_or_decoder, pretrain_gpt.forward_step,
            args_defaults={"tokenizer_type": "NullTokenizer"},
            get_embedding_ranks=pretrain_gpt.get_embedding_ranks)
    except SystemExit as end:  # it ends so where it has trained enough
        if end.code:
            raise
    result = dict(summary_of(rows), **issued(folder / "trace.json"))
    result["allocated_bytes"] = torch.cuda.max_memory_allocated()
    result["held_by_allocator_bytes"] = torch.cuda.max_memory_reserved()
    (folder / "result.json").write_text(json.dumps(result))


# --- all of them -------------------------------------------------------------------------------------

def train(name, checkout, limit):
    """What a run left, or the end of what it printed."""
    arguments = [*COMMON, "--train-iters", str(ITERATIONS), *RUNS[name].split()]
    with tempfile.TemporaryDirectory() as scratch:
        log, result = pathlib.Path(scratch) / "log", pathlib.Path(scratch) / "result.json"
        environment = dict(os.environ, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(20000 + os.getpid() % 20000), CUDA_DEVICE_MAX_CONNECTIONS="1")
        with log.open("w") as to:
            try:
                subprocess.run([sys.executable, __file__, "--one", scratch, "--megatron-lm", str(checkout),
                                "--", *arguments], env=environment, stdout=to, stderr=subprocess.STDOUT,
                               timeout=limit, check=False)
            except subprocess.TimeoutExpired:
                pass
        if result.exists():
            return {"run": name, "arguments": RUNS[name], **json.loads(result.read_text())}, ""
        return None, "\n".join(log.read_text().splitlines()[-12:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megatron-lm", default="Megatron-LM", type=pathlib.Path)
    parser.add_argument("--out", default=".", type=pathlib.Path)
    parser.add_argument("--budget", type=float, default=300)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true", help="the runs and their arguments alone")
    parser.add_argument("--one", type=pathlib.Path, help=argparse.SUPPRESS)
    own, rest = (sys.argv[1:], []) if "--" not in sys.argv else (
        sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:])
    given = parser.parse_args(own)
    if given.one:
        run_one(given.megatron_lm, given.one, rest)
        return 0
    # Names have commas of their own.
    wanted = [name.strip() for name in given.only.split(";") if name.strip()]
    chosen = [n for n in RUNS if not wanted or n in wanted]
    if given.list:
        print("\n".join(f"{n}: {RUNS[n]}" for n in chosen))
        return 0
    torch = torch_on_gpu("gpu_megatron")
    if torch is None:
        return 77
    if not (given.megatron_lm / "pretrain_gpt.py").exists():
        print(f"gpu_megatron: {given.megatron_lm} is no checkout of Megatron-LM", file=sys.stderr)
        return 77
    given.out.mkdir(parents=True, exist_ok=True)
    rows, failed, end = [], [], time.monotonic() + given.budget
    for name in chosen:
        left = end - time.monotonic()
        if left < 20:
            print(f"time is up before {name}", file=sys.stderr)
            break
        row, why = train(name, given.megatron_lm.resolve(), min(left, 90))
        if row is None:
            failed.append(name)
            print(f"{name} failed:\n{why}", file=sys.stderr)
            continue
        rows.append(row)
        print(f"{name}: a layer's forward pass {row['ms_per_layer_forward'].get('layer', 0):.2f} ms on the host, "
              f"the step {row['ms_per_step']['train_step']:.0f} ms")
        (given.out / "megatron.json").write_text(json.dumps(
            {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
             "common_arguments": " ".join(COMMON), "rows": rows}, indent=1) + "\n")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())

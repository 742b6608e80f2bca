#!/usr/bin/env python3
"""Trains one small Llama with PyTorch on one GPU under the switches that people turn (losses,
recomputation, optimizers, adapters, packed documents, 8-bit products, offload, CUDA graphs) and
compares the bytes that lie between steps, the bytes at the peak and the step time with what
`meshplan estimate` says about each.

usage: gpu_switches.py --program MESHPLAN --cluster CLUSTER --out FOLDER [--budget SECONDS]
                       [--only "NAME; ..."] [--list]

Writes FOLDER/switches.json and FOLDER/switches.txt. Ends with 0 if the median error of both kinds of
bytes is at most 3 % (step times are shown, not judged), 1 if not or if a case failed, 77 without
PyTorch or a GPU. What meshplan has no key for is measured against the case without the switch.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import time

from gpu_training import build, case, model_file, on_the_host, rotary_angles, torch_on_gpu

LIMIT = 0.03
WARM_UP, STEPS = 3, 5

BASE = {"framework": "fsdp", "tp": "1", "pp": "1", "dp": "1", "zero": "0", "precision": "bf16",
        "master_weights": "false", "grad_dtype": "bf16", "optimizer_dtype": "bf16",
        "recompute": "none", "kernels.attention": "flash2", "kernels.fused_norm": "true",
        "kernels.fused_rope": "false", "kernels.fused_activation": "false",
        "kernels.fused_dropout_add": "false", "kernels.fused_cross_entropy": "false",
        "kernels.fused_grad_accumulation": "false", "kernels.fused_optimizer": "true"}


def layers(recompute="none", **switches):
    return case("llama", 8, 4096, 32, 32, 11008, 32000, 4096, 1, recompute, **switches)


def vocabulary(**switches):
    return case("llama", 1, 4096, 32, 8, 14336, 128256, 16384, 1, **switches)


def long_sequence(**switches):
    return case("llama", 12, 2048, 16, 16, 5632, 32000, 32768, 1, "full", loss="linear", **switches)


def switch(name, c, keys=None, options=(), predicted=True):
    return {"name": name, "case": dict(c, name=name), "keys": keys or {}, "options": list(options),
            "predicted": predicted}


# What the preset of plain PyTorch says of kernels is what Hugging Face's models run.
HUGGING_FACE = {k: v for k, v in BASE.items() if not k.startswith("kernels.")}


def hugging_face_case(kind, recompute="none", seq=4096, micro=1, lora=0, **config):
    """A model of transformers by its configuration, which meshplan reads as well."""
    base = {"model_type": kind, "hidden_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 32,
            "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
            "max_position_embeddings": 32768, "tie_word_embeddings": False, "hidden_act": "silu",
            "rms_norm_eps": 1e-5, "head_dim": 128, "attention_bias": False}
    base.update(config)
    c = {"config": base, "recompute": recompute, "seq": seq, "micro": micro, "vocab": base["vocab_size"]}
    return dict(c, lora=lora) if lora else c


ADAPTERS = {"lora.rank": "16", "lora.targets": "[all-linear]"}
FULL, LINEAR = {"recompute": "full"}, {"kernels.fused_linear_cross_entropy": "true"}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "num_key_value_heads": 8, "intermediate_size": 12288,
         "vocab_size": 151936}
MIXTURE = {"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "num_key_value_heads": 4,
           "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 64,
           "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1,
           "mlp_only_layers": [], "vocab_size": 32000}
LLAMA = {"architectures": ["LlamaForCausalLM"]}
SWITCHES = [
    switch("plain", layers()),
    switch("loss in fp32", vocabulary()),
    switch("loss in bf16", vocabulary(loss="torch16"), {"runtime.bf16_cross_entropy": "true"}),
    switch("loss compiled", vocabulary(loss="compiled"),
           {"kernels.fused_cross_entropy": "true", "kernels.inplace_cross_entropy": "true"}),
    switch("loss with the output layer", vocabulary(loss="linear"), LINEAR),
    switch("recompute every layer", layers("full"), FULL),
    switch("checkpoints on the device", long_sequence(), dict(FULL, **LINEAR)),
    switch("checkpoints on the host", long_sequence(checkpoints="host"),
           dict(FULL, **LINEAR, **{"runtime.host_checkpoints": "true"})),
    switch("recompute every second layer", layers("alternate"), dict(FULL, recompute_layers="[4]")),
    switch("recompute by operation", layers("operations"),
           {"recompute": "selective", "runtime.op_recompute": "true"}),
    switch("recompute feed-forward", layers("mlp"),
           {"recompute": "selective", "recompute_modules": "[mlp]"}),
    switch("optimizer sgd", layers(optimizer="sgd"), {"optimizer": "sgd"}),
    switch("optimizer adafactor", layers(optimizer="adafactor"),
           {"optimizer": "adafactor", "optimizer_dtype": "fp32"}),
    switch("optimizer muon", layers(optimizer="muon"), {"optimizer": "muon"}),
    switch("adapters", layers(lora=16), ADAPTERS),
    switch("adapters, recompute", layers("full", lora=16), dict(ADAPTERS, **FULL)),
    switch("packed documents", layers(attention="documents", documents=512), {},
           ["--lengths", "fixed(512)", "--packing", "pack"]),
    switch("8-bit products", layers(products="fp8"), {"precision": "fp8"}),
    switch("activations on the host", layers(offload=True), {"offload.activations": "true"}),
    switch("transformers, Llama", hugging_face_case("llama", **LLAMA)),
    switch("transformers, Llama, recompute", hugging_face_case("llama", "full", **LLAMA), FULL),
    switch("transformers, Llama, adapters", hugging_face_case("llama", lora=16, **LLAMA), ADAPTERS),
    switch("transformers, Llama, both", hugging_face_case("llama", "full", lora=16, **LLAMA),
           dict(ADAPTERS, **FULL)),
    switch("transformers, Llama, both, 16,384 tokens",
           hugging_face_case("llama", "full", 16384, lora=16, **LLAMA), dict(ADAPTERS, **FULL)),
    switch("transformers, Qwen3, recompute", hugging_face_case("qwen3", "full", 8192, **QWEN3), FULL),
    switch("transformers, Qwen3 mixture", hugging_face_case("qwen3_moe", **MIXTURE)),
    switch("CUDA graph of forward and backward", layers(graph=True), predicted=False),
]


def estimate(program, cluster, s, folder):
    """Bytes between steps and at the peak, and seconds of a step, that meshplan expects."""
    c = s["case"]
    path = pathlib.Path(folder) / "switch.json"
    path.write_text(json.dumps(c["config"] if "config" in c else model_file(c)))
    keys = dict(HUGGING_FACE if "config" in c else BASE, micro_batch=str(c["micro"]))
    keys.update(s["keys"])
    run = subprocess.run(
        [program, "estimate", "--model", str(path), "--cluster", cluster, "--gpus", "1", "--strategy",
         ",".join(f"{k}={v}" for k, v in keys.items()), "--global-batch", str(c["micro"]), "--seq-len",
         str(c["seq"]), "--json", *s["options"]], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"meshplan estimate ended with {run.returncode}: {run.stderr}")
    plan = json.loads(run.stdout)["plan"]
    memory = plan["memory"][0]
    return {"persistent_bytes": memory["weights_bytes"] + memory["optimizer_bytes"],
            "peak_bytes": memory["peak_bytes"] - memory["reserved_bytes"],
            "step_s": plan["step_time_s"]}


# --- what the switches do -----------------------------------------------------------------------------

def eight_bit_linear(torch):
    """A linear layer whose three products are in 8 bits, scaled by tensor at every use; it keeps its
    input and its weight as they are."""
    torch._dynamo.config.recompile_limit = 64  # every shape its own kernel

    @torch.compile(dynamic=False)
    def cast(x, kind):
        scale = x.abs().max().float().clamp(min=1e-12) / torch.finfo(kind).max
        return (x / scale.to(x.dtype)).to(kind), scale

    def product(a, b):
        (a8, a_scale), (b8, b_scale) = a, b
        return torch._scaled_mm(a8, b8, a_scale, b_scale, out_dtype=torch.bfloat16)

    narrow, wide = torch.float8_e4m3fn, torch.float8_e5m2

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(context, x, weight):
            context.save_for_backward(x, weight)
            w8, w_scale = cast(weight, narrow)
            out = product(cast(x.flatten(0, 1), narrow), (w8.t(), w_scale))
            return out.view(*x.shape[:-1], -1)

        @staticmethod
        def backward(context, gradient):
            x, weight = context.saved_tensors
            g8, g_scale = cast(gradient.flatten(0, 1), wide)
            w8, w_scale = cast(weight.t().contiguous(), narrow)
            dx = product((g8, g_scale), (w8.t(), w_scale)).view_as(x)
            x8, x_scale = cast(x.flatten(0, 1).t().contiguous(), narrow)
            dw = product((g8.t().contiguous(), g_scale), (x8.t(), x_scale))
            return dx, dw

    class Linear(torch.nn.Linear):
        def forward(self, x):
            return Product.apply(x, self.weight)

    return Linear


def replace_products(torch, model):
    kind = eight_bit_linear(torch)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "head":
            module.__class__ = kind


def hugging_face(torch, c):
    """A model of transformers, with its own loss and checkpoints."""
    from transformers import AutoConfig, AutoModelForCausalLM
    fields = {k: v for k, v in c["config"].items() if k != "model_type"}
    config = AutoConfig.for_model(c["config"]["model_type"], use_cache=False, **fields)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)
    if c["recompute"] == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})
        if c.get("lora"):
            model.enable_input_require_grads()
    return model.train()


def add_adapters(torch, model, c):
    from peft import LoraConfig, get_peft_model
    from peft.mapping import inject_adapter_in_model
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    if "config" in c:
        return get_peft_model(model, LoraConfig(r=c["lora"], target_modules=targets),
                              autocast_adapter_dtype=False)
    plain = r".*blocks\.\d+\.(qkv\.\d|out|up|gate|down)"
    return inject_adapter_in_model(LoraConfig(r=c["lora"], target_modules=plain), model)


def optimizers(torch, model, c):
    """Adam, or another for the matrices of the layers and Adam for the rest."""
    trained = [p for p in model.parameters() if p.requires_grad]
    kind = c.get("optimizer", "adam")
    if kind == "sgd":
        return [torch.optim.SGD(trained, lr=1e-4, momentum=0.9, fused=True)]
    if kind == "adafactor":
        return [torch.optim.Adafactor(trained, lr=1e-4)]
    if kind == "muon":
        matrices = [p for block in model.blocks for p in block.parameters() if p.ndim == 2]
        inside = {id(p) for p in matrices}
        rest = [p for p in trained if id(p) not in inside]
        return [torch.optim.Muon(matrices, lr=1e-4), torch.optim.AdamW(rest, lr=1e-4, fused=True)]
    return [torch.optim.AdamW(trained, lr=1e-4, fused=True)]


def prepared(torch, c):
    """(model, what computes its loss)"""
    device = torch.device("cuda")
    tokens, targets = (torch.randint(c["vocab"], (c["micro"], c["seq"]), device=device) for _ in "ab")
    with device:
        made = hugging_face if "config" in c else build
        model = made(torch, c).to(torch.bfloat16)
    if c.get("products") == "fp8":
        replace_products(torch, model)
    if c.get("lora"):
        for p in model.parameters():
            p.requires_grad_(False)
        model = add_adapters(torch, model, c).to(device=device, dtype=torch.bfloat16)
    if "config" in c:
        return model, lambda: model(input_ids=tokens, labels=tokens).loss

    angles = rotary_angles(torch, c, device)

    def loss():
        return model(tokens, targets, angles)
    # Checkpoints need an input that asks for a gradient, which frozen tables do not give.
    if c.get("lora") and c["recompute"] != "none":
        model.embed.register_forward_hook(lambda _, __, out: out.requires_grad_(True))
    return model, loss


def measure(torch, c):
    """Bytes between steps and at the peak, what the allocator holds, and seconds of a step."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    torch.manual_seed(1)
    model, loss_of = prepared(torch, c)
    used = optimizers(torch, model, c)
    offload = on_the_host(torch) if c.get("offload") else contextlib.nullcontext
    graph = None

    def zero():
        for o in used:
            o.zero_grad(set_to_none=graph is None)

    def passes():
        with offload():
            loss = loss_of()
        loss.backward()
        return loss

    def step():
        zero()
        loss = graph.replay() if graph is not None else passes()
        for o in used:
            o.step()
        return loss

    times, persistent = [], 0
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
        for _ in range(WARM_UP):
            step()
        if c.get("graph"):
            zero()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                passes()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(STEPS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            step()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
    peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()
    if graph is None:
        zero()
    persistent = torch.cuda.memory_allocated()
    return {"persistent_bytes": persistent, "peak_bytes": peak, "held_by_allocator_bytes": reserved,
            "step_s": statistics.median(times)}


def relative(row, name):
    return row["predicted"][name] / row["measured"][name] - 1


def summarise(rows):
    """Median errors of what is predicted."""
    judged = [r for r in rows if r["predicted"]]
    return {name: statistics.median(abs(relative(r, name)) for r in judged) if judged else None
            for name in ("persistent_bytes", "peak_bytes", "step_s")}


def report_text(rows, summary):
    lines = [f"{'switch':36} {'between steps':>22} {'peak':>30} {'step':>26}"]
    for r in rows:
        shown = [f"{r['name']:36}"]
        for name, unit, scale in (("persistent_bytes", "GiB", 2**30), ("peak_bytes", "GiB", 2**30),
                                  ("step_s", "ms", 1e-3)):
            measured = r["measured"][name] / scale
            if r["predicted"]:
                shown.append(f"{r['predicted'][name] / scale:8.2f} {measured:8.2f} {unit} "
                             f"{100 * relative(r, name):+6.1f}%")
            else:
                shown.append(f"{'':8} {measured:8.2f} {unit} {'':7}")
        if not r["predicted"]:
            shown.append(f"allocator {r['measured']['held_by_allocator_bytes'] / 2**30:.2f} GiB")
        lines.append("  ".join(shown))
    for name, median in summary.items():
        shown = "nothing measured" if median is None else f"{100 * median:.1f} %"
        lines.append(f"median error of {name}: {shown}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="meshplan")
    parser.add_argument("--cluster", default="hgx-h200")
    parser.add_argument("--out", default=".")
    parser.add_argument("--budget", type=float, default=150)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true", help="the switches and their estimates alone")
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    # Names have commas of their own.
    wanted = [name.strip() for name in arguments.only.split(";") if name.strip()]
    chosen = [s for s in SWITCHES if not wanted or s["name"] in wanted]
    if arguments.list:
        for s in chosen:
            p = estimate(arguments.program, arguments.cluster, s, folder) if s["predicted"] else {}
            print(s["name"], {k: f"{v:.4g}" for k, v in p.items()})
        return 0
    torch = torch_on_gpu("gpu_switches")
    if torch is None:
        return 77
    rows, failed, end = [], [], time.monotonic() + arguments.budget
    for s in chosen:
        if time.monotonic() > end:
            print(f"time is up before {s['name']}", file=sys.stderr)
            break
        predicted = None
        try:
            if s["predicted"]:
                predicted = estimate(arguments.program, arguments.cluster, s, folder)
        except RuntimeError as problem:
            print(f"{s['name']} cannot be estimated: {problem}", file=sys.stderr)
            failed.append(s["name"])
        try:
            rows.append({"name": s["name"], "case": s["case"], "predicted": predicted,
                         "measured": measure(torch, s["case"])})
        except Exception as problem:  # a kernel that this PyTorch lacks: not the others' cost
            print(f"{s['name']} failed: {type(problem).__name__}: {problem}", file=sys.stderr)
            failed.append(s["name"])
        torch.cuda.empty_cache()
        (folder / "switches.json").write_text(json.dumps(
            {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rows": rows,
             "failed": failed, "median_error": summarise(rows)}, indent=2) + "\n")
    summary = summarise(rows)
    text = report_text(rows, summary)
    (folder / "switches.txt").write_text(text)
    print(text, end="")
    good = all(summary[k] is not None and summary[k] <= LIMIT for k in ("persistent_bytes", "peak_bytes"))
    return 0 if good and not failed else 1


if __name__ == "__main__":
    sys.exit(main())

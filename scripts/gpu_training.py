"""Small GPT and Llama models as plain PyTorch trains them, for the scripts that compare one GPU with
what meshplan says about it. PyTorch itself is handed in: a machine without it can list the cases.
"""
import contextlib
import sys
import weakref


def torch_on_gpu(script):
    """PyTorch, where it finds a GPU; else nothing, and it is said why."""
    try:
        import torch
    except ImportError:
        print(f"{script}: there is no PyTorch here", file=sys.stderr)
        return None
    if torch.cuda.is_available():
        return torch
    print(f"{script}: PyTorch finds no GPU here", file=sys.stderr)
    return None


def case(family, layers, hidden, heads, groups, ffn, vocab, seq, micro, recompute="none", **switches):
    """A model and its batch as a dict. `switches`: loss (torch, torch16, compiled, linear), attention
    (sdpa, unfused, documents), documents (tokens of each, with that attention), norm (module,
    unfused), checkpoints (device, host)."""
    name = f"{family}-l{layers}-h{hidden}-s{seq}-b{micro}" + ("" if recompute == "none" else "-full")
    return {"name": name, "family": family, "layers": layers, "hidden": hidden, "heads": heads,
            "groups": groups, "ffn": ffn, "vocab": vocab, "seq": seq, "micro": micro,
            "recompute": recompute, **switches}


def model_file(c):
    """The case as a model file (JSON, which is YAML)."""
    gpt = c["family"] == "gpt"
    return {
        "name": c["name"], "num_layers": c["layers"], "hidden_size": c["hidden"],
        "num_attention_heads": c["heads"], "num_query_groups": c["groups"],
        "ffn_hidden_size": c["ffn"], "gated_mlp": not gpt, "activation": "gelu" if gpt else "silu",
        "norm": "layernorm" if gpt else "rmsnorm",
        "position_embedding": "learned" if gpt else "rope", "vocab_size": c["vocab"],
        "tied_embeddings": False, "linear_bias": gpt, "dropout": 0.0, "max_seq_length": c["seq"],
        "attention": {"kind": "mha" if c["groups"] == c["heads"] else "gqa"},
        "source": "a case of scripts/gpu_training.py",
    }


def on_the_host(torch):
    """What the forward pass saves is copied to pinned memory on a stream of its own, and back as it is
    asked for; weights stay."""
    stream = torch.cuda.Stream()
    least = 2**20
    copied = {}  # of this step: operations that save the same tensor share its copy

    def pack(tensor):
        if isinstance(tensor, torch.nn.Parameter) or tensor.nbytes < least or not tensor.is_cuda \
                or tensor.grad_fn is None:
            return tensor
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor._version)
        known = copied.get(key)
        if known is not None and known[0]() is not None:
            return known[1]
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            host.copy_(tensor.detach(), non_blocking=True)
            tensor.detach().record_stream(stream)
        packed = (stream.record_event(), host)
        copied[key] = (weakref.ref(tensor), packed)
        return packed

    def unpack(packed):
        if not isinstance(packed, tuple):
            return packed
        event, host = packed
        torch.cuda.current_stream().wait_event(event)
        return host.to("cuda", non_blocking=True)

    return lambda: torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def attention_of(torch, c):
    """Causal attention of queries, keys and values of (batch, heads, tokens, head)."""
    functional = torch.nn.functional
    grouped = c["groups"] != c["heads"]

    def fused(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)

    def unfused(q, k, v):
        if grouped:
            k, v = (t.repeat_interleave(c["heads"] // c["groups"], dim=1) for t in (k, v))
        scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        return scores.masked_fill(later, float("-inf")).softmax(dim=-1, dtype=torch.float32).to(q) @ v

    def documents(q, k, v):
        """Every document sees itself alone; rows of the batch are laid end to end."""
        import inspect
        from torch.nn.attention.varlen import varlen_attn
        longest = c["documents"]
        flat = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
        ends = torch.arange(0, flat[0].shape[0] + 1, longest, dtype=torch.int32, device=q.device)
        causal = ({"is_causal": True} if "is_causal" in inspect.signature(varlen_attn).parameters
                  else {"window_size": (-1, 0)})
        out = varlen_attn(*flat, ends, ends, longest, longest, **causal)
        return out.view(q.shape[0], q.shape[2], q.shape[1], q.shape[3]).transpose(1, 2)

    return {"sdpa": fused, "unfused": unfused, "documents": documents}[c.get("attention", "sdpa")]


def loss_function(torch, c):
    """The loss of logits (tokens, vocabulary) against targets (tokens)."""
    entropy = torch.nn.functional.cross_entropy

    def in_fp32(logits, targets):
        return entropy(logits.float(), targets)

    losses = {"torch": lambda: in_fp32, "torch16": lambda: entropy,
              "compiled": lambda: torch.compile(in_fp32),
              "linear": lambda: None}  # with the output layer, loss_with_head
    return losses[c.get("loss", "torch")]()


def loss_with_head(torch, x, weight, targets):
    """The mean loss of x weight^T, a chunk of tokens after the other, whose logits are not kept: both
    gradients are made at once (as Liger's fused linear cross entropy; chunks as there)."""
    tokens, width = x.shape
    parts = -(-weight.shape[0] // width)
    rows = 1 << max(0, -(-tokens // parts) - 1).bit_length()

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(context, x, weight):
            gradient, of_weight = torch.empty_like(x), torch.zeros_like(weight)
            total = torch.zeros((), device=x.device)
            for begin in range(0, tokens, rows):
                part, wanted = x[begin:begin + rows], targets[begin:begin + rows]
                logits = part @ weight.t()
                total += rewritten(logits, wanted) / tokens
                gradient[begin:begin + rows] = logits @ weight
                of_weight += logits.t() @ part
            context.save_for_backward(gradient, of_weight)
            return total

        @staticmethod
        def backward(context, scale):
            return tuple(g.mul_(scale.to(g.dtype)) for g in context.saved_tensors)

    @torch.compile(dynamic=False)
    def in_place(logits, wanted):
        wide = logits.float()
        sums = wide.logsumexp(-1, keepdim=True)
        at = wanted[:, None]
        loss = (sums - wide.gather(1, at)).sum()
        places = torch.arange(logits.shape[1], device=logits.device)
        logits.copy_((((wide - sums).exp() - (places == at)) / tokens).to(logits.dtype))
        return loss

    rewritten = in_place
    return Loss.apply(x, weight)


def every_second_product(torch):
    """torchtitan's selective recomputation by operation: attention and every second product are kept."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
    aten = torch.ops.aten
    attention = {aten._scaled_dot_product_flash_attention.default,
                 aten._scaled_dot_product_efficient_attention.default,
                 aten._scaled_dot_product_cudnn_attention.default}

    def contexts():
        products = {}

        def policy(context, function, *arguments, **options):
            kept = function in attention
            if function == aten.mm.default:
                again = context.is_recompute
                products[again] = products.get(again, 0) + 1
                kept = products[again] % 2 == 1
            return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return contexts


def build(torch, c):
    """The model of a case: plain modules as in public training code, Llama with a projection each
    for queries, keys and values and both halves of the gated MLP, and rotations by halves (Hugging
    Face, torchtitan), GPT with one projection that is split (nanoGPT)."""
    nn, functional = torch.nn, torch.nn.functional
    gpt, hidden, head = c["family"] == "gpt", c["hidden"], c["hidden"] // c["heads"]

    kept = on_the_host(torch) if c.get("checkpoints") == "host" else contextlib.nullcontext

    def checkpoint(function, *arguments, **options):
        import torch.utils.checkpoint  # not loaded by itself everywhere
        with kept():
            return torch.utils.checkpoint.checkpoint(function, *arguments, use_reentrant=False,
                                                     **options)

    def linear(n_in, n_out, bias=gpt):
        return nn.Linear(n_in, n_out, bias=bias)

    def norm():
        if c.get("norm") == "unfused":
            return UnfusedNorm()
        return nn.LayerNorm(hidden) if gpt else nn.RMSNorm(hidden, eps=1e-5)

    class UnfusedNorm(nn.Module):  # as model code writes it that knows no fused kernel
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            y = x.float()
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
            return self.weight * y.to(x.dtype)

    attend, loss_of = attention_of(torch, c), loss_function(torch, c)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = norm(), norm()
            queries, keys = c["heads"] * head, c["groups"] * head
            widths = [queries + 2 * keys] if gpt else [queries, keys, keys]
            self.qkv = nn.ModuleList(linear(hidden, width) for width in widths)
            self.out = linear(hidden, hidden)
            self.up = linear(hidden, c["ffn"])
            self.gate = None if gpt else linear(hidden, c["ffn"])
            self.down = linear(c["ffn"], hidden)

        def forward(self, x, angles):
            b, s, _ = x.shape
            y = self.norm1(x)
            q, k, v = self.qkv[0](y).split(hidden, dim=-1) if gpt else (p(y) for p in self.qkv)
            q = q.view(b, s, c["heads"], head).transpose(1, 2)
            k = k.view(b, s, c["groups"], head).transpose(1, 2)
            v = v.view(b, s, c["groups"], head).transpose(1, 2)
            if not gpt:
                q, k = rotate(q, *angles), rotate(k, *angles)
            a = attend(q, k, v)
            x = x + self.out(a.transpose(1, 2).reshape(b, s, hidden))
            y = self.norm2(x)
            if c["recompute"] == "mlp":
                return x + checkpoint(self.mlp, y)
            return x + self.mlp(y)

        def mlp(self, y):
            if gpt:
                return self.down(functional.gelu(self.up(y)))
            return self.down(functional.silu(self.gate(y)) * self.up(y))

    def rotate(x, cosine, sine):
        low, high = x.chunk(2, dim=-1)
        return x * cosine + torch.cat((-high, low), dim=-1) * sine

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(c["vocab"], hidden)
            self.places = nn.Embedding(c["seq"], hidden) if gpt else None
            self.blocks = nn.ModuleList(Block() for _ in range(c["layers"]))
            self.norm = norm()
            self.head = linear(hidden, c["vocab"], bias=False)

        def forward(self, tokens, targets, angles):
            x = self.embed(tokens)
            if self.places is not None:
                x = x + self.places.weight
            for place, block in enumerate(self.blocks):
                if c["recompute"] == "full" or (c["recompute"] == "alternate" and place % 2 == 0):
                    x = checkpoint(block, x, angles)
                elif c["recompute"] == "operations":
                    x = checkpoint(block, x, angles, context_fn=every_second_product(torch))
                else:
                    x = block(x, angles)
            if c.get("loss") == "linear":
                return loss_with_head(torch, self.norm(x).flatten(0, 1), self.head.weight,
                                      targets.view(-1))
            logits = self.head(self.norm(x))
            return loss_of(logits.view(-1, c["vocab"]), targets.view(-1))

    return Model()


def rotary_angles(torch, c, device):
    half = c["hidden"] // c["heads"] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float32, device=device) / half)
    angles = torch.arange(c["seq"], dtype=torch.float32, device=device)[:, None] * rates.repeat(2)
    return angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)

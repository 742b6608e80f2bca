#!/usr/bin/env python3
"""What Megatron-LM's own code says of argument lists, on a computer without a GPU.

usage: megatron_checks.py --checkout DIR [--capability 90] [--build RANKS] FILE...

Prints one JSON line per file: {"file", "ok", "stage", "message", "changed", "layers", "parameters"}.
The stages, each the framework's code: parse (argparse), validate (validate_args), config
(TransformerConfig), microbatches (its calculator), groups (initialize_model_parallel over a faked
world), layers (of every pipeline rank and chunk), schedule (the interleaved schedule up to its own
checks) and, with --build 0,1 or all, the model of these pipeline ranks without storage.
"""
import argparse
import contextlib
import copy
import io
import json
import os
import shlex
import sys
import types
import warnings

sys.dont_write_bytecode = True  # the source folder stays as it is
import stand_ins  # noqa: E402


class Rejected(Exception):
    def __init__(self, stage, error):
        super().__init__(stage)
        self.stage, self.error = stage, error


def read(path):
    """Environment and words of a file of KEY=VALUE lines, options and comments."""
    environment, words = {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            tokens = shlex.split(line, comments=True)
            if tokens and not tokens[0].startswith("-") and "=" in tokens[0]:
                key, value = tokens[0].split("=", 1)
                environment[key] = value
            else:
                words += tokens
    return environment, words


@contextlib.contextmanager
def stage(name):
    errors = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            yield
    except SystemExit:
        text = [line for line in errors.getvalue().splitlines() if "error:" in line]
        raise Rejected(name, text[-1] if text else "exit")
    except Rejected:
        raise
    except Exception as error:
        raise Rejected(name, f"{type(error).__name__}: {error}") from error


class Framework:
    def __init__(self, checkout, capability):
        sys.path.insert(0, checkout)
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            stand_ins.install(capability)
            import torch
            import megatron.core.utils
            import megatron.training.argument_utils
            import megatron.training.arguments
            import megatron.training.global_vars
            from megatron.core import num_microbatches_calculator, parallel_state
            from megatron.core.models.common.embeddings import rope_utils
            from megatron.core.pipeline_parallel import schedules
            from megatron.core.transformer import transformer_block
            from megatron.core.transformer.moe import moe_utils
            from megatron.training.vocab_utils import calculate_padded_vocab_size
        from packaging.version import Version
        stand_ins.add_fused_adam()
        # Versions that have every kernel asked for; kernels are only tested for being there.
        megatron.core.utils._torch_version = Version("2.8.0")
        megatron.core.utils._te_version = Version("2.14.0")
        rope_utils.fused_apply_rotary_pos_emb = rope_utils.fused_apply_rotary_pos_emb or object()
        for name in ("fused_permute", "fused_permute_with_probs", "fused_sort_chunks_by_index",
                     "fused_sort_chunks_by_index_with_probs", "fused_unpermute"):
            if getattr(moe_utils, name, None) is None:
                setattr(moe_utils, name, object())
        self.torch, self.arguments = torch, megatron.training.arguments
        self.arguments.warn_rank_0 = lambda *a, **k: None
        self.utilities, self.globals = megatron.training.argument_utils, megatron.training.global_vars
        self.microbatches, self.state = num_microbatches_calculator, parallel_state
        self.schedules, self.blocks = schedules, transformer_block
        self.padded_vocabulary = calculate_padded_vocab_size

    def check(self, path, build):
        environment, words = read(path)
        os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        os.environ.update(environment)
        world = int(environment["WORLD_SIZE"])
        os.environ["RANK"] = "1" if world > 1 else "0"
        sys.argv = ["pretrain_gpt.py"] + words
        with stage("parse"):
            args = self.arguments.parse_args(None, False)
        asked = {k: v for k, v in vars(args).items() if v is True}
        with stage("validate"):
            self.arguments.validate_args(args, {})
        dropped = sorted(k for k in asked if getattr(args, k, None) is not True)
        with stage("config"):
            config = self.utilities.core_transformer_config_from_args(args)
        with stage("vocabulary"):
            args.padded_vocab_size = self.padded_vocabulary(
                args.vocab_size, args.make_vocab_size_divisible_by,
                args.tensor_model_parallel_size, False)
            self.utilities.pretrain_cfg_container_from_args(
                args, self.utilities.gpt_config_from_args(args))
        with stage("microbatches"):
            self.microbatches.init_num_microbatches_calculator(
                rank=1, global_batch_size=args.global_batch_size,
                micro_batch_size=args.micro_batch_size,
                data_parallel_size=args.data_parallel_size)
            count = self.microbatches.get_num_microbatches()
        self.globals.set_args(args)
        self.fake_world(world)
        with stage("groups"):
            self.place(args, 0)
        pipeline = self.state.get_pipeline_model_parallel_group().ranks
        layers = self.layers(args, config)
        if args.virtual_pipeline_model_parallel_size:
            with stage("schedule"):
                self.run_schedule(args, config, count)
        stages = len(pipeline)
        ranks = range(stages) if build == "all" else [int(r) for r in build.split(",") if r]
        parameters = []
        for rank in ranks:
            with stage("build"):
                self.place(args, pipeline[rank])
                parameters.append(self.build(args, config, rank, stages))
        return {"dropped": dropped, "layers": layers, "parameters": parameters}

    def fake_world(self, world):
        framework = self

        class Group:
            def __init__(self, ranks):
                self.ranks = list(ranks)

            def size(self):
                return len(self.ranks)

            def rank(self):
                return self.ranks.index(framework.rank) if framework.rank in self.ranks else -1

        distributed = self.torch.distributed
        distributed.is_initialized = lambda: True
        distributed.get_world_size = lambda group=None: group.size() if group else world
        distributed.get_rank = lambda group=None: group.rank() if group else framework.rank
        distributed.new_group = lambda ranks=None, **k: Group(
            range(world) if ranks is None else ranks)
        distributed.get_process_group_ranks = lambda group: group.ranks
        distributed.barrier = lambda *a, **k: None
        self.state.get_nccl_options = lambda *a, **k: None

    def place(self, args, rank):
        self.rank = rank
        self.state.destroy_model_parallel()
        self.state.initialize_model_parallel(
            args.tensor_model_parallel_size, args.pipeline_model_parallel_size,
            args.virtual_pipeline_model_parallel_size,
            context_parallel_size=args.context_parallel_size,
            hierarchical_context_parallel_sizes=args.hierarchical_context_parallel_sizes,
            expert_model_parallel_size=args.expert_model_parallel_size,
            num_distributed_optimizer_instances=args.num_distributed_optimizer_instances,
            expert_tensor_parallel_size=args.expert_tensor_parallel_size,
            order="tp-cp-ep-pp-dp" if args.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp",
            create_gloo_process_groups=False)

    def layers(self, args, config):
        table = []
        layout = config.pipeline_model_parallel_layout
        with stage("layers"):
            for p in range(args.pipeline_model_parallel_size):
                row = []
                for v in range(args.virtual_pipeline_model_parallel_size or 1):
                    row.append(layout.get_num_layers_to_build(vp_stage=v, pp_rank=p) if layout else
                               self.blocks.get_num_layers_to_build(config, vp_stage=v, pp_rank=p))
                table.append(row)
            if sum(map(sum, table)) != args.num_layers:
                raise ValueError(f"the stages hold {table}, the model {args.num_layers} layers")
        return table

    def run_schedule(self, args, config, microbatches):
        """forward_backward_pipelining_with_interleaving until its own checks are over: the second
        question for the model's type comes right behind them."""
        class Over(Exception):
            pass

        torch, schedules = self.torch, self.schedules
        chunks = [torch.nn.Module() for _ in range(args.virtual_pipeline_model_parallel_size)]
        for chunk in chunks:
            chunk.config = config
        asked = []

        def model_type(_):
            asked.append(1)
            if len(asked) == 2:
                raise Over()

        old_type, old_zeros = schedules.get_model_type, torch.zeros
        schedules.get_model_type = model_type
        torch.zeros = lambda *a, device=None, **k: old_zeros(*a, **k)
        communicator = types.SimpleNamespace(
            config=config, pp_group=self.state.get_pipeline_model_parallel_group())
        groups = types.SimpleNamespace(tp=self.state.get_tensor_model_parallel_group(),
                                       cp=self.state.get_context_parallel_group())
        try:
            schedules.forward_backward_pipelining_with_interleaving(
                forward_step_func=None, data_iterator=[None] * len(chunks), model=chunks,
                num_microbatches=microbatches, seq_length=args.seq_length,
                micro_batch_size=args.micro_batch_size, p2p_communicator=communicator,
                pg_collection=groups)
        except Over:
            pass
        finally:
            schedules.get_model_type, torch.zeros = old_type, old_zeros

    def build(self, args, config, rank, stages):
        """Parameters of one pipeline rank: gpt_builder on PyTorch's meta device. What needs a GPU
        and holds no parameters is switched off: kernels, core attention, offloading."""
        torch = self.torch
        import gpt_builders
        import megatron.core.transformer.multi_token_prediction as prediction
        from megatron.core.models import backends
        args, config = copy.copy(args), copy.copy(config)
        args.transformer_impl = config.transformer_impl = "local"
        for name in ("perform_initialization", "use_cpu_initialization", "tp_comm_overlap",
                     "gradient_accumulation_fusion", "persist_layer_norm", "sequence_parallel",
                     "moe_permute_fusion", "moe_grouped_gemm", "cpu_offloading"):
            setattr(config, name, False)
        config.init_model_with_meta_device = True
        config.fp8 = config.recompute_granularity = None
        config.moe_token_dispatcher_type = "alltoall"  # DeepEP is a library of its own
        args.moe_grouped_gemm = False

        class NoAttention(torch.nn.Module):
            def __init__(self, *a, **k):
                super().__init__()

        class RMSNorm(torch.nn.Module):  # PyTorch has it since 2.4
            def __init__(self, normalized_shape, *a, **k):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.empty(normalized_shape, device="meta"))

        if not hasattr(torch.nn, "RMSNorm"):
            torch.nn.RMSNorm = RMSNorm
        backends.DotProductAttention = NoAttention
        prediction.is_inference_column_parallel_linear = lambda module: False
        torch.cuda.current_device = lambda: "meta"
        torch.cuda.is_initialized = lambda: False
        torch.cuda.Stream = lambda *a, **k: None
        chunks = args.virtual_pipeline_model_parallel_size
        total = 0
        for v in range(chunks or 1):
            first = rank == 0 and v == 0
            last = rank == stages - 1 and v == (chunks or 1) - 1
            model = gpt_builders.gpt_builder(args, first, last, vp_stage=v if chunks else None,
                                             config=config)
            tied = first and not args.untie_embeddings_and_output_weights
            total += sum(p.numel() for name, p in model.named_parameters()
                         if not (tied and name == "output_layer.weight"))
        return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkout", required=True)
    parser.add_argument("--capability", type=int, default=90)
    parser.add_argument("--build", default="")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    framework = Framework(os.path.abspath(options.checkout), options.capability)
    for path in options.files:  # one child each: the framework keeps global state
        sys.stdout.flush()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        result = {"file": path, "ok": True}
        try:
            result |= framework.check(path, options.build)
        except Rejected as rejected:
            result |= {"ok": False, "stage": rejected.stage, "message": str(rejected.error)[:300]}
        print(json.dumps(result), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()

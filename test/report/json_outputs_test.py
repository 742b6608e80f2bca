#!/usr/bin/env python3
"""Every document that the program can print keeps its schema: each command with --json, each kind of
list, importer and exporter, and the error of each command. And the other way round: each key that a
schema knows is in a document here.

usage: json_outputs_test.py PROGRAM DOCUMENTS SCHEMAS

DOCUMENTS prints what needs a cluster (documents.cpp). SCHEMAS: as they are installed.
"""
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "scripts"))
sys.dont_write_bytecode = True
import validate_json  # noqa: E402

PROGRAM, DOCUMENTS, SCHEMAS = "", "", pathlib.Path()

JOB = ["--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--gpus", "8", "--global-batch", "64", "--seq-len",
       "4096"]
SMALL = ["--fix", "pp=1,cp=1,micro_batch=1"]
# Every key that a layer of some kind has.
SIZES = """\
hidden_size: 1024
num_attention_heads: 16
ffn_hidden_size: 4096
vocab_size: 32000
max_seq_length: 8192
mlp_bias: true
attention_output_gate: true
rotary_percent: 0.5
sandwich_norm: true
logit_softcapping: true
attn_logit_softcapping: true
moe: {num_experts: 8, top_k: 2, expert_ffn_hidden_size: 512, latent_size: 256, latent_norm: true}
"""
RUNS = (
    """\
name: mixed
num_layers: 9
mtp_layers: 2
mtp:
  shared: true
  mixer: {kind: gqa}
  feed_forward: dense
encoder: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, head_dim: 24, ffn_hidden_size: 128, gated_mlp: true,
          linear_bias: false, patch_size: 16, channels: 6, positions: 16, patches_per_image: 16, merged_patches: 4,
          projector_hidden_size: 64, projectors: 2, images_per_sequence: 2}
layers:
  - count: 2
    mixer: {kind: gqa, num_query_groups: 4, head_dim: 64, window: 512, chunked: true, v_head_dim: 32, rotary_dim: 32,
            output_gate: false, index_heads: 4, index_head_dim: 64, index_top_k: 256}
    feed_forward: {ffn_hidden_size: 2048}
  - count: 2
    mixer: {kind: mla, q_lora_rank: 256, kv_lora_rank: 128, qk_nope_head_dim: 64, qk_rope_head_dim: 32, v_head_dim: 64}
    feed_forward: {kind: experts, num_experts: 8, top_k: 2, expert_ffn_hidden_size: 512,
                   shared_expert_ffn_hidden_size: 512, imbalance: 1.5, router_bias: true, latent_size: 0, latent_norm: false,
                   router_num_groups: 2, router_group_top_k: 1}
  - count: 1
    mixer: {kind: mamba, inner_size: 2048, state_size: 8, dt_rank: 64, conv_kernel: 3, inner_norms: true}
    feed_forward: none
  - {count: 1, mixer: {kind: lightning, num_heads: 8, head_dim: 64}, feed_forward: dense}
  - {count: 1, mixer: {num_query_groups: 4, shared_values: true}, feed_forward: dense}
  - count: 1
    mixer: {kind: gated_delta_net, num_key_heads: 8, num_value_heads: 8, key_head_dim: 64, value_head_dim: 64,
            conv_kernel: 2, gate_rank: 32, full_rank_gate: true}
    feed_forward: dense
  - count: 1
    mixer: {kind: parallel, num_attention_heads: 8, num_query_groups: 4, head_dim: 64, mamba_num_heads: 8,
            mamba_head_dim: 64, mamba_state_size: 64, mamba_num_groups: 4, mamba_conv_kernel: 3, mamba_chunk_size: 64}
    feed_forward: dense
source: a test
"""
    + SIZES
)
# A hybrid pattern with its sections.
PATTERN = (
    """\
name: hybrid
num_layers: 4
mixers:
  mamba: {kind: mamba2, num_heads: 16, head_dim: 64, state_size: 64, num_groups: 4, conv_kernel: 2, chunk_size: 256}
layers: M-*E
source: a test
"""
    + SIZES
)
# Sparse latent attention by flat keys.
SPARSE = """\
name: sparse
num_layers: 4
hidden_size: 1024
num_attention_heads: 16
ffn_hidden_size: 4096
vocab_size: 32000
max_seq_length: 8192
attention: {kind: mla, kv_lora_rank: 128, qk_nope_head_dim: 64, qk_rope_head_dim: 32, v_head_dim: 64,
            output_gate: true, index_heads: 4, index_head_dim: 64, index_top_k: 256}
source: a test
"""


def transcript_files(name):
    """The input files of a command-line transcript."""
    files, lines = {}, None
    for line in (ROOT / "test" / "cli" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            header = line[4:].strip()
            lines = files.setdefault(header[5:], []) if header.startswith("file ") else None
        elif lines is not None:
            lines.append(line + "\n")
    return {file: "".join(text) for file, text in files.items()}


class Coverage:
    """Which keys of the schemas were in a document. A key is named by the definition that it is in,
    so that what several schemas share counts once."""

    def __init__(self):
        self.known, self.seen = set(), set()

    def add_schema(self, name, schema):
        for path, node in [(name, {k: v for k, v in schema.items() if k != "definitions"}),
                           *schema.get("definitions", {}).items()]:
            self.walk(path, node)

    def walk(self, path, node):
        for key, inner in node.get("properties", {}).items():
            self.known.add(f"{path}: {key}")
            self.walk(f"{path}.{key}", inner)
        for word in ("items", "additionalProperties"):
            if isinstance(node.get(word), dict):
                self.walk(path + ".*", node[word])
        for word in ("oneOf", "anyOf", "allOf"):
            for inner in node.get(word, []):
                self.walk(path, inner)

    def add_document(self, name, schema, document):
        self.schema = schema
        self.visit(name, schema, document)

    def fits(self, node, document):
        return jsonschema.Draft7Validator({**node, "definitions": self.schema.get("definitions", {})}).is_valid(document)

    def visit(self, path, node, document):
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            return self.visit(name, self.schema["definitions"][name], document)
        for word in ("oneOf", "anyOf", "allOf"):
            for inner in node.get(word, []):
                if word == "allOf" or self.fits(inner, document):
                    self.visit(path, inner, document)
        if isinstance(document, dict):
            others = node.get("additionalProperties")
            for key, value in document.items():
                if key in node.get("properties", {}):
                    self.seen.add(f"{path}: {key}")
                    self.visit(f"{path}.{key}", node["properties"][key], value)
                elif isinstance(others, dict):
                    self.visit(path + ".*", others, value)
        elif isinstance(document, list) and isinstance(node.get("items"), dict):
            for value in document:
                self.visit(path + ".*", node["items"], value)
        return None


class JsonOutputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.schemas, cls.coverage, cls.commands = {}, Coverage(), set()
        for path in SCHEMAS.glob("*.schema.json"):
            name = path.name.partition(".")[0]
            cls.schemas[name] = json.loads(path.read_text(encoding="utf-8"))
            cls.coverage.add_schema(name, cls.schemas[name])

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def put(self, files):
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def run_program(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True,
                              check=False, env={**os.environ, "MESHPLAN_DATA": str(ROOT),
                                                "MESHPLAN_PLUGINS": str(self.folder)})
        return done.returncode, done.stdout, done.stderr

    def assert_keeps(self, schema, text):
        document = json.loads(text, object_pairs_hook=validate_json.unique_keys,
                              parse_constant=validate_json.refuse_constant)
        errors = sorted(jsonschema.Draft7Validator(self.schemas[schema]).iter_errors(document),
                        key=validate_json.path_of)
        self.assertEqual([f"{validate_json.path_of(e)}: {e.message[:300]}" for e in errors], [])
        self.coverage.add_document(schema, self.schemas[schema], document)
        return document

    def document(self, schema, *arguments, code=0):
        """What a command prints with --json; it must keep the schema."""
        if schema != "error":
            self.commands.add(arguments[0])
        got, out, err = self.run_program(*arguments, "--json")
        self.assertEqual(got, got if code is None else code, f"{arguments}: {out[:500]}{err[:2000]}")
        return self.assert_keeps(schema, out)

    def names(self, *arguments):
        """Of the choices that the program's own hint offers."""
        _, _, err = self.run_program(*arguments)
        return re.split(r", | or ", re.search(r"hint: one of (.*)", err)[1])

    def test_a_plan_and_all_that_can_be_added(self):
        self.document("plan", "plan", *JOB, "--top", "2", *SMALL)
        self.document("plan", "plan", *JOB[:5], "8,16", *JOB[6:], "--top", "2", "--pareto", "--sensitivity",
                      "--fallback", "--failure-rate", "1e-4", "--checkpoint-time", "30 s", "--restart-time",
                      "5 min")
        self.document("plan", "plan", "--model", "llama-3.1-8b", "--cluster", "gb200-nvl72", "--gpus", "128", *JOB[6:],
                      *SMALL)
        # Half of this batch has no sequence for every replica: the plan cannot be kept.
        self.document("plan", "plan", *JOB[:7], "8", *JOB[8:], "--sensitivity", "--fix",
                      "pp=1,cp=1,micro_batch=1,dp=8")
        self.document("plan", "plan", "--model", "llama-3.1-405b", *JOB[2:], code=1)
        self.document("plan", "plan", *JOB, "--space", "full", "--fix", "tp=1,pp=2,schedule=zb-h1|1f1b,zero=1")
        self.document("plan", "plan", *JOB, "--time-limit", "1 us", code=None)

    def test_objectives_and_spaces(self):
        for key, names in (("objective", ("step-time", "cost", "memory")),
                           ("space", self.schemas["plan"]["definitions"]["space"]["enum"])):
            for name in names:
                with self.subTest(**{key: name}):
                    found = self.document("plan", "plan", *JOB, f"--{key}", name, *SMALL)
                    self.assertEqual(found["search"][key], name)

    def test_estimates_of_every_model_and_verdict(self):
        for model in self.document("list", "list", "models")["models"]:
            with self.subTest(model=model["name"]):
                self.document("estimate", "estimate", "--model", model["name"], "--cluster", "dgx-h100",
                              "--gpus", "1024", "--strategy", "tp=1,zero=3,recompute=full", "--global-batch",
                              "1024", "--seq-len", "2048", code=None)
        for strategy, code in (("tp=2,micro_batch=1", 0), ("tp=1,zero=0,micro_batch=8", 1), ("tp=3", 2)):
            self.document("estimate", "estimate", *JOB, "--strategy", strategy, code=code)
            self.document("explain", "explain", *JOB, "--strategy", strategy, code=code)

    def test_mixed_machines(self):
        beside = ["--beside", "dgx-a100-80gb", "--beside-gpus", "8"]
        found = self.document("mix", "mix", *JOB, *beside, *SMALL)
        self.assertEqual(sum(g["replicas"] * g["sequences"] for g in found["mixed"]["groups"]), 64)
        self.document("mix", "mix", *JOB, *beside, "--fix", "tp=3", code=1)

    def test_estimates_of_a_model_of_runs(self):
        self.put({"mixed.yaml": RUNS, "hybrid.yaml": PATTERN, "sparse.yaml": SPARSE})
        for model in ("mixed.yaml", "hybrid.yaml", "sparse.yaml"):
            with self.subTest(model=model):
                self.document("estimate", "estimate", "--model", model, *JOB[2:], "--strategy", "tp=2")

    def test_estimates_of_every_schedule_framework_and_precision(self):
        names = {key: self.schemas["plan"]["definitions"][key]["enum"]
                 for key in ("schedule", "precision", "cp_kind", "recompute")}
        names["framework"] = [f["name"] for f in self.document("list", "list", "frameworks")["frameworks"]]
        for key in names:
            for name in names[key]:
                with self.subTest(**{key: name}):
                    found = self.document("estimate", "estimate", *JOB, "--strategy", f"pp=2,cp=2,{key}={name}",
                                          code=None)
                    kind = "plan" if found["verdict"] == "feasible" else "infeasible"
                    self.assertEqual(found[kind]["strategy"][key], name)

    def test_every_list(self):
        for kind in self.names("list", "frob"):
            with self.subTest(kind=kind):
                self.assertIn(kind, self.document("list", "list", kind))

    def test_what_the_program_says_of_itself(self):
        plan = self.document("text", "help", "plan")
        self.assertIn("--global-batch", plan["help"])
        self.assertIn("meshplan", self.document("text", "version")["version"])
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("dgx-h100", self.document("text", "completion", shell)["completion"])

    def test_models_with_every_load_of_the_experts(self):
        model = (ROOT / "models/mixtral-8x7b.yaml").read_text(encoding="utf-8")
        for load in ("{zipf: 0.5}", "{histogram: [3, 2, 1, 1, 1, 1, 1, 1]}", "1.5"):
            self.put({"m.yaml": re.sub(r"imbalance: .*", f"imbalance: {load}", model) if "imbalance:" in model
                      else model.replace("moe:\n", f"moe:\n  imbalance: {load}\n")})
            job = ["--model", "m.yaml", "--cluster", "dgx-h100", "--gpus", "64", "--global-batch", "256", "--seq-len",
                   "4096"]
            found = self.document("estimate", "estimate", *job, "--strategy",
                                  "tp=2,sequence_parallel=true,ep=4,pp=2")
            self.assertIn("imbalance", found["model"]["spec"]["moe"])
            self.document("plan", "plan", *job, "--fix", "pp=2,ep=4,cp=1,micro_batch=1", "--top", "1")
            self.put(transcript_files("calibrate_json"))
            self.document("calibrate", "calibrate", "--model", "m.yaml", "--cluster", "dgx-h100", "--gpus", "64",
                          "--seq-len", "4096", "--log", "a.log", "--strategy", "tp=1,ep=8")

    def test_comparisons(self):
        self.put(transcript_files("compare"))
        self.put(transcript_files("compare_script"))
        self.put(transcript_files("compare_trace"))
        self.put(transcript_files("compare_memory"))
        snapshot = {"segments": [{"device": 0, "address": 4096, "total_size": 2097152, "blocks": [
            {"size": 1048576, "address": 4096, "state": "active_allocated",
             "frames": [{"filename": "torch/nn/modules/linear.py", "name": "forward", "line": 1}]}]}],
                    "device_traces": [[]]}
        (self.folder / "snapshot.pickle").write_bytes(pickle.dumps(snapshot))
        self.document("compare", "compare", "--log", "train.log", "--cluster", "dgx-a100-80gb")
        self.document("compare", "compare", "--log", "short.log", "--cluster", "dgx-a100-80gb", "--script", "train.sh")
        self.document("compare", "compare", "--model", "tiny.yaml", "--cluster", "dgx-h100", "--gpus", "2", "--strategy",
                      "tp=2,micro_batch=1", "--global-batch", "2", "--seq-len", "1024", "--trace", "rank0.json")
        for memory in ("oom.txt", "snapshot.pickle"):
            self.document("compare", "compare", "--log", "train.log", "--cluster", "dgx-a100-80gb", "--memory", memory)
        self.document("compare", "compare", "--log", "train.log", "--cluster", "dgx-a100-80gb", "--update-profile",
                      "learnt.yaml")
        self.document("compare", "compare", "--log", "train.log", "--cluster", "learnt.yaml")

    def test_documents_of_every_packing(self):
        for packing in self.schemas["plan"]["definitions"]["packing"]["enum"]:
            with self.subTest(packing=packing):
                uneven = ["--lengths", "lognormal(900, 700)", "--packing", packing]
                found = self.document("estimate", "estimate", *JOB, *uneven, "--strategy", "tp=2")
                self.assertEqual(found["plan"]["strategy"]["packing"], packing)
                self.assertGreater(found["lengths"]["tokens_per_row"], 0)
                self.assertEqual(len(found["lengths"]["packings"]), 4)
        self.document("plan", "plan", *JOB, *uneven, *SMALL, "--top", "1")

    def test_what_is_maximised(self):
        for key in ("seq-len", "micro-batch"):
            with self.subTest(key=key):
                found = self.document("plan", "plan", *JOB, "--maximise", key, "--fix", "tp=1,pp=1,cp=1,recompute=none",
                                      "--top", "1", "--limit", "micro_batch>=1")
                self.assertEqual(found["maximum"]["key"], key)

    def test_calibrations(self):
        self.put(transcript_files("calibrate_json"))
        self.put({"b.log": (self.folder / "a.log").read_text().replace("100", "101")})
        one = ["calibrate", "--model", "llama-2-7b", "--cluster", "dgx-a100-80gb", "--gpus", "8", "--seq-len", "4096",
               "--log", "a.log", "--strategy", "tp=2,micro_batch=1"]
        self.document("calibrate", *one)
        self.document("calibrate", *one, "--log", "b.log", "--strategy", "tp=4,micro_batch=1")
        self.document("calibrate", *one, "--out", "fitted.yaml")
        # Plans on a cluster whose numbers were learnt from runs.
        self.document("estimate", "estimate", "--model", "llama-2-7b", "--cluster", "fitted.yaml", "--gpus", "8",
                      "--strategy", "tp=2,micro_batch=1", "--global-batch", "64", "--seq-len", "4096")

    IMPORTS = {
        "hf-config": ("import_json", "model", ["config.json"]),
        "lengths": ("import_lengths", "lengths", ["data.jsonl"]),
        "nccl-tests": ("import_nccl_tests_json", "profile", ["ar.log", "--cluster", "dgx-h100"]),
        "bench-samples": ("import_bench_samples", "profile", ["samples.jsonl", "--cluster", "workstation"]),
        "nvidia-smi-topo": ("import_smi_topo", "profile",
                            ["topo.txt", "--device", "a100-sxm-80gb", "--nic-bandwidth", "200 Gbit/s"]),
        "nccl-topo": ("import_nccl_topo", "profile", ["topo.xml", "--nodes", "2"]),
        "megatron-args": ("import_megatron", "run", ["train.sh"]),
        "deepspeed": ("import_deepspeed", "run", ["ds_config.json", "--gpus", "16"]),
        "torchtitan": ("import_torchtitan", "run", ["job.toml", "run.sh"]),
        "recipe": ("import_recipe", "run", ["qlora.yaml", "--gpus", "2"]),
    }

    def test_every_importer(self):
        self.assertEqual(set(self.IMPORTS), set(self.names("import", "frob", "FILE")))
        for kind, (transcript, schema, arguments) in self.IMPORTS.items():
            with self.subTest(kind=kind):
                self.put(transcript_files(transcript))
                self.document(schema, "import", kind, *arguments)
        # What no file states is assumed.
        self.put({"assumed.sh": "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 "
                                "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1\n"})
        self.assertGreater(len(self.document("run", "import", "megatron-args", "assumed.sh")["assumed"]), 0)

    def test_every_exporter(self):
        formats = [row["name"] for row in self.document("list", "list", "exporters")["exporters"]]
        strategies = {"deepspeed": "framework=deepspeed,zero=2", "torchtitan": "framework=torchtitan,zero=3",
                      "accelerate": "framework=fsdp,zero=3", "axolotl": "framework=fsdp,zero=3,kernels.attention=flash2",
                      "torchtune": "framework=fsdp,zero=3,master_weights=false,grad_dtype=bf16,optimizer_dtype=bf16"}
        for name in formats:
            with self.subTest(format=name):
                strategy = strategies.get(name, "framework=megatron,tp=2,sequence_parallel=true")
                arguments = ["export", *JOB, "--strategy", strategy, "--format", name]
                found = self.document("launch", *arguments)
                self.assertEqual(found["format"], name)
                self.assertEqual(self.run_program(*arguments, "--out", "launch", "-q")[0], 0)
                self.assertEqual(found, self.assert_keeps("launch", (self.folder / "launch/launch.json").read_text()))

    def test_findings(self):
        for transcript, files in (("lint", ["train.sh"]), ("lint_deepspeed", ["ds_config.json", "--gpus", "32"]),
                                  ("lint_torchtitan", ["job.toml", "--gpus", "16"])):
            self.put(transcript_files(transcript))
            self.document("lint", "lint", *files, code=None)
            if transcript != "lint_deepspeed":
                self.document("lint", "lint", *files, "--cluster", "dgx-h100", code=None)

    def test_reports_and_traces(self):
        self.run_program("plan", *JOB[:7], "16", *JOB[8:], "--fix", "pp=4,tp=1", "--top", "2", "--out", ".", "-q")
        self.assert_keeps("plan", (self.folder / "plans.json").read_text(encoding="utf-8"))
        written = [["--trace", "t.json"]]
        if "without the HTML report" not in self.run_program("report", "--plans", "plans.json", "--html", "r.html")[2]:
            written.append(["--trace", "t.json", "--html", "r.html"])
        traces = set()
        for flags in written:
            self.document("report", "report", "--plans", "plans.json", *flags)
            traces.add((self.folder / "t.json").read_text(encoding="utf-8"))
        self.assertEqual(len(traces), 1)
        self.assert_keeps("trace", traces.pop())

    def test_what_needs_a_cluster(self):
        done = subprocess.run([DOCUMENTS], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            case = json.loads(line)
            with self.subTest(schema=case["schema"]):
                self.assert_keeps(case["schema"], json.dumps(case["document"]))
            self.commands.add({"validation": "validate"}.get(case["schema"], case["schema"]))

    def test_the_error_of_every_command(self):
        for command in set(self.all_commands()) - {"version"}:  # which reads nothing
            with self.subTest(command=command):
                self.put({"bad.yaml": "nodes: many\n"})
                flags = {"list": ["frob"], "import": ["hf-config", "bad.yaml"], "lint": ["none.sh"],
                         "bench": ["--budget", "soon"], "validate": ["--plans", "none.json"],
                         "report": ["--plans", "none.json", "--html", "r.html"], "help": ["plam"],
                         "completion": ["csh"], "serve": []}
                found = self.document("error", command, *flags.get(command, ["--cluster", "bad.yaml"]), code=2)
                self.assertGreaterEqual(len(found["errors"]), 1)
        self.document("error", "bench", "--backend", "mpi", code=3)  # there is no plug-in for it

    def all_commands(self):
        """Those of the program's help, that have --json."""
        _, out, _ = self.run_program("--help")
        listed = re.search(r"Subcommands:\n(.*?)\n\n", out, re.DOTALL)[1]
        commands = [line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)]
        return [c for c in commands if "--json" in self.run_program(c, "--help")[1]]

    def test_z_nothing_was_left_out(self):
        """Last of all (tests run by name): what the others did not see."""
        # What `serve` answers are messages of a protocol: test/serve.
        self.assertEqual(set(self.all_commands()) - self.commands - {"serve"}, set())
        # Of documents that earlier versions wrote.
        old = {name for name in self.coverage.known if name == "plan: safer" or name.startswith("safer: ")}
        self.assertEqual(len(old), 6)
        self.assertEqual(sorted(self.coverage.known - self.coverage.seen - old), [])


if __name__ == "__main__":
    PROGRAM, DOCUMENTS = (os.path.abspath(path) for path in sys.argv[1:3])
    SCHEMAS = pathlib.Path(sys.argv[3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

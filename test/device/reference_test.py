#!/usr/bin/env python3
"""What scripts/gpu_reference.py, scripts/gpu_judge.py and scripts/gpu_check do without a GPU.

usage: reference_test.py SOURCE_DIR PROGRAM [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

SOURCE, PROGRAM = "", ""


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, os.path.join(SOURCE, "scripts"))
        import gpu_judge
        import gpu_reference
        cls.reference, cls.judge = gpu_reference, gpu_judge

    def test_every_case_is_a_model_and_a_strategy_that_meshplan_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            for c in self.reference.CASES:
                seconds, size = self.reference.estimate(PROGRAM, "hgx-h200", c, folder)
                self.assertGreater(seconds, 0)
                # bf16 weights, gradients and two AdamW states at least: 8 bytes per parameter.
                blocks = c["layers"] * 4 * c["hidden"] ** 2
                self.assertGreater(size, 8 * blocks)

    def test_every_switch_is_a_strategy_that_meshplan_takes(self):
        import gpu_switches
        with tempfile.TemporaryDirectory() as folder:
            found = {s["name"]: gpu_switches.estimate(PROGRAM, "hgx-h200", s, folder)
                     for s in gpu_switches.SWITCHES if s["predicted"]}
        # What a switch is there for shows.
        def peak(name):
            return found[name]["peak_bytes"]
        self.assertLess(peak("loss in bf16"), peak("loss in fp32"))
        self.assertLess(peak("loss with the output layer"), peak("loss compiled"))
        self.assertLess(peak("checkpoints on the host"), peak("checkpoints on the device"))
        self.assertLess(peak("recompute every layer"), peak("recompute every second layer"))
        self.assertLess(found["optimizer sgd"]["persistent_bytes"], found["plain"]["persistent_bytes"])
        self.assertLess(found["packed documents"]["step_s"], found["plain"]["step_s"])

    def test_switches_are_judged_by_their_bytes(self):
        import gpu_switches
        def row(predicted):
            return {"name": "x", "predicted": predicted and dict.fromkeys(
                        ("persistent_bytes", "peak_bytes", "step_s"), predicted),
                    "measured": {"persistent_bytes": 100, "peak_bytes": 100, "step_s": 100,
                                 "held_by_allocator_bytes": 2**30}}
        rows = [row(102), row(104), row(None)]
        summary = gpu_switches.summarise(rows)
        self.assertAlmostEqual(summary["peak_bytes"], 0.03)
        self.assertIn("allocator 1.00 GiB", gpu_switches.report_text(rows, summary))

    def test_what_megatron_issues_is_counted_inside_of_its_functions(self):
        import gpu_megatron
        def call(name, ts, thread=1):
            return {"ph": "X", "cat": "cuda_runtime", "name": name, "ts": ts, "dur": 1, "tid": thread}
        def watched(ts, dur):
            return {"ph": "X", "cat": "user_annotation", "name": "watch:router", "ts": ts, "dur": dur, "tid": 1}
        events = [watched(10, 20), watched(40, 10), call("cudaLaunchKernel", 12), call("cudaMemcpyAsync", 29),
                  call("cudaLaunchKernelExC", 45), call("cudaLaunchKernel", 60), call("cudaEventRecord", 13),
                  call("cudaLaunchKernel", 15, thread=2),
                  {"ph": "X", "cat": "kernel", "name": "k", "ts": 14, "dur": 500, "tid": 7}]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            path.write_text(json.dumps({"traceEvents": events}))
            found = gpu_megatron.issued(path)
        self.assertEqual(found["issued_per_call"], {"router": {"launch": 1.0, "memcpy": 0.5}})
        self.assertEqual(found["issued_per_step"], {"launch": 4, "memcpy": 1})
        self.assertEqual(found["kernels_ms_per_step"], 0.5)
        names = ("layer", "router", "forward_step", "backward_step", "grad_norm", "step_with_ready_grads")
        row = {**dict.fromkeys(names, 0.08), "train_step": 0.3, "calls of layer": 8,
               "calls of forward_step": 4, "calls of router": 8}
        summary = gpu_megatron.summary_of([dict(row, layer=9.0), *[row] * gpu_megatron.MEDIAN_OF])
        self.assertEqual(summary["ms_per_layer_forward"], {"layer": 10.0, "router": 10.0})
        self.assertEqual((summary["microbatches"], summary["ms_per_step"]["train_step"]), (4, 300.0))

    def test_meshplan_reads_the_arguments_of_every_run_of_megatron(self):
        import gpu_megatron
        with tempfile.TemporaryDirectory() as folder:
            for name, arguments in gpu_megatron.RUNS.items():
                script = pathlib.Path(folder) / "train.sh"
                script.write_text("torchrun --nproc_per_node 1 pretrain_gpt.py "
                                  + " ".join([*gpu_megatron.COMMON, arguments, "--train-iters", "9"]) + "\n")
                run = subprocess.run([PROGRAM, "import", "megatron-args", str(script), "--json"],
                                     capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, 0, f"{name}: {run.stderr}")

    def test_a_verdict_is_right_if_it_names_first_what_was_planted(self):
        import gpu_traces
        def document(*kinds):
            return {"runs": [{"losses": [{"kind": k, "lost_s": 0.05} for k in kinds],
                              "step_time_s": {"measured": 1.0}}]}
        fault = {"name": "x", "kinds": ["precision"]}
        self.assertTrue(gpu_traces.judged(fault, document("precision", "copies"))[0])
        self.assertFalse(gpu_traces.judged(fault, document("copies", "precision"))[0])
        self.assertFalse(gpu_traces.judged(fault, document())[0])
        nothing = {"name": "nothing", "kinds": []}
        self.assertTrue(gpu_traces.judged(nothing, document("copies"))[0])
        self.assertFalse(gpu_traces.judged(nothing, document("copies", "precision"))[0])

    def test_errors_are_judged_by_their_medians(self):
        def row(layers, predicted, measured, memory):
            c = self.reference.case("gpt", layers, 64, 4, 4, 256, 1000, 128, 1)
            return {"case": c, "predicted_step_s": predicted, "measured_step_s": measured,
                    "predicted_bytes": memory, "measured_bytes": 100}
        good = [row(2, 1.05, 1.0, 101), row(4, 2.09, 2.0, 102)]
        summary = self.reference.summarise(good)
        self.assertAlmostEqual(summary["median_error"]["step_time"], (0.05 + 0.045) / 2)
        # One layer: (2.09 - 1.05) / 2 against (2.0 - 1.0) / 2.
        self.assertAlmostEqual(summary["median_error"]["layer_time"], 0.04)
        self.assertEqual(summary["within"], {"step_time": True, "layer_time": True,
                                             "peak_memory": True})
        bad = self.reference.summarise([row(2, 1.2, 1.0, 110)])
        self.assertEqual(bad["within"], {"step_time": False, "layer_time": False,
                                         "peak_memory": False})
        self.assertIsNone(bad["median_error"]["layer_time"])
        self.assertIn("NOT within", self.reference.report_text([row(2, 1.2, 1.0, 110)], bad))

    def test_the_last_cluster_is_judged_and_the_others_are_shown(self):
        c = self.reference.case("gpt", 2, 64, 4, 4, 256, 1000, 128, 1)
        row = {"case": c, "predicted_step_s": 1.05, "measured_step_s": 1.0, "predicted_bytes": 101,
               "measured_bytes": 100, "predictions": {"shipped": {"step_s": 1.3, "bytes": 150},
                                                      "measured": {"step_s": 1.05, "bytes": 101}}}
        text = self.reference.others_text([row], ["shipped", "measured"], None)
        self.assertEqual(text, "median errors with shipped: step_time 30.0 %, peak_memory 50.0 %\n")
        self.assertEqual(self.reference.others_text([row], ["measured"], None), "")
        # Layers by themselves count as times of layers.
        layers = {"rows": [{"measured_s": 2.0, "predicted_s": {"shipped": 2.4, "measured": 2.02}}]}
        text = self.reference.others_text([row], ["shipped", "measured"], layers)
        self.assertIn("layer_time 20.0 %", text)
        judged = self.reference.summarise([row], layers, "measured")
        self.assertAlmostEqual(judged["median_error"]["layer_time"], 0.01)
        self.assertTrue(judged["within"]["layer_time"])

    def test_a_case_that_fails_or_does_not_fit_costs_no_other(self):
        oom = type("OutOfMemoryError", (RuntimeError,), {})
        torch = types.SimpleNamespace(__version__="2", cuda=types.SimpleNamespace(
            OutOfMemoryError=oom, empty_cache=lambda: None, get_device_name=lambda: "a GPU"))
        outcomes = [(1.9, 101, 0.01), oom("full"), RuntimeError("no kernel"), (1.9, 101, 0.01)]
        arguments = types.SimpleNamespace(program="meshplan", budget=100)
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(self.reference, "measure", side_effect=outcomes), \
                mock.patch.object(self.reference, "estimate", lambda p, cluster, c, f:
                                  (2.0 if cluster == "judged" else 1.0, 100)):
            arguments.out = folder
            cases = self.reference.CASES[:4]
            rows, failed = self.reference.run(torch, arguments, cases, ["shown", "judged"])
            kept = json.loads((pathlib.Path(folder) / "reference.json").read_text())
        self.assertEqual([r["case"]["name"] for r in rows], [cases[0]["name"], cases[3]["name"]])
        self.assertEqual(failed, [cases[2]["name"]])
        self.assertEqual({r["predicted_step_s"] for r in rows}, {2.0})
        self.assertEqual(kept["failed"], failed)
        self.assertEqual(len(kept["rows"]), 2)

    def test_a_plan_that_meshplan_refuses_costs_no_other_case(self):
        torch = types.SimpleNamespace(__version__="2", cuda=types.SimpleNamespace(
            OutOfMemoryError=type("OutOfMemoryError", (RuntimeError,), {}),
            get_device_name=lambda: "a GPU"))
        cases = self.reference.CASES[:3]

        def estimate(program, cluster, c, folder):
            if c["name"] == cases[1]["name"]:
                raise RuntimeError("does not fit")
            return 2.0, 100
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(self.reference, "measure", lambda t, c: (1.9, 101, 0.01)), \
                mock.patch.object(self.reference, "estimate", estimate):
            arguments = types.SimpleNamespace(program="meshplan", budget=100, out=folder)
            rows, failed = self.reference.run(torch, arguments, cases, ["judged"])
        self.assertEqual([r["case"]["name"] for r in rows], [cases[0]["name"], cases[2]["name"]])
        self.assertEqual(failed, [cases[1]["name"]])

    def test_a_layer_is_what_more_layers_add_to_the_kernels(self):
        c = self.reference.CASES[0]
        with tempfile.TemporaryDirectory() as folder:
            layer, gap = self.reference.estimate_layer(PROGRAM, "hgx-h200", c, folder)
            step, _ = self.reference.estimate(PROGRAM, "hgx-h200", c, folder)
        self.assertAlmostEqual(gap, 6e-6)
        # Of a step with the head and the optimizer, the layers are the larger part and not all.
        self.assertGreater(c["layers"] * layer, 0.4 * step)
        self.assertLess(c["layers"] * layer, step)

    def test_single_layers_give_the_factor_that_the_sum_of_kernels_leaves_out(self):
        c = self.reference.CASES
        outcomes = [0.012, RuntimeError("no kernel"), 0.011]
        torch = types.SimpleNamespace(cuda=types.SimpleNamespace(empty_cache=lambda: None))
        arguments = types.SimpleNamespace(program="meshplan", out=".")
        with mock.patch.object(self.reference, "measure_layer", side_effect=outcomes), \
                mock.patch.object(self.reference, "measure_launch_gap", lambda torch: 7e-6), \
                mock.patch.object(self.reference, "estimate_layer",
                                  lambda *a: (0.010 if a[1] == "judged" else 0.02, 6e-6)):
            # The second differs from the first in its number of layers alone.
            found = self.reference.single_layers(torch, arguments, [c[0], c[1], c[2], c[4], c[6]],
                                                 ["shown", "judged"])
        self.assertEqual([r["name"] for r in found["rows"]], [c[0]["name"], c[6]["name"]])
        self.assertEqual(found["failed"], [c[2]["name"]])
        self.assertAlmostEqual(found["residual_factor"]["judged"], 1.15)
        text = self.reference.layers_text(found)
        self.assertIn("over the sum of its kernels with judged: 1.150", text)
        self.assertIn("one eager launch: 7.0 us; launch_gap 6.0 us of shown, 6.0 us of judged", text)

    @staticmethod
    def bench_document(**changes):
        def sample(operation, correctness="correct"):
            return {"operation": operation, "text": str(operation), "correctness": correctness}
        numbers = [{"key": "gemm.sustained.bf16", "errors": {
            "held_out_median": 0.03, "held_out_p90": 0.08, "samples": 6}},
                   {"key": "gemm.k_half", "errors": {
                       "held_out_median": 0.03, "held_out_p90": 0.08, "samples": 90}}]
        return {"samples": [sample({"kind": "memory", "kernel": "adam"}),
                            sample({"kind": "gemm", "precision": "bf16", "layout": "forward"}),
                            sample({"kind": "launch", "graph": False}, "not-checked")],
                "skipped": [], "not_reached": 0, "end": "complete", "wrong_results": 0,
                "profile": {"file": "p.yaml", "numbers": numbers}, **changes}

    def test_a_proof_takes_correct_samples_of_every_kind(self):
        judge, document = self.judge.judge_checked, self.bench_document()
        every = ["memory/adam", "gemm/bf16/forward", "gemm", "launch"]
        self.assertEqual(judge(document, every, complete=True), [])
        self.assertEqual(judge(document, [*every, "attention/forward"]),
                         ["nothing was measured of attention/forward"])
        self.assertEqual(judge(self.bench_document(samples=[]), ["memory"]),
                         ["nothing was measured of memory"])
        for state, words in (("wrong", "wrong: "), ("not-checked", "was not looked at")):
            document = self.bench_document()
            document["samples"][0]["correctness"] = state
            self.assertIn(words, judge(document, every)[0])

    def test_the_judge_is_called_as_gpu_check_calls_it(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "bench.json"
            file.write_text(json.dumps(self.bench_document()))
            for code, words in ((0, ["checked", file, "--complete", "memory/adam", "launch"]),
                                (0, ["checked", file, "--allow", "too slow", "memory/adam"]),
                                (1, ["checked", file, "--complete", "copy"]),
                                (0, ["profile", file, "gemm.k_half"]),
                                (0, ["products", file, "--limit", "0.05"]),
                                (1, ["products", file, "--limit", "0.01"]),
                                (1, ["products", folder])):
                script = os.path.join(SOURCE, "scripts", "gpu_judge.py")
                run = subprocess.run([sys.executable, "-B", script, *map(str, words)],
                                     capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, code, (words, run.stdout, run.stderr))

    def test_what_was_left_out_is_no_proof(self):
        def skipped(reason, text="an operation"):
            return self.bench_document(skipped=[{"text": text, "reason": reason}])
        judge = self.judge.judge_checked
        self.assertEqual(judge(skipped("needs 200 GiB of the device's 139 GiB"), []), [])
        for reason in ("attention needs cuDNN 9, which is not on this machine",
                       "cuBLASLt has no algorithm for this product",
                       "would take too much of the time"):
            self.assertEqual(len(judge(skipped(reason), [])), 1)
        no_fp8 = skipped("cuBLASLt has no algorithm for this product", "forward gemm 8x8x8 fp8")
        self.assertEqual(judge(no_fp8, ["gemm/bf16"]), [])
        self.assertEqual(len(judge(no_fp8, ["gemm/bf16/forward", "gemm/fp8/forward"])), 2)
        late = self.bench_document(end="out-of-time", not_reached=7)
        self.assertEqual(judge(late, ["memory"]), [])
        self.assertEqual(judge(late, ["memory"], complete=True),
                         ["it ended out-of-time, before 7 operations"])

    def test_products_are_judged_by_shapes_that_were_held_out(self):
        problems, lines = self.judge.judge_products(self.bench_document())
        self.assertEqual((problems, len(lines)), ([], 2))
        document = self.bench_document()
        document["profile"]["numbers"][1]["errors"]["held_out_median"] = 0.06
        self.assertEqual(self.judge.judge_products(document)[0],
                         ["gemm.k_half: 6.0 % is NOT within 5 %"])
        for n in document["profile"]["numbers"]:
            n["errors"]["held_out_p90"] = 0
        self.assertEqual(self.judge.judge_products(document)[0],
                         ["no products were held out of a fit"])
        self.assertEqual(len(self.judge.judge_products({})[0]), 1)

    def test_a_profile_has_the_numbers_that_it_is_made_for(self):
        judge, document = self.judge.judge_profile, self.bench_document()
        self.assertEqual(judge(document, ["gemm.sustained.bf16"]), [])
        self.assertEqual(judge(document, ["host_link"]), ["host_link was not measured"])
        self.assertEqual(judge(self.bench_document(wrong_results=2), []), ["2 results are wrong"])
        del document["profile"]
        self.assertEqual(judge(document, []), ["no profile was made"])

    def test_without_a_gpu_both_say_so(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(SOURCE, "scripts", "gpu_reference.py")
            run = subprocess.run([sys.executable, script, "--program", PROGRAM, "--out", folder],
                                 capture_output=True, text=True, check=False,
                                 env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
            self.assertEqual(run.returncode, 77)
            self.assertRegex(run.stderr, "no PyTorch here|no GPU here")
            check = os.path.join(SOURCE, "scripts", "gpu_check")
            run = subprocess.run([check, "--program", PROGRAM, "--out", folder], capture_output=True,
                                 text=True, check=False, env=dict(os.environ, PATH="/usr/bin:/bin"))
            self.assertEqual(run.returncode, 77, run.stdout + run.stderr)
            self.assertIn("there is no GPU here", run.stderr)

    def test_the_check_says_what_it_would_do(self):
        check = pathlib.Path(SOURCE) / "scripts" / "gpu_check"
        run = subprocess.run([check, "--list"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0)
        # All of them at their longest do not fit the budget; as they are they take 80 % of it.
        self.assertLess(sum(int(line.split()[1]) for line in run.stdout.splitlines()), 950)
        for step in ("plug-in", "kernels", "bench", "products", "two_ranks", "four_ranks",
                     "reference", "switches", "traces", "clocks", "contention"):
            self.assertIn(step, run.stdout)


if __name__ == "__main__":
    SOURCE, PROGRAM = sys.argv[1:3]
    sys.dont_write_bytecode = True
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

"""The repository's own checks find what they are there to find."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


layers, formulas, text = load("check_layers"), load("check_formulas"), load("check_text")
changes, tidy = load("changes.py"), load("check_tidy")
readme, floors = load("check_readme"), load("../accuracy/check_floor.py")

HEADER = "| tag | formula | symbols and units | function | source | test |\n|---|---|---|---|---|---|\n"


class Tree(unittest.TestCase):
    """A small source tree per test."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for module in ("base", "spec", "cost", "comm", "search"):
            (self.root / "lib" / module).mkdir(parents=True)

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path


class CheckLayers(Tree):
    def problems(self, name, content):
        self.write(name, content)
        return layers.check(self.root)[0]

    def test_an_allowed_arrow_passes(self):
        self.assertEqual(self.problems("lib/cost/a.cpp", '#include "comm/ring.hpp"\n'), [])

    def test_an_arrow_that_points_the_other_way_fails_with_its_line(self):
        found = self.problems("lib/base/a.cpp", '#include <vector>\n#include "cost/step.hpp"\n')
        self.assertEqual(found, ["lib/base/a.cpp:2: lib/base may not include cost/"])

    def test_neighbours_do_not_include_each_other(self):
        self.assertEqual(len(self.problems("lib/comm/a.hpp", '#include "cost/step.hpp"\n')), 1)

    def test_applications_include_everything(self):
        self.assertEqual(self.problems("apps/meshplan/a.cpp", '#include "search/search.hpp"\n'), [])

    def test_third_party_headers_stay_in_quarantine(self):
        for include in ("yaml-cpp/yaml.h", "toml++/toml.h", "pugixml.hpp", "nlohmann/json.hpp", "Eigen/Dense", "CLI/CLI.hpp",
                        "spdlog/spdlog.h", "cuda_runtime.h", "nccl.h", "mpi.h"):
            with self.subTest(include):
                self.assertEqual(len(self.problems("lib/cost/a.cpp", f"#include <{include}>\n")), 1)

    def test_one_name_is_one_type(self):
        self.write("lib/spec/a.hpp", "namespace meshplan {\nstruct Job;\nclass Plan final : public Base {};\n}\n")
        self.assertEqual(self.problems("lib/cost/own.cpp", "namespace meshplan {\nnamespace {\nstruct Plan {};\n"
                                       "}  // namespace\nstruct Plan::State {};\nstruct Job {};\n}\n"), [])
        found = self.problems("lib/cost/b.hpp", "namespace meshplan {\nstruct Plan {\n};\n}\n")
        self.assertEqual(found, ["lib/spec/a.hpp: meshplan::Plan is a type of lib/cost/b.hpp too"])

    def test_a_library_without_arrows_is_reported(self):
        self.assertEqual(len(self.problems("lib/novel/a.cpp", '#include "base/units.hpp"\n')), 1)


class CheckFormulas(Tree):
    def problems(self, code, row, test):
        self.write("lib/cost/a.hpp", code)
        self.write("lib/formulas.md", HEADER + row)
        self.write("test/cost/a_test.cpp", test)
        return formulas.check(self.root)[0]

    CODE = "// [F-PP-1] Bubble.\ndouble bubble(int p);\n"
    ROW = "| [F-PP-1] | (p-1) t | p stages | bubble, cost/a.hpp | a paper | cost/a_test.cpp |\n"
    TEST = 'TEST_CASE("[F-PP-1] the "\n          "bubble grows") {}\n'

    def test_agreement_passes(self):
        self.assertEqual(self.problems(self.CODE, self.ROW, self.TEST), [])

    def test_a_missing_row_a_missing_test_and_missing_code_are_found(self):
        self.assertIn("has no row", " ".join(self.problems(self.CODE, "", self.TEST)))
        self.assertIn("in no test's name", " ".join(self.problems(self.CODE, self.ROW, "")))
        self.assertIn("not in the code", " ".join(self.problems("", self.ROW, self.TEST)))

    def test_a_tag_in_a_test_comment_is_no_test(self):
        self.assertEqual(len(self.problems(self.CODE, self.ROW, "// [F-PP-1]\n")), 1)

    def test_rows_are_complete_and_unique(self):
        self.assertIn("is empty", " ".join(self.problems(
            self.CODE, self.ROW.replace("a paper", ""), self.TEST)))
        self.assertIn("has a row already", " ".join(self.problems(
            self.CODE, self.ROW + self.ROW, self.TEST)))

    def test_a_row_names_a_function_and_a_test_file_that_exist(self):
        self.assertIn("has no bubbles", " ".join(self.problems(
            self.CODE, self.ROW.replace("bubble,", "bubbles,"), self.TEST)))
        self.assertIn("no test of [F-PP-1]", " ".join(self.problems(
            self.CODE, self.ROW.replace("a_test", "b_test"), self.TEST)))

    def test_a_bar_inside_a_cell_is_escaped(self):
        self.assertEqual(self.problems(self.CODE, self.ROW.replace("(p-1) t", r"\|x\|"), self.TEST), [])


class CheckText(Tree):
    def problems(self, name, content):
        self.write(name, content)
        return [p for p in text.check(self.root)[0] if p.startswith(name)]

    def test_a_clean_file_passes(self):
        self.assertEqual(self.problems("lib/base/a.cpp", "int f() { return 1; }\n"), [])

    def test_paths_of_a_machine_registries_and_unfinished_work_are_found(self):
        for line in ("see /home/me/notes", "https://deb." + "debian.org/x", "// TODO: later"):
            with self.subTest(line):
                self.assertEqual(len(self.problems("lib/base/a.cpp", line + "\n")), 1)

    def test_system_paths_and_relative_paths_are_fine(self):
        for line in ("#!/usr/bin/env bash", "test/home/models", "${root}/" + "work/x"):
            with self.subTest(line):
                self.assertEqual(self.problems("lib/base/a.cpp", line + "\n"), [])

    def test_loops_over_a_part_of_a_temporary_are_found(self):
        held = "const auto all = blocks(m);\nfor (const Op& op : all[0].ops) use(op);\n"
        self.assertEqual(self.problems("lib/base/a.cpp", held), [])
        gone = "for (const Op& op : blocks(of(m), 1)[0].ops) use(op);\n"
        self.assertEqual(len(self.problems("lib/base/a.cpp", gone)), 1)

    def test_long_sources_and_odd_names_are_found(self):
        self.assertEqual(len(self.problems("lib/base/a.cpp", "\n" * 451)), 1)
        self.assertEqual(len(self.problems("lib/base/CamelCase.cpp", "\n")), 1)


class CheckReadme(unittest.TestCase):
    SHOWN = ["Best:", "--strategy 'dp=8,zero=2'", "slower:", "--strategy 'dp=8,recompute=full'", "",
             "Searched 10 strategies in 2 ms"]
    PRINTED = ["title", "Best:", "--strategy 'dp=4'", "slower:", "--strategy 'zero=3'", "",
               "Searched 12 strategies in 3 ms"]

    def test_only_the_time_of_a_search_may_differ(self):
        self.assertEqual(len(list(readme.missing_chunks(self.SHOWN, self.PRINTED))), 2)
        slower = self.SHOWN[:-1] + ["Searched 10 strategies in 7.1 ms"]
        self.assertEqual(list(readme.missing_chunks(self.SHOWN, slower)), [])

    def test_a_chunk_of_several_strategies_is_rewritten_whole(self):
        self.assertEqual(readme.rebased(self.SHOWN, self.PRINTED), self.PRINTED[1:])

    def test_a_chunk_that_is_gone_is_not_rewritten(self):
        self.assertIsNone(readme.rebased(self.SHOWN, ["title"]))


class CheckFloor(Tree):
    FLOOR = {"a": 0.02, "b": 0.06, "macro": 0.04}

    def run_on(self, errors, *options):
        """Whether the errors pass, and the floor afterwards."""
        self.write("floor.json", json.dumps(self.FLOOR))
        result = {"macro": {"step_time": {"median_abs": errors["macro"]}},
                  "sources": {name: {"step_time": {"median_abs": error}}
                              for name, error in errors.items() if name != "macro"}}
        self.write("result.json", json.dumps(result))
        self.write("program", f"#!/bin/sh\ncp '{self.root}/result.json' \"$3\"\n")
        (self.root / "program").chmod(0o755)
        path = self.root / "floor.json"
        with contextlib.redirect_stdout(io.StringIO()):
            code = floors.main([str(self.root / "program"), "folder", str(path), *options])
        return code == 0, json.loads(path.read_text(encoding="utf-8"))

    def test_an_error_above_the_floor_fails(self):
        self.assertEqual(self.run_on({"a": 0.03, "b": 0.03, "macro": 0.03}), (False, self.FLOOR))
        self.assertEqual(self.run_on({"a": 0.02, "b": 0.05, "macro": 0.035}), (True, self.FLOOR))

    def test_a_source_that_is_gone_fails(self):
        self.assertFalse(self.run_on({"a": 0.02, "macro": 0.02})[0])
        self.assertEqual(self.run_on({"a": 0.02, "macro": 0.02}, "--rechosen"), (False, self.FLOOR))

    def test_an_error_that_is_no_number_fails(self):
        with self.assertRaises(SystemExit):
            self.run_on({"a": None, "b": 0.05, "macro": 0.03})

    def test_raising_takes_what_is_better_alone(self):
        self.assertEqual(self.run_on({"a": 0.03, "b": 0.03, "macro": 0.03}, "--raise"),
                         (False, {"a": 0.02, "b": 0.03, "macro": 0.03}))

    def test_rechosen_constants_may_trade_but_not_the_mean(self):
        self.assertEqual(self.run_on({"a": 0.03, "b": 0.04, "macro": 0.035}, "--rechosen"),
                         (True, {"a": 0.03, "b": 0.04, "macro": 0.035}))
        self.assertEqual(self.run_on({"a": 0.03, "b": 0.07, "macro": 0.05}, "--rechosen"),
                         (False, self.FLOOR))


class Changes(Tree):
    """What the checks of single files look at."""

    def setUp(self):
        super().setUp()
        self.root = self.root.resolve()
        for name in ("MESHPLAN_LINT", "MESHPLAN_LINT_BASE"):
            patched = unittest.mock.patch.dict(os.environ)
            patched.start()
            self.addCleanup(patched.stop)
            os.environ.pop(name, None)
        self.write("lib/base/a.hpp", "#pragma once\n")
        self.write("lib/base/a.cpp", '#include "base/a.hpp"\n')
        self.write("lib/spec/b.hpp", '#pragma once\n#include "base/a.hpp"\n')
        self.write("lib/spec/b.cpp", '#include "spec/b.hpp"\n')
        self.write("lib/cost/c.cpp", '#include "base/a.hpp"\n')
        self.sources = sorted((self.root / "lib").rglob("*.cpp"))

    def git(self, *args):
        subprocess.run(["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b",
                        "-c", "commit.gpgsign=false", *args], check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")

    def start(self):
        self.git("init", "-q", "-b", "main")
        for _ in range(changes.LAST_COMMITS + 1):
            self.commit()

    def chosen(self):
        chosen = tidy.chosen_sources(self.root, self.sources, changes.changed_files(self.root), {})
        return [path.name for path in chosen]

    def test_without_git_everything_is_looked_at(self):
        os.environ["GIT_CEILING_DIRECTORIES"] = str(self.root.parent)
        self.assertIsNone(changes.changed_files(self.root))
        self.assertEqual(self.chosen(), ["a.cpp", "c.cpp", "b.cpp"])

    def test_a_young_history_is_looked_at_whole(self):
        self.git("init", "-q", "-b", "main")
        self.commit()
        self.assertIsNone(changes.changed_files(self.root))

    def test_nothing_changed(self):
        self.start()
        self.assertEqual(self.chosen(), [])

    def test_sources_that_changed_committed_or_not(self):
        self.start()
        self.write("lib/cost/c.cpp", "// other\n")
        self.commit()
        self.assertEqual(self.chosen(), ["c.cpp"])
        self.write("lib/spec/b.cpp", "// other\n")
        self.assertEqual(self.chosen(), ["c.cpp", "b.cpp"])

    def test_a_changed_header_is_seen_through_its_own_source(self):
        self.start()
        self.write("lib/spec/b.hpp", "#pragma once\n")
        self.assertEqual(self.chosen(), ["b.cpp"])
        self.write("lib/base/a.hpp", "#pragma once\nint a();\n")
        self.assertEqual(self.chosen(), ["a.cpp", "b.cpp"])

    def test_changed_rules_are_for_every_source(self):
        self.start()
        self.write(".clang-tidy", "Checks: '*'\n")
        self.assertEqual(len(self.chosen()), 3)

    @unittest.skipUnless(shutil.which("clang-tidy"), "clang-tidy is not installed")
    def test_findings_of_a_group_are_those_of_its_sources(self):
        rules = "Checks: '-*,bugprone-infinite-loop'\nWarningsAsErrors: '*'\nHeaderFilterRegex: '/lib/.*hpp$'\n"
        self.write(".clang-tidy", rules)
        clean = "namespace { int one() { return 1; } }\nint NAME() { return one(); }\n"
        self.write("lib/cost/c.cpp", clean.replace("NAME", "c"))
        self.write("lib/cost/d.cpp", "int d(int n) {\n  int i = 0;\n  while (i < n) {\n  }\n  return i;\n}\n")
        self.write("lib/cost/e.cpp", clean.replace("NAME", "e"))  # another one() beside c's
        build = self.root / "build"
        build.mkdir()
        paths = sorted((self.root / "lib" / "cost").glob("*.cpp"))
        database = [{"directory": str(build), "file": str(path), "command": f"c++ -std=c++20 -I{self.root}/lib -o x.o -c {path}"}
                    for path in paths]
        (build / "compile_commands.json").write_text(json.dumps(database))
        flags = tidy.compile_flags(build)
        self.assertEqual(flags[paths[0]], ("-std=c++20", f"-I{self.root}/lib"))
        self.assertEqual(tidy.groups_of(paths, flags), [paths])
        found = tidy.findings(shutil.which("clang-tidy"), self.root, build, paths, flags)
        self.assertEqual([path.name for path in found], ["d.cpp"])
        self.assertIn("bugprone-infinite-loop", found[paths[1]])

    def test_a_base_may_be_named_and_all_asked_for(self):
        self.start()
        self.write("lib/cost/c.cpp", "// other\n")
        self.commit()
        os.environ["MESHPLAN_LINT_BASE"] = "HEAD"
        self.assertEqual(self.chosen(), [])
        os.environ["MESHPLAN_LINT"] = "all"
        self.assertEqual(len(self.chosen()), 3)
        os.environ["MESHPLAN_LINT"] = "some"
        with self.assertRaises(SystemExit):
            changes.changed_files(self.root)


if __name__ == "__main__":
    unittest.main()

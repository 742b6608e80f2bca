"""The repository's own checks find what they are there to find."""
import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


layers, formulas, text = load("check_layers"), load("check_formulas"), load("check_text")

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
        for include in ("yaml-cpp/yaml.h", "nlohmann/json.hpp", "Eigen/Dense", "CLI/CLI.hpp",
                        "spdlog/spdlog.h", "cuda_runtime.h", "nccl.h", "mpi.h"):
            with self.subTest(include):
                self.assertEqual(len(self.problems("lib/cost/a.cpp", f"#include <{include}>\n")), 1)

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

    def test_long_sources_and_odd_names_are_found(self):
        self.assertEqual(len(self.problems("lib/base/a.cpp", "\n" * 451)), 1)
        self.assertEqual(len(self.problems("lib/base/CamelCase.cpp", "\n")), 1)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The transcript runner notices what it is for."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # leave no folder behind in the source tree
import run_transcripts as runner  # noqa: E402

SHELL = pathlib.Path("/bin/sh")


def run(text, rebase=False):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "case.txt"
        path.write_text(text, encoding="utf-8")
        found = runner.check(path, SHELL, pathlib.Path(folder), rebase)
        return found, path.read_text(encoding="utf-8")


class RunnerTest(unittest.TestCase):
    def test_a_right_transcript_passes(self):
        self.assertEqual(run("=== command\necho a\n=== exit 0\n=== stdout\na\n")[0], [])

    def test_a_wrong_exit_code_fails(self):
        self.assertEqual(len(run("=== command\nexit 3\n=== exit 0\n")[0]), 1)

    def test_wrong_output_fails(self):
        self.assertEqual(len(run("=== command\necho b\n=== exit 0\n=== stdout\na\n")[0]), 1)

    def test_output_that_is_not_expected_fails(self):
        self.assertEqual(len(run("=== command\necho b\n=== exit 0\n")[0]), 1)
        self.assertEqual(len(run("=== command\necho b >&2\n=== exit 0\n")[0]), 1)

    def test_a_missing_final_newline_fails(self):
        self.assertEqual(len(run("=== command\nprintf a\n=== exit 0\n=== stdout\na\n")[0]), 1)

    def test_a_transcript_without_command_fails(self):
        self.assertEqual(len(run("=== exit 0\n")[0]), 1)

    def test_wildcards_match_what_they_name(self):
        self.assertTrue(runner.matches(["took <time>, <number> of them"], ["took 1.24 ms, 1,234 of them"]))
        self.assertFalse(runner.matches(["took <time>"], ["took long"]))
        self.assertFalse(runner.matches(["<number>"], ["x"]))
        self.assertTrue(runner.matches(["a <...> z"], ["a b c z"]))
        self.assertTrue(runner.matches(["first", "<...>", "last"], ["first", "2", "3", "last"]))
        self.assertFalse(runner.matches(["first", "<...>", "last"], ["first", "2", "other"]))

    def test_stdin_and_files_reach_the_command(self):
        text = "=== command\ncat; cat a.txt\n=== stdin\n1\n=== file a.txt\n2\n=== exit 0\n=== stdout\n1\n2\n"
        self.assertEqual(run(text)[0], [])

    def test_rebase_keeps_wildcards_that_match(self):
        text = "=== command\necho took 2 s; echo new\n=== exit 0\n=== stdout\ntook <time>\nold\n"
        found, after = run(text, rebase=True)
        self.assertEqual(found, [])
        self.assertIn("took <time>\nnew\n", after)
        self.assertEqual(run(after)[0], [])

    def test_output_to_a_terminal_is_seen_as_such(self):
        text = "=== command\ntest -t 1 && echo yes\n=== terminal\n=== exit 0\n=== stdout\nyes\n"
        self.assertEqual(run(text)[0], [])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Runs the program as transcripts say and compares what it does with what they say.

usage: run_transcripts.py --program PROGRAM [--schemas FOLDER] [--rebase] TRANSCRIPT...

A transcript is text in sections, each opened by a line "=== NAME":

  === command       one or more lines for sh; `meshplan` is the program under test
  === terminal      (optional) standard output is a terminal
  === stdin         (optional) standard input; empty without it
  === file NAME     (optional, repeated) a file in the folder where the command runs
  === exit N        the exit code
  === stdout        expected standard output; must be empty without it
  === stderr        likewise

Lines before the first section say what the transcript is about. In expected output <time> stands
for a time (1.24 s), <number> for a number, <...> for any text inside a line, and a line "<...>" for
any number of lines; in a line with a wildcard any number of spaces matches spaces. The command sees $PYTHON, $VALIDATE (checks JSON: $VALIDATE SCHEMA [FILE]),
$SCHEMAS (the JSON Schemas as they are installed, --schemas; without it those of the build that the
program is in) and $DATA (the folder that holds models/).

--rebase writes what the program does into the transcripts; lines with wildcards that still match
stay as they are. Read the difference before you commit it.
"""
import argparse
import difflib
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
WILDCARDS = {
    "<time>": r"(?:0|[0-9]+\.?[0-9]*) (?:ns|us|ms|s|min|h|d)",
    "<number>": r"-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?",
    "<...>": r".*?",
}
ANY_LINES = "<...>"
# A sanitizer's build needs more patience.
TIMEOUT_S = 120 * int(os.environ.get("MESHPLAN_PATIENCE", "1"))


class Transcript:
    """Sections in order: (header, lines)."""

    def __init__(self, text):
        self.intro, self.sections = [], []
        for line in text.split("\n"):
            if line.startswith("=== "):
                self.sections.append([line[4:].strip(), []])
            elif self.sections:
                self.sections[-1][1].append(line)
            else:
                self.intro.append(line)
        if self.sections and self.sections[-1][1] and self.sections[-1][1][-1] == "":
            self.sections[-1][1].pop()  # the file's own final newline

    def body(self, name):
        for header, lines in self.sections:
            if header == name:
                return "".join(line + "\n" for line in lines)
        return None

    def files(self):
        return {header[5:]: "".join(line + "\n" for line in lines)
                for header, lines in self.sections if header.startswith("file ")}

    def exit_code(self):
        codes = [header[5:] for header, _ in self.sections if header.startswith("exit ")]
        return int(codes[0]) if codes else 0

    def replace(self, exit_code, outputs):
        kept = [s for s in self.sections
                if not s[0].startswith("exit ") and s[0] not in ("stdout", "stderr")]
        kept.append([f"exit {exit_code}", []])
        for name in ("stdout", "stderr"):
            if outputs[name]:
                kept.append([name, outputs[name]])
        self.sections = kept

    def text(self):
        lines = list(self.intro)
        for header, body in self.sections:
            lines += ["=== " + header, *body]
        return "\n".join(lines) + "\n"


def line_pattern(line):
    if not any(wildcard in line for wildcard in WILDCARDS):
        return re.escape(line)
    # Beside a wildcard the padding of columns varies too.
    parts = re.split("( +|" + "|".join(map(re.escape, WILDCARDS)) + ")", line)
    return "".join(WILDCARDS.get(part) or (" +" if part.strip(" ") == "" and part else re.escape(part))
                   for part in parts)


def matches(expected, actual):
    """Whether the lines match, wildcards included."""
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == ANY_LINES else line_pattern(line) + r"\n"
                      for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


def rebased(expected, actual):
    """The actual lines, with those of `expected` kept that hold wildcards and match."""
    patterns = [line for line in expected if line != ANY_LINES and any(w in line for w in WILDCARDS)]
    result = []
    for line in actual:
        kept = next((p for p in patterns if re.fullmatch(line_pattern(p), line)), line)
        result.append(kept)
    return result


def split(text):
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines[:-1] + [lines[-1] + "<no newline>"]


def environment(program, schemas, folder):
    keep = {key: value for key, value in os.environ.items()
            if key.startswith(("ASAN_", "UBSAN_", "LSAN_", "TSAN_", "GCOV_", "LLVM_PROFILE_"))}
    scripts = ROOT / "test" / "scripts"
    return {**keep, "PATH": f"{folder / '.bin'}:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8",
            "HOME": str(folder), "TERM": "xterm", "MESHPLAN_DATA": str(ROOT), "DATA": str(ROOT),
            "PYTHON": sys.executable, "VALIDATE": f"{sys.executable} {scripts / 'validate_json.py'}",
            "SCHEMAS": str(schemas)}


def read_terminal(master, chunks):
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # the other end is closed
            return
        if not data:
            return
        chunks.append(data)


def execute(command, stdin, folder, env, terminal):
    script = ["sh", "-c", command]
    if not terminal:
        run = subprocess.run(script, input=stdin.encode(), cwd=folder, env=env, timeout=TIMEOUT_S,
                             capture_output=True)
        return run.returncode, run.stdout, run.stderr
    master, slave = pty.openpty()
    chunks = []
    reader = threading.Thread(target=read_terminal, args=(master, chunks))
    reader.start()
    run = subprocess.run(script, input=stdin.encode(), cwd=folder, env=env, timeout=TIMEOUT_S,
                         stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    reader.join()
    os.close(master)
    return run.returncode, b"".join(chunks).replace(b"\r\n", b"\n"), run.stderr


def shown(data):
    """Output as transcripts hold it: escape codes would garble the terminal of whoever reads them."""
    return split(data.decode("utf-8", "backslashreplace").replace("\x1b", "<ESC>"))


def run_transcript(transcript, program, schemas):
    with tempfile.TemporaryDirectory(prefix="meshplan-cli-") as name:
        folder = pathlib.Path(name)
        (folder / ".bin").mkdir()
        (folder / ".bin" / "meshplan").symlink_to(program)
        for file, text in transcript.files().items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
        code, out, err = execute(transcript.body("command"), transcript.body("stdin") or "", folder,
                                 environment(program, schemas, folder), transcript.body("terminal") is not None)
    return code, {"stdout": shown(out), "stderr": shown(err)}


def differences(transcript, code, outputs):
    found = []
    if code != transcript.exit_code():
        found.append(f"exit code {code}, expected {transcript.exit_code()}")
    for name, actual in outputs.items():
        expected = split(transcript.body(name) or "")
        if not matches(expected, actual):
            diff = difflib.unified_diff(expected, actual, f"expected {name}", f"actual {name}", lineterm="")
            found.append("\n".join(diff) or f"{name} differs")
    return found


def check(path, program, schemas, rebase):
    transcript = Transcript(path.read_text(encoding="utf-8"))
    if transcript.body("command") is None:
        return ["there is no '=== command' section"]
    code, outputs = run_transcript(transcript, program, schemas)
    found = differences(transcript, code, outputs)
    if found and rebase:
        transcript.replace(code, {name: rebased(split(transcript.body(name) or ""), actual)
                                  for name, actual in outputs.items()})
        path.write_text(transcript.text(), encoding="utf-8")
        print(f"{path}: rebased")
        return []
    return found


def main():
    parser = argparse.ArgumentParser(description="Run command-line transcripts.")
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--schemas", type=pathlib.Path)
    parser.add_argument("--rebase", action="store_true")
    parser.add_argument("transcripts", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    program = args.program.resolve()
    if not shutil.which(str(program)):
        sys.exit(f"{program} is not a program")
    schemas = (args.schemas or program.parents[2] / "schema").resolve()
    failed = 0
    for path in args.transcripts:
        for difference in check(path, program, schemas, args.rebase):
            failed += 1
            print(f"{path}:\n{difference}\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

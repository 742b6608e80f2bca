#!/usr/bin/env python3
"""The completions that scripts/generate_docs writes work in bash, zsh and fish, and the manual page
names every command; a shell that is not installed is left out.

usage: completions_test.py SOURCE_DIR MESHPLAN
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

# Words typed so far -> what must be offered, and what must not.
CASES = [
    (["pl"], {"plan"}, {"lint"}),
    (["plan", "--model", "llama-3.1-4"], {"llama-3.1-405b"}, {"dgx-h100"}),
    (["plan", "--cluster", "dgx-h"], {"dgx-h100"}, {"llama-3.1-405b"}),
    (["plan", "--objective", ""], {"step-time", "cost", "memory"}, {"plan"}),
    (["export", "--format", "mega"], {"megatron", "megatron-bridge"}, {"slurm"}),
    (["list", "ex"], {"exporters"}, {"models"}),
    (["import", "de"], {"deepspeed"}, {"torchtitan"}),
    (["report", "--valid"], {"--validation"}, {"--html"}),
    (["completion", "f"], {"fish"}, {"bash"}),
    (["list", "ke"], {"keys"}, {"models"}),
]


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120,
                          **options)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr or done.stdout}")
    return done.stdout


def bash(docs, words):
    script = ('. "$0"; COMP_WORDS=(meshplan "$@"); COMP_CWORD=$#; _meshplan; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(run(["bash", "-c", script, str(docs / "meshplan.bash"), *words]).split())


def fish(docs, words):
    """fish offers a line each: the word, a tab, its description."""
    line = " ".join(["meshplan", *words])
    text = run(["fish", "--no-config", "-c",
                f'source {docs / "meshplan.fish"}; complete --do-complete "{line}"'],
               env={"PATH": "/usr/bin:/bin", "HOME": str(docs), "TERM": "dumb"})
    return {row.split("\t")[0] for row in text.splitlines()}


def zsh(docs, words):
    """What the completion function tells zsh's own: the commands, or the specifications of
    options, cut into words."""
    script = """
      _describe() { print -rl -- "${(@P)2}" }
      _arguments() { print -rl -- "$@" }
      compdef() { _meshplan }
      words=(meshplan "$@"); CURRENT=$#words; set --
      source "$COMPLETION"
    """
    text = run(["zsh", "-f", "-c", script, "zsh", *words],
               env={"PATH": "/usr/bin:/bin", "COMPLETION": str(docs / "_meshplan")})
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    rows = text.splitlines()
    if before.startswith("--"):  # the value of that option
        rows = [row for row in rows if row.startswith(before + "[")]
        return {word for row in rows for word in row.replace("(", " ").replace(")", " ").split()
                if word.startswith(last)}
    heads = {row.split(":")[0].split("[")[0] for row in rows}
    inside = {word for row in rows if row.startswith("*:")
              for word in row.replace("(", " ").replace(")", " ").split()}
    return {word for word in heads | inside if word.startswith(last)}


def main():
    source, program = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        docs = pathlib.Path(folder)
        run([sys.executable, "scripts/generate_docs", program, str(docs)], cwd=source)
        page = (docs / "meshplan.1").read_text(encoding="utf-8")
        for command in ("plan", "estimate", "explain", "mix", "bench", "validate", "calibrate", "list",
                        "import", "export", "lint", "report", "serve", "help", "completion", "version"):
            if f'.SS "meshplan {command}"' not in page:
                sys.exit(f"the manual page lacks {command}")
        shells = [(name, ask) for name, ask in (("bash", bash), ("fish", fish), ("zsh", zsh))
                  if shutil.which(name)]
        for name, file in (("bash", "meshplan.bash"), ("zsh", "_meshplan"), ("fish", "meshplan.fish")):
            if shutil.which(name):
                run([name, "-n", str(docs / file)])
        failed = 0
        for name, ask in shells:
            for words, wanted, unwanted in CASES:
                offered = ask(docs, words)
                if wanted <= offered and not unwanted & offered:
                    continue
                failed += 1
                print(f"{name}: 'meshplan {' '.join(words)}' offers {sorted(offered)[:20]}")
        print(f"{', '.join(name for name, _ in shells)}: {len(CASES)} lines each, {failed} wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How the program was built, read from its own ELF file: position independent, full RELRO, no
executable stack, stack protector, checked C library functions.

usage: hardening_test.py PROGRAM...
"""
import re
import subprocess
import sys


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True,
                          text=True).stdout


def problems(program):
    header, segments = readelf("-h", program), readelf("-l", program)
    dynamic, symbols = readelf("-d", program), readelf("-s", "--dyn-syms", program)
    library = program.endswith(".so")
    if not re.search(r"Type:\s+DYN", header):
        yield "is not position independent"
    if not library and not re.search(r"FLAGS_1.*\bPIE\b", dynamic):
        yield "is not marked as position-independent program"
    if "GNU_RELRO" not in segments or not re.search(r"BIND_NOW|FLAGS.*\bNOW\b", dynamic):
        yield "lacks full RELRO"
    stack = re.search(r"GNU_STACK.*", segments)
    if not stack or re.search(r"\bRWE\b", stack.group()):
        yield "has an executable stack"
    if re.search(r"LOAD.*\bRWE\b", segments):
        yield "has a segment that is both writable and executable"
    if "__stack_chk_fail" not in symbols:
        yield "has no stack protector"
    if not library and not re.search(r"__\w+_chk\b(?<!stack_chk)", symbols.replace("__stack_chk_fail", "")):
        yield "uses no checked functions (FORTIFY)"
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic) and "/" in dynamic and not library:
        for line in dynamic.splitlines():
            if ("RPATH" in line or "RUNPATH" in line) and re.search(r"\[(?!\$ORIGIN)[^/]|::|:\]", line):
                yield "looks for libraries in a relative folder: " + line.strip()


def main():
    found = [f"{program} {problem}" for program in sys.argv[1:] for problem in problems(program)]
    print("\n".join(found) if found else f"{len(sys.argv) - 1} files are built as they should be")
    return 1 if found or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares a table of errors in the README with what the predictions of today give.

check_table.py PROGRAM FOLDER README [--rebase]
PROGRAM is meshplan-accuracy, FOLDER holds the published runs. Fails where a number of a source's row,
or of the row of means, is another one in the last digit that is shown, give or take one: compilers
differ. --rebase writes today's.
"""
import pathlib
import re
import sys

from check_floor import report

ROW = re.compile(r"^\| (`(?P<source>\w+)`|mean of \d+ sources) \|.*\|$", re.MULTILINE)


def percent(fraction):
    return f"{100 * fraction:.1f}".replace("-0.0", "0.0")


def row_of(line, name, result):
    """The row of this source, or of the means where `name` is None, with today's numbers."""
    cells = line.split("|")
    if name is None:
        cells[1] = f" mean of {result['macro']['sources']} sources "
        errors = result["macro"]["step_time"]
    else:
        cells[3] = f" {result['sources'][name]['n']} "
        errors = result["sources"][name]["step_time"]
    cells[4:7] = [f" {percent(errors[key])} " for key in ("bias", "median_abs", "p90_abs")]
    return "|".join(cells)


def same(before, now):
    def near(a, b):
        try:
            return abs(float(a) - float(b)) < 0.101
        except ValueError:
            return a == b

    old, new = before.split("|"), now.split("|")
    return len(old) == len(new) and all(near(a.strip(), b.strip()) for a, b in zip(old, new))


def main():
    program, folder, readme = sys.argv[1:4]
    result = report(program, folder)
    text = pathlib.Path(readme).read_text(encoding="utf-8")
    wanted = {name for name, source in result["sources"].items() if source["step_time"]}
    rows = [row for row in ROW.finditer(text) if row["source"] in wanted]
    missing = sorted(wanted - {row["source"] for row in rows})
    # The table's own row of means ends it; another table of the page may have one too.
    rows += [mean for mean in ROW.finditer(text, rows[-1].end() if rows else 0) if mean["source"] is None][:1]
    for name in missing:
        print(f"{name}: no row in the table")
    failures = len(missing)
    for row in reversed(rows):
        now = row_of(row[0], row["source"], result)
        if not same(row[0], now):
            print(f"- {row[0]}\n+ {now}")
            failures += 1
        text = text[:row.start()] + now + text[row.end():]
    if "--rebase" in sys.argv[4:]:
        pathlib.Path(readme).write_text(text, encoding="utf-8")
    print(f"{len(rows)} rows, {failures} not of today")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Times that a library's repository states (data/peers/stated_times.tsv) beside those that were measured here, as a
table in docs/peers_under_suites.md. Needs no package and no GPU.

    scripts/peers/stated_times.py      writes the table into the page

Measured: rows of scripts/peers/time_peers.py on the same shapes, cold caches, one graph between two events a run.
"""
import collections
import csv
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATED = ROOT / "data/peers/stated_times.tsv"
MEASURED = ROOT / "data/measured/h200-2026-11-23/flashqla-grid.csv"
PAGE = ROOT / "docs/peers_under_suites.md"
BEGIN, END = "<!-- Written by scripts/peers/stated_times.py. -->", "<!-- End of the stated times. -->"
# The contender that a stated library's figure is of (README.md): FlashInfer's was made without use_cp.
CONTENDERS = {"FlashQLA": "flashqla", "FlashInfer": "flashinfer", "FLA": "fla"}
GATES = ("none", "weak", "strong")


def lines_of(path):
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def read_stated(path=STATED):
    """{(library, heads, seq): ms}"""
    return {(row["library"], row["heads"], row["seq"]): float(row["stated_ms"])
            for row in csv.DictReader(lines_of(path), delimiter="\t")}


def read_measured(path=MEASURED):
    """{(contender, heads, seq, gates): ms} of the rows that were timed."""
    return {(row["contender"], row["heads"], row["seq"], row["gates"]): float(row["time_ms"])
            for row in csv.DictReader(lines_of(path)) if row["status"] == "ok"}


def ratios(stated, measured):
    """{(library, gates): [(measured over stated, heads, seq)]}; a shape that was not measured is left out."""
    found = collections.defaultdict(list)
    for (library, heads, seq), stated_ms in stated.items():
        for gates in GATES:
            time_ms = measured.get((CONTENDERS[library], heads, seq, gates))
            if time_ms is not None:
                found[library, gates].append((time_ms / stated_ms, heads, seq))
    return found


def table(found):
    lines = ["| library | gates | shapes | measured over stated, geometric mean | least | most |",
             "|:--|:--|--:|--:|:--|:--|"]
    for (library, gates), each in sorted(found.items(), key=lambda item: (item[0][0], GATES.index(item[0][1]))):
        mean = math.exp(sum(math.log(ratio) for ratio, *_ in each) / len(each))
        (least, *of_least), (most, *of_most) = min(each), max(each)
        lines.append(f"| {library} | {gates} | {len(each)} | {mean:.2f} | {least:.2f} at {' '.join(of_least)} | "
                     f"{most:.2f} at {' '.join(of_most)} |")
    return "\n".join(lines)


def page_with(text, found):
    begun, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"stated_times: {PAGE.name}: expected '{BEGIN}' and '{END}' around its table")
    return f"{begun}{BEGIN}\n\n{table(found)}\n\n{END}{tail}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), ratios(read_stated(), read_measured())), encoding="utf-8")

#!/usr/bin/env python3
"""Plans every case of the peers on the CPU, stores what became of it in data/peers/interfaces.tsv, and writes the tables
of docs/peers_interfaces.md from that file. Needs NumPy and the library; runs no kernel.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/peers/interfaces.py
    scripts/peers/interfaces.py --tables           # the page alone, from the stored file

A line of the file is what cases of one function have in common: the outcome, its detail, how many cases, and the name of
one of them. Outcomes: `as called`; `converted`, the detail being the library's operands; `refused`, the detail being the
reason; `no function`; `failed`, which nothing should be.
"""
import argparse
import ast
import collections
import dataclasses
import inspect
import pathlib
import sys
import textwrap

import numpy as np  # noqa: F401: whoever lacks it is told here

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import run_cases  # noqa: E402: found by the line above
from gdnbench import causal_conv1d, calls, fla, fla_convolution, flashinfer, gdn_decode_bf16_state  # noqa: E402
from gdnbench import ggml, sglang, vllm  # noqa: E402
from gdnbench_library import GdnbenchError  # noqa: E402

STORED = HERE.parents[1] / "data/peers/interfaces.tsv"
PAGE = HERE.parents[1] / "docs/peers_interfaces.md"
BEGIN, END = "<!-- Written by scripts/peers/interfaces.py. -->", "<!-- End of what the script writes. -->"
OUTCOMES = ("as called", "converted", "refused", "no function", "failed")
MODULES = {"causal-conv1d": causal_conv1d, "fla": fla, "flashinfer": flashinfer, "vllm": vllm, "sglang": sglang,
           "ggml": ggml, "gdn_decode_bf16_state": gdn_decode_bf16_state, "ShortConvolution": fla_convolution}


@dataclasses.dataclass(frozen=True)
class Line:
    """What `cases` cases of one function have in common."""
    peer: str
    function: str
    outcome: str
    detail: str
    cases: int
    example: str


def found(case):
    """(outcome, detail) of one case, planned."""
    outcome, detail = run_cases.run_case(case, plan_only=True)
    if outcome == "planned":
        operands = run_cases.converted_operands()
        return ("converted", ", ".join(operands)) if operands else ("as called", "")
    return outcome, run_cases.reason_of(detail) if detail else ""


def lines_of(cases):
    """The Lines of these cases."""
    counts, examples = collections.Counter(), {}
    for case in cases:
        key = (case.peer, case.function, *found(case))
        counts[key] += 1
        examples.setdefault(key, case.name)
        if len(calls._plans) > 8:
            calls.forget()
    return [Line(*key, count, examples[key]) for key, count in sorted(counts.items())]


def write(lines, path=STORED):
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [field.name for field in dataclasses.fields(Line)]
    rows = [names, *([str(value) for value in dataclasses.astuple(line)] for line in lines)]
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def read(path=STORED):
    rows = [row.split("\t") for row in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [Line(*row[:4], int(row[4]), row[5]) for row in rows]


def function_of(peer, function):
    """The function of scripts/gdnbench/ that stands for the peer's, or None. Names of one within another's module or
    class lead to it, and what is fused behind it is left out."""
    room, _, name = function.partition("+")[0].rpartition(".")
    return getattr(MODULES[room or peer], name, None)


def refused_arguments(function):
    """Arguments that the function refuses whatever they and the others are: those it hands to refuse_given(), and those
    it hands under the same name to a function that does so."""
    refused = []
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        name = getattr(getattr(node, "func", None), "id", None)
        called = function.__globals__.get(name) if name else None
        if name == "refuse_given":
            refused += [each.arg for each in node.keywords if not isinstance(each.value, ast.IfExp)]
        elif inspect.isfunction(called) and called is not function and not name.startswith("_"):
            own = refused_arguments(called)
            refused += [each.arg for each in node.keywords if each.arg in own]
    return [name for name in dict.fromkeys(refused) if name in inspect.signature(function).parameters]


def _table(head, rows, numbers=()):
    rule = "|".join("--:" if name in numbers else ":--" for name in head)
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|",
                      *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def tables(lines):
    """Markdown of Lines and of the functions' signatures."""
    by_function = collections.defaultdict(collections.Counter)
    for line in lines:
        by_function[line.peer, line.function][line.outcome] += line.cases
    shown = [outcome for outcome in OUTCOMES if any(counts[outcome] for counts in by_function.values())]
    total = sum((counts for counts in by_function.values()), collections.Counter())
    counted = [(peer, f"`{function}`", sum(counts.values()), *(counts[outcome] for outcome in shown))
               for (peer, function), counts in sorted(by_function.items())]
    counted.append(("all", "", sum(total.values()), *(total[outcome] for outcome in shown)))

    def told(outcome):
        return [(line.peer, f"`{line.function}`", line.detail, line.cases) for line in lines if line.outcome == outcome]
    signatures = []
    for peer, function in sorted(by_function):
        ours = function_of(peer, function)
        if ours is not None:
            names = inspect.signature(ours).parameters.values()
            refused = refused_arguments(ours)
            signatures.append((peer, f"`{function}`", ", ".join(
                each.name for each in names if each.name not in refused), ", ".join(refused)))
    parts = [
        "## Cases by function", _table(("peer", "function", "cases", *shown), counted, ("cases", *shown)),
        "## What is converted", _table(("peer", "function", "operands", "cases"), told("converted"), ("cases",)),
        "## What is refused", _table(("peer", "function", "reason", "cases"), told("refused"), ("cases",)),
        "## Arguments", _table(("peer", "function", "taken", "refused where given"), signatures)]
    return "\n\n".join(parts)


def page_with(text, lines):
    """The page's text with the tables of these lines."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: expected '{BEGIN}' and '{END}' around its tables")
    return f"{head}{BEGIN}\n\n{tables(lines)}\n\n{END}{tail}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", action="store_true", help="write the page from the stored file, and plan nothing")
    asked = parser.parse_args()
    if not asked.tables:
        try:
            calls.library()
        except (OSError, GdnbenchError) as error:
            sys.exit(f"interfaces: {error}")
        write(lines_of(run_cases.EVERY))
    lines = read()
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), lines), encoding="utf-8")
    failed = [line for line in lines if line.outcome == "failed"]
    for line in failed:
        print(f"{line.example}: {line.detail}", file=sys.stderr)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The errors of long decodes as one figure, from what `gdnbench accumulate --json` prints.

    gdnbench accumulate --impl cpu/recurrent --heads 1/2 --dim 128 --seq 1x100000 ... --json > decode.json
    scripts/plot_decode_errors.py decode.json --out decode_errors.svg

A line for each problem and implementation that was run token by token, named by what differs between them; a point for
each window of tokens, at its last one. The suffix of --out says the format. Needs matplotlib. Exit 0 done, 2 bad input.
"""
import argparse
import json
import math
import sys

CALLS, BY_TOKEN = "calls", "one a token"


def fail(message):
    print(f"plot_decode_errors: {message}", file=sys.stderr)
    sys.exit(2)


def fields_of(title):
    """ "Errors of a long decode: gated_delta:heads=1/2,gates=weak": the problem's fields by name. """
    problem = title.split(": ", 1)[-1]
    return dict(field.split("=", 1) for field in problem.split(":", 1)[-1].split(","))


def last_token(window):
    """Of "token 0" or "10..99", counted from 1; None of another column."""
    text = window.removeprefix("token ").split("..")[-1]
    return int(text) + 1 if text.isdigit() else None


def lines_of(tables):
    """[({field: value, ..}, [(token, error), ..]), ..], a line for each row run token by token."""
    lines = []
    for table in tables:
        header = table["header"]
        if CALLS not in header:
            raise ValueError(f"'{table['title']}' is no table of gdnbench accumulate")
        for row in table["rows"]:
            cells = dict(zip(header, row))
            if cells[CALLS] != BY_TOKEN:
                continue
            points = [(last_token(name), float(value)) for name, value in cells.items() if last_token(name) is not None]
            points = [(token, error) for token, error in points if math.isfinite(error) and error > 0]
            lines.append((fields_of(table["title"]) | {"implementation": cells["implementation"]}, points))
    if not lines:
        raise ValueError("no row was run token by token")
    return lines


def labels_of(lines):
    """What is not the same in all lines, in words; a field that a problem leaves out is at its default."""
    names = sorted({name for fields, _ in lines for name in fields})
    differing = [name for name in names if len({fields.get(name) for fields, _ in lines}) > 1]
    return [", ".join(f"{name} {fields.get(name, 'default')}" for name in differing) or "all" for fields, _ in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", help="what gdnbench accumulate --json printed")
    parser.add_argument("--out", required=True, help="the figure: .svg, .pdf or .png")
    arguments = parser.parse_args()
    try:
        with open(arguments.tables, encoding="utf-8") as file:
            lines = lines_of(json.load(file))
    except (OSError, ValueError, KeyError) as error:
        fail(f"{arguments.tables}: {error}")
    try:
        import matplotlib
    except ImportError as error:
        fail(f"{error}; the package is python3-matplotlib")
    matplotlib.use("svg")
    from matplotlib import pyplot
    matplotlib.rcParams["svg.hashsalt"] = "gdnbench"  # the same file of the same tables
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for (_, points), label, marker in zip(lines, labels_of(lines), "os^Dv<>P" * len(lines)):
        axes.loglog(*zip(*points), marker=marker, label=label)
    axes.set_xlabel("tokens since the first call, one a call")
    axes.set_ylabel("relative L2 error of the output, worst head")
    axes.grid(True, which="major", alpha=0.4)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(arguments.out, metadata={"Date": None} if arguments.out.endswith(".svg") else None)


if __name__ == "__main__":
    main()

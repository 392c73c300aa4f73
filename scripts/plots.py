#!/usr/bin/env python3
"""Figures of rows files (of either schema) as PDF, the same as those of `gdnbench report`.

    scripts/plots.py results.h5 --out figures/
    scripts/plots.py results.h5 --out figures/ --where mode=cold --where token_dtype=bf16
    scripts/plots.py results.h5 --out figures/ --baseline data/baselines/cpu.h5
    scripts/plots.py today.h5 --out figures/ --history monday.h5,tuesday.h5

Writes throughput, error_length, error_position, error_implementation, roofline, chunk, drift and
history, each NAME-NUMBER.pdf: one file per setting (operation, heads, dims, gates, ... whatever differs between
rows beside the axes), its setting in the title. A figure nothing in the file can fill is left out,
and said so. Needs h5py, numpy and matplotlib. Exit 0 done, 2 bad usage or input.
"""
import argparse
import collections
import os
import sys

SETTING = ["operation", "num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim",
           "channels", "token_dtype", "output_dtype", "state_dtype", "state_layout", "initial_state", "gates",
           "betas", "keys", "update", "steps", "decay", "normalize_qk", "seed", "case_file", "mode", "device"]
# A convolution says its channels by these or by a number of its own, else 0.
OF_HEADS = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
NEEDED = [*SETTING, "case_bytes", "chunk", "chunkwise_tflops", "implementation", "longest_sequence", "num_sequences",
          "problem", "requested_chunk", "status", "tb_per_s", "time_first_quartile_ms",
          "time_ms", "time_third_quartile_ms", "tokens_per_s", "total_tokens", "workspace_bytes"]
# Columns that files of earlier versions lack, and what they stand for there.
LATER = {"channels": 0, "update": "delta", "steps": 1, "decay": "head", "case_bytes": 0}
# Errors were columns in files of gdn-rows/1, of these outputs, named so there.
FIRST_OUTPUTS = {"output": "output", "state": "final_state", "conv_output": "conv_output", "conv_state": "conv_state"}
METRICS = ("relative_l2", "floor_ratio")
MARKERS = "os^Dv<>P"


def fail(message):
    print(f"plots: {message}", file=sys.stderr)
    sys.exit(2)


def decode(value):
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value.item()


def parse_windows(text):
    """The errors by position of a row of gdn-rows/1: "0:0.0021 64:0.0023 ..."."""
    return [(int(token), float(error)) for token, error in (window.split(":") for window in text.split())]


def errors_of_columns(row):
    """Errors and windows of a row of gdn-rows/1, as read_rows gives them."""
    import math
    bits = {"f32": 24, "f16": 11, "bf16": 8}
    errors = collections.defaultdict(dict)
    for name, output in FIRST_OUTPUTS.items():
        kept = {"output": row["output_dtype"], "conv_output": row["token_dtype"]}.get(name, row["state_dtype"])
        for metric in METRICS:
            value = row.pop(f"{name}_{metric}", math.nan)
            # A type finer than the tokens' is not measured in floors.
            if not math.isnan(value) and (metric != "floor_ratio" or bits[kept] <= bits[row["token_dtype"]]):
                errors[output][metric] = value
    windows = parse_windows(row.pop("output_error_by_position", ""))
    return dict(errors), {"output": windows} if windows else {}


def errors_of_lines(lines):
    """Errors and windows of a row, of its lines of /errors."""
    errors, windows = collections.defaultdict(dict), collections.defaultdict(list)
    for line in lines:
        output, metric = decode(line["output"]), decode(line["metric"])
        if line["first_token"] < 0:
            errors[output][metric] = line["value"].item()
        elif metric == "relative_l2":
            windows[output].append((line["first_token"].item(), line["value"].item()))
    return dict(errors), dict(windows)


def table_of(file, path, name, needed):
    """The whole of a table; it has the columns needed."""
    import h5py
    table = file[name]
    if not isinstance(table, h5py.Dataset) or table.dtype.names is None:
        fail(f"'{path}': {name} is not a table")
    if missing := sorted(set(needed) - set(table.dtype.names)):
        fail(f"'{path}': the {name} lack {', '.join(missing)}")
    return table[()]


def read_rows(path):
    """Rows as dicts, text decoded; besides the columns "errors", {output: {metric: value}}, and "windows", {output:
    [(first token, relative L2)]}."""
    import h5py
    if not os.path.exists(path):
        fail(f"'{path}': no such file")
    try:
        with h5py.File(path, "r") as file:
            schema = file.attrs.get("schema", b"")
            schema = schema.decode() if isinstance(schema, bytes) else str(schema)
            if schema not in ("gdn-rows/1", "gdn-rows/2"):
                fail(f"'{path}': schema is '{schema}', expected gdn-rows/2 or gdn-rows/1")
            lines = None
            if schema == "gdn-rows/2":
                lines = table_of(file, path, "errors", ["output", "metric", "first_token", "value"])
            table = table_of(file, path, "rows", [*set(NEEDED) - set(LATER),
                                                  *([] if lines is None else ["first_error", "error_count"])])
        rows = []
        for record in table:
            row = {**LATER, **{name: decode(record[name]) for name in table.dtype.names}}
            if lines is None:
                row["errors"], row["windows"] = errors_of_columns(row)
            else:
                first, count = row["first_error"], row["error_count"]
                if first < 0 or count < 0 or first + count > len(lines):
                    fail(f"'{path}': a row's errors are not in the file")
                row["errors"], row["windows"] = errors_of_lines(lines[first:first + count])
            rows.append(row)
        return rows
    except (OSError, KeyError, MemoryError, ValueError) as error:
        fail(f"'{path}': not a rows file that can be read ({' '.join(str(error).split())})")


def error_of(row, output, metric):
    """NaN, which loses every comparison, where the row has no such error."""
    return row["errors"].get(output, {}).get(metric, float("nan"))


def is_timed(row):
    return row["status"] == "ok" and row["time_ms"] > 0


def is_uniform(row):
    return row["num_sequences"] * row["longest_sequence"] == row["total_tokens"]


def series_name(row):
    chunk = f" chunk {row['requested_chunk']}" if row["requested_chunk"] else ""
    return row["implementation"] + chunk


class Figures:
    def __init__(self, rows, folder):
        self.rows = rows
        self.folder = folder
        self.varying = [name for name in SETTING if len({row[name] for row in rows}) > 1]
        self.outputs = list(dict.fromkeys(output for row in rows for output in (*row["errors"], *row["windows"])))
        self.series = sorted({series_name(row) for row in rows} |
                             {row["implementation"] for row in rows})

    def setting(self, row, without=()):
        unsaid = (*without, *(OF_HEADS if row["channels"] else ["channels"]))
        return ", ".join(f"{name} {row[name]}" for name in self.varying if name not in unsaid)

    def groups(self, rows, keys):
        """Rows by setting; `keys` gives the settings a row belongs to."""
        result = collections.defaultdict(list)
        for row in rows:
            for key in keys(row):
                result[key].append(row)
        return result

    def length_keys(self, without=()):
        def keys(row):
            rest = self.setting(row, without)
            return [f"{row['total_tokens']} tokens in all. {rest}",
                    f"{row['num_sequences']} sequences. {rest}"]
        return keys

    def save(self, name, number, title, figure, axes):
        import matplotlib.pyplot as pyplot
        axes.set_title(title, fontsize=7, wrap=True)
        axes.grid(True, linewidth=0.3)
        handles, texts = axes.get_legend_handles_labels()
        if handles:
            axes.legend(handles, texts, fontsize=7, frameon=False)
        path = os.path.join(self.folder, f"{name}-{number}.pdf")
        figure.savefig(path, bbox_inches="tight")
        pyplot.close(figure)
        print(path)

    def curves(self, name, groups, x, y, xlabel, ylabel, series=series_name, quartiles=None):
        """One figure per setting with at least two places on the x axis."""
        import matplotlib.pyplot as pyplot
        made = 0
        for title in sorted(groups, key=lambda key: -len({x(row) for row in groups[key]})):
            rows = groups[title]
            if len({x(row) for row in rows}) < 2:
                continue
            figure, axes = pyplot.subplots(figsize=(4.5, 3))
            for one in self.series:
                points = sorted((x(row), y(row), i) for i, row in enumerate(rows)
                                if series(row) == one)
                if not points:
                    continue
                index = self.series.index(one)
                xs = [p[0] for p in points]
                ys = [p[1] for p in points]
                whiskers = None
                if quartiles:
                    ends = [quartiles(rows[p[2]]) for p in points]
                    whiskers = [[max(0, v - low) for v, (low, high) in zip(ys, ends)],
                                [max(0, high - v) for v, (low, high) in zip(ys, ends)]]
                axes.errorbar(xs, ys, yerr=whiskers, label=one, color=f"C{index % 10}",
                              marker=MARKERS[index % len(MARKERS)], markersize=4, linewidth=1)
            axes.set_xscale("log", base=2)
            ticks = sorted({x(row) for row in rows})
            axes.set_xticks(ticks, [f"{t // 1024}K" if t >= 1024 and t % 1024 == 0 else str(t)
                                    for t in ticks])
            values = [y(row) for row in rows]
            if max(values) > 30 * min(values):
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.set_xlabel(xlabel)
            axes.set_ylabel(ylabel)
            made += 1
            self.save(name, made, title, figure, axes)
        if not made:
            print(f"{name}: no rows that differ in {xlabel}", file=sys.stderr)

    def strips(self, name, groups, y, ylabel, lines=()):
        """One figure per setting: a point per row over its implementation, by token dtype."""
        import matplotlib.pyplot as pyplot
        made = 0
        for title in sorted(groups):
            rows = groups[title]
            names = sorted({row["implementation"] for row in rows})
            dtypes = sorted({row["token_dtype"] for row in rows})
            figure, axes = pyplot.subplots(figsize=(max(3, 0.6 * len(names)), 3))
            for index, dtype in enumerate(dtypes):
                points = [row for row in rows if row["token_dtype"] == dtype]
                shift = 0.15 * (index - (len(dtypes) - 1) / 2)
                axes.plot([names.index(row["implementation"]) + shift for row in points],
                          [y(row) for row in points], MARKERS[index % len(MARKERS)],
                          markersize=3, label=f"{dtype} tokens")
            for value in lines:
                axes.axhline(value, linewidth=0.8, color="gray")
            values = [y(row) for row in rows]
            if max(values) > 30 * min(values):
                axes.set_yscale("log")
            axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=7)
            axes.set_ylabel(ylabel)
            made += 1
            self.save(name, made, title, figure, axes)
        if not made:
            print(f"{name}: no row has {ylabel}", file=sys.stderr)

    def throughput(self):
        rows = [row for row in self.rows if is_timed(row) and is_uniform(row)
                and row["tokens_per_s"] > 0]
        rate = lambda row: row["tokens_per_s"] / 1e3
        ends = lambda row: (rate(row) * row["time_ms"] / row["time_third_quartile_ms"],
                            rate(row) * row["time_ms"] / row["time_first_quartile_ms"])
        self.curves("throughput", self.groups(rows, self.length_keys()),
                    lambda row: row["longest_sequence"], rate, "tokens per sequence",
                    "thousand tokens/s", quartiles=ends)

    def errors(self):
        for what in self.outputs:
            error = lambda row: error_of(row, what, "floor_ratio")
            rows = [row for row in self.rows if row["status"] == "ok" and error(row) > 0]
            if not rows:
                continue
            label = what.replace("conv", "convolution").replace("_", " ") + " error / floor"
            self.curves(f"error_length-{what}",
                        self.groups(filter(is_uniform, rows), self.length_keys(["mode"])),
                        lambda row: row["longest_sequence"], error, "tokens per sequence", label)
            self.strips(f"error_implementation-{what}", {"all settings": rows}, error, label, [1])

    def error_position(self):
        """Errors by window of tokens, worst head."""
        import matplotlib.pyplot as pyplot
        made = 0
        for what in self.outputs:
            rows = [row for row in self.rows if row["status"] == "ok" and len(row["windows"].get(what, [])) > 1]
            groups = self.groups(rows, lambda row: [f"{row['sequences']}. {self.setting(row, ['mode'])}"])
            for number, title in enumerate(sorted(groups), 1):
                figure, axes = pyplot.subplots(figsize=(4.5, 3))
                for row in groups[title]:
                    index = self.series.index(series_name(row))
                    points = [(token, error) for token, error in row["windows"][what] if error > 0]
                    axes.plot([token for token, _ in points], [error for _, error in points],
                              label=series_name(row), color=f"C{index % 10}",
                              marker=MARKERS[index % len(MARKERS)], markersize=3, linewidth=1)
                axes.set_yscale("log")
                axes.set_xlabel("first token of the window")
                axes.set_ylabel(f"relative L2 of {what}")
                self.save(f"error_position-{what}", number, title, figure, axes)
                made += 1
        if not made:
            print("error_position: no row has errors by position", file=sys.stderr)

    def roofline(self):
        import matplotlib.pyplot as pyplot
        rows = [row for row in self.rows if is_timed(row) and row["chunkwise_tflops"] > 0
                and row["tb_per_s"] > 0]
        kind = lambda row: "float32" if row["token_dtype"] == "f32" else "16-bit"
        groups = self.groups(rows, lambda row: [f"{row['device']} ({row['backend']}), "
                                                f"{kind(row)} tokens, {row['mode']}"])
        for number, title in enumerate(sorted(groups), 1):
            rows = groups[title]
            figure, axes = pyplot.subplots(figsize=(4.5, 3))
            for one in sorted({row["implementation"] for row in rows}):
                index = self.series.index(one)
                points = [row for row in rows if row["implementation"] == one]
                axes.loglog([row["chunkwise_tflops"] / row["tb_per_s"] for row in points],
                            [row["chunkwise_tflops"] for row in points],
                            MARKERS[index % len(MARKERS)], color=f"C{index % 10}", markersize=4,
                            label=one)
            # NaN (not measured) loses every comparison, so it never becomes a ceiling.
            top = lambda column: max([0] + [row[column] for row in rows if row[column] > 0])
            copy = top("ceiling_copy_tb_per_s")
            matrix = top("ceiling_matrix_tflops") if kind(rows[0]) == "16-bit" else 0
            compute = matrix or top("ceiling_float32_tflops")
            if copy and compute:
                xs = [row["chunkwise_tflops"] / row["tb_per_s"] for row in rows]
                ridge = compute / copy
                places = [min(xs + [ridge / 4]), ridge, max(xs + [ridge * 4])]
                axes.loglog(places, [min(compute, copy * x) for x in places], "--", color="gray",
                            linewidth=1, label=f"{copy:.3g} TB/s, {compute:.4g} TFLOP/s "
                            + ("16-bit matrix" if matrix else "float32"))
            axes.set_xlabel("FLOP per byte of compulsory input and output")
            axes.set_ylabel("TFLOP/s")
            self.save("roofline", number, title, figure, axes)
        if not groups:
            print("roofline: no row has rates", file=sys.stderr)

    def chunk(self):
        rows = [row for row in self.rows if is_timed(row) and row["chunk"] > 0]
        shape = lambda row: [f"{row['sequences']}. {self.setting(row)}"]
        implementation = lambda row: row["implementation"]
        self.curves("chunk-time", self.groups(rows, shape), lambda row: row["chunk"],
                    lambda row: row["time_ms"], "tokens per chunk", "ms", implementation,
                    lambda row: (row["time_first_quartile_ms"], row["time_third_quartile_ms"]))
        rows = [row for row in rows if row["workspace_bytes"] > 0]
        self.curves("chunk-workspace", self.groups(rows, shape), lambda row: row["chunk"],
                    lambda row: row["workspace_bytes"] / 2**20, "tokens per chunk",
                    "workspace MiB", implementation)
        rows = [row for row in rows if row["case_bytes"] > 0]
        self.curves("chunk-peak", self.groups(rows, shape), lambda row: row["chunk"],
                    lambda row: (row["case_bytes"] + row["workspace_bytes"]) / 2**20,
                    "tokens per chunk", "peak MiB", implementation)

    def drift(self, baseline):
        """Errors over those stored of the same problem and implementation."""
        stored = {(row["problem"], row["implementation"]): row for row in baseline}
        for what in self.outputs:
            error = lambda row: error_of(row, what, "relative_l2")
            before = lambda row: error(stored.get((row["problem"], row["implementation"]), {"errors": {}}))
            rows = [row for row in self.rows if row["status"] == "ok" and error(row) > 0 and before(row) > 0]
            self.strips(f"drift-{what}", {"all settings": rows} if rows else {},
                        lambda row: error(row) / before(row), f"{what} error / baseline", [1])

    def history(self, paths):
        """Each run over the first of them that has the row, this run last."""
        import matplotlib.pyplot as pyplot
        runs = [(os.path.splitext(os.path.basename(path))[0], read_rows(path)) for path in paths]
        runs.append(("this run", self.rows))
        key = lambda row: (row["problem"], row["implementation"])
        errors = [(f"{what}_relative_l2", key, lambda row, what=what: error_of(row, what, "relative_l2"))
                  for what in self.outputs]
        time = ("time_ms", lambda row: key(row) + (row["mode"], row["device"]), lambda row: row["time_ms"])
        for column, same, value in [*errors, time]:
            tables = [{same(row): value(row) for row in rows
                       if row["status"] == "ok" and value(row) > 0} for _, rows in runs]
            groups = self.groups([row for row in self.rows if sum(same(row) in table
                                                                  for table in tables) > 1],
                                 lambda row: [row["problem"]])
            for number, title in enumerate(sorted(groups), 1):
                figure, axes = pyplot.subplots(figsize=(4.5, 3))
                for row in groups[title]:
                    places = [i for i, table in enumerate(tables) if same(row) in table]
                    values = [tables[i][same(row)] for i in places]
                    index = self.series.index(row["implementation"])
                    axes.plot(places, [value / values[0] for value in values],
                              label=row["implementation"], color=f"C{index % 10}",
                              marker=MARKERS[index % len(MARKERS)], markersize=4, linewidth=1)
                axes.set_xticks(range(len(runs)), [name for name, _ in runs], rotation=40,
                                ha="right", fontsize=7)
                axes.set_ylabel(f"{column} over the first run")
                self.save(f"history-{column}", number, title, figure, axes)
            if not groups:
                print(f"history-{column}: no row is in two runs", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="rows files (gdnbench sweep --out)")
    parser.add_argument("--out", required=True, help="folder of the PDFs; made if absent")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE",
                        help="only these rows; COLUMN=A|B takes either; repeatable")
    parser.add_argument("--baseline", help="rows file; drift figures show errors relative to it")
    parser.add_argument("--history", metavar="FILE,FILE",
                        help="rows files of earlier runs, oldest first")
    arguments = parser.parse_args()
    try:
        import h5py  # noqa: F401
        import matplotlib
    except ImportError as error:
        fail(f"{error}; the packages are python3-h5py and python3-matplotlib")
    matplotlib.use("pdf")

    rows = [row for path in arguments.files for row in read_rows(path)]
    for text in arguments.where:
        column, equals, values = text.partition("=")
        if not equals or (rows and column not in rows[0]):
            fail(f"--where '{text}': expected COLUMN=VALUE with a column of the rows")
        rows = [row for row in rows if str(row[column]) in values.split("|")]
    if not rows:
        fail("no rows left to plot")
    try:
        os.makedirs(arguments.out, exist_ok=True)
    except OSError as error:
        fail(f"--out '{arguments.out}': no folder ({error.strerror})")
    figures = Figures(rows, arguments.out)
    figures.throughput()
    figures.errors()
    figures.error_position()
    figures.roofline()
    figures.chunk()
    if arguments.baseline:
        figures.drift(read_rows(arguments.baseline))
    if arguments.history:
        figures.history(arguments.history.split(","))


if __name__ == "__main__":
    main()

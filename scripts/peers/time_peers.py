#!/usr/bin/env python3
"""Times this project's kernel and other libraries' kernels in one process, on the same tensors, by the same method, and
gives everyone's errors against float64.

    time_peers.py --grid flashqla-grid --gates weak --out rows.csv      # a preset of `gdnbench list --presets`
    time_peers.py --grid forward --who ours,fla,flashinfer --time-limit 300 --out rows.csv
    time_peers.py --heads 2/4 --seq 1x2048 --case trace.npz --out errors.csv
    time_peers.py --grid flashqla-grid --who flashqla,fla --warm        # only compiles, into the libraries' caches

Per row: inputs made once on the GPU (seeded); every contender runs once and its whole output and final state are held
against float64 (libgdnbench's reference); who is over --limit is not timed; then --runs timed runs each, in turns;
then, on outputs filled with NaN, once more and checked again. Rows are written as they are made; started again, it
goes on with those that are missing. table.py makes a table of the file. README.md: what must be installed, and how.
Exit 0 done (or stopped by --time-limit), 1 a CUDA context was lost (start it again), 2 bad usage or input.
"""
import argparse
import datetime
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys

import contenders
import inputs as inputs_of
import rows

HERE = os.path.dirname(os.path.abspath(__file__))


def fail(message):
    print(f"time_peers: {message}", file=sys.stderr)
    sys.exit(2)


# ---- what is asked for


def find_gdnbench():
    """$GDNBENCH, or the program of a bundle or a build tree this script is in, or on the PATH."""
    root = os.path.dirname(os.path.dirname(HERE))
    named = os.environ.get("GDNBENCH")
    for place in [named] if named else [os.path.join(root, "gdnbench"), os.path.join(root, "build", "gdnbench")]:
        if os.path.isfile(place):
            return place
    found = None if named else shutil.which("gdnbench")
    return found or fail(f"gdnbench was not found{f' at {named}' if named else ''}: set GDNBENCH to the program")


def listed_presets(path):
    """What `gdnbench list --presets --json` prints, or printed into a file."""
    command = [] if path else [find_gdnbench(), "list", "--presets", "--json"]
    try:
        if path:
            with open(path) as file:
                return json.load(file)
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        fail(f"{path or shlex.join(command)}: {error}")


def preset_axes(name, path):
    """heads, seq and gates of a preset; 'flashqla' stands for 'flashqla-grid'."""
    listed = listed_presets(path)
    try:
        sweeps = {preset["name"]: preset["axes"] for preset in listed if preset["of"] == "sweep"}
    except (TypeError, KeyError):
        fail(f"{path or 'gdnbench'}: not a list of presets with their axes; is it of another version?")
    axes = sweeps.get(name) or sweeps.get(f"{name}-grid")
    if axes is None or not {"heads", "seq", "gates"} <= set(axes):
        grids = [each for each, its in sweeps.items() if {"heads", "seq", "gates"} <= set(its)]
        fail(f"--grid '{name}': expected one of {', '.join(grids)}")
    return axes


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--grid", help="preset with heads, seq and gates: flashqla-grid, forward, serving-grid")
    parser.add_argument("--presets", metavar="FILE", help="what `gdnbench list --presets --json` printed, instead of\n"
                                                          "asking the program")
    parser.add_argument("--heads", help="comma list, as 2/8,16/32; in the place of the grid's")
    parser.add_argument("--seq", help="comma list, as 4x8192,1x28672+1x4096; in the place of the grid's")
    parser.add_argument("--gates", help=f"comma list of {', '.join(inputs_of.GATES)}; in the place of the grid's")
    parser.add_argument("--case", action="append", default=[], metavar="FILE.npz",
                        help="cases made by export_case.py, as rows besides")
    parser.add_argument("--who", default="ours,flashinfer,flashinfer-cp,flashqla,flashqla-nocp",
                        help=f"comma list of {', '.join(contenders.CONTENDERS)}")
    parser.add_argument("--out", metavar="ROWS.csv", help="rows are appended here")
    parser.add_argument("--runs", type=int, default=15, help="timed runs of each contender (15)")
    parser.add_argument("--limit", type=float, default=2e-2,
                        help="largest relative error, of the worst head, that is timed (0.02)")
    parser.add_argument("--time-limit", type=float, metavar="S", help="stop between rows before so many seconds")
    parser.add_argument("--retry-failed", action="store_true", help="again those that threw or were wrong")
    parser.add_argument("--dry-run", action="store_true", help="list the rows and who is missing in each")
    parser.add_argument("--warm", action="store_true", help="only compile and tune what libraries keep on disk, nothing is timed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1,
                        help="processes that compile side by side, one per head count, before they measure one\n"
                             "after the other (as many as processors); 1: one process, nothing beforehand")
    options = parser.parse_args()

    def listed(text, name, known=None, parse=None):
        values = [value for value in text.split(",") if value]
        for value in values:
            if known is not None and value not in known:
                fail(f"--{name} '{value}': expected one of {', '.join(known)}")
            try:
                parse and parse(value)
            except ValueError as error:
                fail(f"--{name}: {error}")
        return values or fail(f"--{name}: is empty")

    axes = preset_axes(options.grid, options.presets) if options.grid else {"gates": ["weak"]}
    for name, known, parse in (("heads", None, inputs_of.parse_heads), ("seq", None, inputs_of.parse_lengths),
                               ("gates", inputs_of.GATES, None)):
        given = getattr(options, name)
        setattr(options, name, listed(given, name, known, parse) if given else axes.get(name, []))
    options.who = listed(options.who, "who", contenders.CONTENDERS)
    if bool(options.heads) != bool(options.seq):
        fail(f"--{'seq' if options.heads else 'heads'}: is missing; or name a --grid")
    if not options.heads and not options.case:
        fail("nothing to do: name a --grid, --heads and --seq, or a --case")
    if options.runs < 3:
        fail(f"--runs {options.runs}: expected 3 or more")
    if not options.limit > 0:
        fail(f"--limit {options.limit}: expected more than 0")
    if not options.out and not options.warm and not options.dry_run:
        fail("--out is missing")
    return options


def cases_of(options):
    """{(heads, seq, gates): arrays} of the case files."""
    found = {}
    for path in options.case:
        if not os.path.isfile(path):
            fail(f"--case '{path}': no such file")
        try:
            for name, heads, seq, arrays in inputs_of.read_cases(path):
                found[heads, seq, name] = arrays
        except ImportError:
            fail("--case: needs numpy")
        except Exception as error:  # noqa: BLE001 - whatever numpy makes of a file that is none
            fail(f"--case '{path}': {error}")
    return found


def missing_of(options, keys):
    """[(key, contenders still to be measured)], rows that are whole left out."""
    done = {}
    if options.out and os.path.exists(options.out) and os.path.getsize(options.out):
        try:
            for line in rows.read(options.out)[1]:
                done.setdefault(rows.key_of(line), {})[line["contender"]] = line["status"]
        except ValueError as error:
            fail(f"--out: {error}")
    todo = []
    for key in keys:
        have = done.get(key, {})
        again = [who for who in options.who
                 if who not in have or options.retry_failed and have[who] != rows.OK]
        if again:
            # All of a row in the same run; those that failed before only if asked.
            todo.append((key, [who for who in options.who if who in again or have.get(who) == rows.OK]))
    return todo


def comments():
    import torch
    versions = []
    for name in contenders.DISTRIBUTIONS:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                capture_output=True, text=True, check=True).stdout.split("\n")[0].strip()
    except (OSError, subprocess.CalledProcessError):
        driver = "unknown"
    return [f"{torch.cuda.get_device_name()}, driver {driver}, CUDA {torch.version.cuda}, "
            f"{datetime.date.today().isoformat()}", ", ".join(versions),
            "command: " + shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])]


def main():
    options = parse_arguments()
    cases = cases_of(options)
    keys = [(heads, seq, gates) for heads in options.heads for seq in options.seq for gates in options.gates]
    todo = missing_of(options, list(dict.fromkeys([*keys, *cases])))
    if options.dry_run:
        for key, who in todo:
            print(*key, ",".join(who))
        print(f"{len(todo)} rows")
        return 0
    try:
        import torch
    except ImportError as error:
        fail(f"PyTorch is needed: {error}")
    try:
        import gdnbench_torch
        gdnbench_torch.library()
    except Exception as error:  # noqa: BLE001
        fail(str(error))
    if not torch.cuda.is_available():
        fail("PyTorch sees no CUDA device")
    if not todo:
        print(f"all rows are in {options.out}")
        return 0
    import workers
    return workers.run(options, todo, cases, comments())


if __name__ == "__main__":
    sys.exit(main())

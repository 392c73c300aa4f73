"""Judges a kernel in Python from the command line, as a job of continuous integration does (docs/ci.md).

    python -m gdnbench judge MODULE:FUNCTION --suite quick --honours h0,norm --markdown table.md --json verdicts.json
    python -m gdnbench judge my_kernels:gated_delta --device cuda --baseline baseline.json
    cc -shared -fPIC my_plugin.c -I$(python -m gdnbench include) -o my_plugin.so     # docs/plugins.md

Exit code 0: everything that was judged passed; 1: something failed, an error has grown beyond the baseline's, or
nothing was judged; 2: bad usage, bad input, or a file that cannot be written, in one line; 3: the device is not there.
"""
import argparse
import importlib
import os
import sys

DESCRIPTION = "Judge a function on every case of a suite, as gdnbench.judge() does (docs/python.md)."
USAGE, DEVICE = 2, 3
LONGEST_PART = 10000  # characters, of each of the three lists in --markdown


class Refused(Exception):
    """One line, and the exit code that it ends in."""

    def __init__(self, line, code=USAGE):
        super().__init__(line)
        self.code = code


def parser():
    made = argparse.ArgumentParser(prog="python -m gdnbench", description=DESCRIPTION, allow_abbrev=False)
    commands = made.add_subparsers(dest="command", required=True)
    commands.add_parser("include", help="print the folder of the headers that a plug-in is compiled with")
    judge = commands.add_parser("judge", help=DESCRIPTION, description=DESCRIPTION, allow_abbrev=False)
    judge.add_argument("function", metavar="MODULE:FUNCTION",
                       help="imported from the current folder or where Python looks")
    judge.add_argument("--suite", default="quick", help="quick (default), full, stress, ...")
    judge.add_argument("--operation", default="gated_delta", help="cases of this operation; all: of every one")
    judge.add_argument("--device", default="cpu", help="where arrays lie: cpu (default), cuda, cuda:1")
    judge.add_argument("--arrays", help="numpy, torch, jax or cupy")
    judge.add_argument("--convention", help="call the function with another project's arguments: fla, vllm, ...")
    judge.add_argument("--honours", help="fields that the function looks at, with commas: h0,norm; '' for none")
    judge.add_argument("--known-limits", metavar="FILE", help="a table of the form of data/known_limits.tsv")
    judge.add_argument("--name", help="what the verdicts call it; default: the function's own name")
    judge.add_argument("--baseline", metavar="FILE", help="what --json wrote on another day: no error may have grown")
    judge.add_argument("--growth", type=float, default=2.5,
                       help="with --baseline: an error may be this many times the stored one (default: 2.5)")
    judge.add_argument("--markdown", metavar="FILE", help="write what is told as Markdown, with a table of the verdicts")
    judge.add_argument("--json", metavar="FILE", help="write the verdicts, as --baseline takes them")
    return made


def find_function(named):
    module_name, colon, name = named.partition(":")
    if not (module_name and colon and name):
        raise Refused(f"{named!r}: expected MODULE:FUNCTION, as my_kernels:gated_delta")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module_name)
    except Exception as error:  # whatever importing somebody's module raises
        from .turns import first_line
        raise Refused(f"{named}: {module_name} cannot be imported: {first_line(error)}") from None
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise Refused(f"{named}: {module_name} has no function {name}")
    return found


def require_device(device, arrays):
    """Of JAX and CuPy what is missing is said by themselves."""
    if device.partition(":")[0] == "cuda" and arrays in (None, "torch"):
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            raise Refused(f"device: {device!r} has arrays of PyTorch, which is not installed here", DEVICE) from None
        if not torch.cuda.is_available():
            raise Refused(f"device: {device!r}, and PyTorch finds no CUDA device", DEVICE)


def cut(text):
    """The lines that fit: a comment of a pull request takes 65536 characters, and several devices may share one."""
    lines, length = text.strip().split("\n"), 0
    for number, line in enumerate(lines):
        length += len(line) + 1
        if length > LONGEST_PART:
            return "\n".join([*lines[:number], "", f"and {len(lines) - number} lines more, which --json keeps"])
    return "\n".join(lines)


def markdown(verdicts, worse, device):
    """For the summary of a job, or a comment: the counts, what is wrong, and a table folded away."""
    title = verdicts[0].name if verdicts else "nothing"
    parts = [f"### `{title}` on {device}: {'passed' if verdicts.passed and not worse else 'FAILED'}",
             verdicts.text().splitlines()[-1]]
    wrong = type(verdicts)(each for each in verdicts if not each.ok)
    if wrong:
        parts.append(cut(wrong.markdown()))
    if worse:
        parts.append("Worse than the baseline:\n\n" + cut("\n".join(f"- {line}" for line in worse)))
    parts.append(f"<details><summary>Every case</summary>\n\n{cut(verdicts.markdown())}\n\n</details>")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def judge(options):
    from gdnbench_library import GdnbenchError

    from . import stored_verdicts
    from .judging import judge as judged
    if not options.growth >= 1:
        raise Refused(f"--growth: {options.growth:g}, expected a number of at least 1")
    for path in filter(None, (options.markdown, options.json)):
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise Refused(f"{path}: its folder is not there")
    require_device(options.device, options.arrays)
    function = find_function(options.function)
    honours = None if options.honours is None else [field for field in options.honours.split(",") if field]
    try:
        stored = stored_verdicts.read(options.baseline) if options.baseline else None
        verdicts = judged(function, options.suite, device=options.device, arrays_of=options.arrays, honours=honours,
                          operation=None if options.operation == "all" else options.operation,
                          convention=options.convention, known_limits=options.known_limits, name=options.name)
    except OSError as error:
        raise Refused(f"{error.filename or 'gdnbench'}: {error.strerror or error}") from None
    except (GdnbenchError, ValueError, ImportError) as error:
        raise Refused(str(error)) from None
    try:
        worse = [] if stored is None else stored_verdicts.worse(verdicts, stored, options.growth)
    except ValueError as error:
        raise Refused(f"{options.baseline}: {error}") from None
    finally:  # what was found is kept, whatever the baseline is
        try:
            if options.json:
                stored_verdicts.write(options.json, verdicts, options.device)
        except OSError as error:
            raise Refused(f"{options.json}: {error.strerror}") from None
    try:
        if options.markdown:
            stored_verdicts.write_whole(options.markdown, markdown(verdicts, worse, options.device))
    except OSError as error:
        raise Refused(f"{options.markdown}: {error.strerror}") from None
    print(verdicts)
    for line in worse:
        print(f"WORSE {line}")
    return 0 if verdicts.passed and not worse else 1


def include():
    from .program import headers
    folder = headers()
    if folder is None:
        raise Refused("these modules were not installed; the headers are those of the sources, harness/c_library/gdnbench.h "
                      "and impls/plugin/gdnbench_plugin.h")
    print(folder)
    return 0


def main(arguments=None):
    options = parser().parse_args(arguments)
    try:
        return include() if options.command == "include" else judge(options)
    except Refused as error:
        print(f"gdnbench {options.command}: {error}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main())

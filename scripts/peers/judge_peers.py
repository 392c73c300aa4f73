#!/usr/bin/env python3
"""Judges functions of other libraries (judged_peers.py) by this project's suites, as gdnbench.judge() judges a user's
kernel: the float64 reference, limits that follow from a case's inputs. Needs NumPy and PyTorch, the library, and the
libraries that are judged; a GPU with --device cuda.

    scripts/peers/judge_peers.py --device cuda --jobs 12 --out results.jsonl          # all of them, suite quick
    scripts/peers/judge_peers.py --device cuda --suite full,stress --sample 200 --peer FLA --out results.jsonl --resume
    scripts/peers/judge_peers.py --store results.jsonl      # into data/peers/suites.tsv and docs/peers_under_suites.md,
                                                            # beside what is stored of functions that it does not name
    scripts/peers/judge_peers.py --tables                   # the page alone, from the stored file

Every function has its share of the cases wherever the run ends. A case is one that the function's arguments can express, and whose reference the host evaluates well within
--case-seconds; the others are not counted. Each result is in the file as its case ends. Cases run in processes apart, so that
one that dies or does not end in --case-seconds takes no other with it.

Outcomes: passed; wrong, an output is further off than its limit; not finite, where the reference is; ended badly, the
process died, or the card was in an error afterwards; refused, the function raised. Exit 0: whatever was found; 2: nothing
was run, and why.
"""
import argparse
import collections
import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import math
import os
import pathlib
import random
import re
import sys
import time

os.environ.setdefault("FLA_FLASH_QLA", "0")  # FLA's own kernels, not FlashQLA's, which it hands over to if it is there
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import case_processes  # noqa: E402: found by the line above
import case_results  # noqa: E402
from gdnbench_library import GdnbenchError  # noqa: E402
from judged_peers import PEERS  # noqa: E402

STORED = HERE.parents[1] / "data/peers/suites.tsv"
PAGE = HERE.parents[1] / "docs/peers_under_suites.md"
BEGIN, END = "<!-- Written by scripts/peers/judge_peers.py. -->", "<!-- End of what the script writes. -->"
MOST_ELEMENTS = 2**28  # of queries, keys and values, or of a convolution's inputs
OUTCOMES = ("passed", "wrong", "not finite", "ended badly", "refused")


def chosen_problems(peer, suites):
    """Problems that the function's arguments may express, each once: those of the suites, and the peer's own beside
    them."""
    from gdnbench.judged_case import cases
    found = {}
    for problem in [*(case.problem for suite in suites for case in cases(suite, peer.operation)), *peer.further]:
        problem = expressible(peer, problem)
        if problem is not None:
            found[problem] = None
    return list(found)


def elements_of(fields):
    """Of all tokens; "1x70+3x1" is a batch's lengths."""
    tokens = sum(int(count or 1) * int(length) for count, _, length in
                 (part.rpartition("x") for part in fields["seq"].split("+")))
    key_heads, value_heads = map(int, fields["heads"].split("/"))
    key_dim, _, value_dim = fields["dim"].partition("x")
    channels = fields.get("channels", "")  # a word where heads and dims say how many
    return tokens * (int(channels) if channels.isdigit() else
                     2 * key_heads * int(key_dim) + value_heads * int(value_dim or key_dim))


def expressible(peer, problem):
    """The problem as the function is asked it, or None."""
    from gdnbench.calls import library
    fields = library().fields(problem)
    if peer.holds_states_as_tokens and fields["state"] != fields["dtype"]:
        problem += f",state={fields['dtype']}" if ",state=" not in problem else ""
    try:
        library().require_honoured(problem, peer.honours)
    except GdnbenchError as error:
        if error.status != "unsupported":
            raise
        return None
    fields = library().fields(problem)
    known = all(fields[need.partition("=")[0]] == need.partition("=")[2] for need in peer.needs)
    return problem if known and elements_of(fields) <= MOST_ELEMENTS else None


def name_of(place, problem):
    """A result's name; the function comes last (case_results.py)."""
    return f"{PEERS[place].library}:{problem}:{PEERS[place].name}"


def _first_configurations():
    """Triton's autotuners take a kernel's first configuration: which is quickest is no matter here."""
    import triton
    begin = triton.runtime.autotuner.Autotuner.__init__

    def first(self, fn, arg_names, configs, *others, **named):
        begin(self, fn, arg_names, configs[:1], *others, **named)
    triton.runtime.autotuner.Autotuner.__init__ = first


@functools.lru_cache(maxsize=None)
def _function(place, device):
    if device != "cpu" and PEERS[place].library == "FLA":
        _first_configurations()
    return PEERS[place].load()


def judge_one(item, device, arrays_of=None):
    """(name, outcome, reason, seconds) of a case, whatever it does. Beside OUTCOMES it may be "not expressible", where the
    arguments cannot say the case after all, and "no function", where the library is not installed."""
    place, problem = item
    began = time.monotonic()
    outcome, reason = _outcome(place, problem, device, arrays_of)
    return name_of(place, problem), outcome, reason, round(time.monotonic() - began, 3)


def _outcome(place, problem, device, arrays_of):
    from gdnbench import arrays
    from gdnbench.judged_case import case
    from gdnbench.turns import first_line
    peer, of = PEERS[place], case(problem)
    try:
        function = _function(place, device)
    except ImportError as error:
        return "no function", first_line(error)
    inputs = of.inputs(arrays_of, device)
    try:
        returned = peer.call(function, inputs)
        if device != "cpu":
            import torch
            torch.cuda.synchronize()
    except NotImplementedError as error:
        # Its own words where the library says so itself.
        return ("refused", first_line(error)) if _raised_within(error, peer) else ("not expressible", first_line(error))
    except Exception as error:  # noqa: BLE001: whatever somebody's function raises
        return ("ended badly" if _of_card(error) else "refused"), first_line(error)
    try:
        passed, reason, _, errors = of.judge(returned)
    except arrays.ArrayError as error:
        return "wrong", str(error)
    if passed:
        return "passed", f"{max((error.limit_ratio for error in errors), default=0):.2g} of the limit"
    return ("not finite" if any(error.non_finite for error in errors) else "wrong"), reason


def _raised_within(error, peer):
    """Whether the exception comes from the library's own modules."""
    trace, package = error.__traceback__, peer.function.partition(".")[0].partition(":")[0]
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] == package:
            return True
        trace = trace.tb_next
    return False


def _of_card(error):
    """Whether a call behind this one may fail of it."""
    return any(word in str(error) for word in ("CUDA error", "CUDA_ERROR", "illegal memory", "unspecified launch"))


def _serve(pipe, device, arrays_of):
    case_processes.serve(pipe, functools.partial(judge_one, device=device, arrays_of=arrays_of))


def run(items, jobs, deadline, case_seconds, device, arrays_of=None):
    """Results as they end."""
    return case_processes.run(
        items, functools.partial(_serve, device=device, arrays_of=arrays_of),
        lambda item, why, seconds: (name_of(*item), "ended badly", why, seconds),
        lambda result: result[1] == "ended badly", jobs, deadline, case_seconds)


def fair_order(chosen, sample, seed):
    """(place, problem), interleaved so that wherever a run ends each function has had its share."""
    placed = []
    for place, problems in chosen.items():
        drawn = random.Random(f"{seed} {place}").sample(problems, min(sample or len(problems), len(problems)))
        placed += [(number / len(drawn), place, problem) for number, problem in enumerate(drawn)]
    return [(place, problem) for _, place, problem in sorted(placed)]


# ---- what is stored, and the page

@dataclasses.dataclass(frozen=True)
class Line:
    """What `cases` cases of one function have in common. Example and reason are of the case that is furthest off, or
    nearest to its limit where all passed."""
    library: str
    version: str
    operation: str
    function: str
    tokens: str  # their element type; empty for refusals
    outcome: str
    cases: int
    reason: str
    example: str

    @property
    def function_key(self):
        return self.library, self.operation, self.function


def parts_of(name):
    """(library, problem, function)."""
    library, _, rest = name.partition(":")
    problem, _, function = rest.rpartition(":")
    return library, problem, function


def _in_limits(reason):
    """How many times its limit the error is that a reason names; infinity where it is not finite."""
    found = re.search(r"([\d.e+-]+|inf|nan) of the limit|relative L2 error ([\d.e+-]+|inf|nan) .*limit ([\d.e+-]+)", reason)
    if found is None:
        return math.inf
    share = float(found[1]) if found[1] else float(found[2]) / float(found[3])
    return share if math.isfinite(share) else math.inf


def stored_lines(head, results):
    """Lines of results: refusals by their reason, the others by the tokens' element type."""
    groups = collections.defaultdict(list)
    for name, outcome, reason, _ in results:
        library, problem, function = parts_of(name)
        if outcome not in OUTCOMES:
            continue
        told = case_results.reason_of(reason) if outcome == "refused" else ""
        tokens = "" if outcome == "refused" else re.search(r"dtype=(\w+)", problem)[1]
        groups[library, problem.partition(":")[0], function, tokens, outcome, told].append((problem, reason))
    lines = []
    for (library, operation, function, tokens, outcome, told), found in groups.items():
        problem, reason = min(found, key=lambda each: (-_in_limits(each[1]), len(each[0]), each[0]))
        lines.append(Line(library, head["versions"].get(library, ""), operation, function, tokens, outcome, len(found),
                          (told or reason).replace("\t", " "), problem))
    return in_order(lines)


def in_order(lines):
    order = {peer.library: place for place, peer in reversed(list(enumerate(PEERS)))}
    return sorted(lines, key=lambda line: (order[line.library], line.operation, line.function,
                                           OUTCOMES.index(line.outcome), line.tokens, -line.cases, line.reason))


def joined_head(head, stored, path):
    """The head of lines of which some were there before, in the file `path`, whose head reads `stored`."""
    before = dict(part.split(": ", 1) for part in stored.split("; "))
    if before["device"] != head["device"]:
        raise case_results.Unreadable(f"{path.name}: has results of {before['device']}, expected {head['device']}, of "
                                      "which the others are; store results of every function, or remove it")
    days = sorted({*before["date"].split(" to "), head["date"]})
    suites = dict.fromkeys([*before["suites"].split(","), *head["suites"].split(",")])
    return {"device": head["device"], "date": " to ".join(dict.fromkeys((days[0], days[-1]))), "suites": ",".join(suites)}


def write(head, lines, path=STORED):
    names = [field.name for field in dataclasses.fields(Line)]
    rows = ["# " + "; ".join(f"{key}: {head[key]}" for key in ("device", "date", "suites")), "\t".join(names)]
    rows += ["\t".join(map(str, dataclasses.astuple(line))) for line in lines]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def read(path=STORED):
    """(the words of its head, Lines)."""
    head, _, *rows = path.read_text(encoding="utf-8").splitlines()
    cells = [row.split("\t") for row in rows]
    return head.removeprefix("# "), [Line(*row[:6], int(row[6]), *row[7:]) for row in cells]


def _table(head, rows, numbers=()):
    rule = "|".join("--:" if name in numbers else ":--" for name in head)
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|",
                      *(f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |" for row in rows)])


def tables(head, lines):
    """Markdown: counts by function, then what was not passed."""
    counted = collections.defaultdict(collections.Counter)
    for line in lines:
        counted[line.library, line.version, line.operation, line.function][line.outcome] += line.cases
    rows = [(f"{library} {version}".strip(), f"`{operation}`", f"`{function}`", sum(counts.values()),
             *(counts[outcome] for outcome in OUTCOMES))
            for (library, version, operation, function), counts in counted.items()]
    parts = [head + ".", "", "## By function", "",
             _table(("library", "operation", "function", "cases", *OUTCOMES), rows, ("cases", *OUTCOMES))]
    wrong = [(line.library, f"`{line.function}`", line.tokens, line.outcome, line.cases, line.reason, f"`{line.example}`")
             for line in lines if line.outcome in ("wrong", "not finite", "ended badly")]
    refused = [(line.library, f"`{line.function}`", line.cases, line.reason, f"`{line.example}`")
               for line in lines if line.outcome == "refused"]
    for title, names, told in (
            ("## What was not right", ("library", "function", "tokens", "outcome", "cases", "the furthest off", "which"), wrong),
            ("## What was refused", ("library", "function", "cases", "reason", "one of them"), refused)):
        parts += ["", title, "", _table(names, told, ("cases",)) if told else "Nothing."]
    return "\n".join(parts)


def page_with(text, head, lines):
    """The page's text with the tables of these lines."""
    begun, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise case_results.Unreadable(f"{PAGE.name}: expected '{BEGIN}' and '{END}' around its tables")
    return f"{begun}{BEGIN}\n\n{tables(head, lines)}\n\n{END}{tail}"


def write_page():
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), *read()), encoding="utf-8")


# ---- the command

def head_of(asked, chosen):
    """The head of a file of results."""
    versions = {}
    for peer in PEERS:
        try:
            versions[peer.library] = importlib.metadata.version(peer.distribution)
        except importlib.metadata.PackageNotFoundError:
            # Sources that lie in the path say it themselves.
            with contextlib.suppress(Exception):
                module = importlib.import_module(peer.function.partition(".")[0].partition(":")[0])
                versions[peer.library] = module.__version__
    device = "CPU"
    if asked.device != "cpu":
        import torch
        device = torch.cuda.get_device_name()
    counts = collections.Counter()
    for place, problems in chosen.items():
        counts[PEERS[place].library] += len(problems)
    return {"cases": counts, "suites": asked.suite, "device": device, "versions": versions}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--peer", default="", help="functions of this library alone")
    parser.add_argument("--function", default="", help="functions whose name has this in it")
    parser.add_argument("--suite", default="quick", help="suites, with commas (default: quick)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--arrays", help="numpy in the place of torch, on the CPU")
    parser.add_argument("--sample", type=int, help="so many cases of each function, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=0, help="begin no case after so many (0: no limit)")
    parser.add_argument("--case-seconds", type=float, default=120, help="end a case that takes longer")
    parser.add_argument("--out", metavar="FILE", help="a line for each result, as its case ends")
    parser.add_argument("--resume", action="store_true", help="go on with that file")
    parser.add_argument("--store", metavar="FILE", nargs="+", help="results to be stored, and the page written")
    parser.add_argument("--tables", action="store_true", help="write the page from what is stored")
    asked = parser.parse_args(arguments)
    try:
        if asked.store:
            store(asked.store)
        if asked.tables or asked.store:
            write_page()
            return 0
        return judge(asked, parser)
    except (OSError, GdnbenchError, case_results.Unreadable) as error:
        print(f"judge_peers: {error}", file=sys.stderr)
        return 2


def store(files, path=STORED):
    told, kept = read(path) if path.exists() else ("", [])
    head, results = {}, {}
    for file in files:
        of_file, found = case_results.read(file, (*OUTCOMES, "not expressible", "no function"))
        day = time.strftime("%Y-%m-%d", time.gmtime(os.path.getmtime(file)))
        head = {**of_file, "date": max(day, head.get("date", "")),
                "versions": {**head.get("versions", {}), **of_file["versions"]},
                "suites": ",".join(dict.fromkeys(f"{head.get('suites', '')},{of_file['suites']}".strip(",").split(",")))}
        results |= {result[0]: result for result in found}
    lines = stored_lines(head, list(results.values()))
    functions = {line.function_key for line in lines}
    kept = [line for line in kept if line.function_key not in functions]
    write(joined_head(head, told, path) if kept else head, in_order([*kept, *lines]), path)


def judge(asked, parser):
    if not asked.out:
        parser.error("expected --out FILE, where results are written")
    deadline = time.monotonic() + (asked.seconds or math.inf)
    chosen = {place: chosen_problems(peer, asked.suite.split(",")) for place, peer in enumerate(PEERS)
              if asked.peer.lower() in ("", peer.library.lower()) and asked.function in peer.name}
    chosen = {place: problems for place, problems in chosen.items() if problems}
    if not chosen:
        raise case_results.Unreadable(f"no case of --suite {asked.suite} for such a function")
    file, results = case_results.begin(asked.out, head_of(asked, chosen), asked.resume,
                                       (*OUTCOMES, "not expressible", "no function"))
    known = {name for name, *_ in results}
    order = [item for item in fair_order(chosen, asked.sample, asked.seed) if name_of(*item) not in known]
    with file:
        for result in run(order, max(1, asked.jobs), deadline, asked.case_seconds, asked.device, asked.arrays):
            case_results.append(file, result)
            results.append(result)
    counts = collections.Counter((parts_of(name)[0], parts_of(name)[2], outcome) for name, outcome, *_ in results)
    for (library, function, outcome), count in sorted(counts.items()):
        print(f"{library}  {function}  {outcome}  {count}")
    left = len(order) + len(known) - len(results)
    if left:
        print(f"{left} cases were not reached")
    return 0


if __name__ == "__main__":
    sys.exit(main())

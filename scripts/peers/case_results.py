"""The file of results that run_cases.py writes and write_gpu_record.py counts. Needs no package.

Its lines are JSON. The first one, the head, says how many cases of each peer there are, the hash of what they and the
functions that they call are (source_hash.py), and how they are run; those that a run leaves out are among them. Each
further line is a case that was run: [name, outcome, detail, seconds]. It is written as the case ends, so that a run that
is killed loses none; of a line that was cut in the middle nothing is kept.
"""
import collections
import json
import os
import pathlib
import re

OUTCOMES = ("passed", "planned", "failed", "refused", "no function")
CONVERTED = "converted "  # how the detail of a case begins that passed and had operands converted


class Unreadable(Exception):
    """What is wrong with a file, in one line."""


def read(path, outcomes=OUTCOMES):
    """(head, results); (None, []) of a file that was cut before its head was whole."""
    try:
        lines = pathlib.Path(path).read_bytes().decode().split("\n")[:-1]
        head, *results = [json.loads(line) for line in lines] or [None]
        left = collections.Counter(head["cases"] if head else {})
        left.subtract(peer_and_function(name)[0] for name, *_ in results)
        unknown = {outcome for _, outcome, _, _ in results} - set(outcomes)
    except (ValueError, TypeError, KeyError) as error:
        raise Unreadable(f"{path}: {error!r}; expected what run_cases.py --json-lines writes") from None
    if unknown:
        raise Unreadable(f"{path}: outcome {', '.join(map(repr, unknown))}; expected one of {', '.join(outcomes)}")
    names = [name for name, *_ in results]
    if len(set(names)) < len(names) or any(count < 0 for count in left.values()):
        raise Unreadable(f"{path}: a case is named twice, or is none of the head's; expected each once")
    return head, results


def begin(path, head, resume, outcomes=OUTCOMES):
    """(the file, open for further results, the results that it has already)."""
    path = pathlib.Path(path)
    known, results = read(path, outcomes) if resume and path.exists() else (None, [])
    if known not in (None, head):
        changed = ", ".join(key for key in head if known.get(key) != head[key])
        raise Unreadable(f"{path}: was begun with other {changed}; remove it, or name another file")
    if known:
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        return path.open("a", encoding="utf-8"), results
    file = path.open("w", encoding="utf-8")
    append(file, head)
    return file, []


def append(file, value):
    file.write(json.dumps(value) + "\n")
    file.flush()


def peer_and_function(name):
    """Of a case's name."""
    return name.partition(":")[0], name.rpartition(":")[2]


def reason_of(detail):
    """A refusal without what differs from case to case."""
    return re.sub(r"\[[\d, ]+\]", "[...]", detail.partition("\n")[0].partition(" (")[0])[:160]


def failure_line(result):
    """A line that names the case."""
    name, _, detail, _ = result
    detail = detail.partition("\n")[0]
    return detail if detail.startswith(name) else f"{name}: {detail}"


def refusals(results):
    """Counter of (peer, function, reason)."""
    return collections.Counter((*peer_and_function(name), reason_of(detail))
                               for name, outcome, detail, _ in results if outcome == "refused")


def counts(cases, results):
    """What became of so many cases, of which these were run: the others were not reached. Those that are converted have
    passed, too."""
    outcomes = collections.Counter(outcome for _, outcome, _, _ in results)
    converted = sum(outcome == "passed" and detail.startswith(CONVERTED) for _, outcome, detail, _ in results)
    return {"cases": cases, "passed": outcomes["passed"], "converted": converted, "failed": outcomes["failed"],
            "refused": outcomes["refused"], "no_function": outcomes["no function"],
            "not_reached": cases - len(results)}


def counts_by_peer(head, results):
    found = collections.defaultdict(list)
    for result in results:
        found[peer_and_function(result[0])[0]].append(result)
    return {peer: counts(cases, found[peer]) for peer, cases in head["cases"].items()}

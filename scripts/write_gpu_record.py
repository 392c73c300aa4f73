#!/usr/bin/env python3
"""Write data/gpu-record.json from what the steps of scripts/gpu-check.sh left in a folder.

    scripts/write_gpu_record.py FOLDER RECORD TEST_RESULT...
    scripts/write_gpu_record.py --add FOLDER RECORD
    gdnbench info --json | scripts/write_gpu_record.py --origin KERNELS_SHA256 HARNESS_SHA256

TEST_RESULT: the JSON file in FOLDER of each shard of each test program. Each of them, and the result of
every step but stress, full and peers, must be there: a crashed shard leaves none, and a record of a partial check is
refused. Results (a problem and an implementation) that a shard cut by a time limit did not reach are
counted in it. FOLDER/origin is what --origin printed: sources and card of its results; FOLDER/STEP.date the day of
each step. --add: the record stays, which must be of the same kernel sources, and takes the suites that FOLDER has, and
the peers' cases; each says where, when and with which harness it was run.
"""
import collections
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "peers"))
import case_results  # noqa: E402: found by the line above

SANITIZERS = ("memcheck", "racecheck", "synccheck")  # of compute-sanitizer
METRICS = ("floor_ratio", "limit_ratio")  # of an output's errors; null where one does not say anything
# And their steps; a record may lack all but the first. "drawn" are problems that nobody wrote.
SUITES = (("gpu", "verify"), ("stress", "stress"), ("drawn", "fuzz"), ("full", "full"))
NAMED_FAILURES = 40  # of the peers' cases; all are counted
AS_GPU_CHECK = {"device": "cuda", "plan_only": False, "strict": False}  # how run_cases.py must have run


def outcomes_of(paths):
    """(suite.test, "passed", "failed" or "skipped") of GoogleTest's JSON files."""
    for suite in (s for path in paths for s in json.loads(path.read_text())["testsuites"]):
        for test in suite["testsuite"]:
            outcome = "failed" if test.get("failures") else "skipped" if test.get("result") == "SKIPPED" else "passed"
            yield f"{suite['name']}.{test['name']}", outcome


def count_tests(paths, again):
    """`again`: of files with tests that were run once more, those count that failed before, and are named."""
    outcomes, later = list(outcomes_of(paths)), dict(outcomes_of(again))
    mended = [name for name, outcome in outcomes if outcome == "failed" and name in later]
    outcomes = [(name, later[name] if name in mended else outcome) for name, outcome in outcomes]
    counts = {kind: sum(outcome == kind for _, outcome in outcomes) for kind in ("passed", "failed", "skipped")}
    return {**counts, "failures": [name for name, outcome in outcomes if outcome == "failed"], "run_again": mended}


def count_verdicts(path):
    counts = {"passed": 0, "failed": 0, "unsupported": 0, "known limit": 0, "too large": 0}
    failures = []
    worst = {}
    problems, implementations = set(), set()
    merged = json.loads(path.read_text())
    for result in merged["results"]:
        counts[result["verdict"]] += 1
        implementations.add(result["implementation"])
        if result["verdict"] == "failed":
            failures.append(f"{result['implementation']} {result['problem']}: {result['reason']}")
        if result["verdict"] in ("unsupported", "too large"):
            continue
        problems.add(result["problem"])
        dtype = next(part[6:] for part in result["problem"].split(",") if part.startswith("dtype="))
        entry = worst.setdefault(f"{result['implementation']} {dtype}", {})
        for operand, errors in result["errors"].items():
            for metric in METRICS:
                if errors[metric] is not None:
                    key = f"{operand}_{metric}"
                    entry[key] = round(max(entry.get(key, 0.0), errors[metric]), 4)
    return {"implementations": sorted(implementations), "problems": len(problems),
            "not_reached": merged["not_reached"], **counts}, failures, worst


def print_origin(kernels, harness):
    info = json.load(sys.stdin)
    cuda = next((b for b in info["backends"] if b["backend"] == "cuda"), {})
    if not cuda.get("available"):
        sys.exit(f"write_gpu_record: no CUDA device here: {cuda.get('detail')}")
    print(json.dumps({"kernels_sha256": kernels, "harness_sha256": harness,
                      **{key: cuda[key] for key in ("device", "driver", "toolkit")}}))


def origin_of(folder):
    """Kernel sources of the results in a folder; the rest of its file `origin`."""
    if not (folder / "origin").exists():
        sys.exit(f"write_gpu_record: {folder} lacks the file origin; run a step of gpu-check.sh with a GPU first")
    origin = json.loads((folder / "origin").read_text())
    return origin.pop("kernels_sha256"), origin


def date_of(folder, *steps):
    """The last day of these steps."""
    return max((folder / f"{step}.date").read_text().strip() for step in steps)


def suites_of(folder, origin):
    """{suite: implementations, counts, failures, worst errors} of those suites that were run."""
    found = {}
    for suite, step in SUITES:
        if (folder / f"{step}.json").exists():
            counts, failures, worst = count_verdicts(folder / f"{step}.json")
            found[suite] = {**counts, **origin, "date": date_of(folder, step), "failures": failures, "worst": worst}
    return found


def peers_of(folder, origin):
    """What came of the peers' cases, in all and by peer; or why they were not run; or nothing."""
    path, reason = folder / "peers.jsonl", folder / "peers.not_run"
    if not path.exists():
        if not reason.exists() and (folder / "peers.date").exists():
            sys.exit(f"write_gpu_record: {folder} lacks peers.jsonl; run the step peers again")
        return {"not_run": reason.read_text().strip()} if reason.exists() else {}
    try:
        head, results = case_results.read(path)
    except case_results.Unreadable as error:
        sys.exit(f"write_gpu_record: {error}")
    if head is None:
        sys.exit(f"write_gpu_record: {path} was cut before it began; run the step peers again")
    if any(head.get(key) != value for key, value in AS_GPU_CHECK.items()):
        sys.exit(f"write_gpu_record: {path} is of another kind of run, expected one of {AS_GPU_CHECK}")
    by_peer = case_results.counts_by_peer(head, results)
    total = sum(map(collections.Counter, by_peer.values()), collections.Counter())
    refusals = case_results.refusals(results)
    failures = [case_results.failure_line(result) for result in sorted(results) if result[1] == "failed"]
    return {**{key: total[key] for key in next(iter(by_peer.values()))}, "by_peer": by_peer,
            "refused_because": {" ".join(key): count for key, count in sorted(refusals.items())},
            "failures": failures[:NAMED_FAILURES], "cases_sha256": head["cases_sha256"], **origin,
            "date": date_of(folder, "peers")}


def write(path, kernels, origin, tests, suites, sanitizer, peers):
    counted = [tests, *suites.values(), *([peers] if "cases" in peers else [])]
    not_reached = sum(part.get("not_reached", 0) for part in counted)
    dirty = [tool for tool, result in sanitizer.items() if result.split(" (")[0] != "clean"]
    json.dump({
        "kernels_sha256": kernels,
        **origin,
        "passed": sum(part["passed"] for part in counted),
        "failed": sum(part["failed"] for part in counted) + len(dirty),
        "not_reached": not_reached,
        "tests": tests,
        "compute_sanitizer": sanitizer,
        "suites": suites,
        **({"peers": peers} if peers else {}),
        "pending": "",
    }, open(path, "w"), indent=1)
    for name, suite in suites.items():
        print(f"{path}: suite {name}: {suite['passed']} passed, {suite['failed']} failed, "
              f"{suite['known limit']} known limits, {suite['not_reached']} not reached")
    if "cases" in peers:
        print(f"{path}: peers: {peers['cases']} cases, {peers['passed']} passed ({peers['converted']} converted), "
              f"{peers['failed']} failed, {peers['refused']} refused, {peers['no_function']} without a function, "
              f"{peers['not_reached']} not reached")
    else:
        print(f"{path}: peers: not run: {peers.get('not_run', 'the step was not asked for')}")
    print(f"{path}: tests: {tests['passed']} passed, {tests['failed']} failed; {sanitizer}")
    if not_reached:
        print(f"{path}: {not_reached} results were not reached: this is the record of a part")


def main(folder, record, *test_results):
    folder = pathlib.Path(folder)
    needed = [*test_results, "verify.json", *SANITIZERS]
    missing = [name for name in needed if not (folder / name).exists()]
    if missing:
        sys.exit(f"write_gpu_record: {folder} lacks {', '.join(missing)}; run those steps first")
    kernels, origin = origin_of(folder)
    tests = count_tests([folder / name for name in test_results], sorted(folder.glob("*_tests.again.json")))
    suites = suites_of(folder, origin)
    peers = peers_of(folder, origin)
    sanitizer = {tool: (folder / tool).read_text().strip() for tool in SANITIZERS}
    origin["date"] = date_of(folder, "tests", "sanitizer")
    write(record, kernels, origin, tests, suites, sanitizer, peers)


def add(folder, record):
    folder, path = pathlib.Path(folder), pathlib.Path(record)
    if not path.exists():
        sys.exit(f"write_gpu_record: {path} is missing; make it by a whole gpu-check.sh first")
    before = json.loads(path.read_text())
    kernels, origin = origin_of(folder)
    if before["kernels_sha256"] != kernels:
        sys.exit(f"write_gpu_record: {path} speaks of other kernel sources than {folder}; run the whole gpu-check.sh")
    suites = suites_of(folder, origin)
    peers, known = peers_of(folder, origin), before.get("peers", {})
    if not suites and not peers:
        sys.exit(f"write_gpu_record: {folder} has none of verify.json, stress.json, full.json and peers.jsonl; run one "
                 "of those steps first")
    if "cases" in known:
        if peers.get("not_reached", 0) > known["not_reached"]:
            sys.exit(f"write_gpu_record: peers in {folder} reached less than the record has; finish the step first")
        peers = peers if "cases" in peers else known
    for name, suite in suites.items():
        earlier = before["suites"].get(name, suite)
        if suite["not_reached"] > earlier["not_reached"]:
            sys.exit(f"write_gpu_record: suite {name} in {folder} reached less than the record has; finish it first")
        lacking = set(earlier.get("implementations", [])) - set(suite["implementations"])
        if lacking:
            sys.exit(f"write_gpu_record: suite {name} in {folder} lacks {', '.join(sorted(lacking))}, which the record "
                     "has; run it without --only")
    own = {key: before[key] for key in (*origin, "date")}
    write(record, kernels, own, before["tests"], {**before["suites"], **suites}, before["compute_sanitizer"],
          peers or known)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--add":
        add(*sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "--origin":
        print_origin(*sys.argv[2:])
    elif len(sys.argv) > 3 and not sys.argv[1].startswith("--"):
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)

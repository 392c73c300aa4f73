#!/usr/bin/env python3
"""Write data/gpu-record.json from what the steps of scripts/gpu-check.sh left in a folder.

    scripts/write_gpu_record.py FOLDER RECORD TEST_RESULT...
    scripts/write_gpu_record.py --add FOLDER RECORD
    gdnbench info --json | scripts/write_gpu_record.py --origin KERNELS_SHA256 HARNESS_SHA256

TEST_RESULT: the JSON file in FOLDER of each shard of each test program. Each of them, and the result of
every step but stress and full, must be there: a crashed shard leaves none, and a record of a partial check is
refused. Results (a problem and an implementation) that a shard cut by a time limit did not reach are
counted in it. FOLDER/origin is what --origin printed: sources and card of its results; FOLDER/STEP.date the day of
each step. --add: the record stays, which must be of the same kernel sources, and takes the suites stress and full
that FOLDER has; each suite says where, when and with which harness it was run.
"""
import json
import pathlib
import sys

SANITIZERS = ("memcheck", "racecheck", "synccheck")  # of compute-sanitizer
METRICS = ("floor_ratio", "limit_ratio")  # of an output's errors; null where one does not say anything
ADDED = (("stress", "stress"), ("full", "full"))  # suites that a record may be without, and their steps


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


def suites_of(folder, suites, origin):
    """{suite: implementations, counts, failures, worst errors} of those suites that were run; (suite, step)s."""
    found = {}
    for suite, step in suites:
        if (folder / f"{step}.json").exists():
            counts, failures, worst = count_verdicts(folder / f"{step}.json")
            found[suite] = {**counts, **origin, "date": date_of(folder, step), "failures": failures, "worst": worst}
    return found


def write(path, kernels, origin, tests, suites, sanitizer):
    not_reached = sum(suite["not_reached"] for suite in suites.values())
    dirty = [tool for tool, result in sanitizer.items() if result.split(" (")[0] != "clean"]
    json.dump({
        "kernels_sha256": kernels,
        **origin,
        "passed": tests["passed"] + sum(suite["passed"] for suite in suites.values()),
        "failed": tests["failed"] + sum(suite["failed"] for suite in suites.values()) + len(dirty),
        "not_reached": not_reached,
        "tests": tests,
        "compute_sanitizer": sanitizer,
        "suites": suites,
        "pending": "",
    }, open(path, "w"), indent=1)
    for name, suite in suites.items():
        print(f"{path}: suite {name}: {suite['passed']} passed, {suite['failed']} failed, "
              f"{suite['known limit']} known limits, {suite['not_reached']} not reached")
    print(f"{path}: tests: {tests['passed']} passed, {tests['failed']} failed; {sanitizer}")
    if not_reached:
        print(f"{path}: {not_reached} results were not reached: this is the record of a part")


def main(folder, record, *test_results):
    folder = pathlib.Path(folder)
    needed = [*test_results, "verify.json", *SANITIZERS, "table.md"]
    missing = [name for name in needed if not (folder / name).exists()]
    if missing:
        sys.exit(f"write_gpu_record: {folder} lacks {', '.join(missing)}; run those steps first")
    kernels, origin = origin_of(folder)
    tests = count_tests([folder / name for name in test_results], sorted(folder.glob("*_tests.again.json")))
    suites = suites_of(folder, (("gpu", "verify"), *ADDED), origin)
    sanitizer = {tool: (folder / tool).read_text().strip() for tool in SANITIZERS}
    origin["date"] = date_of(folder, "tests", "sanitizer", "table")
    write(record, kernels, origin, tests, suites, sanitizer)


def add(folder, record):
    folder, path = pathlib.Path(folder), pathlib.Path(record)
    if not path.exists():
        sys.exit(f"write_gpu_record: {path} is missing; make it by a whole gpu-check.sh first")
    before = json.loads(path.read_text())
    kernels, origin = origin_of(folder)
    if before["kernels_sha256"] != kernels:
        sys.exit(f"write_gpu_record: {path} speaks of other kernel sources than {folder}; run the whole gpu-check.sh")
    suites = suites_of(folder, ADDED, origin)
    if not suites:
        sys.exit(f"write_gpu_record: {folder} has neither stress.json nor full.json; run one of those steps first")
    for name, suite in suites.items():
        known = before["suites"].get(name, suite)
        if suite["not_reached"] > known["not_reached"]:
            sys.exit(f"write_gpu_record: suite {name} in {folder} reached less than the record has; finish it first")
        lacking = set(known.get("implementations", [])) - set(suite["implementations"])
        if lacking:
            sys.exit(f"write_gpu_record: suite {name} in {folder} lacks {', '.join(sorted(lacking))}, which the record "
                     "has; run it without --only")
    own = {key: before[key] for key in (*origin, "date")}
    write(record, kernels, own, before["tests"], {**before["suites"], **suites}, before["compute_sanitizer"])


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--add":
        add(*sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "--origin":
        print_origin(*sys.argv[2:])
    elif len(sys.argv) > 3 and not sys.argv[1].startswith("--"):
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)

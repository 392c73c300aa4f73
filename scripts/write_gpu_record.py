#!/usr/bin/env python3
"""Write data/gpu-record.json from what the steps of scripts/gpu-check.sh left in a folder.

    scripts/write_gpu_record.py FOLDER RECORD TEST_RESULT...
    scripts/write_gpu_record.py --add FOLDER RECORD

TEST_RESULT: the JSON file in FOLDER of each shard of each test program. Each of them, and the result of
every step but stress and full, must be there: a crashed shard leaves none, and a record of a partial check is
refused. Results (a problem and an implementation) that a shard cut by a time limit did not reach are
counted in it. FOLDER says of itself: device.json, what `gdnbench info --json` said there; sources, the hashes
of kernels and harness; date. --add: the record stays, which must be of the same kernel sources, and takes the
suites stress and full that FOLDER has; each suite says where, when and with which harness it was run.
"""
import datetime
import json
import pathlib
import sys

SANITIZERS = ("memcheck", "racecheck", "synccheck")  # of compute-sanitizer
ADDED = (("stress", "stress.json"), ("full", "full.json"))  # suites that a record may be without


def count_tests(paths):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failures = []
    for suite in (s for path in paths for s in json.loads(path.read_text())["testsuites"]):
        for test in suite["testsuite"]:
            if test.get("failures"):
                counts["failed"] += 1
                failures.append(f"{suite['name']}.{test['name']}")
            elif test.get("result") == "SKIPPED":
                counts["skipped"] += 1
            else:
                counts["passed"] += 1
    return counts, failures


def count_verdicts(path):
    counts = {"passed": 0, "failed": 0, "unsupported": 0, "known limit": 0, "too large": 0}
    failures = []
    worst = {}
    problems = set()
    merged = json.loads(path.read_text())
    for result in merged["results"]:
        counts[result["verdict"]] += 1
        if result["verdict"] == "failed":
            failures.append(f"{result['implementation']} {result['problem']}: {result['reason']}")
        if result["verdict"] in ("unsupported", "too large"):
            continue
        problems.add(result["problem"])
        dtype = next(part[6:] for part in result["problem"].split(",") if part.startswith("dtype="))
        entry = worst.setdefault(f"{result['implementation']} {dtype}",
                                 {"output_floor_ratio": 0.0, "output_error_over_limit": 0.0,
                                  "state_error_over_limit": 0.0})
        for key, value in (
                ("output_floor_ratio", result["output"]["floor_ratio"]),
                ("output_error_over_limit", ratio(result["output"], result["output_limit"])),
                ("state_error_over_limit", ratio(result["state"], result["state_limit"]))):
            if value is not None:
                entry[key] = round(max(entry[key], value), 4)
    return {"problems": len(problems), "not_reached": merged["not_reached"], **counts}, failures, worst


def ratio(tensor, limit):
    error = tensor["relative_l2"]
    return error / limit if error is not None and limit else None


def origin_of(folder):
    """Kernel sources of the results in a folder; where, when and with which harness they were made."""
    missing = [name for name in ("device.json", "sources", "date") if not (folder / name).exists()]
    if missing:
        sys.exit(f"write_gpu_record: {folder} lacks {', '.join(missing)}; run a step of gpu-check.sh with a GPU first")
    info = json.loads((folder / "device.json").read_text())
    cuda = next((b for b in info["backends"] if b["backend"] == "cuda"), {})
    if not cuda.get("available"):
        sys.exit(f"write_gpu_record: {folder}/device.json has no CUDA device: {cuda.get('detail')}")
    kernels, harness = (folder / "sources").read_text().split()
    return kernels, {"harness_sha256": harness, **{key: cuda[key] for key in ("device", "driver", "toolkit")},
                     "date": (folder / "date").read_text().strip()}


def suites_of(folder, suites, origin):
    """{suite: counts, failures and worst errors} of those suites that were run."""
    found = {}
    for suite, file in suites:
        if (folder / file).exists():
            counts, failures, worst = count_verdicts(folder / file)
            found[suite] = {**counts, **origin, "failures": failures, "worst": worst}
    return found


def write(path, kernels, origin, tests, suites, sanitizer):
    not_reached = sum(suite["not_reached"] for suite in suites.values())
    dirty = [tool for tool, result in sanitizer.items() if result != "clean"]
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
    tests, failures = count_tests([folder / name for name in test_results])
    suites = suites_of(folder, (("gpu", "verify.json"), *ADDED), origin)
    sanitizer = {tool: (folder / tool).read_text().strip() for tool in SANITIZERS}
    write(record, kernels, origin, {**tests, "failures": failures}, suites, sanitizer)


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
    write(record, kernels, {key: before[key] for key in origin}, before["tests"], {**before["suites"], **suites},
          before["compute_sanitizer"])


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--add":
        add(*sys.argv[2:])
    elif len(sys.argv) > 3 and sys.argv[1] != "--add":
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)

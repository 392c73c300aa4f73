#!/usr/bin/env python3
"""Write data/gpu-record.json from what the steps of scripts/gpu-check.sh left in a folder.

    scripts/write_gpu_record.py FOLDER GDNBENCH RECORD KERNELS_SHA256 HARNESS_SHA256 TEST_RESULT...

TEST_RESULT: the JSON file in FOLDER of each shard of each test program. Each of them, and the result of
every step but stress and full, must be there: a crashed shard leaves none, and a record of a partial check is
refused. Results (a problem and an implementation) that a shard cut by a time limit did not reach are
counted in it.
"""
import datetime
import json
import pathlib
import subprocess
import sys

SANITIZERS = ("memcheck", "racecheck", "synccheck")  # of compute-sanitizer


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


def main(folder, gdnbench, record, kernels, harness, *test_results):
    folder = pathlib.Path(folder)
    needed = [*test_results, "verify.json", *SANITIZERS, "table.md"]
    missing = [name for name in needed if not (folder / name).exists()]
    if missing:
        sys.exit(f"write_gpu_record: {folder} lacks {', '.join(missing)}; run those steps first")
    info = json.loads(subprocess.run([gdnbench, "info", "--json"], check=True,
                                     capture_output=True, text=True).stdout)
    cuda = next((b for b in info["backends"] if b["backend"] == "cuda"), {})
    if not cuda.get("available"):
        sys.exit(f"write_gpu_record: no CUDA device here: {cuda.get('detail')}")
    tests, test_failures = count_tests([folder / name for name in test_results])
    suites = {}
    suite_failures = []
    worst = {}
    for suite, file in (("gpu", "verify.json"), ("stress", "stress.json"), ("full", "full.json")):
        if not (folder / file).exists():  # stress and full may be left out; the record then does not name them
            continue
        suites[suite], failures, worst[suite] = count_verdicts(folder / file)
        suite_failures += failures
    sanitizer = {tool: (folder / tool).read_text().strip() for tool in SANITIZERS}
    not_reached = sum(suite["not_reached"] for suite in suites.values())
    dirty = [tool for tool, result in sanitizer.items() if result != "clean"]
    json.dump({
        "kernels_sha256": kernels,
        "harness_sha256": harness,
        "device": cuda["device"],
        "driver": cuda["driver"],
        "toolkit": cuda["toolkit"],
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "passed": tests["passed"] + sum(suite["passed"] for suite in suites.values()),
        "failed": tests["failed"] + sum(suite["failed"] for suite in suites.values()) + len(dirty),
        "not_reached": not_reached,
        "tests": tests,
        "suites": suites,
        "compute_sanitizer": sanitizer,
        "failures": test_failures + suite_failures,
        "worst": worst,
        "pending": "",
    }, open(record, "w"), indent=1)
    print(f"{record}: {tests} tests, {suites}, {sanitizer}")
    if not_reached:
        print(f"{record}: {not_reached} results were not reached: this is the record of a part")


if __name__ == "__main__":
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    main(*sys.argv[1:])

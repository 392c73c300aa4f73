#!/usr/bin/env bash
# Says whether data/gpu-record.json speaks of the kernel sources at hand. Fails when a kernel source differs from the
# recorded ones, or when the record says of them that something failed or was not reached, and the record is not marked
# "pending" with a reason.
set -euo pipefail
cd "$(dirname "$0")/.."
record=data/gpu-record.json
if [ ! -f "$record" ]; then
  echo "GPU record: $record is missing; run scripts/gpu-check.sh on a GPU machine" >&2
  exit 1
fi
kernels=$(scripts/source_hash.sh kernels)
harness=$(scripts/source_hash.sh harness)
cases=$(scripts/source_hash.sh peers)
python3 - "$record" "$kernels" "$harness" "$cases" <<'P'
import json
import sys

record = json.load(open(sys.argv[1]))
kernels, harness, cases = sys.argv[2:]
peers = record.get("peers", {"not_run": "the record says nothing of them"})
parts = {"tests": record, "compute-sanitizer": record, **record["suites"]}
of_results = f"tests, compute-sanitizer, the suites {', '.join(record['suites'])}"
if "cases" in peers:
    parts["peers"] = peers
    of_results += ", the peers' cases"


def whose(part):
    return f"{part['device']}, driver {part['driver']}, {part['date']}"


where = whose(record)
elsewhere = [f"{name} on {whose(suite)}" for name, suite in parts.items() if whose(suite) != where]
checked = record["suites"]["gpu"].get("implementations", [])
partial = [f"{name} of {len(suite['implementations'])} of {len(checked)} implementations"
           for name, suite in record["suites"].items() if set(suite.get("implementations", checked)) < set(checked)]
sanitized = {result[result.find("("):].strip("()") for result in record["compute_sanitizer"].values() if "(" in result}
partial += [f"compute-sanitizer of {names}" for names in sorted(sanitized)]
not_reached = record.get("not_reached", 0)
counts = f"{record['passed']} passed, {record['failed']} failed ({of_results})"
if elsewhere:
    counts += "; of these " + ", ".join(elsewhere)
if partial:
    counts += "; " + ", ".join(partial)
if not_reached:
    counts += f", {not_reached} results not reached"
reason = record.get("pending", "")
if record["kernels_sha256"] == kernels:
    older = [name for name, part in parts.items() if part["harness_sha256"] != harness]
    same = "" if older else "and harness "
    print(f"GPU record: the kernel {same}sources at hand were checked on {where}: {counts}")
    if same == "":
        print(f"GPU record: the harness changed since these were run: {', '.join(older)}")
    if "cases" not in peers:
        print(f"GPU record: the peers' cases were not run: {peers['not_run']}")
    elif peers["cases_sha256"] != cases:
        print("GPU record: the peers' cases, or the functions that they call, changed since they were run")
    if not record["failed"] and not not_reached:
        sys.exit(0)
    if reason:
        print(f"GPU record: marked pending: {reason}")
        sys.exit(0)
    sys.exit(1)
print(f"GPU record: kernel sources changed since the check on {where} ({counts})")
if reason:
    print(f"GPU record: marked pending: {reason}")
    sys.exit(0)
print("GPU record: stale, and not marked pending; run scripts/gpu-check.sh on a GPU machine",
      file=sys.stderr)
sys.exit(1)
P

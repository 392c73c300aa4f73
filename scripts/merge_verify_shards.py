#!/usr/bin/env python3
"""Join what the shards of one `gdnbench verify --json-lines` printed, shards that were cut included.

    scripts/merge_verify_shards.py MERGED PART...

A part's first line says how many problems and results the shard has ahead of it; each further line is a
result. A last line cut in the middle is left out. MERGED holds the results, and how many problems lack some
of theirs ("not_reached"): nobody reading it can take a cut run for a whole one.
"""
import json
import pathlib
import sys


def read_part(path):
    """(problems ahead, results ahead, results)"""
    lines = []
    for text in path.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break  # cut while it was written
    if not lines or "results_ahead" not in lines[0]:
        sys.exit(f"merge_verify_shards: {path} does not say how many problems its shard has: it was cut before it "
                 "began, so that the whole cannot be told from a part; run the step again")
    return lines[0]["problems_ahead"], lines[0]["results_ahead"], lines[1:]


def main(merged, parts):
    whole = {"shards": len(parts), "cut_shards": 0, "problems": 0, "not_reached": 0, "results": []}
    for part in parts:
        problems, ahead, results = read_part(pathlib.Path(part))
        reached = len({result["problem"] for result in results})
        if len(results) < ahead:
            # The results of a problem follow one another: the last one may lack some.
            reached = max(0, reached - 1)
            whole["cut_shards"] += 1
        whole["problems"] += problems
        whole["not_reached"] += problems - reached
        whole["results"] += results
    pathlib.Path(merged).write_text(json.dumps(whole))
    print(f"{merged}: {len(whole['results'])} results of {whole['problems']} problems, {whole['not_reached']} not "
          f"reached ({whole['cut_shards']} of {whole['shards']} shards were cut)")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])

#!/usr/bin/env python3
"""Join what the shards of one `gdnbench verify --json-lines` printed, shards that were cut included.

    scripts/merge_verify_shards.py MERGED PART... [--again PART...]

A part's first line says how many results the shard has ahead of it, one per problem and implementation;
each further line is one of them. A last line cut in the middle is left out. MERGED holds the results, and
how many were not reached: nobody reading it can take a cut run for a whole one. Parts after --again are
runs of some problems by name: of their results those count that no shard reached. They are refused where no
shard has a result of the problem and one of the implementation: the suite may not have them.
"""
import json
import pathlib
import sys


def fail(message):
    sys.exit(f"merge_verify_shards: {message}")


def read_part(path):
    """(results ahead, results)"""
    try:
        texts = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: {getattr(error, 'strerror', None) or 'is not text'}; expected what verify --json-lines printed")
    lines = []
    for text in texts:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break  # cut while it was written
    if any(not isinstance(line, dict) for line in lines):
        fail(f"{path}: a line is no JSON object; expected what verify --json-lines printed")
    if not lines or not isinstance(lines[0].get("results_ahead"), int):
        fail(f"{path} does not say how many results its shard has ahead: it was cut before it began, so that the whole "
             "cannot be told from a part; run the step again" + (", or remove the file" if path.suffix == ".again" else ""))
    for result in lines[1:]:
        if missing := {"problem", "implementation", "verdict"} - set(result):
            fail(f"{path}: a result without {', '.join(sorted(missing))}")
    return lines[0]["results_ahead"], lines[1:]


def name(result):
    return result["problem"], result["implementation"]


def main(merged, parts, again=()):
    if len({pathlib.Path(part).resolve() for part in parts}) < len(parts):
        fail("a part is named twice")
    whole = {"shards": len(parts), "cut_shards": 0, "not_reached": 0, "results": []}
    for part in parts:
        ahead, results = read_part(pathlib.Path(part))
        whole["cut_shards"] += len(results) < ahead
        whole["not_reached"] += ahead - len(results)
        whole["results"] += results
    reached = {name(result) for result in whole["results"]}
    problems, implementations = {each for each, _ in reached}, {each for _, each in reached}
    for part in again:
        for result in read_part(pathlib.Path(part))[1]:
            if result["problem"] not in problems or result["implementation"] not in implementations:
                fail(f"{part}: {result['implementation']} on {result['problem']}: no shard has a result of this "
                     "problem, or of this implementation; is it of another suite?")
            if name(result) in reached or whole["not_reached"] == 0:
                continue
            reached.add(name(result))
            whole["results"].append(result)
            whole["not_reached"] -= 1
    try:
        pathlib.Path(merged).write_text(json.dumps(whole))
    except OSError as error:
        fail(f"{merged}: {error.strerror}")
    print(f"{merged}: {len(whole['results'])} results, {whole['not_reached']} not reached "
          f"({whole['cut_shards']} of {whole['shards']} shards were cut)")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    arguments = sys.argv[2:]
    shards = arguments.index("--again") if "--again" in arguments else len(arguments)
    main(sys.argv[1], arguments[:shards], arguments[shards + 1:])

#!/usr/bin/env python3
"""Calls the functions of scripts/gdnbench/ with the peers' cases, as the peers call their own, and judges the outputs by
the peers' tolerances against the float64 oracle. Ends with a Markdown table by peer and function. Needs NumPy; PyTorch
with --device cuda.

    scripts/peers/run_cases.py --peer fla --function chunk_kda --sample 20 --seed 1
    scripts/peers/run_cases.py --plan-only --jobs 2          # plans every case and runs none
    scripts/peers/run_cases.py --device cuda --jobs 14 --seconds 500 --json-lines FILE --resume

Every function has its share of the cases wherever the run ends, in an order that the seed says. With --json-lines each
result is in the file as its case ends (case_results.py), and with --resume those that the file has are not run again.
A refusal counts as not run. A case whose process dies has failed. `--strict` refuses what the library would convert,
too. Exit 1: a case failed; 2: nothing was run, and why.
"""
import argparse
import collections
import functools
import math
import pathlib
import random
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from cases import judge, oracle, peers, tensors  # noqa: E402: found by the line above
import case_processes  # noqa: E402
import case_results  # noqa: E402
from case_results import OUTCOMES, reason_of  # noqa: E402
import gdnbench  # noqa: E402
from gdnbench import calls  # noqa: E402
from gdnbench_library import GdnbenchError  # noqa: E402
import source_hash  # noqa: E402
from thin_functions import FUNCTIONS  # noqa: E402

EVERY = list(peers.cases())


def on_device(tensor, device):
    """The tensor where the call finds it: numpy memory on the CPU, a PyTorch tensor of the same strides on a card."""
    if device == "cpu":
        return tensor
    import torch
    host = tensor.to_torch()
    span = 1 + sum((n - 1) * stride for n, stride in zip(host.shape, host.stride())) if host.numel() else 0
    flat = host.as_strided((span,), (1,)).to(device)
    return flat.as_strided(host.shape, host.stride())


def numbers(tensor):
    """The elements of an output in float64."""
    if hasattr(tensor, "to_float64"):
        return tensor.to_float64()
    return tensor.double().cpu().numpy()


def call(case, made):
    """Outputs by name, as tensors."""
    function, returned = FUNCTIONS[case.peer, case.function]
    options = {name: made[value[1:]] if isinstance(value, str) and value.startswith("=") else value
               for name, value in case.options.items()}
    result = function(**made, **options)
    result = result if isinstance(result, tuple) else (result,)
    got = {name: tensor for name, tensor in zip(returned, result) if tensor is not None}
    return {**made, **got}


def run_case(case, device="cpu", plan_only=False):
    """(outcome, detail)."""
    if (case.peer, case.function) not in FUNCTIONS:
        return "no function", ""
    made = tensors.make_tensors(case, drawn=not plan_only)
    held = {name: on_device(tensor, device) for name, tensor in made.items()}
    expected = None if plan_only else oracle.expected(case, made)
    calls.plan_only = plan_only
    try:
        outputs = call(case, held)
    except GdnbenchError as error:
        return ("refused" if error.status == "unsupported" else "failed"), str(error)
    if plan_only:
        return "planned", ""
    got = {compare.output: numbers(outputs[compare.output]) for compare in case.compares}
    lines = judge.failures(case, got, expected)
    return ("failed", "; ".join(lines)) if lines else ("passed", "")


def converted_operands():
    """Names of the operands that the latest call had converted."""
    words = calls.latest.info["conversions"] if calls.latest else ""
    return sorted({each.partition(":")[0] for each in words.split("; ")}) if words else []


def _work(index, how):
    """The result of a case, whatever it does."""
    case = EVERY[index]
    start = time.monotonic()
    calls.latest, gdnbench.strict = None, how["strict"]
    try:
        outcome, detail = run_case(case, how["device"], how["plan_only"])
        if outcome == "passed" and (operands := converted_operands()):
            detail = case_results.CONVERTED + ", ".join(operands)
    except Exception as error:  # noqa: BLE001: a failure of one case is reported, and the others run
        outcome, detail = "failed", f"{case.name}: {type(error).__name__}: {error}"
    if len(calls._plans) > 8:
        calls.forget()
    return case.name, outcome, detail, round(time.monotonic() - start, 3)


def _serve(pipe, how):
    case_processes.serve(pipe, functools.partial(_work, how=how))


def run(indices, how, jobs, deadline=math.inf):
    """The results of these cases as they end, of which none is begun after the deadline."""
    return case_processes.run(indices, functools.partial(_serve, how=how),
                              lambda index, why, seconds: (EVERY[index].name, "failed", why, seconds),
                              lambda result: result[1] == "failed", jobs, deadline)


def fair_order(chosen, sample, seed):
    """Cases of each function, drawn by the seed, and then interleaved: first one of each function, and wherever a run
    ends, of each its share."""
    placed = []
    for key, found in chosen.items():
        drawn = random.Random(f"{seed} {key}").sample(found, min(sample or len(found), len(found)))
        placed += [(place / len(drawn), index) for place, index in enumerate(drawn)]
    return [index for _, index in sorted(placed)]


def table(results):
    """Markdown by peer and function; then what was refused by reason and what failed."""
    by_function = collections.defaultdict(collections.Counter)
    for name, outcome, _, _ in results:
        by_function[case_results.peer_and_function(name)][outcome] += 1
    lines = ["| peer | function | cases | " + " | ".join(OUTCOMES) + " |", "|:--|:--|--:" + "|--:" * len(OUTCOMES) + "|"]
    for (peer, function), counts in sorted(by_function.items()):
        lines.append(f"| {peer} | {function} | {sum(counts.values())} | "
                     + " | ".join(str(counts[outcome]) for outcome in OUTCOMES) + " |")
    reasons = case_results.refusals(results)
    if reasons:
        lines += ["", "| peer | function | refused because | cases |", "|:--|:--|:--|--:|"]
        lines += [f"| {peer} | {function} | {reason} | {count} |"
                  for (peer, function, reason), count in sorted(reasons.items())]
    failed = ["- " + case_results.failure_line(result) for result in results if result[1] == "failed"]
    return "\n".join(lines + ([""] + failed[:40] if failed else []))


def whole_number(text):
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}', expected a whole number")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peer")
    parser.add_argument("--function")
    parser.add_argument("--named", default="", help="cases whose name has this in it")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sample", type=int, help="so many cases of each function, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, help="no case with more elements of tensors")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=whole_number, default=0, help="begin no case after so many (0: no limit)")
    parser.add_argument("--plan-only", action="store_true", help="plan and do not run")
    parser.add_argument("--strict", action="store_true", help="refuse what would be converted")
    parser.add_argument("--json-lines", metavar="FILE", help="a line for each result, as its case ends")
    parser.add_argument("--resume", action="store_true", help="go on with that file")
    asked = parser.parse_args()
    if asked.resume and not asked.json_lines:
        parser.error("--resume goes on with a file; expected --json-lines FILE")
    deadline = time.monotonic() + (asked.seconds or math.inf)
    chosen = collections.defaultdict(list)
    for index, case in enumerate(EVERY):
        size = sum(int(np.prod(spec.shape)) for spec in case.tensors.values())
        if asked.peer in (None, case.peer) and asked.function in (None, case.function) and asked.named in case.name and (
                asked.largest is None or size <= asked.largest):
            chosen[case.peer, case.function].append(index)
    how = {"device": asked.device, "plan_only": asked.plan_only, "strict": asked.strict}
    head = {"cases": collections.Counter(case.peer for case in EVERY),
            "cases_sha256": source_hash.hash_of(HERE.parents[1], "peers"), **how}
    try:
        calls.library()
        if not chosen:
            raise case_results.Unreadable("no case of that peer and function")
        file, results = None, []
        if asked.json_lines:
            file, results = case_results.begin(asked.json_lines, head, asked.resume)
    except (OSError, GdnbenchError, case_results.Unreadable) as error:
        print(f"run_cases: {error}", file=sys.stderr)
        sys.exit(2)
    known = {name for name, *_ in results}
    left = [index for index in fair_order(chosen, asked.sample, asked.seed) if EVERY[index].name not in known]
    before = len(results)
    for result in run(left, how, max(1, asked.jobs), deadline):
        results.append([*result])
        if file:
            case_results.append(file, result)
    results.sort()
    print(table(results))
    not_reached = len(left) - (len(results) - before)
    if not_reached:
        print(f"\n{not_reached} cases were not reached in {asked.seconds} seconds")
    sys.exit(any(result[1] == "failed" for result in results))


if __name__ == "__main__":
    main()

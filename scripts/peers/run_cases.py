#!/usr/bin/env python3
"""Calls the functions of scripts/gdnbench/ with the peers' cases, as the peers call their own, and judges the outputs by
the peers' tolerances against the float64 oracle. Ends with a Markdown table by peer and function. Needs NumPy; PyTorch
with --device cuda.

    scripts/peers/run_cases.py --peer fla --function chunk_kda --sample 20 --seed 1
    scripts/peers/run_cases.py --plan-only --jobs 2          # plans every case and runs none

A refusal counts as not run. `--strict` refuses what the library would convert, too.
"""
import argparse
import collections
import json
import multiprocessing
import pathlib
import random
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from cases import judge, oracle, peers, tensors  # noqa: E402: found by the line above
import gdnbench  # noqa: E402
from gdnbench import calls  # noqa: E402
from gdnbench_library import GdnbenchError  # noqa: E402
from thin_functions import FUNCTIONS  # noqa: E402

OUTCOMES = ("passed", "planned", "failed", "refused", "no function")


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


def _work(task):
    index, device, plan_only, gdnbench.strict = task
    case = EVERY[index]
    start = time.time()
    try:
        outcome, detail = run_case(case, device, plan_only)
    except Exception as error:  # noqa: BLE001: a failure of one case is reported, and the others run
        outcome, detail = "failed", f"{case.name}: {type(error).__name__}: {error}"
    if len(calls._plans) > 8:
        calls.forget()
    return index, outcome, detail, time.time() - start


EVERY = list(peers.cases())


def table(results):
    """Markdown by peer and function; then what was refused by reason and what failed."""
    by_function = collections.defaultdict(collections.Counter)
    reasons, failed = collections.Counter(), []
    for index, outcome, detail, _ in results:
        case = EVERY[index]
        by_function[case.peer, case.function][outcome] += 1
        if outcome == "refused":
            reasons[case.peer, case.function, reason_of(detail)] += 1
        if outcome == "failed":
            failed.append("- " + (detail if detail.startswith(case.name) else f"{case.name}: {detail}"))
    lines = ["| peer | function | cases | " + " | ".join(OUTCOMES) + " |", "|:--|:--|--:" + "|--:" * len(OUTCOMES) + "|"]
    for (peer, function), counts in sorted(by_function.items()):
        lines.append(f"| {peer} | {function} | {sum(counts.values())} | "
                     + " | ".join(str(counts[outcome]) for outcome in OUTCOMES) + " |")
    if reasons:
        lines += ["", "| peer | function | refused because | cases |", "|:--|:--|:--|--:|"]
        lines += [f"| {peer} | {function} | {reason} | {count} |"
                  for (peer, function, reason), count in sorted(reasons.items())]
    return "\n".join(lines + ([""] + failed[:40] if failed else []))


def reason_of(detail):
    """A refusal without what differs from case to case."""
    return detail.partition("\n")[0].partition(" (")[0][:160]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peer")
    parser.add_argument("--function")
    parser.add_argument("--named", default="", help="cases whose name has this in it")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--sample", type=int, help="so many cases of each function, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, help="no case with more elements of tensors")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--plan-only", action="store_true", help="plan and do not run")
    parser.add_argument("--strict", action="store_true", help="refuse what would be converted")
    parser.add_argument("--json", help="results in a file, a list of [case, outcome, detail, seconds]")
    asked = parser.parse_args()
    try:
        calls.library()
    except (OSError, GdnbenchError) as error:
        sys.exit(f"run_cases: {error}")
    chosen = collections.defaultdict(list)
    for index, case in enumerate(EVERY):
        size = sum(int(np.prod(spec.shape)) for spec in case.tensors.values())
        if asked.peer in (None, case.peer) and asked.function in (None, case.function) and asked.named in case.name and (
                asked.largest is None or size <= asked.largest):
            chosen[case.peer, case.function].append(index)
    if not chosen:
        sys.exit("run_cases: no case of that peer and function")
    if asked.sample:
        draw = random.Random(asked.seed)
        chosen = {key: draw.sample(found, min(asked.sample, len(found))) for key, found in chosen.items()}
    tasks = [(index, asked.device, asked.plan_only, asked.strict) for found in chosen.values() for index in found]
    if asked.jobs > 1:
        # Workers begin anew: a card's context does not survive a fork.
        with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
            results = list(pool.imap_unordered(_work, tasks, 4))
    else:
        results = [_work(task) for task in tasks]
    results.sort()
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump([[EVERY[index].name, *rest] for index, *rest in results], file, indent=0)
    print(table(results))
    sys.exit(any(result[1] == "failed" for result in results))


if __name__ == "__main__":
    main()

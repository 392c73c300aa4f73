#!/usr/bin/env python3
"""Times the commits of a model's layers by one launch, beside a launch for each layer. Needs PyTorch and the library.

    scripts/peers/time_commits.py [--layers N] [--sequences N,..] [--tokens N] [--state TYPE] [--layout kv|vk]
                                  [--implementation NAME] [--runs N] [--device cuda|cpu]

A row is a number of sequences; its two ways are timed in turns, as timing.py says: a graph of all layers' commits, with
a cold L2. What was verified once is committed again and again, which costs what it costs the first time. On the CPU,
where plans come in turn, both ways are the same work by the clock.
"""
import argparse
import pathlib
import statistics
import sys
import time

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent), str(pathlib.Path(__file__).resolve().parent)]
import gdnbench_torch as gdn  # noqa: E402: found by the line above
from operand_tensors import dense  # noqa: E402

PROBLEM = "gated_delta_verify:heads=16/32,dim=128,seq={}x{},dtype=bf16,state={},layout={},h0=normal"


def verified_layers(problem, sequences, tokens, layers, implementation, device):
    """Plans that have verified a draft each, of which the layers accept the same tokens."""
    accepted = torch.arange(sequences, device=device) % (tokens + 1)
    plans = []
    for _ in range(layers):
        tensors = dense(problem, device, given=("accepted",))
        plans.append(gdn.Plan(problem, tensors | {"accepted": accepted}, implementation))
        plans[-1].run_phase("verify")
    return plans


def each(plans):
    for plan in plans:
        plan.run_phase("commit")


class Call:
    """As timing.capture() takes it."""

    def __init__(self, run):
        self.run = run

    def prepare(self):
        self.run()


def times_on_card(ways, runs):
    import timing  # it needs a card
    launches = {}
    for name, run in ways.items():
        launch, _, how, why = timing.capture(Call(run))
        if how != "graph":
            sys.exit(f"{name}: cannot be captured in a graph: {why}")
        launches[name] = (lambda: None, launch)
    return timing.time_in_turns(launches, runs)


def times_on_cpu(ways, runs):
    times = {name: [] for name in ways}
    for _ in range(runs):
        for name, run in ways.items():
            begin = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--sequences", default="1,2,4,8,16,32,64")
    parser.add_argument("--tokens", type=int, default=4, help="of each draft")
    parser.add_argument("--state", default="f32", choices=("f32", "bf16", "f16"))
    parser.add_argument("--layout", default="vk", choices=("kv", "vk"))
    parser.add_argument("--implementation", help="as `gdnbench list` names it; the best there is")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args()
    print("| sequences | implementation | launches | each layer | together | ratio |\n|--:|:--|--:|--:|--:|--:|")
    for sequences in (int(number) for number in options.sequences.split(",")):
        problem = PROBLEM.format(sequences, options.tokens, options.state, options.layout)

        def measured():
            plans = verified_layers(problem, sequences, options.tokens, options.layers, options.implementation,
                                    options.device)
            group = gdn.PlanGroup(plans, "commit")
            ways = {"each": lambda: each(plans), "together": group.run}
            times = (times_on_card if options.device == "cuda" else times_on_cpu)(ways, options.runs)
            return plans[0].implementation, group.info["launches"], times

        if options.device == "cuda":
            with torch.cuda.stream(torch.cuda.Stream()):  # the default stream cannot be captured
                name, launches, times = measured()
        else:
            name, launches, times = measured()
        apart, together = (1e3 * statistics.median(times[way]) for way in ("each", "together"))
        print(f"| {sequences} | {name} | {launches or 'in turn'} | {apart:.1f} us | {together:.1f} us "
              f"| {apart / together:.2f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times what a server does between prompts, beside other libraries' kernels: steps of one token, drafts, convolutions,
layers. Needs a CUDA device, PyTorch, the library, and whichever peers are there (README.md).

    scripts/peers/time_serving.py [--only WORD] [--runs N] [--out ROWS.csv]

A row is a problem: everyone on the same tensors, judged against float64 before and after it is timed, timed in turns as
timing.py says, a CUDA graph each. Bytes are what the problem must move: each operand that is read and each that is
written, once. Beside the time stands what it is of a copy of as many bytes, timed in the same run: above 1 is faster than
that. Kernels of a peer are counted by PyTorch's profiler, this project's by its plan. Of drafts a run has several steps,
as many as FlashInfer's ring takes from one fold into the state to the next, and a row's time is of one step; the ring's
other steps write no state.
"""
import argparse
import csv
import pathlib
import sys

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent), str(pathlib.Path(__file__).resolve().parent)]
import gdnbench_torch as gdn  # noqa: E402: found by the line above
import serving_contenders as who  # noqa: E402
from contenders import Call  # noqa: E402
from inputs import DEVICE  # noqa: E402
from operand_tensors import dense, lengths_of, offsets_of  # noqa: E402
from serving_reference import expected  # noqa: E402
from timing import capture, first_line, summary, time_in_turns  # noqa: E402

LIMIT = 0.02  # relative error of a whole output, at which a contender is not timed
GATES = "gate=logits,beta=logit,logits=token,norm=1,layout=vk,h0=normal"
DECODE = f"gated_delta:heads=16/32,dim=128,seq={{}}x1,dtype=bf16,state={{}},{GATES}"
DRAFTS = f"gated_delta_verify:heads=16/32,dim=128,seq={{}}x4,dtype=bf16,state=bf16,{GATES}"
CONVOLUTION = "causal_conv1d:channels=8192,seq={},dtype=bf16"
RAGGED = "8192+1000+3000+5000+100+7000+476+8000"
LAYER = f"gated_delta_layer:heads=16/32,dim=128,seq={{}},dtype=bf16,window=none,{GATES.replace(',layout=vk', '')}"
CYCLE = 5  # steps of four tokens until FlashInfer's ring of 16 is folded


def rows():
    """(problem, contenders by name, steps in a run)."""
    for state in ("f32", "bf16"):
        for sequences in (1, 16, 128, 512):
            peers = {"FlashInfer": who.decode_flashinfer}
            if state == "f32":
                peers["FLA"] = who.decode_fla
            yield DECODE.format(sequences, state), peers, 1
    for sequences in (16, 128):
        yield DRAFTS.format(sequences), {"FlashInfer, its ring": who.drafts_ucache(CYCLE)}, CYCLE
    for seq in ("1x32768", RAGGED):
        yield (CONVOLUTION.format(seq) + ",window=none",
               {"FLA": who.convolution_fla, "causal-conv1d": who.convolution_causal_conv1d}, 1)
    for sequences in (1, 16, 128, 512):
        yield (CONVOLUTION.format(f"{sequences}x1") + ",state=bf16",
               {"FLA": who.convolution_step_fla, "causal-conv1d": who.convolution_step_causal_conv1d}, 1)
    for seq in ("4x8192", "1x32768"):
        yield LAYER.format(seq), {"causal-conv1d, FlashInfer": who.layer_of_peers}, 1
    for sequences in (1, 64, 128):
        yield (f"gated_delta_layer:heads=16/32,dim=128,seq={sequences}x1,dtype=bf16,state=bf16,{GATES}",
               {"causal-conv1d, FlashInfer": who.layer_step_of_peers}, 1)


def bytes_of(problem):
    """Every operand of tokens, pools and parameters once in each direction that it goes."""
    return sum(operand.bytes_moved for operand in gdn.operands(problem, offsets_of(lengths_of(problem))))


def steps_in_turn(make, steps):
    """As many calls in one run as the contenders' runs have steps."""
    def of(tensors):
        call = make(tensors)

        def run():
            for _ in range(steps - 1):
                call.run()
            return call.run()
        return Call(run if steps > 1 else call.run, prepare=call.prepare, choice=call.choice, close=call.close)
    return of


def error_of(outputs, exact):
    """The largest relative error of whole outputs; NaN if any is."""
    worst = 0.0
    for name, output in outputs.items():
        if name not in exact:
            continue
        error = (torch.linalg.vector_norm(output.double() - exact[name]) / torch.linalg.vector_norm(exact[name])).item()
        worst = error if not error <= worst else worst
    return worst


def kernels_of(call):
    """How many kernels a run launches; '' where the profiler is not to be had."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            call.run()
            torch.cuda.synchronize()
        return sum(1 for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA)
    except Exception:  # noqa: BLE001 - whatever the profiler lacks, the row stands without it
        return ""


class Contender:
    """One of a row: entered, captured, checked again."""

    def __init__(self, make, tensors, exact, steps):
        self.exact, self.steps = exact, steps
        self.call = make(tensors)
        self.call.prepare()
        outputs = self.first_outputs = self.call.run()
        torch.cuda.synchronize()
        self.error = error_of(outputs, exact)
        if not self.error <= LIMIT:
            raise ArithmeticError(f"error {self.error:.3g} before timing, limit {LIMIT:g}")
        self.call.prepare()
        self.kernels = self.call.choice.rpartition(", ")[2] if self.call.choice else kernels_of(self.call)
        self.launch, self.results, self.mode, self.why = capture(self.call)

    def check_again(self):
        outputs = self.results if self.results is not None else self.first_outputs
        self.call.prepare()
        returned = self.launch()
        torch.cuda.synchronize()
        error = error_of(returned if isinstance(returned, dict) else outputs, self.exact)
        if not error <= LIMIT:
            raise ArithmeticError(f"error {error:.3g} after timing, limit {LIMIT:g}")
        self.error = max(self.error, error)


def first_step_only(exact, steps):
    """Where runs go on from their own states, the outputs of the first step alone are known."""
    return exact if steps == 1 else {name: x for name, x in exact.items() if name == "output"}


def copy_of(size):
    """A kernel that reads and writes `size` bytes together; PyTorch's own copy is a third slower."""
    source = torch.zeros(max(size // 8, 4), device=DEVICE)
    target = torch.empty_like(source)
    return Call(lambda: torch.neg(source, out=target))


def measure(problem, peers, steps, runs):
    """Lines of a row."""
    tensors = dense(problem, DEVICE, given=("accepted",))
    if problem.startswith("gated_delta_verify"):
        tensors["accepted"] = torch.tensor(lengths_of(problem), device=DEVICE)
    exact = first_step_only(expected(problem, tensors), steps)
    size = bytes_of(problem)
    copied = copy_of(size)
    copied.run()
    launches = {"copy": (copied.prepare, capture(copied)[0])}
    entered, lines = {}, []
    # The pools of ours go on from step to step, so its outputs are judged in a run of one step.
    makers = {"gdnbench": who.ours(problem)} | peers
    for name, make in makers.items():
        try:
            if name == "gdnbench" and steps > 1:
                Contender(make, tensors, exact, 1).call.close()
                entered[name] = Contender(steps_in_turn(make, steps), tensors, {}, steps)
            else:
                entered[name] = Contender(make, tensors, exact, steps)
            launches[name] = entered[name].call.prepare, entered[name].launch
        except Exception as error:  # noqa: BLE001 - a peer may raise anything
            torch.cuda.synchronize()
            lines.append({"problem": problem, "contender": name, "reason": first_line(error)})
    times = time_in_turns(launches, runs)
    copy_ms = summary(times["copy"])["time_ms"]
    for name, contender in entered.items():
        line = {"problem": problem, "contender": name, "bytes": size, "copy_us": 1e3 * copy_ms,
                "implementation": contender.call.choice.rpartition(", ")[0], "kernels": contender.kernels,
                "mode": contender.mode, "reason": contender.why}
        try:
            contender.check_again()
            time_us = 1e3 * summary(times[name])["time_ms"] / steps
            line |= {"time_us": time_us, "tb_per_s": size / time_us / 1e6, "of_copy": 1e3 * copy_ms / time_us,
                     "error": contender.error}
        except Exception as error:  # noqa: BLE001
            torch.cuda.synchronize()
            line["reason"] = first_line(error)
        lines.append(line)
        contender.call.close()
    return lines


FIELDS = ("problem", "contender", "implementation", "kernels", "time_us", "tb_per_s", "of_copy", "copy_us", "bytes", "error",
          "mode", "reason")


def described(line):
    """The line as a row of a table."""
    if "time_us" not in line:
        return f"| | {line['contender']} | | | | | | {line['reason']} |"
    eager = " eager" if line["mode"] != "graph" else ""
    return (f"| | {line['contender']} {line['implementation']} | {line['time_us']:.2f}{eager} | {line['tb_per_s']:.2f} "
            f"| {line['of_copy']:.2f} | {line['kernels']} | {line['error']:.1e} | {line['reason']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems that have this word")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--out", help="the lines as a CSV file")
    options = parser.parse_args()
    all_lines = []
    print(f"# {torch.cuda.get_device_name()}, cold L2, medians of {options.runs} runs in turns")
    print("| problem | contender | us | TB/s | of a copy | kernels | error | |\n|:--|:--|--:|--:|--:|--:|--:|:--|")
    with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
        for problem, peers, steps in rows():
            if options.only not in problem:
                continue
            lines = measure(problem, peers, steps, options.runs)
            all_lines += lines
            print(f"| `{problem}` | copy of as many bytes | {next((x['copy_us'] for x in lines if 'copy_us' in x), 0):.2f} "
                  "| | | | | |")
            for line in lines:
                print(described(line), flush=True)
            torch.cuda.empty_cache()
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(all_lines)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times kernels on tensors as their owners hold them, beside the same tensors dense: slices of a projection, gates of
16 bits, int32 indices, gaps between the rows of a pool, tokens in rows. Needs a CUDA device, PyTorch and the library.

    scripts/peers/time_forms.py [--runs N] [--only WORD]

A row is a problem and a form; both are timed in turns, as timing.py says. Its last column names what was converted,
which is nothing where the kernels take the form as it is.
"""
import argparse
import pathlib
import sys

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent), str(pathlib.Path(__file__).resolve().parent)]
import gdnbench_torch as gdn  # noqa: E402: found by the line above
from gdnbench_library import GdnbenchError  # noqa: E402
from inputs import DEVICE  # noqa: E402
from operand_tensors import dense  # noqa: E402
from timing import capture, summary, time_in_turns  # noqa: E402

PREFILL = "gated_delta:heads=16/32,dim=128,seq=4x8192,dtype=bf16,h0=normal"
LOGITS = "dtype=bf16,h0=normal,norm=1,gate=logits,beta=logit"
DECODE = "gated_delta:heads=16/32,dim=128,seq={}x1,state={},layout=vk," + LOGITS
LAYER = "gated_delta_layer:heads=16/32,dim=128,seq={}," + LOGITS
CONVOLUTION = "causal_conv1d:heads=16/32,dim=128,seq={},dtype=bf16"

GATES = ("log_decay", "decay_logit", "beta", "beta_logit")
TOKENS = ("q", "k", "v", "qkv")
POOLS = ("initial_state",)


def with_gap(tensor, dimension, gap):
    """The same values, `gap` further elements of that dimension behind each of the one before it."""
    shape = list(tensor.shape)
    shape[dimension] += gap
    wide = torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)
    view = wide.narrow(dimension, 0, tensor.shape[dimension])
    view.copy_(tensor)
    return view


def changed(names, change):
    """A form in which the tensors of these names are changed; None of a problem that has none of them."""
    def form(tensors):
        there = [name for name in names if name in tensors]
        return {**tensors, **{name: change(tensors[name]) for name in there}} if there else None
    return form


def in_rows(tensors):
    """[channels, T] as [B, channels, L] has it, the output too."""
    channels, tokens = tensors["qkv"].shape
    rows = len(tensors["sequence_offsets"]) - 1
    of_rows = tensors["qkv"].view(channels, rows, tokens // rows).transpose(0, 1).contiguous()
    return {**tensors, "qkv": of_rows.transpose(0, 1), "conv_output": torch.empty_like(of_rows).transpose(0, 1)}


FORMS = {
    "tokens are slices of a wider projection": changed(TOKENS, lambda x: with_gap(x, 1, 32 if x.dim() == 3 else 4096)),
    "gates are slices of a wider projection": changed(GATES, lambda x: with_gap(x, 1, 32)),
    "gates in the tokens' type": changed(GATES, lambda x: x.bfloat16()),
    "indices in int32": changed(("sequence_offsets", "slot_index"), lambda x: x.int()),
    "gaps between the rows of the pool": changed(POOLS, lambda x: with_gap(x, 1, 2)),
}
ROWS = [(problem, name, form) for problem in (PREFILL, DECODE.format(128, "f32"), DECODE.format(128, "bf16"),
                                              DECODE.format(1, "f32"), LAYER.format("4x8192"), LAYER.format("64x1"),
                                              CONVOLUTION.format("4x8192"), CONVOLUTION.format("128x1"))
        for name, form in FORMS.items()]
ROWS += [(CONVOLUTION.format("8x4096") + ",conv_layout=time", "tokens in rows", in_rows)]


class Call:
    """What timing.capture() takes."""

    def __init__(self, problem, tensors):
        self.plan = gdn.Plan(problem, tensors)
        self.plan.run()

    def prepare(self):
        pass

    def run(self):
        self.plan.run()


def timed(problem, form, runs):
    """(milliseconds dense, milliseconds in the form, the plan of the form); None of a form that the problem has not."""
    tensors = dense(problem, DEVICE)
    held = form(tensors)
    if held is None:
        return None
    calls = {"dense": Call(problem, {name: x.clone() for name, x in tensors.items()}), "held": Call(problem, held)}
    launches = {name: (call.prepare, capture(call)[0]) for name, call in calls.items()}
    times = time_in_turns(launches, runs)
    return *(summary(times[name])["time_ms"] for name in ("dense", "held")), calls["held"].plan


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--only", default="", help="problems and forms that have this word")
    options = parser.parse_args()
    print(f"# {torch.cuda.get_device_name()}, cold L2, medians of {options.runs} runs in turns, a CUDA graph each")
    print("| problem | form | dense, ms | so held, ms | ratio | implementation | converted |")
    print("|:--|:--|--:|--:|--:|:--|:--|")
    with torch.cuda.stream(torch.cuda.Stream()):
        for problem, name, form in ROWS:
            if options.only not in problem and options.only not in name:
                continue
            try:
                row = timed(problem, form, options.runs)
            except GdnbenchError as error:
                print(f"| `{problem}` | {name} | | | | refused: {error} | |", flush=True)
                continue
            if row is not None:
                before, now, plan = row
                converted = plan.info.get("conversions") or "nothing"
                print(f"| `{problem}` | {name} | {before:.4f} | {now:.4f} | {now / before:.3f} | "
                      f"{plan.implementation} | {converted} |", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

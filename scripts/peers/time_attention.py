#!/usr/bin/env python3
"""Times causal attention, forward passes and forward and backward passes together, by other libraries' kernels: what
`gdnbench estimate --attention` adds up for the attention layers of hybrid models. Needs a CUDA device, PyTorch, and
whichever of the libraries are there (README.md).

    scripts/peers/time_attention.py [--models paper-h1-1.3b | --shapes 16/2:128:2048:4x8192] [--who cudnn,flex]
                                    [--runs N] [--out TIMES.csv]

A shape is heads of queries/heads of keys and values:head dim:window:sequences x tokens. A query sees its own token and
those before it, at most `window` of them; a window of 0 is all of them. Everyone has the same bfloat16 tensors and is
timed in turns as timing.py says, a CUDA graph each, or by events around the call where it cannot be captured, which the
row says. Before a contender is timed its output and gradients are judged against float64 on a smaller shape; after it,
outputs filled with NaN must be what they were. FlexAttention compiles for several seconds at each shape.
Exit 0 done, 1 a CUDA context was lost, 2 bad usage or input.
"""
import argparse
import csv
import dataclasses
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from attention_contenders import CONTENDERS, GRADIENTS, AttentionInputs  # noqa: E402: found above
from contender_results import (Lost, guarded, loaded, relative, require_finite, require_same_again,  # noqa: E402
                               say_not_timed, worst)
from gdnbench.turns import first_line, quartiles, time_in_turns  # noqa: E402
from inputs import parse_heads, parse_lengths  # noqa: E402

# Relative error of a whole output or gradient at which a contender is not timed. A window that is one token wrong on the
# shape that is judged is an error of about 0.04.
LIMIT = 0.02
JUDGED_LENGTH, JUDGED_WINDOW, JUDGED_KV_HEADS = 512, 200, 2
PASSES = ("forward", "forward_backward")
# Attention of the hybrids that gdnbench estimate knows.
MODELS = {
    "paper-h1-0.4b": ("12/12:128:2048",),
    "paper-h1-1.3b": ("18/18:128:2048",),
    "jet-nemotron-2b": ("12/2:128:0", "12/2:128:1152"),
    "jet-nemotron-4b": ("16/2:128:0", "16/2:128:2048"),
}
SEQUENCES = ("16x2048", "8x4096", "4x8192", "2x16384")  # as gdnbench estimate has them
# harness/measure/attention_times.cpp reads these.
FIELDS = ("device", "kernel", "query_heads", "kv_heads", "head_dim", "window", "sequences", "dtype",
          *(f"{each}_{what}" for each in PASSES for what in ("ms", "q1_ms", "q3_ms", "mode")), "error")


def fail(message):
    print(f"time_attention: {message}", file=sys.stderr)
    sys.exit(2)


# ---- what is asked for

@dataclasses.dataclass(frozen=True)
class Shape:
    query_heads: int
    kv_heads: int
    head_dim: int
    window: int
    sequences: int
    tokens: int  # of each sequence

    def __str__(self):
        return f"{self.query_heads}/{self.kv_heads}:{self.head_dim}:{self.window}:{self.sequences}x{self.tokens}"

    @property
    def effective_window(self):
        """0 where the window hides nothing."""
        return self.window if self.window < self.tokens else 0

    def judged(self):
        """A smaller shape of as many queries for each key, which has a window where this one has."""
        kv_heads = min(self.kv_heads, JUDGED_KV_HEADS)
        return Shape(self.query_heads // self.kv_heads * kv_heads, kv_heads, self.head_dim,
                     JUDGED_WINDOW if self.effective_window else 0, 2, JUDGED_LENGTH)


def parse_shape(text):
    """Of '16/2:128:2048:4x8192'."""
    expected = f"'{text}': expected heads/kv heads:head dim:window:sequences x tokens, as 16/2:128:2048:4x8192"
    parts = text.split(":")
    if len(parts) != 4:
        raise ValueError(expected)
    kv_heads, query_heads = reversed([int(x) for x in parts[0].split("/")]) if is_ratio(parts[0]) else (0, 0)
    if not kv_heads or query_heads % kv_heads:
        raise ValueError(f"{expected}; heads must be a multiple of kv heads")
    if not (parts[1].isdecimal() and parts[2].isdecimal() and int(parts[1])):
        raise ValueError(expected)
    lengths = parse_lengths(parts[3])
    if len(set(lengths)) != 1:
        raise ValueError(f"{expected}; sequences must be equally long")
    return Shape(query_heads, kv_heads, int(parts[1]), int(parts[2]), len(lengths), lengths[0])


def is_ratio(text):
    parts = text.split("/")
    return len(parts) == 2 and all(part.isdecimal() and int(part) for part in parts)


def parse_shapes(text):
    return [parse_shape(shape) for shape in text.split(",")]


def shapes_of(models, sequences=SEQUENCES):
    """Each shape once, in the models' order."""
    for name in models:
        if name not in MODELS:
            raise ValueError(f"'{name}': expected one of {', '.join(MODELS)}")
    return list(dict.fromkeys(parse_shape(f"{attention}:{seq}") for name in models for attention in MODELS[name]
                              for seq in sequences))


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(message)


def parse_arguments(arguments=None):
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="comma list of %(default)s: their attention layers")
    parser.add_argument("--sequences", default=",".join(SEQUENCES), help="of the models: comma list (%(default)s)")
    parser.add_argument("--shapes", help="comma list of heads/kv heads:head dim:window:sequences x tokens, in the place "
                                         "of --models")
    parser.add_argument("--who", default=",".join(CONTENDERS), help="comma list of %(default)s")
    parser.add_argument("--runs", type=int, default=9, help="timed runs of each contender (9)")
    parser.add_argument("--out", metavar="TIMES.csv", help="the times as a CSV file")
    options = parser.parse_args(arguments)
    try:
        option = "--shapes" if options.shapes else "--models"
        options.shapes = (parse_shapes(options.shapes) if options.shapes
                          else shapes_of(options.models.split(","), options.sequences.split(",")))
    except ValueError as error:
        fail(f"{option}: {error}")
    options.who = options.who.split(",")
    for name in options.who:
        if name not in CONTENDERS:
            fail(f"--who '{name}': expected one of {', '.join(CONTENDERS)}")
    if options.runs < 3:
        fail(f"--runs {options.runs}: expected 3 or more")
    return options


# ---- a row

class Judge:
    """Errors of output and gradients against float64, each contender's once for each small shape."""

    def __init__(self, machine):
        self._machine, self._exact, self._verdicts = machine, {}, {}

    def error_of(self, name, make, shape):
        """The largest. Raises where it is over the limit."""
        small = shape.judged()
        if (name, small) not in self._verdicts:
            self._verdicts[name, small] = self._errors(make, small)
        for what, error in self._verdicts[name, small].items():
            if not error <= LIMIT:
                raise ArithmeticError(f"{what}: error {error:.3g} at {small}, limit {LIMIT:g}")
        return worst(self._verdicts[name, small].values())

    def _errors(self, make, small):
        inputs = self._machine.inputs(small)
        if small not in self._exact:
            self._exact[small] = self._machine.exact(inputs)
        pair, errors = make(inputs), {}
        for each in PASSES:
            call = getattr(pair, each)
            call.prepare()
            for what, x in call.run().items():
                errors[what] = worst((errors.get(what, 0.0), relative(x, self._exact[small][what])))
        return errors


class Entered:
    """A contender of a row: judged, run, captured, checked again."""

    def __init__(self, name, contender, shape, inputs, judge, machine):
        self.machine = machine
        self.line = {"kernel": plain(contender.kernel), "error": judge.error_of(name, contender.make, shape)}
        pair = contender.make(inputs)
        self.first, self.launches, self.results = {}, {}, {}
        for each in PASSES:
            call = getattr(pair, each)
            call.prepare()
            results = call.run()  # compiles and tunes
            require_finite(results)
            self.first[each] = {what: x.clone() for what, x in results.items()}
            del results
            launch, self.results[each], self.line[f"{each}_mode"], why = machine.clock.capture(call)
            self.launches[each] = call.prepare, launch
            if why:
                print(f"# {name} at {shape}: {each} is launched without a CUDA graph: {why}", flush=True)

    def check_again(self):
        """One more run, as those that were timed, on results filled with NaN."""
        for each in PASSES:
            require_same_again(self.first[each], *self.launches[each], self.results[each], self.machine, LIMIT)


def plain(text):
    """Without what would need quotes in a CSV file."""
    return " ".join(text.replace(",", " ").replace('"', " ").split())


def measure(shape, contenders, judge, machine, runs):
    """Lines of those that were timed in both passes, in the contenders' order."""
    inputs, entered = machine.inputs(shape), {}

    def attempt(name, step):
        who = f"{name} at {shape}"
        return guarded(who, machine, step, lambda error: say_not_timed(who, error))
    for name, contender in contenders.items():
        one = attempt(name, lambda: Entered(name, contender, shape, inputs, judge, machine))  # noqa: B023 - called at once
        if one is not None:
            entered[name] = one
            one.line |= {"device": plain(machine.clock.device), "query_heads": shape.query_heads,
                         "kv_heads": shape.kv_heads, "head_dim": shape.head_dim, "window": shape.window,
                         "sequences": f"{shape.sequences}x{shape.tokens}", "dtype": "bf16"}

    def failed(name, error):
        say_not_timed(f"{name} at {shape}", error)
        entered.pop(name)
    for each in PASSES:
        launches = {name: one.launches[each] for name, one in entered.items()}
        try:
            times = time_in_turns(launches, runs, machine.clock, failed) if launches else {}
        except Exception as error:  # noqa: BLE001 - what a contender raises itself went to failed()
            raise Lost(f"one of {', '.join(launches)} left the GPU in an error: {first_line(error)}") from None
        for name, one in entered.items():
            first, median, third = quartiles(times[name])
            one.line |= {f"{each}_ms": median, f"{each}_q1_ms": first, f"{each}_q3_ms": third}
    return [one.line for name, one in entered.items()
            if attempt(name, lambda: one.check_again() or True)]  # noqa: B023 - called at once


# ---- what is printed

COLUMNS = ("heads", "head dim", "window", "sequences", "kernel", "forward, ms", "forward + backward, ms", "error")


def heading(device, runs):
    """What the table says of itself, and its head."""
    return "\n".join([
        f"# {device}, causal attention in bfloat16, cold L2, medians of {runs} runs in turns, a CUDA graph each unless the "
        "row says eager",
        f"# error: the largest relative L2 error of output and gradients ({', '.join(GRADIENTS)}) against float64, not at "
        f"this shape but at 2x{JUDGED_LENGTH} tokens",
        f"| {' | '.join(COLUMNS)} |",
        f"|:--|--:|--:|:--|:--|{'--:|' * 3}"])


def described(line):
    """The line as a row of the table."""
    def time_of(each):
        return f"{line[f'{each}_ms']:.4f}" + ("" if line[f"{each}_mode"] == "graph" else f" {line[f'{each}_mode']}")
    cells = (f"{line['query_heads']}/{line['kv_heads']}", str(line["head_dim"]), str(line["window"]), line["sequences"],
             line["kernel"], *map(time_of, PASSES), f"{line['error']:.1e}")
    return f"| {' | '.join(cells)} |"


# ---- the GPU

class Machine:
    """What of PyTorch a row needs."""

    def __init__(self):
        import torch
        import timing
        self._torch, self.clock = torch, timing.clock()

    def wait(self):
        self._torch.cuda.synchronize()

    def inputs(self, shape):
        import zlib
        from inputs import DEVICE
        torch = self._torch
        generator = torch.Generator(device=DEVICE)
        generator.manual_seed(zlib.crc32(str(shape).encode()))

        def normal(heads):
            return torch.randn(shape.sequences, shape.tokens, heads, shape.head_dim, device=DEVICE,
                               generator=generator).bfloat16()
        return AttentionInputs(query=normal(shape.query_heads), key=normal(shape.kv_heads), value=normal(shape.kv_heads),
                               d_output=normal(shape.query_heads), window=shape.effective_window)

    def exact(self, inputs):
        """Output and gradients in float64, every score written out."""
        torch = self._torch
        leaves = [x.detach().double().requires_grad_() for x in (inputs.query, inputs.key, inputs.value)]
        group = inputs.query.shape[2] // inputs.key.shape[2]
        with torch.enable_grad():
            query, key, value = leaves[0], *(x.repeat_interleave(group, dim=2) for x in leaves[1:])
            scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * inputs.scale
            token = torch.arange(query.shape[1], device=query.device)
            distance = token[:, None] - token[None, :]
            hidden = distance < 0
            if inputs.window:
                hidden = hidden | (distance >= inputs.window)
            weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
            output = torch.einsum("bhqk,bkhd->bqhd", weights, value)
            gradients = torch.autograd.grad(output, leaves, inputs.d_output.double())
        return {"output": output.detach()} | dict(zip(GRADIENTS, gradients))

    def free(self):
        import gc
        gc.collect()
        self._torch.cuda.empty_cache()


def main():
    options = parse_arguments()
    try:
        import torch
    except ImportError as error:
        fail(f"PyTorch is needed: {error}")
    if not torch.cuda.is_available():
        fail("PyTorch sees no CUDA device")
    with torch.cuda.stream(torch.cuda.Stream()):
        contenders = loaded(options.who, CONTENDERS)
        if not contenders:
            fail(f"--who {','.join(options.who)}: none of them can be imported")
        try:
            file = open(options.out, "w", newline="") if options.out else None
        except OSError as error:
            fail(f"--out: {error}")
        machine = Machine()
        judge = Judge(machine)
        print(heading(machine.clock.device, options.runs), flush=True)
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n") if file else None
        if writer:
            writer.writeheader()
        for shape in options.shapes:
            try:
                lines = measure(shape, contenders, judge, machine, options.runs)
            except Lost as error:
                print(f"time_attention: {shape}: {error}", file=sys.stderr)
                return 1
            for line in lines:
                print(described(line), flush=True)
            if writer:
                writer.writerows(lines)
                file.flush()
            machine.free()
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Times forward and backward passes of the gated delta rule, and backward passes alone, beside other libraries'. Needs a
CUDA device, PyTorch, the library, and whichever peers are there (README.md).

    scripts/peers/time_backward.py [--shapes 16/32:4x8192,2/4:1000+77] [--who ours,fla] [--runs N] [--out ROWS.csv]

A row is a shape: everyone on the same tensors, without an initial and a final state, gates weak, keys normalised
beforehand; timed in turns as timing.py says, a CUDA graph each, or by events around the call where it cannot be
captured, which the row says. float64 at the sizes that are timed takes too long, so each contender's gradients are
judged on a smaller shape, before it is timed and after. At the size that is timed they are finite, the same before and
after, and their distance from the row's first contender is told.
Exit 0 done, 1 a CUDA context was lost, 2 bad usage or input.
"""
import argparse
import csv
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from backward_contenders import CONTENDERS, GRADIENTS, TrainingInputs, fields_of, operands_of  # noqa: E402: found above
from contender_results import Lost, guarded, loaded, relative, require_finite, require_same_again, worst  # noqa: E402
from gdnbench.turns import first_line, quartiles, time_in_turns  # noqa: E402
from inputs import parse_heads, parse_lengths  # noqa: E402

# Relative error of a whole gradient at which a contender is not timed. Tests of peers allow up to 0.035, of dg.
LIMIT = 0.05
JUDGED = ("2/4", "1x1000")
# The first eight are rows of the backward table in FlashQLA's repository, of which "8k x 4" is read as 4x2048: beside
# its others, 32k tokens would take half of their time.
SHAPES = ("16/32:1x8192,16/32:4x2048,16/32:1x32768,16/32:8x4096,8/16:1x32768,4/8:1x32768,4/8:8x1024,2/4:1x32768,"
          "16/32:4x8192,16/32:16x2048,2/4:4x8192,2/4:16x2048,16/64:4x8192,16/32:1000+77+4001+8192+333")
PASSES = ("forward_backward", "backward")
MIB = 1 << 20
FIELDS = ("heads", "seq", "contender", "implementation",
          *(f"{each}_{what}" for each in PASSES for what in ("ms", "q1_ms", "q3_ms", "mode", "peak_memory_mib",
                                                             "workspace_mib")),
          *(f"error_{name}" for name in GRADIENTS), "apart", "reason")


def fail(message):
    print(f"time_backward: {message}", file=sys.stderr)
    sys.exit(2)


# ---- what is asked for

class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(message)


def parse_shapes(text):
    """[(heads, seq)] of '16/32:4x8192,2/4:1000+77'."""
    shapes = []
    for shape in text.split(","):
        heads, colon, seq = shape.partition(":")
        if not colon:
            raise ValueError(f"'{shape}': expected heads:lengths, as 16/32:4x8192")
        parse_heads(heads)
        parse_lengths(seq)
        shapes.append((heads, seq))
    return shapes


def parse_arguments(arguments=None):
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES, help="comma list of heads:lengths (%(default)s)")
    parser.add_argument("--who", default=",".join(CONTENDERS), help="comma list of %(default)s")
    parser.add_argument("--runs", type=int, default=15, help="timed runs of each contender (15)")
    parser.add_argument("--out", metavar="ROWS.csv", help="the lines as a CSV file")
    options = parser.parse_args(arguments)
    try:
        options.shapes = parse_shapes(options.shapes)
    except ValueError as error:
        fail(f"--shapes: {error}")
    options.who = options.who.split(",")
    for name in options.who:
        if name not in CONTENDERS:
            fail(f"--who '{name}': expected one of {', '.join(CONTENDERS)}")
    if options.runs < 3:
        fail(f"--runs {options.runs}: expected 3 or more")
    return options


# ---- a row

class Judge:
    """Errors of each gradient against float64, on tensors of a smaller shape."""

    def __init__(self, inputs, exact):
        self._inputs, self._exact = inputs, exact

    def errors_of(self, make, when):
        """{gradient: error}, the larger one of both passes. Raises where one is over the limit."""
        pair, errors = make(self._inputs), {}
        try:
            for each in PASSES:
                call = getattr(pair, each)
                call.prepare()
                gradients = call.run()
                for name, exact in self._exact.items():
                    errors[name] = worst((errors.get(name, 0.0), relative(gradients[name], exact)))
        finally:
            pair.close()
        for name, error in errors.items():
            if not error <= LIMIT:
                raise ArithmeticError(f"{name}: error {error:.3g} {when} timing, limit {LIMIT:g}")
        return errors


class Contender:
    """One of a row: judged, run once, captured, checked again."""

    def __init__(self, make, inputs, judge, machine):
        self.make, self.judge, self.machine = make, judge, machine
        self.errors = judge.errors_of(make, "before")
        self.pair = make(inputs)
        self.line = {"implementation": self.pair.choice}
        self.first, self.launches, self.results, reasons = {}, {}, {}, []
        for each in PASSES:
            call = getattr(self.pair, each)
            call.prepare()
            call.run()  # compiles and tunes, whose memory is not the call's
            gradients, peak_bytes = machine.run_measured(call.run)
            require_finite(gradients)
            self.first[each] = {name: x.clone() for name, x in gradients.items()}
            del gradients
            launch, self.results[each], mode, why = machine.clock.capture(call)
            self.launches[each] = call.prepare, launch
            self.line[f"{each}_mode"] = mode
            if why:
                reasons.append(why)
            if self.pair.workspace_bytes is None:
                self.line[f"{each}_peak_memory_mib"] = peak_bytes / MIB
            else:
                self.line[f"{each}_workspace_mib"] = self.pair.workspace_bytes[each] / MIB
        self.line["reason"] = "; ".join(dict.fromkeys(reasons))

    def apart_from(self, other):
        """The largest distance of a gradient from another contender's."""
        return worst(relative(self.first[each][name], other.first[each][name]) for each in PASSES for name in GRADIENTS)

    def check_again(self):
        """One more run, as those that were timed, on gradients filled with NaN; and judged once more."""
        for each in PASSES:
            require_same_again(self.first[each], *self.launches[each], self.results[each], self.machine, LIMIT)
        after = self.judge.errors_of(self.make, "after")
        self.errors = {name: worst((error, after[name])) for name, error in self.errors.items()}


def measure(heads, seq, makers, judge, machine, runs):
    """Lines of a row, in the contenders' order."""
    inputs, lines, entered = machine.inputs(heads, seq), {}, {}

    def attempt(name, step):
        """What a contender raises is its line's reason."""
        return guarded(name, machine, step, lambda error: lines[name].update(reason=first_line(error)))
    for name, make in makers.items():
        lines[name] = line = {"heads": heads, "seq": seq, "contender": name}
        contender = attempt(name, lambda: Contender(make, inputs, judge, machine))
        if contender is not None:
            entered[name] = contender
            line |= contender.line
            line["apart"] = contender.apart_from(next(iter(entered.values())))
    for each in PASSES:
        launches = {name: contender.launches[each] for name, contender in entered.items()}

        def failed(name, error):
            lines[name]["reason"] = first_line(error)
            entered.pop(name)
        try:
            times = time_in_turns(launches, runs, machine.clock, failed) if launches else {}
        except Exception as error:  # noqa: BLE001 - what a contender raises itself went to failed()
            raise Lost(f"one of {', '.join(launches)} left the GPU in an error: {first_line(error)}") from None
        for name in entered:
            first, median, third = quartiles(times[name])
            lines[name] |= {f"{each}_ms": median, f"{each}_q1_ms": first, f"{each}_q3_ms": third}
    timed = [f"{each}_{what}" for each in PASSES for what in ("ms", "q1_ms", "q3_ms")]
    for name, line in lines.items():
        contender = entered.get(name)
        if contender is not None and attempt(name, lambda: contender.check_again() or True):
            line |= {f"error_{gradient}": error for gradient, error in contender.errors.items()}
        else:
            for field in timed:
                line.pop(field, None)
        if contender is not None:
            contender.pair.close()
    return list(lines.values())


# ---- what is printed

COLUMNS = ("heads", "sequences", "contender", "forward + backward, ms", "backward, ms", *GRADIENTS, "apart",
           "peak memory, MiB", "workspace, MiB", "")


def heading(device, runs):
    """What the table says of itself, and its head."""
    return "\n".join([
        f"# {device}, cold L2, medians of {runs} runs in turns, a CUDA graph each unless the row says eager; gates weak",
        f"# {', '.join(GRADIENTS)}: relative L2 errors against float64, not of this shape, at which float64 takes too long, "
        f"but of {JUDGED[0]} heads, {JUDGED[1]} tokens",
        "# apart: the largest relative L2 distance of a gradient from the row's first contender, at this shape",
        "# peak memory: what PyTorch had allocated at most in a forward and backward pass, beyond the inputs; workspace: "
        "what this project's plans have beside outputs and gradients",
        f"| {' | '.join(COLUMNS)} |",
        f"|:--|:--|:--|{'--:|' * (len(COLUMNS) - 4)}:--|"])


def described(line):
    """The line as a row of the table."""
    def number(field, form):
        return format(line[field], form) if field in line else ""

    def time_of(each):
        eager = "" if line.get(f"{each}_mode") == "graph" else f" {line.get(f'{each}_mode')}"
        return number(f"{each}_ms", ".4f") + (eager if f"{each}_ms" in line else "")
    name = f"{line['contender']} {line.get('implementation', '')}".strip()
    cells = (line["heads"], line["seq"], name, *(time_of(each) for each in PASSES),
             *(number(f"error_{gradient}", ".1e") for gradient in GRADIENTS), number("apart", ".1e"),
             number("forward_backward_peak_memory_mib", ".0f"), number("forward_backward_workspace_mib", ".0f"),
             line.get("reason", ""))
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

    def inputs(self, heads, seq):
        import zlib
        import inputs as inputs_of
        made = inputs_of.with_gates(inputs_of.random_inputs(heads, seq), "weak")
        generator = self._torch.Generator(device=inputs_of.DEVICE)
        generator.manual_seed(zlib.crc32(f"d_output {heads} {seq}".encode()))
        d_output = self._torch.randn(made.value.shape, device=inputs_of.DEVICE, generator=generator).bfloat16()
        return TrainingInputs(**vars(made) | {"initial_state": None}, d_output=d_output)

    def judge(self):
        """On the host, whose float64 reference knows gradients."""
        import gdnbench_torch as gdn
        inputs = self.inputs(*JUDGED)
        tensors = {name: x.cpu() for name, x in (operands_of(inputs) | {"d_output": inputs.d_output}).items()}
        exact = gdn.plan_reference_float64(f"gated_delta_backward:{fields_of(inputs)}", tensors)
        return Judge(inputs, {name: exact[operand].to(inputs.query.device) for name, operand in GRADIENTS.items()})

    def run_measured(self, run):
        """(what it returns, the most bytes that PyTorch had allocated meanwhile beyond those before)."""
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        returned = run()
        cuda.synchronize()
        return returned, cuda.max_memory_allocated() - before

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
    try:
        import gdnbench_torch
        gdnbench_torch.library()
    except Exception as error:  # noqa: BLE001 - whatever loading a library raises
        fail(first_line(error))
    if not torch.cuda.is_available():
        fail("PyTorch sees no CUDA device")
    makers = loaded(options.who, CONTENDERS)
    if not makers:
        fail(f"--who {','.join(options.who)}: none of them can be imported")
    try:
        file = open(options.out, "w", newline="") if options.out else None
    except OSError as error:
        fail(f"--out: {error}")
    with torch.cuda.stream(torch.cuda.Stream()):
        machine = Machine()
        judge = machine.judge()
        print(heading(torch.cuda.get_device_name(), options.runs))
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n") if file else None
        if writer:
            writer.writeheader()
        for heads, seq in options.shapes:
            try:
                lines = measure(heads, seq, makers, judge, machine, options.runs)
            except Lost as error:
                print(f"time_backward: {heads} {seq}: {error}", file=sys.stderr)
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

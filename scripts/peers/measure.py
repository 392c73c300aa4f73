"""Measures rows, one after the other, and writes each as it is done."""
import datetime
import gc
import time

import torch

from contenders import CONTENDERS, SCALE  # first: it makes gdnbench_torch be found
import channel_reference
import gdnbench_torch
import inputs as inputs_of
import rows
import timing
from progress import elapsed_s, say
from timing import first_line


class ContextLost(Exception):
    """The GPU reports an error that `who` left; nothing more can be done in this process."""

    def __init__(self, who, reason):
        super().__init__(f"{who} left the GPU in an error: {reason}")
        self.line = {"contender": who, "status": rows.FAILED, "reason": str(self)}


def require_context(who):
    try:
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - what a broken context raises has no type of its own
        raise ContextLost(who, first_line(error)) from None


class Loaded:
    """Contenders by name, imported when first asked for; why not, where that failed."""

    def __init__(self):
        self._make, self._error = {}, {}

    def make(self, who, inputs):
        if who not in self._make and who not in self._error:
            try:
                self._make[who] = CONTENDERS[who]()
            except Exception as error:  # noqa: BLE001 - a peer may fail to import in any way
                self._error[who] = f"import: {first_line(error)}"
        if who in self._error:
            raise ImportError(self._error[who])
        return self._make[who](inputs)


def exact(inputs):
    """(output, final state) in float64."""
    if inputs.decays_by_channel:
        return channel_reference.evaluate(inputs, SCALE)
    if (steps := inputs_of.steps_of(inputs)) > 1:
        output, state = exact_of_heads(inputs_of.rows_of_steps(inputs))
        return output[steps - 1::steps], state
    return exact_of_heads(inputs)


def exact_of_heads(inputs):
    return gdnbench_torch.reference_float64(inputs.query, inputs.key, inputs.value, inputs.log_decay, inputs.beta,
                                            inputs.offsets, inputs.initial_state)


class Row:
    """One row: everyone on the same inputs."""

    def __init__(self, inputs, loaded, limit):
        self.inputs, self.loaded, self.limit = inputs, loaded, limit
        self.lines = {}     # what is written, by contender
        self.calls = {}     # of those still in it
        self.launches = {}  # name -> (prepare, launch)
        self.results = {}   # name -> tensors a graph writes; None where it is launched eagerly
        self.judge = timing.Errors(*exact(inputs))

    def measure(self, who, runs):
        for name in who:
            self.lines[name] = {"contender": name, "output_floor": self.judge.output_floor}
            self._guarded(name, "", self._enter)
        times = timing.time_in_turns(self.launches, runs) if self.launches else {}
        for name in list(self.launches):
            self._guarded(name, "after timing: ", self._check_again)
            if name in self.launches:
                self.lines[name] |= {"status": rows.OK} | timing.summary(times[name])
        return self.lines

    def close(self):
        for call in self.calls.values():
            call.close()

    def _guarded(self, name, when, step):
        """What a contender throws is its line's reason, and the end of it in this row."""
        try:
            if reason := step(name):
                self._refuse(name, rows.WRONG, when + reason)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a peer may raise anything
            self._refuse(name, rows.FAILED, when + first_line(error))
            require_context(name)

    def _refuse(self, name, status, reason):
        self.lines[name] |= {"status": status, "reason": reason}
        self.launches.pop(name, None)
        self.results.pop(name, None)

    def _over_limit(self, errors):
        for name in ("output_worst_head", "state_worst_head"):
            if not errors[name] <= self.limit:
                return f"{name.replace('_', ' ')} {errors[name]:.3g}, limit {self.limit:g}"
        return ""

    def _enter(self, name):
        """First run, checked; then captured. Returns why it is out, or ''."""
        begin = time.monotonic()
        self.calls[name] = call = self.loaded.make(name, self.inputs)
        call.prepare()
        outputs = call.run()
        torch.cuda.synchronize()
        self.lines[name] |= {"first_call_s": time.monotonic() - begin, "choice": call.choice}
        errors = self.judge.of(*outputs)
        self.lines[name] |= errors
        if reason := self._over_limit(errors):
            return f"before timing: {reason}"
        launch, self.results[name], mode, why = timing.capture(call)
        self.lines[name] |= {"mode": mode, "reason": why}
        self.launches[name] = call.prepare, launch
        return ""

    def _check_again(self, name):
        """One more run, as those that were timed, on outputs filled with NaN."""
        prepare, launch = self.launches[name]
        results = self.results[name]
        for tensor in results or ():
            tensor.fill_(float("nan"))
        prepare()
        returned = launch()
        torch.cuda.synchronize()
        errors = self.judge.of(*(results or returned))
        if reason := self._over_limit(errors):
            return reason
        self.lines[name] |= {key: max(value, self.lines[name][key]) for key, value in errors.items()}
        return ""


def described(lines):
    """The row in a line of text."""
    parts = []
    for name, line in lines.items():
        if line["status"] == rows.OK:
            eager = "" if line["mode"] == "graph" else f" {line['mode']}"
            parts.append(f"{name} {line['time_ms']:.4f}{eager} ({line['output_error']:.2e})")
        else:
            parts.append(f"{name} {line['status']}: {line['reason'][:120]}")
    return " | ".join(parts)


def measure(options, todo, cases, comments):
    """`todo`: [((heads, seq, gates), contenders)]; `cases`: arrays of the keys that are cases. Returns the exit code."""
    loaded, base, base_of, longest_s = Loaded(), None, None, 0.0
    with rows.Writer(options.out, comments) as writer, torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        for done, (key, who) in enumerate(todo):
            begin_s = elapsed_s()
            if options.time_limit and begin_s + 1.5 * longest_s > options.time_limit:
                say(f"stopped by --time-limit: {done} of {len(todo)} rows; run it again to go on")
                return 0
            heads, seq, gates = key
            stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            columns = {"measured_at": stamp, "heads": heads, "seq": seq, "gates": gates}
            row = None
            try:
                if key in cases:
                    inputs = inputs_of.case_inputs(cases[key])
                else:
                    if base_of != (heads, seq):
                        base, base_of = None, None  # freed before the next is made
                        base, base_of = inputs_of.random_inputs(heads, seq), (heads, seq)
                    inputs = inputs_of.with_gates(base, gates)
                row = Row(inputs, loaded, options.limit)
                lines = row.measure(who, options.runs)
                row.close()
            except ContextLost as error:
                writer.write([columns | error.line])
                say(f"{heads} {seq} {gates}: {error}; start it again: it goes on with the others")
                return 1
            except torch.OutOfMemoryError as error:
                say(f"{heads} {seq} {gates}: left out: {first_line(error)}")
                row = None
                gc.collect()
                torch.cuda.empty_cache()
                continue
            writer.write(columns | line for line in lines.values())
            say(f"{heads} {seq} {gates}: {described(lines)}")
            # The first row compiles: it says nothing of the others.
            longest_s = max(longest_s, elapsed_s() - begin_s) if done else 0.0
            del row, inputs
            if torch.cuda.memory_reserved() > torch.cuda.get_device_properties(0).total_memory // 2:
                gc.collect()
                torch.cuda.empty_cache()
    say(f"done: {len(todo)} rows")
    return 0

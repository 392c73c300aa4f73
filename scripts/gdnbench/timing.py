"""time(): a function beside this project's implementations, judged and timed in one run."""
import numpy as np

from gdnbench_library import GdnbenchError

from . import arrays, conventions
from .calls import library
from .clocks import clock_of
from .judging import Judging, chosen_cases
from .timings import Timing, Timings
from .turns import first_line, time_in_turns

BEST = "best"


def time(fn, problems, beside=(), *, device="cpu", arrays_of=None, convention=None, honours=None, known_limits=None,
         name=None, runs=21, clock=None):
    """Times `fn` and what stands `beside` it on each problem, and judges the outputs of all; Timings.

    `fn` is called as by judge(), whose arguments arrays_of, convention, honours, known_limits and name have the same
    meaning here. With a convention the function alone is timed, not what makes its arguments of a case.

    problems  a string or a case, or several
    beside    names of implementations ("cpu/chunkwise"), "best" for the one that the library selects, or functions of
              the same arguments as `fn`
    device    "cpu", or "cuda", "cuda:1": there arrays are PyTorch's, and work belongs on the current stream
    runs      timed runs of each contender
    clock     what times, in the place of the device's own (gdnbench.clocks)
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise ValueError(f"runs: {runs!r}, expected a number of timed runs of at least 1")
    if clock is None:
        clock = clock_of(device)
    if device != "cpu" and arrays_of not in (None, "torch"):
        raise ValueError(f"arrays: {arrays_of!r} on device {device!r}, expected 'torch', whose stream is timed")
    chosen = chosen_cases(None, None, problems)
    if not chosen:
        raise ValueError("problems: are none, expected one or more")
    contenders = {}
    for each, called in ((fn, name), *((each, None) for each in ([beside] if isinstance(beside, str) else beside))):
        made = _contender(each, called, chosen, device, arrays_of, convention, honours, known_limits)
        if made.name in contenders:
            raise ValueError(f"beside: {made.name!r} is there twice, expected contenders of different names")
        contenders[made.name] = made
    found = Timings()
    with clock.current():
        for of in chosen:
            found += _timings_of(of, list(contenders.values()), clock, runs)
    return found


def _contender(each, name, chosen, device, arrays_of, convention, honours, known_limits):
    if callable(each):
        return _Function(each, Judging(each, device, arrays_of, convention, honours, known_limits, name), convention)
    if not isinstance(each, str):
        raise ValueError(f"beside: {each!r}, expected the name of an implementation, 'best' or a function")
    operations = {of.problem.partition(":")[0] for of in chosen}
    if each != BEST and not any(each in library().implementations(operation) for operation in operations):
        library().require_supported(each, chosen[0].problem)  # says what it may have meant
    return _Implementation(each, device)


def _timings_of(of, contenders, clock, runs):
    """Those of one case, in the order of the contenders."""
    entered, found = {}, {}
    try:
        for contender in contenders:
            run = _Run(contender, of, clock)
            (entered if run.launch else found)[contender.name] = run
        times = {}
        if entered:
            def failed(name, error):
                run = entered.pop(name)
                run.fail("in a timed run", error)
                found[name] = run
            try:
                times = time_in_turns({name: (run.prepare, run.launch) for name, run in entered.items()}, runs, clock,
                                      failed)
            except Exception as error:  # the device itself has failed, and with it everyone
                for run in entered.values():
                    run.fail("while all were timed", error)
            else:
                for run in entered.values():
                    run.check_again()
        every = found | entered
        return [every[contender.name].timing(times.get(contender.name, ())) for contender in contenders]
    finally:
        for run in (*entered.values(), *found.values()):
            run.close()


class _Run:
    """A contender on one case: called once and judged, then to be launched as often as wanted."""

    def __init__(self, contender, of, clock):
        self.judging, self._of, self._clock = contender.judging, of, clock
        self.launch, self.word, self.note, self._call, self.choice, self.is_timed = None, "", "", None, "", True
        self.verdict = contender.judging.refused(of)
        if self.verdict:
            return
        try:
            self._call = contender.call_of(of, clock)
            self.judging, self.choice = self._call.judging, self._call.choice
            self._call.prepare()
            returned = self._call.run()
            clock.wait()
            self.verdict = self._compared(returned)
            self._call.ran_once()
            if self.verdict.errors:  # of other shapes there is nothing to time
                self.launch, self._results, self.word, self.note = clock.capture(self._call)
                self.prepare = self._call.prepare
        except Exception as error:  # whatever somebody's function raises
            self.verdict = self.judging.limited(of, self.judging.raised(of, error))

    def _compared(self, returned):
        try:
            outputs = self._call.outputs(returned)
        except Exception as error:  # what a convention makes of another form of return
            return self.judging.limited(self._of, self.judging.raised(self._of, error))
        return self.judging.limited(self._of, self.judging.compared(self._of, outputs))

    def fail(self, when, error):
        self.is_timed = False
        self.verdict = self.judging.failed(self._of, f"{when}: {first_line(error)}")

    def check_again(self):
        """Judges the outputs of one more launch, made like those that were timed, on outputs filled with NaN."""
        try:
            self._call.prepare()
            self._call.spoil(self._results)
            self._clock.flush()
            returned = self.launch()
            self._clock.wait()
            again = self._compared(self._results if self._results is not None else returned)
        except Exception as error:  # whatever somebody's function raises
            self.fail("after timing", error)
            return
        if self.verdict.ok and not again.ok:
            self.verdict = self.judging.failed(self._of, f"after timing: {again.reason}", again.errors)

    def timing(self, samples_ms):
        samples_ms = tuple(samples_ms) if self.is_timed else ()
        return Timing(self.verdict, samples_ms, self._clock.device, self.word, self.note, self.choice, self._of.bytes_moved)

    def close(self):
        if self._call:
            self._call.close()


class _Function:
    """A contender that is somebody's function."""

    def __init__(self, fn, judging, convention):
        self._fn, self.judging, self._convention, self.name = fn, judging, convention, judging.name

    def call_of(self, of, clock):
        return _FunctionCall(self._fn, self.judging, self._convention, of)


class _FunctionCall:
    choice = ""

    def __init__(self, fn, judging, convention, of):
        self.judging, self._fn = judging, fn
        given = of.inputs(judging.arrays_of, judging.device)
        self._given, self._named, self.outputs = conventions.bound(fn, convention, given)
        self._arrays = [given[key] for key in given.keys()] if convention is None else [
            value for value in (*self._given, *self._named.values()) if hasattr(value, "dtype")]
        self._kept = [(array, _copy(array)) for array in self._arrays if _is_mutable(array)]

    def run(self):
        return self._fn(*self._given, **self._named)

    def ran_once(self):
        """What the call has written to is put back before each run, and the rest left alone."""
        self._kept = [(array, kept) for array, kept in self._kept if not _same_bits(array, kept)]

    def prepare(self):
        for array, kept in self._kept:
            _put(array, kept)

    def spoil(self, results):
        """Outputs of a graph, where the next replay writes them; whatever is also an input stays."""
        inputs = {_storage(array) for array in self._arrays}
        for value in results.values() if isinstance(results, dict) else (
                results if isinstance(results, (tuple, list)) else (results,)):
            if hasattr(value, "untyped_storage") and _storage(value) not in inputs and value.is_floating_point():
                value.fill_(float("nan"))

    def close(self):
        pass


class _Implementation:
    """A contender of this project."""

    def __init__(self, name, device):
        self.name, self._device = name, device
        self.judging = Judging(None, device, name=name)

    def call_of(self, of, clock):
        name = self.name
        if name == BEST:
            name = library().select(of.problem, self._device)[0]
        elif name not in library().implementations(of.problem.partition(":")[0]):
            raise NotImplementedError(f"{name} does not do {of.problem.partition(':')[0]}")
        return _PlannedCall(name, of, self._device, clock.stream())


class _PlannedCall:
    def __init__(self, name, of, device, stream):
        self.judging = Judging(None, device, name=name)
        make = arrays.maker("torch", device) if device != "cpu" else _held_on_host
        nothing = lambda operand: np.zeros(operand.extents, np.int64 if operand.dtype == "int64" else np.float32)
        self._operands = [operand for operand in of.operands
                          if operand.is_read or operand.is_written and not operand.is_optional]
        self._held = {operand.name: make(operand, of.drawn(operand) if operand.is_read else nothing(operand),
                                         operand.dtype) for operand in self._operands}
        self._kept = [(self._held[operand.name], _copy(self._held[operand.name])) for operand in self._operands
                      if operand.is_read and operand.is_written]
        given = {operand.name: operand.array(_address(self._held[operand.name])) for operand in self._operands}
        self._plan = library().plan(of.problem, given, device, stream, implementation=name)
        self.choice = self._plan.info["choice"]

    def run(self):
        self._plan.run()

    def ran_once(self):
        pass

    def prepare(self):
        for array, kept in self._kept:
            _put(array, kept)

    def spoil(self, results):
        for operand in self._operands:
            if operand.role == "output" and operand.dtype != "int64":
                held = self._held[operand.name]
                held[...] = 0x7fc0 if str(held.dtype) == "uint16" else float("nan")

    def outputs(self, returned):
        return {operand.name_after: _as_returned(self._held[operand.name]) for operand in self._operands
                if operand.is_written}

    def close(self):
        self._plan.close()


# ---- arrays, whose library is not asked for


def _held_on_host(operand, values, dtype):
    """As the library takes an array: NumPy has no bfloat16, so these are the 16 bits of each number, whose values have
    no others."""
    if dtype == "bf16":
        return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.float16) if dtype == "f16" else values.copy()


def _as_returned(array):
    if str(array.dtype) == "uint16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def _address(array):
    return array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data


def _storage(array):
    return array.untyped_storage().data_ptr() if hasattr(array, "untyped_storage") else id(array)


def _is_mutable(array):
    return isinstance(array, np.ndarray) or hasattr(array, "copy_")


def _copy(array):
    return array.clone() if hasattr(array, "clone") else array.copy()


def _put(array, kept):
    if hasattr(array, "copy_"):
        array.copy_(kept)
    else:
        np.copyto(array, kept)


def _same_bits(array, kept):
    return arrays.on_host(array, "")[0].tobytes() == arrays.on_host(kept, "")[0].tobytes()

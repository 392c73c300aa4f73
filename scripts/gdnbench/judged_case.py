"""Cases: problems with their inputs, and what outputs made from them are held to. The library draws, evaluates the
float64 reference and judges (harness/c_library/gdnbench.h); here its arrays are NumPy's and other libraries'."""
import functools

import numpy as np

from gdnbench_library import Array, GdnbenchError

from . import arrays
from .calls import library


class Inputs:
    """What a function is called with: arrays by operand name, as items and as attributes (`x["q"]`, `x.log_decay`), and
    beside them `problem`, `fields` (key -> value of every field, "norm": "1") and `outputs`, the names of what is to be
    returned. Arrays are the function's own: it may write to them."""

    def __init__(self, case, values):
        self.problem, self.fields, self.outputs, self._values = case.problem, case.fields, case.outputs, values

    def __getitem__(self, operand):
        return self._values[operand]

    def __getattr__(self, operand):
        if operand.startswith("_") or operand not in self._values:
            raise AttributeError(f"{operand}: {self.problem} does not read it, it reads {', '.join(self._values)}")
        return self._values[operand]

    def __contains__(self, operand):
        return operand in self._values

    def keys(self):
        return self._values.keys()

    def get(self, operand, default=None):
        return self._values.get(operand, default)


class Case:
    """`problem` is its string; `origin` and `protects` say where a suite has it from and what it would show."""

    def __init__(self, problem, origin="-", protects="-"):
        self.problem, self.origin, self.protects = problem, origin, protects

    def __repr__(self):
        return f"gdnbench.case({self.problem!r})"

    @functools.cached_property
    def operands(self):
        """What the library says of each array (gdnbench_library.Operand)."""
        return library().operands(self.problem)

    @functools.cached_property
    def fields(self):
        """Every field of the problem that its operation looks at: key -> value."""
        return library().fields(self.problem)

    @functools.cached_property
    def _judged(self):
        return library().case(self.problem)

    @property
    def outputs(self):
        """Names of what a call writes, in the operation's order."""
        return [operand.name_after for operand in self._written()]

    @property
    def bytes_moved(self):
        """Bytes of each input once and each output once."""
        return sum(operand.bytes_moved for operand in self.operands)

    def _written(self):
        return [operand for operand in self.operands if operand.is_written and not operand.is_optional]

    def inputs(self, arrays_of=None, device="cpu"):
        """Inputs as arrays of "numpy", "torch", "jax" or "cupy"; by default numpy's on the CPU and torch's elsewhere."""
        make = arrays.maker(arrays_of, device)
        return Inputs(self, {operand.name: make(operand, self.drawn(operand), operand.dtype)
                             for operand in self.operands if operand.is_read})

    def drawn(self, operand):
        """The values of an operand that is read, float32 or int64, as the library holds them: to copy from."""
        return np.ctypeslib.as_array(self._judged.input(operand)).reshape(operand.extents)

    def reference(self):
        """The float64 reference: output -> NumPy array. NaN in what is not evaluated where the problem is so large that
        a sample of (sequence, head) pairs is judged."""
        return {operand.name_after: np.ctypeslib.as_array(self._judged.reference(operand.name_after))
                .reshape(operand.extents).copy() for operand in self._written()}

    def judge(self, returned):
        """(passed, reason, coverage, [OutputError]) of what a function returned. ArrayError where it is no array of the
        shape and element type expected."""
        packed, _kept = self._packed(returned)
        return self._judged.judge(packed)

    def explain(self, returned, chunk=0):
        """Where the error of these outputs sits and what it looks like, as text. `chunk`: tokens per chunk of the
        kernel, 0 where it has none."""
        packed, _kept = self._packed(returned)
        return self._judged.explain(packed, chunk)

    def _packed(self, returned):
        """({output: Array}, the arrays that hold their memory)."""
        given = self._by_name(returned)
        packed, kept = {}, []
        for operand in self._written():
            if given.get(operand.name_after) is None:
                raise arrays.ArrayError(f"{operand.name_after}: not returned, {self.problem} writes "
                                        f"{', '.join(self.outputs)}")
            values, dtype = arrays.of_output(given[operand.name_after], operand)
            packed[operand.name_after] = Array(read=values.ctypes.data, dtype=dtype, extents=values.shape)
            kept.append(values)
        return packed, kept

    def _by_name(self, returned):
        names = self.outputs
        if isinstance(returned, dict):
            unknown = [name for name in returned if name not in [operand.name_after for operand in self.operands]]
            if unknown:
                raise arrays.ArrayError(f"{unknown[0]}: returned, but no output of {self.problem}; it writes "
                                        f"{', '.join(names)}")
            return returned
        given = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        while len(given) > len(names) and given[-1] is None:
            given.pop()
        if len(given) != len(names):
            raise arrays.ArrayError(f"arrays returned: {len(given)}, expected {len(names)}: {', '.join(names)}")
        return dict(zip(names, given))


def case(problem):
    """The case of a problem's string."""
    made = Case(problem)
    made.operands  # refuses here what is no problem
    return made


def cases(suite="quick", operation="gated_delta"):
    """The cases of a suite ("quick", "full", "stress", ...) that are of an operation; None: of all. Nothing is drawn
    before somebody asks for a case's inputs."""
    known = library().operations()
    if operation is not None and operation not in known:
        raise GdnbenchError("bad input", f"operation: {operation!r}, expected one of {', '.join(known)}")
    return [Case(*entry) for entry in library().suite(suite)
            if operation is None or entry[0].partition(":")[0] == operation]


def reference(problem):
    """The float64 reference of a problem's case: output -> NumPy array."""
    return case(problem).reference()


def explain(problem, outputs, chunk=0):
    """Where the error of a kernel's outputs sits and what it looks like, as text: `outputs` is what the kernel made of
    `gdnbench.case(problem).inputs()`, or a function that makes it of them."""
    of = problem if isinstance(problem, Case) else case(problem)
    return of.explain(outputs(of.inputs()) if callable(outputs) else outputs, chunk)

"""judge(): a function on every case of a suite."""
from gdnbench_library import GdnbenchError

from . import arrays, conventions
from .calls import library
from .judged_case import Case, case, cases
from .turns import first_line, one_line
from .verdicts import Verdict, Verdicts


def judge(fn, suite="quick", *, operation="gated_delta", problems=None, device="cpu", arrays_of=None, convention=None,
          honours=None, known_limits=None, name=None):
    """Calls `fn` on every case and holds what it returns to the float64 reference; Verdicts.

    `fn(x)` gets a case's Inputs, and returns its outputs: one array, a tuple in the order of `x.outputs`, or a dict. It
    raises NotImplementedError, with the reason, for what it does not do. `convention` calls it with another project's
    arguments instead (gdnbench.conventions).

    operation     cases of a suite that are of this operation; None: of all
    problems      strings of problems, or cases, in the place of a suite
    device        where arrays lie: "cpu", "cuda", "cuda:1"
    arrays_of     "numpy", "torch", "jax" or "cupy"; by default numpy's on the CPU and torch's elsewhere
    honours       fields that `fn` looks at ("norm", "scale", "decay=channel"): a case with any other off its default is
                  "unsupported" and not called. None: `fn` is called on all
    known_limits  path of a table of the form of data/known_limits.tsv: failures it names for `name` are reported as
                  such, and one that is gone as that. None: the project's own table
    name          what the verdicts call it; by default the function's own name
    """
    chosen = chosen_cases(suite, operation, problems)
    judging = Judging(fn, device, arrays_of, convention, honours, known_limits, name)
    return Verdicts(judging.verdict(each) for each in chosen)


def chosen_cases(suite, operation, problems):
    """Those of `problems`, strings or cases, where there are any, else of the suite."""
    if problems is None:
        return cases(suite, operation)
    if isinstance(problems, (str, Case)):
        problems = [problems]
    return [each if isinstance(each, Case) else case(each) for each in problems]


class Judging:
    """How one function is called and judged, whatever the case."""

    def __init__(self, fn, device="cpu", arrays_of=None, convention=None, honours=None, known_limits=None, name=None):
        arrays.maker(arrays_of, device)  # refuses here what is no library of arrays
        self.device, self.arrays_of = device, arrays_of
        self.call, self.honours = conventions.caller(fn, convention), honours
        if convention is not None and honours is None:
            self.honours = conventions.honoured(convention)
        self.name = name or getattr(fn, "__name__", type(fn).__name__)
        self.limits = None
        if known_limits is not None:
            with open(known_limits, encoding="utf-8") as file:
                self.limits = file.read()

    def known_limit(self, of):
        """(cause, is_witness) of the entry that covers the case, or None."""
        return library().known_limit(self.name, of.problem, self.limits)

    def verdict(self, of):
        """Draws, calls and judges. What the function raises is a verdict."""
        return self.limited(of, self._judged(of))

    def limited(self, of, found):
        """The verdict that was found, or the one that the table of known limits makes of it."""
        limit = self.known_limit(of)
        if limit is None:
            return found
        cause, is_witness = limit
        if found.verdict == "failed":
            return self._made(of, "known limit", f"{cause}: {found.reason}", found.coverage, found.errors)
        if found.verdict == "passed" and is_witness:
            return self._made(of, "limit gone", f"limit gone, remove it from the table: {cause}", found.coverage,
                              found.errors)
        return found

    def _made(self, of, verdict, reason="", coverage="", errors=()):
        return Verdict(of.problem, self.name, verdict, reason, coverage, tuple(errors), of.protects)

    def refused(self, of):
        """The verdict on a case with a field that the function does not look at; None: it is to be called."""
        if self.honours is not None:
            try:
                library().require_honoured(of.problem, self.honours)
            except GdnbenchError as error:
                if error.status != "unsupported":
                    raise
                return self._made(of, "unsupported", str(error))
        return None

    def raised(self, of, error):
        """The verdict on a function that raised."""
        if isinstance(error, NotImplementedError):
            return self._made(of, "unsupported", one_line(error) or "NotImplementedError")
        if isinstance(error, GdnbenchError) and error.status == "unsupported":
            return self._made(of, "unsupported", str(error))
        return self._made(of, "failed", f"raised {first_line(error)}")

    def failed(self, of, reason, errors=()):
        return self._made(of, "failed", reason, errors=errors)

    def compared(self, of, returned):
        """The verdict on what the function returned."""
        try:
            passed, reason, coverage, errors = of.judge(returned)
        except arrays.ArrayError as error:
            return self._made(of, "failed", str(error))
        return self._made(of, "passed" if passed else "failed", reason, coverage, errors)

    def _judged(self, of):
        if refused := self.refused(of):
            return refused
        inputs = of.inputs(self.arrays_of, self.device)  # what goes wrong here is not the function's doing
        try:
            returned = self.call(inputs)
        except Exception as error:  # whatever somebody's function raises
            return self.raised(of, error)
        return self.compared(of, returned)

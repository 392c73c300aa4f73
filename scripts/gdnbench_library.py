"""libgdnbench.so from Python, addresses in and out; no package needed. harness/c_library/gdnbench.h says what every
argument means. scripts/gdnbench_torch.py is the same with tensors.

    from gdnbench_library import Library
    library = Library()                       # $GDNBENCH_LIBRARY, the installed one, or lib/ or build/ of this tree
    problem = "gated_delta:heads=1/1,dim=16x16,seq=1x8,dtype=f32"
    for operand in library.operands(problem):
        print(operand.name, operand.role, operand.dtype, operand.extents)
    plan = library.plan(problem, arrays, "cpu")                     # the best implementation there is
    plan = library.plan(problem, arrays, "cpu", implementation="cpu/naive")
    plan.run()

`arrays` is a dict: operand -> its address, or an Array where it is held in another way than the operand says (strides,
element type, number of dimensions) or where an operand in place is read from one array and written to another. Operands are named as in case files ("q",
"log_decay", "initial_state").
"""
import ctypes
import dataclasses
import math
import os

try:
    import gdnbench_place  # made by the installation (cmake/GdnInstall.cmake)
except ImportError:
    gdnbench_place = None

ABI_VERSION = 4
MAX_RANK = 8
ELEMENT_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "i8": 1, "int64": 8}
STATUS = {1: "bad input", 2: "unsupported", 3: "device unavailable", 4: "out of memory", 5: "device failure"}


class GdnbenchError(RuntimeError):
    """What the library refused or failed at; `status` is one of the words of STATUS."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of the caller's: where it is read, where it is written (in place: the same), and how it is held where
    that is not as the operand says: its element type ("int32", "f8_e4m3"), its extents and its strides in elements."""
    read: int | None = None
    written: int | None = None
    dtype: str | None = None
    extents: tuple | None = None
    strides: tuple | None = None


@dataclasses.dataclass(frozen=True)
class Operand:
    """One array of a problem. `extents` are row-major, `dimensions` their names ("T", "Hk")."""
    name: str
    name_after: str
    role: str
    dtype: str
    extents: tuple
    dimensions: tuple
    is_read: bool
    is_written: bool
    is_optional: bool
    takes_token_stride: bool

    @property
    def bytes_moved(self):
        """Of the array, once in each direction that it goes; none where it may be left out."""
        directions = 0 if self.is_optional else self.is_read + self.is_written
        return directions * ELEMENT_BYTES[self.dtype] * math.prod(self.extents)

    def array(self, address, **held):
        """The Array of one address, read or written as the role says. `held`: dtype, extents, strides."""
        return Array(None if self.role == "output" else address, None if self.role == "input" else address, **held)


class _Array(ctypes.Structure):
    _fields_ = [("operand", ctypes.c_char_p), ("read", ctypes.c_void_p), ("written", ctypes.c_void_p),
                ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32), ("extents", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64))]


class _Operand(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("name_after", ctypes.c_char_p), ("role", ctypes.c_char_p),
                ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32), ("extents", ctypes.c_int64 * MAX_RANK),
                ("dimensions", ctypes.c_char_p * MAX_RANK), ("is_read", ctypes.c_int32),
                ("is_written", ctypes.c_int32), ("is_optional", ctypes.c_int32),
                ("takes_token_stride", ctypes.c_int32)]


class _Details(ctypes.Structure):
    _fields_ = [("chunk", ctypes.c_int64), ("workspace_bytes", ctypes.c_int64), ("launches", ctypes.c_int64),
                ("choice", ctypes.c_char_p), ("implementation", ctypes.c_char_p), ("reason", ctypes.c_char_p),
                ("conversions", ctypes.c_char_p), ("conversion_bytes", ctypes.c_int64)]


class _GroupDetails(ctypes.Structure):
    _fields_ = [("launches", ctypes.c_int64), ("workspace_bytes", ctypes.c_int64)]


class _SuiteProblem(ctypes.Structure):
    _fields_ = [("problem", ctypes.c_char_p), ("origin", ctypes.c_char_p), ("protects", ctypes.c_char_p)]


class _Field(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p), ("of_inputs", ctypes.c_int32)]


class _KnownLimit(ctypes.Structure):
    _fields_ = [("cause", ctypes.c_char_p), ("is_witness", ctypes.c_int32)]


class _Verdict(ctypes.Structure):
    _fields_ = [("passed", ctypes.c_int32), ("num_errors", ctypes.c_int32), ("reason", ctypes.c_char_p),
                ("coverage", ctypes.c_char_p)]


class _OutputError(ctypes.Structure):
    _fields_ = [("output", ctypes.c_char_p), *((name, ctypes.c_double) for name in (
        "relative_l2", "floor", "floor_ratio", "scaled_max", "limit", "limit_ratio")),
        *((name, ctypes.c_int64) for name in ("non_finite", "sequence", "head"))]


@dataclasses.dataclass(frozen=True)
class OutputError:
    """The unit of an output that is furthest above its limit, or nearest to it. `floor_ratio` is NaN where errors are not
    measured in floors; `head` is -1 where the output is not judged by head."""
    output: str
    relative_l2: float
    floor: float
    floor_ratio: float
    scaled_max: float
    limit: float
    limit_ratio: float
    non_finite: int
    sequence: int
    head: int


REFUSE_CONVERSIONS = 1


def find_library():
    """$GDNBENCH_LIBRARY; else, of an installed module, the library that was installed with it; else the library in lib/
    beside scripts/ (a bundle), or in build/."""
    here = os.path.dirname(os.path.abspath(__file__))
    if named := os.environ.get("GDNBENCH_LIBRARY"):
        places = [named]
    elif gdnbench_place:
        places = [os.path.normpath(os.path.join(here, gdnbench_place.LIBRARY))]
    else:
        places = [os.path.join(os.path.dirname(here), folder, "libgdnbench.so") for folder in ("lib", "build")]
    for place in places:
        if os.path.exists(place):
            return place
    raise FileNotFoundError(f"libgdnbench.so is not at {' nor at '.join(places)}: build it, or set GDNBENCH_LIBRARY")


class Library:
    def __init__(self, path=None):
        self.path = path or find_library()
        c = self._c = ctypes.CDLL(self.path)
        if c.gdnbench_abi_version() != ABI_VERSION:
            raise GdnbenchError("bad input", f"{self.path}: interface version {c.gdnbench_abi_version()}, expected "
                                             f"{ABI_VERSION}; scripts and library are of different builds")
        text, address, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64
        c.gdnbench_last_error.restype = text
        c.gdnbench_operation_name.restype = c.gdnbench_implementation_name.restype = text
        c.gdnbench_implementation_name.argtypes = [text, ctypes.c_int]
        c.gdnbench_plan_destroy.restype = None
        offsets = [ctypes.POINTER(ctypes.c_int64), number]
        arrays = [ctypes.POINTER(_Array), number]
        c.gdnbench_supports.argtypes = [text, text]
        c.gdnbench_select.argtypes = [text, text, ctypes.POINTER(text), ctypes.POINTER(text)]
        c.gdnbench_operand_of.argtypes = [text, *offsets, ctypes.c_int, ctypes.POINTER(_Operand)]
        c.gdnbench_plan_create.argtypes = [text, text, *offsets, text, address, *arrays, ctypes.c_int32,
                                           ctypes.POINTER(address)]
        c.gdnbench_plan_info.argtypes = [address, ctypes.POINTER(_Details)]
        c.gdnbench_plan_run.argtypes = c.gdnbench_plan_destroy.argtypes = [address]
        c.gdnbench_plan_run_phase.argtypes = [address, ctypes.c_int]
        c.gdnbench_group_create.argtypes = [ctypes.POINTER(address), number, ctypes.c_int, ctypes.POINTER(address)]
        c.gdnbench_group_info.argtypes = [address, ctypes.POINTER(_GroupDetails)]
        c.gdnbench_group_run.argtypes = c.gdnbench_group_destroy.argtypes = [address]
        c.gdnbench_group_destroy.restype = None
        c.gdnbench_phase_name.argtypes, c.gdnbench_phase_name.restype = [text, ctypes.c_int], text
        c.gdnbench_reference_float64.argtypes = [text, *offsets, text, address, *arrays]
        c.gdnbench_suite_name.restype = text
        c.gdnbench_suite_problem_of.argtypes = [text, ctypes.c_int, ctypes.POINTER(_SuiteProblem)]
        c.gdnbench_field_of.argtypes = [text, ctypes.c_int, ctypes.POINTER(_Field)]
        c.gdnbench_honours.argtypes = [text, text]
        c.gdnbench_known_limit_of.argtypes = [text, text, text, ctypes.POINTER(_KnownLimit)]
        c.gdnbench_case_create.argtypes = [text, ctypes.POINTER(address)]
        c.gdnbench_case_input.argtypes = [address, text, ctypes.POINTER(address), ctypes.POINTER(number)]
        c.gdnbench_case_reference.argtypes = [address, text, ctypes.POINTER(address), ctypes.POINTER(number)]
        c.gdnbench_case_judge.argtypes = [address, *arrays, ctypes.POINTER(_Verdict)]
        c.gdnbench_case_error.argtypes = [address, ctypes.c_int, ctypes.POINTER(_OutputError)]
        c.gdnbench_case_explain.argtypes = [address, *arrays, number, ctypes.POINTER(text)]
        c.gdnbench_case_destroy.argtypes, c.gdnbench_case_destroy.restype = [address], None

    def check(self, code):
        if code != 0:
            raise GdnbenchError(STATUS.get(code, str(code)), self._c.gdnbench_last_error().decode())

    def operations(self):
        """Names, in the order of `gdnbench list`."""
        return _names(self._c.gdnbench_operation_name)

    def implementations(self, operation="gated_delta"):
        """Names, in the order of `gdnbench list`."""
        return _names(lambda index: self._c.gdnbench_implementation_name(operation.encode(), index))

    def phases(self, operation):
        """Names of the phases of a call, in order; none where it has but one."""
        return _names(lambda index: self._c.gdnbench_phase_name(operation.encode(), index))

    def require_supported(self, implementation, problem):
        """Raises GdnbenchError with the reason."""
        self.check(self._c.gdnbench_supports(implementation.encode(), problem.encode()))

    def select(self, problem, device):
        """(name of the best implementation on the device, why it is that one)."""
        name, reason = ctypes.c_char_p(), ctypes.c_char_p()
        self.check(self._c.gdnbench_select(problem.encode(), device.encode(), ctypes.byref(name),
                                           ctypes.byref(reason)))
        return name.value.decode(), reason.value.decode()

    def operands(self, problem, sequence_offsets=None):
        """The arrays of a problem, in the order of its description."""
        found = []
        while True:
            c = _Operand()
            self.check(self._c.gdnbench_operand_of(problem.encode(), *_offsets(sequence_offsets), len(found),
                                                   ctypes.byref(c)))
            if c.name is None:
                return found
            found.append(Operand(c.name.decode(), c.name_after.decode(), c.role.decode(), c.dtype.decode(),
                                 tuple(c.extents[:c.rank]), tuple(name.decode() for name in c.dimensions[:c.rank]),
                                 bool(c.is_read), bool(c.is_written), bool(c.is_optional),
                                 bool(c.takes_token_stride)))

    def suites(self):
        """Names of the suites."""
        return _names(self._c.gdnbench_suite_name)

    def suite(self, name):
        """[(problem, where it is from, what it protects)] of a suite."""
        found = []
        while True:
            c = _SuiteProblem()
            self.check(self._c.gdnbench_suite_problem_of(name.encode(), len(found), ctypes.byref(c)))
            if c.problem is None:
                return found
            found.append((c.problem.decode(), c.origin.decode(), c.protects.decode()))

    def fields(self, problem):
        """The fields that the problem's operation looks at, whether the string says them or not: key -> value."""
        found = {}
        while True:
            c = _Field()
            self.check(self._c.gdnbench_field_of(problem.encode(), len(found), ctypes.byref(c)))
            if c.key is None:
                return found
            found[c.key.decode()] = c.value.decode()

    def require_honoured(self, problem, honoured):
        """Raises GdnbenchError that names the first field that is off its default and not in `honoured`: keys, or
        "key=value|value"."""
        self.check(self._c.gdnbench_honours(problem.encode(), ",".join(honoured).encode()))

    def known_limit(self, implementation, problem, table=None):
        """(cause, whether the problem is the entry's witness) of a known limit, or None. `table`: the text of a table of
        the form of data/known_limits.tsv in the place of the library's own."""
        c = _KnownLimit()
        self.check(self._c.gdnbench_known_limit_of(None if table is None else table.encode(), implementation.encode(),
                                                   problem.encode(), ctypes.byref(c)))
        return None if c.cause is None else (c.cause.decode(), bool(c.is_witness))

    def case(self, problem):
        """The problem's inputs, drawn from its seed, to judge outputs by."""
        return JudgedCase(self, problem)

    def plan(self, problem, arrays, device, stream=None, sequence_offsets=None, implementation=None, strict=False):
        """`implementation` None: the one select() gives. `strict`: an array that would have to be converted is refused."""
        return Plan(self, problem, arrays, device, stream, sequence_offsets, implementation, strict)

    def group(self, plans, phase):
        """One phase, by its number, of several plans together."""
        return Group(self, plans, phase)

    def reference_float64(self, problem, inputs, results, device, stream=None, sequence_offsets=None):
        """Writes float64 results. `inputs` as `arrays` of a plan; `results`: what an operand is after the run
        ("output", "final_state") -> address of an array of doubles of its shape."""
        arrays, known = {}, self.operands(problem, sequence_offsets)
        for name, given in inputs.items():
            array = given if isinstance(given, Array) else Array(read=given)
            arrays[name] = dataclasses.replace(array, written=None)
        for name, address in results.items():
            operand = next((x.name for x in known if x.role != "input" and x.name_after == name), name)
            arrays[operand] = dataclasses.replace(arrays.get(operand, Array()), written=address)
        packed = _packed(arrays)
        self.check(self._c.gdnbench_reference_float64(problem.encode(), *_offsets(sequence_offsets), device.encode(),
                                                      stream, packed, len(packed)))


def _names(name_of):
    names = []
    while (name := name_of(len(names))) is not None:
        names.append(name.decode())
    return names


def _packed(arrays):
    return (_Array * len(arrays))(*(_array(name, array) for name, array in arrays.items()))


def _array(name, array):
    numbers = lambda values: None if values is None else (ctypes.c_int64 * len(values))(*values)
    return _Array(name.encode(), array.read, array.written, array.dtype and array.dtype.encode(),
                  len(array.strides or array.extents or ()), numbers(array.extents), numbers(array.strides))


def _offsets(values):
    """Host offsets as the C functions take them."""
    if values is None:
        return None, 0
    values = list(values)
    if not values:
        raise GdnbenchError("bad input", "sequence_offsets: is empty, expected num_sequences + 1 values")
    return (ctypes.c_int64 * len(values))(*values), len(values) - 1


class _Made:
    """What the library has made, `_handle`, until close(), the end of a `with` or of the object."""
    _destroy = None  # the C function that frees it

    def close(self):
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            getattr(self._library._c, self._destroy)(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()


class Plan(_Made):
    """One problem over one set of arrays; run() enqueues it. close() frees its workspace."""
    _destroy = "gdnbench_plan_destroy"

    def __init__(self, library, problem, arrays, device, stream, sequence_offsets, implementation, strict):
        self._library, self._handle = library, ctypes.c_void_p()
        operands = {operand.name: operand for operand in library.operands(problem, sequence_offsets)}
        # What is no operand the library itself names in its error.
        packed = _packed({name: given if isinstance(given, Array) else
                          operands[name].array(given) if name in operands else Array(read=given)
                          for name, given in arrays.items()})
        library.check(library._c.gdnbench_plan_create(
            implementation and implementation.encode(), problem.encode(), *_offsets(sequence_offsets),
            device.encode(), stream, packed, len(packed), REFUSE_CONVERSIONS if strict else 0,
            ctypes.byref(self._handle)))
        details = _Details()
        library.check(library._c.gdnbench_plan_info(self._handle, ctypes.byref(details)))
        self.implementation, self.reason = details.implementation.decode(), details.reason.decode()
        self.info = {"chunk": details.chunk, "workspace_bytes": details.workspace_bytes,
                     "launches": details.launches, "choice": details.choice.decode(),
                     "conversions": details.conversions.decode(), "conversion_bytes": details.conversion_bytes}

    def run(self):
        self._library.check(self._library._c.gdnbench_plan_run(self._handle))

    def run_phase(self, phase):
        """One phase of an operation that has several, by its number in Library.phases()."""
        self._library.check(self._library._c.gdnbench_plan_run_phase(self._handle, phase))


class Group(_Made):
    """One phase of several plans of one implementation, device and stream, whose problems are the same but for lengths,
    inputs and pools; run() enqueues all of them, by one launch where info["launches"] is 1, in turn where it is 0. It
    keeps its plans; close() frees what it has on the device."""
    _destroy = "gdnbench_group_destroy"

    def __init__(self, library, plans, phase):
        self._library, self._plans, self._handle = library, list(plans), ctypes.c_void_p()
        handles = (ctypes.c_void_p * len(self._plans))(*(plan._handle for plan in self._plans))
        library.check(library._c.gdnbench_group_create(handles, len(handles), phase, ctypes.byref(self._handle)))
        details = _GroupDetails()
        library.check(library._c.gdnbench_group_info(self._handle, ctypes.byref(details)))
        self.info = {"launches": details.launches, "workspace_bytes": details.workspace_bytes}

    def run(self):
        self._library.check(self._library._c.gdnbench_group_run(self._handle))


class JudgedCase(_Made):
    """A problem's inputs, and what outputs made from them are held to. Values are ctypes arrays that live as long as the
    case; the reference is evaluated by the first question that needs it."""
    _destroy = "gdnbench_case_destroy"

    def __init__(self, library, problem):
        self._library, self._handle = library, ctypes.c_void_p()
        library.check(library._c.gdnbench_case_create(problem.encode(), ctypes.byref(self._handle)))

    def _values(self, function, name, kind):
        address, count = ctypes.c_void_p(), ctypes.c_int64()
        self._library.check(function(self._handle, name.encode(), ctypes.byref(address), ctypes.byref(count)))
        values = (kind * count.value).from_address(address.value) if count.value else (kind * 0)()
        values.case = self  # what the memory belongs to
        return values

    def input(self, operand):
        """What the call reads of an Operand: float32, rounded to its element type, or int64 of indices."""
        kind = ctypes.c_int64 if operand.dtype == "int64" else ctypes.c_float
        return self._values(self._library._c.gdnbench_case_input, operand.name, kind)

    def reference(self, output):
        """The float64 reference of an output, by its name after the call."""
        return self._values(self._library._c.gdnbench_case_reference, output, ctypes.c_double)

    def judge(self, outputs):
        """(passed, reason, coverage, [OutputError]). `outputs`: name -> Array with `read`, `dtype` and `extents`."""
        packed, verdict = _packed(outputs), _Verdict()
        self._library.check(self._library._c.gdnbench_case_judge(self._handle, packed, len(packed),
                                                                 ctypes.byref(verdict)))
        errors = []
        for index in range(verdict.num_errors):
            c = _OutputError()
            self._library.check(self._library._c.gdnbench_case_error(self._handle, index, ctypes.byref(c)))
            errors.append(OutputError(c.output.decode(), *(getattr(c, field.name) for field in
                                                           dataclasses.fields(OutputError)[1:])))
        return bool(verdict.passed), verdict.reason.decode(), verdict.coverage.decode(), errors

    def explain(self, outputs, chunk=0):
        """Where the error sits and what it looks like, as text."""
        packed, text = _packed(outputs), ctypes.c_char_p()
        self._library.check(self._library._c.gdnbench_case_explain(self._handle, packed, len(packed), chunk,
                                                                   ctypes.byref(text)))
        return text.value.decode()

"""libgdnbench.so from Python, addresses in and out; no package needed. impls/c_library/gdnbench.h says what every
argument means. scripts/gdnbench_torch.py is the same with tensors.

    from gdnbench_library import Library
    library = Library()                       # $GDNBENCH_LIBRARY, or lib/ or build/ of this tree
    plan = library.plan("cpu/naive", "gated_delta:heads=1/1,dim=16x16,seq=1x8,dtype=f32", arguments, "cpu")
    plan.run()

`arguments` is a dict: field of gdnbench_arguments -> address (or stride); what is absent is null.
"""
import ctypes
import os

ABI_VERSION = 1
STATUS = {1: "bad input", 2: "unsupported", 3: "device unavailable", 4: "out of memory", 5: "device failure"}


class GdnbenchError(RuntimeError):
    """What the library refused or failed at; `status` is one of the words of STATUS."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Arguments(ctypes.Structure):
    _fields_ = [("query", ctypes.c_void_p), ("key", ctypes.c_void_p), ("value", ctypes.c_void_p),
                ("query_token_stride", ctypes.c_int64), ("key_token_stride", ctypes.c_int64),
                ("value_token_stride", ctypes.c_int64), ("gate", ctypes.c_void_p), ("A_log", ctypes.c_void_p),
                ("dt_bias", ctypes.c_void_p), ("beta", ctypes.c_void_p), ("sequence_offsets", ctypes.c_void_p),
                ("slot_index", ctypes.c_void_p), ("state_pool", ctypes.c_void_p), ("output", ctypes.c_void_p)]


class Details(ctypes.Structure):
    _fields_ = [("chunk", ctypes.c_int64), ("workspace_bytes", ctypes.c_int64), ("launches", ctypes.c_int64),
                ("choice", ctypes.c_char_p)]


def find_library():
    """$GDNBENCH_LIBRARY, else the library in lib/ beside scripts/ (a bundle), else in build/."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    named = os.environ.get("GDNBENCH_LIBRARY")
    places = [named] if named else [os.path.join(here, folder, "libgdnbench.so") for folder in ("lib", "build")]
    for place in places:
        if os.path.exists(place):
            return place
    raise FileNotFoundError(f"libgdnbench.so is not at {' nor at '.join(places)}: build it, or set GDNBENCH_LIBRARY")


class Library:
    def __init__(self, path=None):
        self.path = path or find_library()
        c = self._c = ctypes.CDLL(self.path)
        text, address, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64
        c.gdnbench_last_error.restype = c.gdnbench_implementation_name.restype = text
        c.gdnbench_plan_destroy.restype = None
        offsets = [ctypes.POINTER(ctypes.c_int64), number]
        c.gdnbench_supports.argtypes = [text, text]
        c.gdnbench_plan_create.argtypes = [text, text, *offsets, text, address, ctypes.POINTER(Arguments),
                                           ctypes.POINTER(address)]
        c.gdnbench_plan_info.argtypes = [address, ctypes.POINTER(Details)]
        c.gdnbench_plan_run.argtypes = c.gdnbench_plan_destroy.argtypes = [address]
        c.gdnbench_reference_float64.argtypes = [text, *offsets, text, address, ctypes.POINTER(Arguments), address,
                                                 address]
        if c.gdnbench_abi_version() != ABI_VERSION:
            raise GdnbenchError("bad input", f"{self.path}: interface version {c.gdnbench_abi_version()}, expected "
                                             f"{ABI_VERSION}; scripts and library are of different builds")

    def check(self, code):
        if code != 0:
            raise GdnbenchError(STATUS.get(code, str(code)), self._c.gdnbench_last_error().decode())

    def implementations(self):
        """Names, in the order of `gdnbench list`."""
        names = []
        while (name := self._c.gdnbench_implementation_name(len(names))) is not None:
            names.append(name.decode())
        return names

    def require_supported(self, implementation, problem):
        """Raises GdnbenchError with the reason."""
        self.check(self._c.gdnbench_supports(implementation.encode(), problem.encode()))

    def plan(self, implementation, problem, arguments, device, stream=None, sequence_offsets=None):
        return Plan(self, implementation, problem, arguments, device, stream, sequence_offsets)

    def reference_float64(self, problem, arguments, device, output, final_state=None, stream=None,
                          sequence_offsets=None):
        """Writes float64 results to the addresses `output` and `final_state`."""
        self.check(self._c.gdnbench_reference_float64(problem.encode(), *_offsets(sequence_offsets), device.encode(),
                                                      stream, ctypes.byref(Arguments(**arguments)), output,
                                                      final_state))


def _offsets(values):
    """Host offsets as the C functions take them."""
    if values is None:
        return None, 0
    values = list(values)
    if not values:
        raise GdnbenchError("bad input", "sequence_offsets: is empty, expected num_sequences + 1 values")
    return (ctypes.c_int64 * len(values))(*values), len(values) - 1


class Plan:
    """One problem over one set of arrays; run() enqueues it. close() frees its workspace."""

    def __init__(self, library, implementation, problem, arguments, device, stream, sequence_offsets):
        self._library, self._handle = library, ctypes.c_void_p()
        library.check(library._c.gdnbench_plan_create(
            implementation.encode(), problem.encode(), *_offsets(sequence_offsets), device.encode(), stream,
            ctypes.byref(Arguments(**arguments)), ctypes.byref(self._handle)))
        details = Details()
        library.check(library._c.gdnbench_plan_info(self._handle, ctypes.byref(details)))
        self.implementation = implementation
        self.info = {"chunk": details.chunk, "workspace_bytes": details.workspace_bytes,
                     "launches": details.launches, "choice": details.choice.decode()}

    def run(self):
        self._library.check(self._library._c.gdnbench_plan_run(self._handle))

    def close(self):
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            self._library._c.gdnbench_plan_destroy(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

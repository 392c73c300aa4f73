"""How one run is timed on a device, with a cache that other layers of a model have left cold: by events around a CUDA
graph on a GPU, by the wall clock on the CPU. PyTorch is imported where a CUDA clock is made.

A clock has: current(), within which everything is done; stream(), what a plan is made for; flush(), which empties the
last-level cache; capture(call); take(launch) and read(taken), which time; wait(). `call` has prepare() and run()."""
import contextlib
import ctypes
import importlib
import os
import time

from .turns import first_line

FLUSH_BYTES = 512 << 20  # of a GPU, in the order of its runs: several times its L2
UNKNOWN_CACHE_BYTES = 64 << 20


def clock_of(device):
    """The clock of "cpu", "cuda" or "cuda:1"; ValueError that names what is wrong."""
    if device == "cpu":
        return WallClock()
    if device.partition(":")[0] != "cuda":
        raise ValueError(f"device: {device!r}, expected 'cpu', 'cuda' or 'cuda:1'")
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise ValueError(f"device: {device!r} is timed by PyTorch's events, and there is no PyTorch here") from None
    if not torch.cuda.is_available():
        raise ValueError(f"device: {device!r}, and PyTorch finds no CUDA device")
    return CudaClock(device)


def last_level_cache_bytes():
    """Of the largest data cache, as the system's files tell; 0 where they do not."""
    largest, units = 0, {"K": 1 << 10, "M": 1 << 20}
    for index in range(8):
        try:
            with open(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size", encoding="ascii") as file:
                text = file.read().strip()
            largest = max(largest, int(text.rstrip("KM")) * units.get(text[-1:], 1))
        except (OSError, ValueError):
            continue
    return largest


def _cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "CPU")
    except OSError:
        return "CPU"


class WallClock:
    """The CPU: the time of a call until what it returns is there. The cache is emptied as the program does it: a buffer
    of the last-level cache's size is written, a part by each processor, so that private caches are emptied too."""
    launch_word = "call"

    def __init__(self, now_ns=time.perf_counter_ns):
        self._now_ns, self._value, self._buffer, self._workers = now_ns, 0, None, None
        self.device = _cpu_name()

    def current(self):
        return contextlib.nullcontext()

    def stream(self):
        return None

    def flush(self):
        if self._buffer is None:
            from concurrent.futures import ThreadPoolExecutor
            self._buffer = ctypes.create_string_buffer(last_level_cache_bytes() or UNKNOWN_CACHE_BYTES)
            self._threads = len(os.sched_getaffinity(0))
            self._workers = ThreadPoolExecutor(self._threads)
        self._value = (self._value + 1) & 0xff
        size, first = len(self._buffer), ctypes.addressof(self._buffer)
        cuts = [size * part // self._threads for part in range(self._threads + 1)]
        # ctypes lets other threads run meanwhile.
        list(self._workers.map(lambda part: ctypes.memset(first + cuts[part], self._value, cuts[part + 1] - cuts[part]),
                               range(self._threads)))

    def capture(self, call):
        """(how to launch it, its results or None where each launch has its own, what a launch is, why)."""
        return call.run, None, self.launch_word, ""

    def take(self, launch):
        begin = self._now_ns()
        for value in _values_of(launch()):
            if hasattr(value, "block_until_ready"):  # JAX returns before its arrays are computed
                value.block_until_ready()
        return (self._now_ns() - begin) * 1e-6

    def read(self, taken):
        return taken

    def wait(self):
        pass


class CudaClock:
    """A GPU: the time between two events around one launch on the current stream, while the host enqueues ahead. The
    launch is one replay of a CUDA graph where the call can be captured, else the call itself."""

    def __init__(self, device="cuda"):
        self._torch = torch = importlib.import_module("torch")
        self._place, self._flush = torch.device(device), None
        self.device = torch.cuda.get_device_name(self._place)

    @contextlib.contextmanager
    def current(self):
        """A stream of its own, since the default one cannot be captured, and no gradients."""
        torch = self._torch
        with torch.cuda.device(self._place), torch.cuda.stream(torch.cuda.Stream(self._place)), torch.no_grad():
            yield

    def stream(self):
        return self._torch.cuda.current_stream(self._place).cuda_stream or None

    def flush(self):
        if self._flush is None:
            self._flush = self._torch.empty(FLUSH_BYTES, dtype=self._torch.uint8, device=self._place)
        self._flush.zero_()

    def capture(self, call):
        """(how to launch it, its results, 'graph' or 'eager', why not a graph). The call must have run before."""
        torch = self._torch
        torch.cuda.synchronize(self._place)
        call.prepare()
        graph = torch.cuda.CUDAGraph()
        try:
            # Not torch.cuda.graph(): that collects garbage and empties the allocator's cache each time.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                results = call.run()
            except BaseException:
                try:
                    graph.capture_end()
                except Exception:  # noqa: BLE001 - the call's own error is the one to report
                    pass
                raise
            graph.capture_end()
            graph.replay()
            torch.cuda.synchronize(self._place)
            return graph.replay, results, "graph", ""
        except Exception as error:  # noqa: BLE001 - a function may raise anything; the row says 'eager' and why
            torch.cuda.synchronize(self._place)
            return call.run, None, "eager", first_line(error)

    def take(self, launch):
        begin, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        return begin, end

    def read(self, taken):
        self.wait()
        return {name: begin.elapsed_time(end) for name, (begin, end) in taken.items()}

    def wait(self):
        self._torch.cuda.synchronize(self._place)


def _values_of(returned):
    if isinstance(returned, dict):
        return returned.values()
    return returned if isinstance(returned, (tuple, list)) else (returned,)

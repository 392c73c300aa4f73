"""The method, the same for all: cold L2 (512 MiB written before each run, while the host enqueues what follows), one
replay of a CUDA graph between two events, contenders in turns (turns.py), on one stream."""
import statistics

import torch

from inputs import DEVICE
from turns import order_in_round

FLUSH_BYTES = 512 << 20
WARM_ROUNDS = 2

_flush = None


def flush_l2():
    global _flush
    if _flush is None:
        _flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=DEVICE)
    _flush.zero_()


def capture(call):
    """(how to launch it, its results, 'graph' or 'eager', why not a graph). The call must have run before."""
    torch.cuda.synchronize()
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
        torch.cuda.synchronize()
        return graph.replay, results, "graph", ""
    except Exception as error:  # noqa: BLE001 - a peer may raise anything; the row says 'eager' and why
        torch.cuda.synchronize()
        return call.run, None, "eager", first_line(error)


def time_in_turns(launches, runs):
    """Milliseconds of every run: {name: [...]} for launches {name: (prepare, launch)}."""
    times = {name: [] for name in launches}
    for number in range(WARM_ROUNDS + runs):
        events = {}
        for name in order_in_round(list(launches), number):
            prepare, launch = launches[name]
            prepare()
            flush_l2()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            launch()
            end.record()
            events[name] = begin, end
        torch.cuda.synchronize()
        if number >= WARM_ROUNDS:
            for name, (begin, end) in events.items():
                times[name].append(begin.elapsed_time(end))
    return times


def summary(times):
    """Median, quartiles and least."""
    first, median, third = statistics.quantiles(times, n=4, method="inclusive")
    return {"time_ms": median, "q1_ms": first, "q3_ms": third, "min_ms": min(times), "runs": len(times)}


class Errors:
    """Relative L2 of whole tensors against float64, and of their worst value head. Any NaN makes them NaN."""

    def __init__(self, output, state):
        self._exact = {"output": output, "state": state}
        self._norms = {name: self._by_head(exact) for name, exact in self._exact.items()}
        # What rounding the exact output to bfloat16 costs by itself.
        self.output_floor = self._of("output", output.bfloat16())[0]

    @staticmethod
    def _by_head(tensor):
        """Both have their heads in dimension 1."""
        return torch.linalg.vector_norm(tensor, dim=[d for d in range(tensor.dim()) if d != 1])

    def _of(self, name, tensor):
        difference = self._by_head(tensor - self._exact[name])
        norms = self._norms[name]
        whole = torch.linalg.vector_norm(difference) / torch.linalg.vector_norm(norms)
        return whole.item(), (difference / norms).max().item()

    def of(self, output, state):
        errors = {}
        for name, tensor in (("output", output), ("state", state)):
            errors[f"{name}_error"], errors[f"{name}_worst_head"] = self._of(name, tensor)
        return errors


def first_line(error):
    """One line of an exception, fit for a table."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]

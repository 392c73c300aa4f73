"""The method, the same for all: cold L2 (512 MiB written before each run, while the host enqueues what follows), one
replay of a CUDA graph between two events, contenders in turns, on one stream. It is that of gdnbench.time(), whose clock
is gdnbench/clocks.py and whose turns are gdnbench/turns.py."""
import functools
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from gdnbench import turns  # noqa: E402: found by the line above
from gdnbench.clocks import CudaClock  # noqa: E402
from gdnbench.turns import first_line  # noqa: E402,F401: also for whoever imports this file
from inputs import DEVICE  # noqa: E402


@functools.cache
def clock():
    return CudaClock(DEVICE)


def capture(call):
    """(how to launch it, its results, 'graph' or 'eager', why not a graph). The call must have run before."""
    return clock().capture(call)


def time_in_turns(launches, runs):
    """Milliseconds of every run: {name: [...]} for launches {name: (prepare, launch)}."""
    return turns.time_in_turns(launches, runs, clock())


def summary(times):
    """Median, quartiles and least."""
    first, median, third = turns.quartiles(times)
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


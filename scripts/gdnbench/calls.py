"""Problem strings and views to runs. Plans are kept, so that a second call with the same tensors plans nothing.

A plan is found again by its problem, the addresses and forms of its tensors, the device, the stream and
gdnbench.strict. The contents of offsets and slots are read on the device at each run; lengths are read on the host as a
plan is made, and never after.
"""
import collections
import contextlib

import gdnbench
from gdnbench_library import Array, GdnbenchError, Library

from .tensors import View, is_torch, unsupported

KEPT_PLANS = 128

_library = None
_plans = collections.OrderedDict()
planned = 0  # plans made so far
plan_only = False  # True: calls plan and do not run
latest = None  # the plan of the latest call; None where that was refused


def library():
    """The library, loaded once."""
    global _library
    if _library is None:
        _library = Library()
    return _library


def _stream(view):
    if not view.device.startswith("cuda") or not is_torch(view.owner):
        return None
    import torch
    return torch.cuda.current_stream(view.owner.device).cuda_stream or None


def _current(view):
    if not view.device.startswith("cuda") or not is_torch(view.owner):
        return contextlib.nullcontext()
    import torch
    return torch.cuda.device(view.owner.device)


def _array(operand, view):
    return operand.array(view.address, dtype=view.dtype, extents=view.extents, strides=view.strides)


def run(operation, fields, views, offsets):
    """Plans, or finds the plan, and runs. `fields`: key -> value, what is None left out. `views`: operand -> View, what
    is None left out; a pair of Views where an operand is read from one tensor and written to another. `offsets`: the
    host lengths as offsets, or a callable that gives them and is called only where a plan is made."""
    global planned, latest
    latest = None
    problem = f"{operation}:" + ",".join(f"{key}={value}" for key, value in fields.items() if value is not None)
    views = {name: view for name, view in views.items() if view is not None}
    first = next(view for view in views.values() if isinstance(view, View))
    for name, view in views.items():
        for each in view if isinstance(view, tuple) else (view,):
            if each.device != first.device:
                unsupported(name, f"on {each.device}, expected {first.device} as the others")
    strict = gdnbench.strict
    key = (problem, tuple(views.items()), _stream(first), None if callable(offsets) else tuple(offsets), strict)
    with _current(first):
        plan = _plans.get(key)
        if plan is None:
            host = list(offsets() if callable(offsets) else offsets)
            operands = {operand.name: operand for operand in library().operands(problem, host)}
            arrays = {}
            for name, view in views.items():
                if name not in operands:
                    raise GdnbenchError("bad input", f"{name}: is no operand of {problem}")
                if isinstance(view, tuple):
                    arrays[name] = Array(view[0].address, view[1].address, dtype=view[0].dtype,
                                         extents=view[0].extents, strides=view[0].strides)
                else:
                    arrays[name] = _array(operands[name], view)
            plan = library().plan(problem, arrays, first.device, _stream(first), host, strict=strict)
            planned += 1
            _plans[key] = plan
            if len(_plans) > KEPT_PLANS:
                _plans.popitem(last=False)[1].close()
        _plans.move_to_end(key)
        latest = plan
        if not plan_only:
            plan.run()
    return plan


def forget():
    """Frees every plan that is kept."""
    while _plans:
        _plans.popitem()[1].close()

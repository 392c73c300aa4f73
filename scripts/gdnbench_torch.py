"""The kernels of this project on PyTorch tensors.

    import torch, gdnbench_torch as gdn
    output, final_state = gdn.gated_delta(query, key, value, log_decay, beta)          # one call

    plan = gdn.GatedDelta(query, key, value, log_decay, beta, sequence_offsets, initial_state)
    plan.run()                                            # again and again; reads the tensors as they are then
    print(plan.implementation, plan.info["choice"])

query, key [T, Hk, Dk], value [T, Hv, Dv] in bfloat16, float16 or float32; log_decay (<= 0), beta [T, Hv] float32;
sequence_offsets [N + 1] int64, on the tensors' device, absent: one sequence; initial_state [N, Hv, Dk, Dv] float32,
bfloat16 or float16 (state_layout="vk": [N, Hv, Dv, Dk]), absent: zeros. output has value's shape and type, unless
`output` is given.

With gradients, of everything that is a floating-point tensor there:

    output, _ = gdn.gated_delta_autograd(query, key, value, log_decay, beta)
    output.backward(d_output)
    output, _ = gdn.causal_conv1d_autograd(tokens, weight, bias)

Any other problem, any operation: Plan takes the problem's string and tensors by operand name, and makes the outputs
that are not given.

    plan = gdn.Plan("causal_conv1d:heads=16/32,dim=128,seq=4x512,dtype=bf16",
                    {"qkv": qkv, "conv_weight": weight, "conv_state": window, "sequence_offsets": offsets})
    plan.run()
    print(plan.tensors["conv_output"], gdn.operands(plan.problem))

A call that has phases is made phase by phase, or one phase of several plans together, by one launch where there is a
kernel for it, as when a model has said how many draft tokens are accepted and all its layers commit:

    for plan in layers: plan.run_phase("verify")
    commit = gdn.PlanGroup(layers, "commit")              # made once, beside the plans
    commit.run()

A plan's run() only enqueues, on the stream that was current when the plan was made, so it can be captured in a
graph on that stream:

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        plan = gdn.GatedDelta(...); plan.run()
    with torch.cuda.graph(graph, stream=stream):
        plan.run()

The library is found as scripts/gdnbench_library.py says. gdnbench_library.GdnbenchError tells what is wrong.
"""
import collections
import dataclasses
import functools
import threading

import torch

from gdnbench_library import GdnbenchError, Library

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i8": torch.int8,
          "int64": torch.int64}
NAMES = {dtype: name for name, dtype in DTYPES.items() if name not in ("int64", "i8")}
# What tensors may hold; what is not the operand's own is converted, where that loses nothing.
HELD = {dtype: name for name, dtype in DTYPES.items()} | {torch.int32: "int32"} | {
    getattr(torch, held): name for held, name in (("float8_e4m3fn", "f8_e4m3"), ("float8_e5m2", "f8_e5m2"))
    if hasattr(torch, held)}  # PyTorch before 2.1 has no numbers of 8 bits

_library = None


def library():
    """The library, loaded once."""
    global _library
    if _library is None:
        _library = Library()
    return _library


def operands(problem, sequence_offsets=None):
    """The arrays of a problem: gdnbench_library.Operand each, with name, role, dtype and extents."""
    return library().operands(problem, sequence_offsets)


def _refuse(message):
    raise GdnbenchError("bad input", message)


def device_name(device):
    """As the library names it."""
    if device.type == "cuda":
        return f"cuda:{torch.cuda.current_device() if device.index is None else device.index}"
    if device.type != "cpu":
        _refuse(f"tensors are on {device}, expected cuda or cpu")
    return device.type


class _current:
    """Makes a CUDA device current for a while: the library leaves its own current."""

    def __init__(self, device):
        self._guard = torch.cuda.device(device) if device.type == "cuda" else None

    def __enter__(self):
        return self._guard and self._guard.__enter__()

    def __exit__(self, *problem):
        return self._guard and self._guard.__exit__(*problem)


def _stream(device):
    return torch.cuda.current_stream(device).cuda_stream or None if device.type == "cuda" else None


def _held(operand, tensor, device, name):
    """The operand's tensor as the library takes it. `name`: what the caller calls it."""
    if not isinstance(tensor, torch.Tensor):
        words = ", ".join(f"{size} = {extent}" for size, extent in zip(operand.dimensions, operand.extents))
        _refuse(f"{name}: expected a tensor [{words}], got {type(tensor).__name__}")
    if tensor.dtype not in HELD:
        _refuse(f"{name}: {tensor.dtype}, expected one of {', '.join(str(dtype) for dtype in HELD)}")
    if tensor.device != device:
        _refuse(f"{name}: on {tensor.device}, expected {device} as the others")
    return operand.array(tensor.data_ptr(), dtype=HELD[tensor.dtype], extents=tuple(tensor.shape),
                         strides=tensor.stride())


def _require_slots_in(tensors, known):
    """Slots lie in the rows of the pools that are given."""
    for name in ("slot_index", "output_slot_index"):
        slots = tensors.get(name)
        if not isinstance(slots, torch.Tensor) or slots.numel() == 0:
            continue
        for operand in known:
            pool = tensors.get(operand.name)
            if operand.dimensions[:1] == ("slots",) and isinstance(pool, torch.Tensor) and int(slots.max()) >= len(pool):
                _refuse(f"{name}: {int(slots.max())}, expected less than the {len(pool)} rows of {operand.name}")


def _empty(operand, device):
    """A tensor for what a call writes. Zeros where a sequence without tokens leaves its row as it was."""
    make = torch.zeros if operand.role == "in place" else torch.empty
    return make(operand.extents, dtype=DTYPES[operand.dtype], device=device)


def _prepared(problem, tensors, names, make_outputs):
    """(problem, tensors with the outputs made, arrays, host offsets, device) of tensors by operand name."""
    offsets = tensors.get("sequence_offsets")
    if not isinstance(offsets, torch.Tensor) or offsets.dim() != 1 or offsets.dtype not in (torch.int64, torch.int32):
        _refuse("sequence_offsets: expected an int64 or int32 tensor [N + 1]")
    device, host_offsets = offsets.device, offsets.tolist()
    known = operands(problem, host_offsets)
    _require_slots_in(tensors, known)
    tensors, arrays = dict(tensors), {}
    for name in tensors:
        if name not in (operand.name for operand in known):
            _refuse(f"{name}: is no operand of {problem}; expected {', '.join(x.name for x in known)}")
    for operand in known:
        if tensors.get(operand.name) is None:
            if not make_outputs or operand.is_read or not operand.is_written or operand.is_optional:
                if operand.is_read and not operand.is_optional:
                    _refuse(f"{names.get(operand.name, operand.name)}: is missing")
                continue
            tensors[operand.name] = _empty(operand, device)
        arrays[operand.name] = _held(operand, tensors[operand.name], device, names.get(operand.name, operand.name))
    return problem, tensors, arrays, host_offsets, device


def _phase_number(problem, phase):
    phases = library().phases(problem.split(":")[0])
    if phase not in phases:
        _refuse(f"phase: '{phase}', expected {' or '.join(phases) or 'none: this operation has but one'}")
    return phases.index(phase)


class Plan:
    """A plan of any operation. `problem`: its string; lengths come from the tensor sequence_offsets. `tensors`: by
    operand name; outputs that are not there are made, and stand in self.tensors. run() reads the tensors' contents as
    they are then; other sequence_offsets are allowed, of as many sequences and no more tokens. An operand in place
    ("initial_state") holds the values after the run. `implementation` None: the best there is.

    Tensors may have any strides, the tokens of a batch in several dimensions ([B, L, ...] for T), int32 indices, and
    element types whose values the operand's holds. What the implementation does not take as it is, is converted on the
    device around each run: self.info["conversions"] names it, `strict` refuses it."""

    def __init__(self, problem, tensors, implementation=None, *, names=None, strict=False):
        self.problem, self.tensors, arrays, offsets, self._device = _prepared(problem, tensors, names or {},
                                                                              make_outputs=True)
        with _current(self._device):
            self._plan = library().plan(self.problem, arrays, device_name(self._device), _stream(self._device), offsets,
                                        implementation, strict)
        self.implementation, self.reason, self.info = self._plan.implementation, self._plan.reason, self._plan.info

    def run(self):
        with _current(self._device):
            self._plan.run()

    def run_phase(self, phase):
        """One phase of an operation that has several, by its name: plan.run_phase("verify")."""
        with _current(self._device):
            self._plan.run_phase(_phase_number(self.problem, phase))

    def close(self):
        """Frees the workspace now."""
        self._plan.close()


class PlanGroup:
    """One phase, by its name, of several Plans together. They are of one implementation, device and stream, and their
    problems the same but for lengths (as many sequences and tokens), inputs, and the rows of pools and what lies
    between them. run() enqueues all, reading the tensors' contents as they are then: self.info["launches"] kernels, or,
    where that is 0, each plan's own in turn. No plan writes what another one reads or writes."""

    def __init__(self, plans, phase):
        plans = list(plans)
        if not plans:
            _refuse("plans: are none, expected one or more")
        self._device = plans[0]._device
        with _current(self._device):
            self._group = library().group([plan._plan for plan in plans], _phase_number(plans[0].problem, phase))
        self.info = self._group.info

    def run(self):
        with _current(self._device):
            self._group.run()

    def close(self):
        """Frees what it has on the device now."""
        self._group.close()


def plan_reference_float64(problem, tensors, *, names=None):
    """{"output": ..., "final_state": ...}: what the problem writes, in float64 straight from the equations, to judge
    outputs by. `tensors` by operand name."""
    problem, tensors, arrays, offsets, device = _prepared(problem, tensors, names or {}, make_outputs=False)
    results = {}
    for operand in operands(problem, offsets):
        if operand.is_written and not operand.is_optional:
            rows = tensors[operand.name].shape[:1] if operand.dimensions[:1] == ("slots",) and operand.is_read else ()
            shape = (*rows, *operand.extents[len(rows):])
            results[operand.name_after] = torch.empty(shape, dtype=torch.float64, device=device)
    arrays = {name: dataclasses.replace(array, written=None) for name, array in arrays.items()
              if array.read is not None}
    with _current(device):
        library().reference_float64(problem, arrays, {name: x.data_ptr() for name, x in results.items()},
                                    device_name(device), _stream(device), offsets)
    return results


# ---- gated_delta by arguments

# What a caller of these calls the operands.
_NAMES = {"q": "query", "k": "key", "v": "value", "initial_state": "state"}


@functools.lru_cache(maxsize=64)
def _one_sequence(tokens, device):
    """The offsets of one sequence. Kept, so that a call without offsets neither waits for the device nor has others
    each time."""
    with torch.inference_mode(False):  # what is made in that mode cannot be saved for a backward call
        return torch.tensor([0, tokens], dtype=torch.int64, device=device)


def _gated_delta(query, key, value, log_decay, beta, sequence_offsets, state, *, read_state, write_state,
                 state_layout, scale, normalize_qk, output_dtype=None):
    """(problem, tensors by operand name)."""
    for name, tensor, shape in (("query", query, "[T, Hk, Dk]"), ("value", value, "[T, Hv, Dv]")):
        if not isinstance(tensor, torch.Tensor) or tensor.dim() != 3:
            _refuse(f"{name}: expected a tensor {shape}")
    (tokens, key_heads, key_dim), (value_heads, value_dim) = query.shape, value.shape[1:]
    for name, dtype in (("query", query.dtype), ("state", None if state is None else state.dtype)):
        if dtype is not None and dtype not in NAMES:
            _refuse(f"{name}: {dtype}, expected {' or '.join(str(known) for known in NAMES)}")
    if state_layout not in ("kv", "vk"):
        _refuse(f"state_layout: '{state_layout}', expected 'kv' or 'vk'")
    if sequence_offsets is None:
        sequence_offsets = _one_sequence(tokens, query.device)
    fields = [f"heads={key_heads}/{value_heads}", f"dim={key_dim}x{value_dim}", f"seq=1x{max(tokens, 1)}",
              f"dtype={NAMES[query.dtype]}"]
    if state is not None and state.dtype != torch.float32:
        fields.append(f"state={NAMES[state.dtype]}")
    if output_dtype not in (None, query.dtype):
        if output_dtype != torch.float32:
            _refuse(f"output: {output_dtype}, expected {query.dtype} or torch.float32")
        fields.append("out=f32")
    if state_layout != "kv":
        fields.append("layout=vk")
    if read_state:
        fields.append("h0=normal")
    if not write_state:
        fields.append("ht=0")
    if normalize_qk:
        fields.append("norm=1")
    if scale is not None:
        fields.append(f"scale={scale!r}")
    tensors = {"q": query, "k": key, "v": value, "log_decay": log_decay, "beta": beta,
               "sequence_offsets": sequence_offsets}
    if state is not None:
        tensors["initial_state"] = state
    return "gated_delta:" + ",".join(fields), tensors


class GatedDelta:
    """A plan. `output` and `state` are tensors that run() writes: output [T, Hv, Dv], and the state in place: what
    was in it is read (if initial_state was given) and replaced by the final state, so the next run goes on from it.
    `initial_state` itself is used as `state`; hand over a clone to keep it.

    run() reads the tensors' contents as they are then; other sequence_offsets are allowed, of as many sequences and
    no more tokens."""

    def __init__(self, query, key, value, log_decay, beta, sequence_offsets=None, initial_state=None, *,
                 final_state=True, output=None, state_layout="kv", scale=None, normalize_qk=False,
                 implementation=None):
        self.problem, tensors = _gated_delta(
            query, key, value, log_decay, beta, sequence_offsets, initial_state, read_state=initial_state is not None,
            write_state=final_state, state_layout=state_layout, scale=scale, normalize_qk=normalize_qk,
            output_dtype=None if output is None else output.dtype)
        if output is not None:
            tensors["output"] = output
        self._plan = Plan(self.problem, tensors, implementation, names=_NAMES)
        self.output, self.state = self._plan.tensors["output"], self._plan.tensors.get("initial_state")
        self.implementation, self.reason, self.info = self._plan.implementation, self._plan.reason, self._plan.info

    def run(self):
        self._plan.run()
        return self.output, self.state

    def close(self):
        """Frees the workspace now."""
        self._plan.close()


def gated_delta(query, key, value, log_decay, beta, sequence_offsets=None, initial_state=None, *, final_state=True,
                state_layout="kv", scale=None, normalize_qk=False, implementation=None):
    """(output, final state) of one call; initial_state is left as it is. Plans anew each time: keep a GatedDelta
    where the same shapes come again."""
    kept = initial_state.clone() if initial_state is not None and final_state else initial_state
    plan = GatedDelta(query, key, value, log_decay, beta, sequence_offsets, kept, final_state=final_state,
                      state_layout=state_layout, scale=scale, normalize_qk=normalize_qk,
                      implementation=implementation)
    output, state = plan.run()
    plan.close()
    return output, state if final_state else None


def reference_float64(query, key, value, log_decay, beta, sequence_offsets=None, initial_state=None, *,
                      state_layout="kv", scale=None, normalize_qk=False):
    """(output [T, Hv, Dv], final state in the layout asked for) in float64: the token recurrence, to judge by."""
    problem, tensors = _gated_delta(
        query, key, value, log_decay, beta, sequence_offsets, initial_state, read_state=initial_state is not None,
        write_state=True, state_layout=state_layout, scale=scale, normalize_qk=normalize_qk)
    results = plan_reference_float64(problem, tensors, names=_NAMES)
    return results["output"], results["final_state"]


# ---- gated_delta with gradients

KEPT_PLANS = 64
KEPT_WORKSPACE_BYTES = 4 << 30  # a backward plan of 32768 tokens and 32 heads has about 1.6 GiB


class _KeptPlans:
    """Plans found again by problem, implementation, stream, and the addresses and forms of their tensors, which come
    again and again from PyTorch's allocator. They keep no tensors alive. Lengths are read on the host as a plan is made,
    and never after. Gradients of several devices come in a thread each, hence the lock."""

    def __init__(self):
        self._plans, self._lock, self._workspace_bytes = collections.OrderedDict(), threading.Lock(), 0
        self.planned = 0  # plans made so far

    def run(self, problem, tensors, implementation):
        """Runs it on tensors by operand name, outputs among them."""
        device = tensors["sequence_offsets"].device
        key = (problem, implementation, device, _stream(device),
               tuple((name, x.data_ptr(), x.dtype, tuple(x.shape), x.stride(), x.device)
                     for name, x in tensors.items()))
        with self._lock, _current(device):
            plan = self._plans.get(key)
            if plan is None:
                problem, _, arrays, offsets, _ = _prepared(problem, tensors, _NAMES, make_outputs=False)
                plan = library().plan(problem, arrays, device_name(device), _stream(device), offsets, implementation)
                self._plans[key] = plan
                self.planned += 1
                self._workspace_bytes += plan.info["workspace_bytes"]
                while len(self._plans) > 1 and (len(self._plans) > KEPT_PLANS or
                                                self._workspace_bytes > KEPT_WORKSPACE_BYTES):
                    self._close_oldest()
            self._plans.move_to_end(key)
            plan.run()

    def _close_oldest(self):
        plan = self._plans.popitem(last=False)[1]
        self._workspace_bytes -= plan.info["workspace_bytes"]
        plan.close()

    def forget(self):
        with self._lock:
            while self._plans:
                self._close_oldest()


_kept = _KeptPlans()


def forget_plans():
    """Frees the plans that functions with gradients keep, and their workspaces."""
    _kept.forget()


# What gradients are with respect to, in the order of _GatedDeltaFunction's arguments, by operand name.
_DIFFERENTIABLE = ("q", "k", "v", "log_decay", "decay_logit", "A_log", "dt_bias", "beta", "initial_state")


@dataclasses.dataclass(frozen=True)
class _Call:
    """What a call is beside its tensors."""
    fields: str  # those that forward and backward have in common
    final_state: bool
    state_layout: str
    implementation: str | None
    backward_implementation: str | None


def _states(call, query, value, sequence_offsets):
    """The shape of a state for each sequence."""
    dims = query.shape[2], value.shape[2]
    return sequence_offsets.shape[0] - 1, value.shape[1], *(dims if call.state_layout == "kv" else dims[::-1])


class _GatedDeltaFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, sequence_offsets, *tensors):
        ctx.set_materialize_grads(False)
        ctx.call = call
        ctx.save_for_backward(sequence_offsets, *tensors)
        given = {name: x for name, x in zip(_DIFFERENTIABLE, tensors) if x is not None}
        q, v, state = given["q"], given["v"], given.get("initial_state")
        if call.final_state and state is not None:
            state = state.clone(memory_format=torch.contiguous_format)
        elif call.final_state:
            # A sequence without tokens leaves its row as it was.
            state = torch.zeros(_states(call, q, v, sequence_offsets), dtype=torch.float32, device=q.device)
        output = torch.empty(v.shape, dtype=q.dtype, device=q.device)
        made = {"sequence_offsets": sequence_offsets, "output": output}
        if state is not None:
            made["initial_state"] = state
        _kept.run("gated_delta:" + call.fields + ("" if call.final_state else ",ht=0"), given | made,
                  call.implementation)
        return output, state if call.final_state else None

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output, d_final_state):
        """What an output did not go into, has no gradient: of the output zeros, of the final state none."""
        call, (sequence_offsets, *tensors) = ctx.call, ctx.saved_tensors
        given = {name: x for name, x in zip(_DIFFERENTIABLE, tensors) if x is not None}
        q, v = given["q"], given["v"]
        # Sums hand over one element with strides of zero.
        arrays = given | {"sequence_offsets": sequence_offsets,
                          "d_output": torch.zeros(v.shape, dtype=q.dtype, device=q.device) if d_output is None
                          else d_output.contiguous()}
        if d_final_state is not None:
            arrays["d_final_state"] = d_final_state.contiguous()
        # Gates and betas have gradients in float32, whatever they are held in.
        dtypes = dict.fromkeys("qkv", q.dtype)
        if "initial_state" in given:
            dtypes["initial_state"] = given["initial_state"].dtype
        gradients = {name: torch.empty(x.shape, dtype=dtypes.get(name, torch.float32), device=q.device)
                     for name, x in given.items()}
        written = {f"d_{name}": x for name, x in gradients.items()}
        if "d_initial_state" not in written:  # written also where the call started from zeros
            written["d_initial_state"] = torch.empty(_states(call, q, v, sequence_offsets), dtype=torch.float32,
                                                     device=q.device)
        _kept.run("gated_delta_backward:" + call.fields + (",ht=0" if d_final_state is None else ""), arrays | written,
                  call.backward_implementation)
        wanted = ctx.needs_input_grad[2:]
        # PyTorch itself rounds them to the type of what they are gradients of.
        return None, None, *(gradients[name] if needed else None for name, needed in zip(_DIFFERENTIABLE, wanted))


def gated_delta_autograd(query, key, value, log_decay, beta, sequence_offsets=None, initial_state=None, *, A_log=None,
                         dt_bias=None, final_state=False, state_layout="kv", scale=None, normalize_qk=False,
                         implementation=None, backward_implementation=None):
    """(output, final state or None) of one call, through which autograd goes: gradients with respect to query, key,
    value, log_decay, beta and initial_state, by the operation gated_delta_backward. initial_state is left as it is.

    With A_log [Hv] float32, log_decay holds logits: the log decay is -exp(A_log) softplus(logit + dt_bias), dt_bias
    [Hv] float32, absent: zeros; both have gradients.

    Plans are kept (KEPT_PLANS, KEPT_WORKSPACE_BYTES) and found again by the tensors' addresses, shapes and strides, so
    that a training loop seldom plans; a sequence_offsets tensor may be refilled with as many sequences of the same
    number of tokens. forget_plans() frees them. Gradients have no gradients: differentiating twice is refused."""
    if log_decay is None or beta is None:
        _refuse(f"{'log_decay' if log_decay is None else 'beta'}: expected a tensor [T, Hv], got NoneType")
    if dt_bias is not None and A_log is None:
        _refuse("dt_bias: without A_log, expected both, of a log_decay that holds logits")
    problem, tensors = _gated_delta(
        query, key, value, log_decay, beta, sequence_offsets, initial_state, read_state=initial_state is not None,
        write_state=True, state_layout=state_layout, scale=scale, normalize_qk=normalize_qk)
    fields = problem.partition(":")[2]
    if A_log is not None:
        fields += ",gate=logits"
        tensors["decay_logit"] = tensors.pop("log_decay")
        tensors |= {"A_log": A_log, "dt_bias": torch.zeros_like(A_log) if dt_bias is None else dt_bias}
    for name in _DIFFERENTIABLE:
        if name in tensors and not isinstance(tensors[name], torch.Tensor):
            _refuse(f"{_NAMES.get(name, name)}: expected a tensor, got {type(tensors[name]).__name__}")
    call = _Call(fields, bool(final_state), state_layout, implementation, backward_implementation)
    return _GatedDeltaFunction.apply(call, tensors["sequence_offsets"], *(tensors.get(name) for name in _DIFFERENTIABLE))


# ---- causal_conv1d with gradients

class _ConvolutionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, sequence_offsets, tokens, weight, bias, initial_window):
        ctx.set_materialize_grads(False)
        ctx.call = call
        ctx.save_for_backward(sequence_offsets, tokens, weight, bias, initial_window)
        output = torch.empty(tokens.shape, dtype=tokens.dtype, device=tokens.device)
        made = {"qkv": tokens, "conv_weight": weight, "sequence_offsets": sequence_offsets, "conv_output": output}
        if bias is not None:
            made["conv_bias"] = bias
        window = initial_window
        if call.final_state and window is not None:
            window = window.clone(memory_format=torch.contiguous_format)
        elif call.final_state:
            window = torch.empty(_windows(sequence_offsets, weight), dtype=tokens.dtype, device=tokens.device)
        if window is not None:
            made["conv_state"] = window
        _kept.run("causal_conv1d:" + call.fields, made, call.implementation)
        return output, window if call.final_state else None

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output, d_final_window):
        """What an output did not go into, has no gradient, which are zeros here."""
        call, (sequence_offsets, tokens, weight, bias, initial_window) = ctx.call, ctx.saved_tensors

        def gradient_or_zeros(gradient, shape, dtype):
            if gradient is None:
                return torch.zeros(shape, dtype=dtype, device=tokens.device)
            return gradient.contiguous()  # sums hand over one element with strides of zero

        arrays = {"qkv": tokens, "conv_weight": weight, "sequence_offsets": sequence_offsets,
                  "d_conv_output": gradient_or_zeros(d_output, tokens.shape, tokens.dtype),
                  "d_qkv": torch.empty(tokens.shape, dtype=tokens.dtype, device=tokens.device),
                  "d_conv_weight": torch.empty(weight.shape, dtype=torch.float32, device=tokens.device)}
        if bias is not None:
            arrays |= {"conv_bias": bias, "d_conv_bias": torch.empty(bias.shape, dtype=torch.float32,
                                                                     device=tokens.device)}
        if initial_window is not None:
            arrays |= {"conv_state": initial_window,
                       "d_initial_window": torch.empty(initial_window.shape, dtype=initial_window.dtype,
                                                       device=tokens.device)}
        if call.final_state:
            dtype = tokens.dtype if initial_window is None else initial_window.dtype
            arrays["d_final_window"] = gradient_or_zeros(d_final_window, _windows(sequence_offsets, weight), dtype)
        _kept.run("causal_conv1d_backward:" + call.fields, arrays, call.backward_implementation)
        found = (arrays.get(name) for name in ("d_qkv", "d_conv_weight", "d_conv_bias", "d_initial_window"))
        return None, None, *(x if needed else None for x, needed in zip(found, ctx.needs_input_grad[2:]))


def _windows(sequence_offsets, weight):
    """The shape of a window for each sequence."""
    return sequence_offsets.shape[0] - 1, weight.shape[0], weight.shape[1] - 1


def causal_conv1d_autograd(tokens, weight, bias=None, sequence_offsets=None, initial_window=None, *, activation="silu",
                           final_window=False, residual=False, implementation=None, backward_implementation=None):
    """(output, final window or None) of one convolution, through which autograd goes: gradients with respect to tokens
    [T, channels], weight [channels, width], bias [channels] and initial_window [N, channels, width - 1], by the operation
    causal_conv1d_backward. The window holds the last inputs before each sequence, oldest first, and is left as it is;
    absent, zeros stand there. weight and bias are in the tokens' type or in float32. activation: "silu" or None; residual
    adds the tokens to the output. Plans are kept as gated_delta_autograd keeps them."""
    for name, x, rank in (("tokens", tokens, 2), ("weight", weight, 2), ("bias", bias, 1),
                          ("initial_window", initial_window, 3)):
        if x is None and name in ("bias", "initial_window"):
            continue
        if not isinstance(x, torch.Tensor) or x.dim() != rank or x.dtype not in NAMES:
            shape = {"tokens": "[T, channels]", "weight": "[channels, width]", "bias": "[channels]",
                     "initial_window": "[N, channels, width - 1]"}[name]
            _refuse(f"{name}: expected a tensor {shape} of {' or '.join(str(known) for known in NAMES)}")
    if activation not in ("silu", None):
        _refuse(f"activation: {activation!r}, expected 'silu' or None")
    if bias is not None and bias.dtype != weight.dtype:
        _refuse(f"bias: {bias.dtype}, expected {weight.dtype}, which weight has")
    if weight.dtype not in (tokens.dtype, torch.float32):
        _refuse(f"weight: {weight.dtype}, expected {tokens.dtype}, which tokens has, or torch.float32")
    if sequence_offsets is None:
        sequence_offsets = _one_sequence(tokens.shape[0], tokens.device)
    window = {(False, False): "none", (False, True): "written", (True, False): "read", (True, True): "carried"}[
        initial_window is not None, bool(final_window)]
    fields = [f"channels={tokens.shape[1]}", f"seq=1x{max(tokens.shape[0], 1)}", f"dtype={NAMES[tokens.dtype]}",
              f"width={weight.shape[1]}", f"window={window}", f"act={activation or 'none'}"]
    state = tokens.dtype if initial_window is None else initial_window.dtype
    if window != "none" and state != torch.float32:
        fields.append(f"state={NAMES[state]}")
    if bias is not None:
        fields.append("bias=1")
    if weight.dtype != tokens.dtype:
        fields.append("weights=f32")
    if residual:
        fields.append("residual=1")
    call = _Call(",".join(fields), bool(final_window), "", implementation, backward_implementation)
    return _ConvolutionFunction.apply(call, sequence_offsets, tokens, weight, bias, initial_window)

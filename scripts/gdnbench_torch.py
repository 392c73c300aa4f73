"""The kernels of this project on PyTorch tensors, without a copy.

    import torch, gdnbench_torch as gdn
    output, final_state = gdn.gated_delta(query, key, value, log_decay, beta)          # one call

    plan = gdn.GatedDelta(query, key, value, log_decay, beta, sequence_offsets, initial_state)
    plan.run()                                            # again and again; reads the tensors as they are then
    print(plan.implementation, plan.info["choice"])

query, key [T, Hk, Dk], value [T, Hv, Dv] in bfloat16, float16 or float32; log_decay (<= 0), beta [T, Hv] float32;
sequence_offsets [N + 1] int64, on the tensors' device, absent: one sequence; initial_state [N, Hv, Dk, Dv] float32,
bfloat16 or float16 (state_layout="vk": [N, Hv, Dv, Dk]), absent: zeros. output has value's shape and type, unless
`output` is given.

A plan's run() only enqueues, on the stream that was current when the plan was made, so it can be captured in a
graph on that stream:

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        plan = gdn.GatedDelta(...); plan.run()
    with torch.cuda.graph(graph, stream=stream):
        plan.run()

The library is found as scripts/gdnbench_library.py says. gdnbench_library.GdnbenchError tells what is wrong.
"""
import torch

from gdnbench_library import GdnbenchError, Library

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
# What is tried in turn where the caller names no implementation.
PREFERRED = {"cuda": ("cuda/fused_sm90", "cuda/fused", "cuda/chunkwise", "cuda/recurrent"),
             "cpu": ("cpu/chunkwise", "cpu/recurrent", "cpu/naive")}

_library = None


def library():
    """The library, loaded once."""
    global _library
    if _library is None:
        _library = Library()
    return _library


def _refuse(message):
    raise GdnbenchError("bad input", message)


def _require(name, tensor, shape, dtypes, device):
    words = ", ".join(str(size) for size in shape)
    if not isinstance(tensor, torch.Tensor):
        _refuse(f"{name}: expected a tensor [{words}], got {type(tensor).__name__}")
    if tuple(tensor.shape) != tuple(shape):
        _refuse(f"{name}: shape {list(tensor.shape)}, expected [{words}]")
    if tensor.dtype not in dtypes:
        _refuse(f"{name}: {tensor.dtype}, expected {' or '.join(str(dtype) for dtype in dtypes)}")
    if tensor.device != device:
        _refuse(f"{name}: on {tensor.device}, expected {device} as query")


def _require_tokens(query, value):
    for name, tensor, shape in (("query", query, "[T, Hk, Dk]"), ("value", value, "[T, Hv, Dv]")):
        if not isinstance(tensor, torch.Tensor) or tensor.dim() != 3:
            _refuse(f"{name}: expected a tensor {shape}")


def _require_contiguous(name, tensor):
    if not tensor.is_contiguous():
        _refuse(f"{name}: not contiguous, strides {list(tensor.stride())}")


def _token_stride(name, tensor):
    """Elements from a token to the next; the rest must be dense."""
    heads, dim = tensor.shape[1:]
    if tensor.numel() and tensor.stride()[1:] != (dim, 1) and heads > 1 or dim > 1 and tensor.stride(2) != 1:
        _refuse(f"{name}: heads of a token are not contiguous, strides {list(tensor.stride())}")
    return tensor.stride(0) if tensor.shape[0] > 1 else heads * dim


def device_name(device):
    """As the library names it."""
    if device.type == "cuda":
        return f"cuda:{torch.cuda.current_device() if device.index is None else device.index}"
    return device.type


class Operands:
    """Tensors checked (query and value have three dimensions), and what the library is told of them."""

    def __init__(self, query, key, value, log_decay, beta, sequence_offsets, state, output, *, read_state,
                 write_state, state_layout="kv", scale=None, normalize_qk=False):
        (tokens, key_heads, key_dim), (value_heads, value_dim) = query.shape, value.shape[1:]
        self.device, token_dtype = query.device, query.dtype
        _require("query", query, query.shape, DTYPES, self.device)
        _require("key", key, (tokens, key_heads, key_dim), (token_dtype,), self.device)
        _require("value", value, (tokens, value_heads, value_dim), (token_dtype,), self.device)
        for name, gate in (("log_decay", log_decay), ("beta", beta)):
            _require(name, gate, (tokens, value_heads), (torch.float32,), self.device)
            _require_contiguous(name, gate)
        if sequence_offsets is None:
            sequence_offsets = torch.tensor([0, tokens], dtype=torch.int64, device=self.device)
        _require("sequence_offsets", sequence_offsets, (sequence_offsets.numel(),), (torch.int64,), self.device)
        _require_contiguous("sequence_offsets", sequence_offsets)
        self.host_offsets = sequence_offsets.tolist()
        if not self.host_offsets or self.host_offsets[-1] != tokens:
            _refuse(f"sequence_offsets: expected to end at the {tokens} tokens, got {self.host_offsets[-1:]}")
        sequences = len(self.host_offsets) - 1
        if state_layout not in ("kv", "vk"):
            _refuse(f"state_layout: '{state_layout}', expected 'kv' or 'vk'")
        dims = (key_dim, value_dim) if state_layout == "kv" else (value_dim, key_dim)
        state_dtype = torch.float32
        if state is not None:
            _require("state", state, (sequences, value_heads, *dims), DTYPES, self.device)
            _require_contiguous("state", state)
            state_dtype = state.dtype
        if output is not None:
            _require("output", output, (tokens, value_heads, value_dim), {token_dtype, torch.float32}, self.device)
            _require_contiguous("output", output)
        fields = [f"heads={key_heads}/{value_heads}", f"dim={key_dim}x{value_dim}", f"seq=1x{max(tokens, 1)}",
                  f"dtype={DTYPES[token_dtype]}"]
        if state_dtype != torch.float32:
            fields.append(f"state={DTYPES[state_dtype]}")
        if output is not None and output.dtype != token_dtype:
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
        # Lengths come from host_offsets.
        self.problem = "gated_delta:" + ",".join(fields)
        self.name = device_name(self.device)
        self.kept = (query, key, value, log_decay, beta, sequence_offsets, state, output)
        self.arguments = {
            "query": query.data_ptr(), "key": key.data_ptr(), "value": value.data_ptr(),
            "query_token_stride": _token_stride("query", query), "key_token_stride": _token_stride("key", key),
            "value_token_stride": _token_stride("value", value), "gate": log_decay.data_ptr(),
            "beta": beta.data_ptr(), "sequence_offsets": sequence_offsets.data_ptr(),
            "state_pool": None if state is None else state.data_ptr(),
            "output": None if output is None else output.data_ptr()}

    def stream(self):
        return torch.cuda.current_stream(self.device).cuda_stream or None if self.device.type == "cuda" else None


class GatedDelta:
    """A plan. `output` and `state` are tensors that run() writes: output [T, Hv, Dv], and the state in place: what
    was in it is read (if initial_state was given) and replaced by the final state, so the next run goes on from it.
    `initial_state` itself is used as `state`; hand over a clone to keep it.

    run() reads the tensors' contents as they are then; other sequence_offsets are allowed, of as many sequences and
    no more tokens."""

    def __init__(self, query, key, value, log_decay, beta, sequence_offsets=None, initial_state=None, *,
                 final_state=True, output=None, state_layout="kv", scale=None, normalize_qk=False,
                 implementation=None):
        _require_tokens(query, value)
        self.output = torch.empty(value.shape, dtype=value.dtype, device=value.device) if output is None else output
        self.state = initial_state
        if initial_state is None and final_state:
            sequences = 1 if sequence_offsets is None else sequence_offsets.numel() - 1
            dims = (query.shape[2], value.shape[2])
            self.state = torch.empty((sequences, value.shape[1], *(dims if state_layout == "kv" else dims[::-1])),
                                     dtype=torch.float32, device=query.device)
        self._operands = operands = Operands(
            query, key, value, log_decay, beta, sequence_offsets, self.state, self.output,
            read_state=initial_state is not None, write_state=final_state, state_layout=state_layout, scale=scale,
            normalize_qk=normalize_qk)
        self.problem = operands.problem
        self._plan = self._make(operands, implementation)
        self.implementation, self.info = self._plan.implementation, self._plan.info

    @staticmethod
    def _make(operands, implementation):
        names = (implementation,) if implementation else PREFERRED.get(operands.device.type, ())
        if not names:
            _refuse(f"query: on {operands.device}, expected cuda or cpu")
        reasons = []
        for name in names:
            try:
                with _current(operands.device):
                    return library().plan(name, operands.problem, operands.arguments, operands.name,
                                          operands.stream(), operands.host_offsets)
            except GdnbenchError as error:
                if error.status != "unsupported" or implementation:
                    raise
                reasons.append(f"{name}: {error}")
        raise GdnbenchError("unsupported", "; ".join(reasons))

    def run(self):
        with _current(self._operands.device):
            self._plan.run()
        return self.output, self.state

    def close(self):
        """Frees the workspace now."""
        self._plan.close()


class _current:
    """Makes a CUDA device current for a while: the library leaves its own current."""

    def __init__(self, device):
        self._guard = torch.cuda.device(device) if device.type == "cuda" else None

    def __enter__(self):
        return self._guard and self._guard.__enter__()

    def __exit__(self, *problem):
        return self._guard and self._guard.__exit__(*problem)


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


def reference_float64(query, key, value, log_decay, beta, sequence_offsets=None, initial_state=None, *, scale=None,
                      normalize_qk=False):
    """(output [T, Hv, Dv], final state [N, Hv, Dk, Dv]) in float64: the token recurrence, to judge outputs by."""
    _require_tokens(query, value)
    operands = Operands(query, key, value, log_decay, beta, sequence_offsets, initial_state, None,
                        read_state=initial_state is not None, write_state=True, scale=scale,
                        normalize_qk=normalize_qk)
    output = torch.empty(value.shape, dtype=torch.float64, device=query.device)
    state = torch.empty((len(operands.host_offsets) - 1, value.shape[1], query.shape[2], value.shape[2]),
                        dtype=torch.float64, device=query.device)
    with _current(operands.device):
        library().reference_float64(operands.problem, operands.arguments, operands.name, output.data_ptr(),
                                    state.data_ptr(), operands.stream(), operands.host_offsets)
    return output, state

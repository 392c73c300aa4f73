"""Whose attention is timed by time_attention.py. Each contender is a function that imports what it needs and returns a
Contender; what a library must be told differently (its own strides, a mask as blocks) is done in make(), outside of what
is timed. Tensors are [sequences, tokens, heads, head_dim], as projections leave them."""
import dataclasses
import importlib
import importlib.metadata
from typing import Callable

from contenders import Call
from inputs import DEVICE

GRADIENTS = ("dq", "dk", "dv")


@dataclasses.dataclass
class AttentionInputs:
    """bfloat16 query and d_output [B, S, query heads, D], key and value [B, S, key/value heads, D]. A query sees its own
    token and those before it, at most `window` of them; 0: all."""
    query: object
    key: object
    value: object
    d_output: object
    window: int

    @property
    def scale(self):
        return self.query.shape[-1] ** -0.5


@dataclasses.dataclass
class Pair:
    """forward.run() enqueues a forward pass, forward_backward.run() that and its backward pass. Each returns its results by
    name: "output", and GRADIENTS in the second."""
    forward: Call
    forward_backward: Call


@dataclasses.dataclass
class Contender:
    kernel: str  # its name with its version
    make: Callable  # of AttentionInputs: a Pair


def version_of(*distributions):
    """Of the first of them that is installed."""
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"


def by_autograd(attend, leaves, d_output):
    """A Pair of a function of `leaves` and of PyTorch's autograd through it."""
    import torch

    def forward():
        with torch.enable_grad():
            return attend(*leaves)

    def both():
        output = forward()
        return {"output": output.detach()} | dict(zip(GRADIENTS, torch.autograd.grad(output, leaves, d_output)))
    return Pair(Call(lambda: {"output": forward().detach()}), Call(both))


def heads_first(x):
    """[B, heads, S, D], without a copy."""
    return x.transpose(1, 2)


def tokens_first(results):
    return {name: x.transpose(1, 2) for name, x in results.items()}


# ---- cuDNN, by its frontend's graphs

QUERY, KEY, VALUE, OUTPUT, STATISTICS, D_OUTPUT, D_QUERY, D_KEY, D_VALUE = range(1, 10)  # uids


class CudnnGraphs:
    """A forward graph, and a backward graph of what it leaves."""

    def __init__(self, cudnn, handle, inputs):
        import torch
        self._cudnn, self._handle, self._torch = cudnn, handle, torch
        operands = {QUERY: inputs.query, KEY: inputs.key, VALUE: inputs.value, D_OUTPUT: inputs.d_output,
                    OUTPUT: torch.empty_like(inputs.query), D_QUERY: torch.empty_like(inputs.query),
                    D_KEY: torch.empty_like(inputs.key), D_VALUE: torch.empty_like(inputs.value)}
        self.tensors = {uid: heads_first(x) for uid, x in operands.items()}
        batch, heads, tokens, _ = self.tensors[QUERY].shape
        self.tensors[STATISTICS] = torch.empty(batch, heads, tokens, 1, dtype=torch.float32, device=inputs.query.device)
        band = {"diagonal_alignment": cudnn.diagonal_alignment.TOP_LEFT, "diagonal_band_right_bound": 0}
        if inputs.window:
            band["diagonal_band_left_bound"] = inputs.window  # the query's own token among them
        self._set_stream()

        graph = self._graph()
        outputs = graph.sdpa(name="forward", **self._read(graph, q=QUERY, k=KEY, v=VALUE), generate_stats=True,
                             attn_scale=inputs.scale, **band)
        self._forward = self._built(graph, dict(zip((OUTPUT, STATISTICS), outputs)))
        graph = self._graph()
        outputs = graph.sdpa_backward(
            name="backward", **self._read(graph, q=QUERY, k=KEY, v=VALUE, o=OUTPUT, dO=D_OUTPUT, stats=STATISTICS),
            attn_scale=inputs.scale, **band)
        self._backward = self._built(graph, dict(zip((D_QUERY, D_KEY, D_VALUE), outputs)))
        bytes_needed = max(self._forward.get_workspace_size(), self._backward.get_workspace_size(), 1)
        self._workspace = torch.empty(bytes_needed, dtype=torch.uint8, device=inputs.query.device)

    def _set_stream(self):
        self._cudnn.set_stream(handle=self._handle, stream=self._torch.cuda.current_stream().cuda_stream)

    def _graph(self):
        types = self._cudnn.data_type
        return self._cudnn.pygraph(handle=self._handle, io_data_type=types.BFLOAT16, intermediate_data_type=types.FLOAT,
                                   compute_data_type=types.FLOAT)

    def _type_of(self, uid):
        types = self._cudnn.data_type
        return types.FLOAT if uid == STATISTICS else types.BFLOAT16

    def _read(self, graph, **uids):
        """Tensors that a graph reads, by the argument that they are."""
        return {name: graph.tensor(name=name, dim=list(self.tensors[uid].shape), stride=list(self.tensors[uid].stride()),
                                   data_type=self._type_of(uid), uid=uid) for name, uid in uids.items()}

    def _built(self, graph, outputs):
        for uid, output in outputs.items():
            x = self.tensors[uid]
            output.set_uid(uid).set_output(True).set_dim(list(x.shape)).set_stride(list(x.stride()))
            output.set_data_type(self._type_of(uid))
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([self._cudnn.heur_mode.A, self._cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        return graph

    def _execute(self, graph, *uids):
        self._set_stream()
        graph.execute({uid: self.tensors[uid] for uid in uids}, self._workspace, handle=self._handle)

    def run_forward(self):
        self._execute(self._forward, QUERY, KEY, VALUE, OUTPUT, STATISTICS)
        return tokens_first({"output": self.tensors[OUTPUT]})

    def run_both(self):
        results = self.run_forward()
        self._execute(self._backward, QUERY, KEY, VALUE, OUTPUT, D_OUTPUT, STATISTICS, D_QUERY, D_KEY, D_VALUE)
        return results | tokens_first(dict(zip(GRADIENTS, (self.tensors[uid] for uid in (D_QUERY, D_KEY, D_VALUE)))))


def cudnn():
    library = importlib.import_module("cudnn")
    handle = library.create_handle()
    number = library.backend_version()
    kernel = f"cudnn {number // 10000}.{number // 100 % 100}.{number % 100} (frontend {library.__version__})"

    def make(inputs):
        graphs = CudnnGraphs(library, handle, inputs)
        return Pair(Call(graphs.run_forward), Call(graphs.run_both))
    return Contender(kernel, make)


# ---- PyTorch's FlexAttention

def flex():
    import torch
    flex_attention = importlib.import_module("torch.nn.attention.flex_attention")

    def make(inputs):
        tokens, window = inputs.query.shape[1], inputs.window

        def is_seen(batch, head, query, key):
            past = query >= key
            return past & (query - key < window) if window else past
        mask = flex_attention.create_block_mask(is_seen, None, None, tokens, tokens, device=DEVICE)
        # It keeps a few compiled forms of a function and then goes on without compiling, which fullgraph forbids.
        torch._dynamo.reset()
        compiled = torch.compile(flex_attention.flex_attention, dynamic=False, fullgraph=True)
        leaves = [heads_first(x).detach().requires_grad_() for x in (inputs.query, inputs.key, inputs.value)]
        grouped = inputs.query.shape[2] != inputs.key.shape[2]
        pair = by_autograd(lambda q, k, v: compiled(q, k, v, block_mask=mask, scale=inputs.scale, enable_gqa=grouped),
                           leaves, heads_first(inputs.d_output))
        return Pair(*(Call(lambda run=each.run: tokens_first(run())) for each in (pair.forward, pair.forward_backward)))
    return Contender(f"flex (torch {torch.__version__})", make)


# ---- FlashAttention, version 3 where it is there

def flash():
    try:
        module, distributions = importlib.import_module("flash_attn_interface"), ("flash_attn_3", "flash-attn-3", "flash_attn")
    except ImportError:
        module, distributions = importlib.import_module("flash_attn"), ("flash_attn", "flash-attn")

    def make(inputs):
        bounds = (inputs.window - 1, 0) if inputs.window else (-1, -1)

        def attend(q, k, v):
            returned = module.flash_attn_func(q, k, v, softmax_scale=inputs.scale, causal=True, window_size=bounds)
            return returned[0] if isinstance(returned, tuple) else returned
        leaves = [x.detach().requires_grad_() for x in (inputs.query, inputs.key, inputs.value)]
        return by_autograd(attend, leaves, inputs.d_output)
    return Contender(f"{module.__name__} {version_of(*distributions)}", make)


CONTENDERS = {"cudnn": cudnn, "flash": flash, "flex": flex}

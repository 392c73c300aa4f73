"""The convolution tests of vLLM and of SGLang, which took them over: windows in a pool, read and written through
indices."""
import itertools

from .case import Case, Compare, NORMAL, Storage, TensorSpec, cuts, dice, exact, offsets, values

BOTH = (False, True)
CHANNELS_LAST = Storage(order=(0, 2, 1))
SOURCES = {"vllm": "tests/kernels/mamba/test_causal_conv1d.py",
           "sglang": "test/registered/layers/mamba/test_causal_conv1d.py"}
GATHER_DTYPES = {"vllm": ("f32", "bf16"), "sglang": ("f32", "f16", "bf16")}
LENGTHS = {"vllm": (8, 249, 4096), "sglang": (8, 30, 249, 2049, 4096)}


def _close(output, dtype, dimension=0, entries=None):
    relative, absolute = {"f32": (3e-4, 1e-3), "f16": (3e-3, 5e-3), "bf16": (1e-2, 5e-2)}[dtype]
    return Compare(output, absolute=absolute, relative=relative, dimension=dimension, entries=entries, dtype=dtype)


def _weights(dim, width, bias, dtype):
    tensors = {"weight": TensorSpec((dim, width), dtype, NORMAL)}
    if bias:
        tensors["bias"] = TensorSpec((dim,), dtype, NORMAL)
    return tensors


def _activation(silu):
    return {"activation": "silu" if silu else None}


def update(peer):
    """Time is fastest in memory here, of the inputs and of the windows. vLLM's test names the rows, SGLang's not."""
    for dim, bias, silu in itertools.product((2048, 2048 + 16, 4096), BOTH, BOTH):
        tensors = {"x": TensorSpec((2, dim, 1), "bf16", NORMAL), "conv_state": TensorSpec((2, dim, 3), "bf16", NORMAL),
                   **_weights(dim, 4, bias, "bf16")}
        if peer == "vllm":
            tensors["conv_state_indices"] = TensorSpec((2,), "int32", values((0, 1)))
        yield Case(peer, f"{SOURCES[peer]}::test_causal_conv1d_update", "causal_conv1d_update",
                   dict(dim=dim, width=4, seqlen=1, has_bias=bias, silu_activation=silu, itype="bf16"), tensors,
                   _activation(silu), (_close("out", "bf16"), exact("conv_state", "bf16")))


def update_gathered(peer):
    """Three sequences in a pool of thirty rows, and five of padding behind them, whose outputs nobody looks at."""
    batch = 3
    for padded, dim, width, seqlen, bias, silu, dtype in itertools.product(
            (True, False), (2048 + 16, 4096), (3, 4), (1, 3), BOTH, BOTH, GATHER_DTYPES[peer]):
        padding = 5 if padded else 0
        parameters = dict(batch_size=batch, with_padding=padded, dim=dim, width=width, seqlen=seqlen, has_bias=bias,
                          silu_activation=silu, itype=dtype)
        slots = dice(peer, *parameters.values()).sample(range(10 * batch), batch) + [-1] * padding
        tensors = {"x": TensorSpec((batch + padding, dim, seqlen), dtype, NORMAL, CHANNELS_LAST),
                   "conv_state": TensorSpec((10 * batch, dim, width - 1), dtype, NORMAL, CHANNELS_LAST),
                   **_weights(dim, width, bias, dtype),
                   "conv_state_indices": TensorSpec((batch + padding,), "int32", values(slots))}
        yield Case(peer, f"{SOURCES[peer]}::test_causal_conv1d_update_with_batch_gather", "causal_conv1d_update",
                   parameters, tensors, {**_activation(silu), "pad_slot_id": -1},
                   (_close("out", dtype, entries=range(batch)), exact("conv_state", dtype)))


def forward(peer):
    """Sequences one behind the other, channels 4096 .. 4096 + dim of a projection; windows in a pool, of which a random
    half is read. Sequences of padding come last, and their outputs are not looked at. Eight tokens make eight
    sequences at most, so that there are more indices than sequences in some cases."""
    for batch, padded, dim, seqlen in itertools.product((4, 10), (True, False), (64, 4096), LENGTHS[peer]):
        parameters = dict(batch=batch, with_padding=padded, dim=dim, seqlen=seqlen, width=4, has_bias=True,
                          silu_activation=True, itype="bf16")
        rng = dice(peer, *parameters.values())
        padding = 3 if padded else 0
        lengths = cuts(rng, seqlen, min(batch + padding, seqlen))
        starts = offsets(lengths)
        slots = rng.sample(range(10 * batch), batch)
        indices = slots + [-1] * padding
        x = Storage(order=(1, 0), extents=((0, 4096 + dim + 64),), starts=((0, 4096),))
        tensors = {"x": TensorSpec((dim, seqlen), "bf16", NORMAL, x), **_weights(dim, 4, True, "bf16"),
                   "conv_states": TensorSpec((10 * batch, dim, 3), "bf16", NORMAL, CHANNELS_LAST),
                   "query_start_loc": TensorSpec((len(starts),), "int32", values(starts)),
                   "cache_indices": TensorSpec((len(indices),), "int32", values(indices)),
                   "has_initial_state": TensorSpec((len(lengths),), "bool",
                                                   values(rng.random() < 0.5 for _ in lengths))}
        options = {**_activation(True), "pad_slot_id": -1}
        if peer == "sglang":
            options["seq_lens_cpu"] = tuple(lengths)
        yield Case(peer, f"{SOURCES[peer]}::test_causal_conv1d_varlen", "causal_conv1d_fn", parameters, tensors,
                   options, (_close("out", "bf16", 1, range(starts[min(batch, len(lengths))])),
                             _close("conv_states", "bf16", entries=tuple(slots))))


def cases():
    for peer in SOURCES:
        for part in (update, update_gathered, forward):
            yield from part(peer)

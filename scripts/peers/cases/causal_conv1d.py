"""The forward halves of the tests of Dao-AILab/causal-conv1d."""
import itertools

from .case import Case, Compare, NORMAL, Storage, TensorSpec, cuts, dice, exact, offsets, values

PEER = "causal-conv1d"
DTYPES = ("f32", "f16", "bf16")
LENGTHS = (1, 2, 8, 16, 32, 64, 128, 129, 130, 151, 256, 372, 512, 784, 1024, 1134, 2048, 4096)
WIDTHS = (2, 3, 4)
DIMS = (64, 4096 + 32)  # the second one is no multiple of 64
UPDATE_DIMS = (2048, 2048 + 16, 4096)
BOTH = (False, True)
CHANNELS_LAST = Storage(order=(0, 2, 1))  # [B, L, C] in memory, seen as [B, C, L]


def _source(test):
    return f"tests/test_causal_conv1d.py::{test}"


def _close(output, dtype):
    relative, absolute = {"f32": (3e-4, 1e-3), "f16": (3e-3, 5e-3), "bf16": (1e-2, 5e-2)}[dtype]
    return Compare(output, absolute=absolute, relative=relative, dtype=dtype)


def _activation(silu):
    return {"activation": "silu" if silu else None}


def _projection(dim, order):
    """x as channels 4096 .. 4096 + dim of a projection that has 64 more behind them."""
    return Storage(order=order, extents=((1, 4096 + dim + 64),), starts=((1, 4096),))


def _weights(dim, width, bias):
    """Weights and bias are float32 whatever the type of x."""
    tensors = {"weight": TensorSpec((dim, width), "f32", NORMAL)}
    if bias:
        tensors["bias"] = TensorSpec((dim,), "f32", NORMAL)
    return tensors


def forward():
    for dim, seqlen, width, bias, silu, dtype in itertools.product(DIMS, LENGTHS, WIDTHS, BOTH, BOTH, DTYPES):
        for channel_last, initial, final in itertools.product(BOTH, BOTH, BOTH):
            if not channel_last and (initial or final):  # skipped by the test: windows need channels last
                continue
            tensors = {"x": TensorSpec((2, dim, seqlen), dtype, NORMAL,
                                       _projection(dim, (0, 2, 1) if channel_last else (0, 1, 2))),
                       **_weights(dim, width, bias)}
            if initial:
                tensors["initial_states"] = TensorSpec((2, dim, width - 1), dtype, NORMAL, CHANNELS_LAST)
            compares = (_close("out", dtype),) + ((_close("final_states_out", dtype),) if final else ())
            yield Case(PEER, _source("test_causal_conv1d"), "causal_conv1d_fn",
                       dict(dim=dim, seqlen=seqlen, width=width, has_bias=bias, silu_activation=silu, itype=dtype,
                            channel_last=channel_last, has_initial_states=initial, return_final_states=final),
                       tensors, {**_activation(silu), "return_final_states": final}, compares)


def _update(test, parameters, state_rows, indices, rows=None):
    dim, width, seqlen, dtype = (parameters[key] for key in ("dim", "width", "seqlen", "itype"))
    batch = 64
    rng = dice(test, *parameters.values())
    # The test draws how many inputs its windows hold: between what the width needs and ten more.
    state_len = rng.randrange(width - 1, width + 10)
    tensors = {"x": TensorSpec((batch, dim, seqlen), dtype, NORMAL, CHANNELS_LAST),
               "conv_state": TensorSpec((state_rows, dim, state_len), dtype, NORMAL, CHANNELS_LAST),
               **_weights(dim, width, parameters["has_bias"])}
    if parameters["has_cache_seqlens"]:
        tensors["cache_seqlens"] = TensorSpec((batch,), "int32", values(rng.randrange(1024) for _ in range(batch)))
    if indices is not None:
        tensors["conv_state_indices"] = TensorSpec((batch,), "int32", values(indices))
    return Case(PEER, _source(test), "causal_conv1d_update", {**parameters, "state_len": state_len}, tensors,
                _activation(parameters["silu_activation"]),
                (_close("out", dtype), exact("conv_state", dtype, rows)))


def _update_parameters(circular):
    for dim, width, seqlen, cached, bias, silu, dtype in itertools.product(UPDATE_DIMS, WIDTHS, (1, 4, 5), circular,
                                                                           BOTH, BOTH, DTYPES):
        yield dict(dim=dim, width=width, seqlen=seqlen, has_cache_seqlens=cached, has_bias=bias, silu_activation=silu,
                   itype=dtype)


def update():
    for parameters in _update_parameters(BOTH):
        yield _update("test_causal_conv1d_update", parameters, 64, None)


def update_gathered():
    for parameters in _update_parameters(BOTH):
        slots = dice("gather", *parameters.values()).sample(range(640), 64)
        yield _update("test_causal_conv1d_update_with_batch_gather", parameters, 640, slots, tuple(slots))


def update_padded():
    """Half of the batch has the slot -1: its outputs are zeros, and no window of the pool but the others' changes."""
    for parameters in _update_parameters((False,)):
        rng = dice("padding", *parameters.values())
        slots = rng.sample(range(640), 32) + [-1] * 32
        rng.shuffle(slots)
        yield _update("test_causal_conv1d_update_with_padding", parameters, 640, slots)


def varlen_states():
    for dim, dtype in itertools.product(UPDATE_DIMS, DTYPES):
        rng = dice("get_states", dim, dtype)
        ends = offsets([rng.randrange(1, 32) for _ in range(100)])
        yield Case(PEER, _source("test_causal_conv1d_get_states"), "causal_conv1d_varlen_states",
                   dict(dim=dim, itype=dtype),
                   {"x": TensorSpec((ends[-1], dim), dtype, NORMAL),
                    "cu_seqlens": TensorSpec((101,), "int64", values(ends))},
                   {"state_len": 20}, (exact("states", dtype),))


def repeated():
    """A call that is made ten thousand times and must give the same bits; one of them is a case."""
    dim, seqlen, width = 4096 + 32, 2048, 4
    yield Case(PEER, _source("test_causal_conv1d_race_condition"), "causal_conv1d_fn",
               dict(seqlen=seqlen, width=width, has_bias=True, silu_activation=True, itype="bf16", channel_last=True),
               {"x": TensorSpec((2, dim, seqlen), "bf16", NORMAL, _projection(dim, (0, 2, 1))),
                **_weights(dim, width, True)},
               _activation(True), (_close("out", "bf16"),))


def _packed(test, parameters, seq_idx):
    dim, seqlen, width, dtype = (parameters[key] for key in ("dim", "seqlen", "width", "itype"))
    return Case(PEER, _source(test), "causal_conv1d_fn", parameters,
                {"x": TensorSpec((3, dim, seqlen), dtype, NORMAL, _projection(dim, (0, 2, 1))),
                 **_weights(dim, width, parameters["has_bias"]),
                 "seq_idx": TensorSpec((3, seqlen), "int32", values(seq_idx))},
                _activation(parameters["silu_activation"]), (_close("out", dtype),))


def _packed_parameters(lengths):
    for dim, seqlen, width, bias, silu, dtype in itertools.product(DIMS, lengths, WIDTHS, BOTH, BOTH, DTYPES):
        yield dict(dim=dim, seqlen=seqlen, width=width, has_bias=bias, silu_activation=silu, itype=dtype)


def packed():
    """Rows of several sequences, 2 to 5 of them, numbered within the row."""
    for parameters in _packed_parameters((8, 16, 32, 64, 128, 151, 256, 372, 512, 784, 1024, 1134, 2048, 4096)):
        rng = dice("varlen", *(parameters[key] for key in ("dim", "seqlen", "width")))
        seq_idx = []
        for _ in range(3):
            for index, length in enumerate(cuts(rng, parameters["seqlen"], rng.randrange(1, 5) + 1)):
                seq_idx += [index] * length
        yield _packed("test_causal_conv1d_varlen", parameters, seq_idx)


def packed_padded():
    """Rows whose ends belong to no sequence, -1; sequences are numbered over all rows."""
    for parameters in _packed_parameters((128, 256, 512, 1024)):
        seqlen = parameters["seqlen"]
        rng = dice("varlen_padding", *(parameters[key] for key in ("dim", "seqlen", "width")))
        seq_idx, index = [], 0
        for _ in range(3):
            used = rng.randrange(seqlen // 2, seqlen)
            for length in cuts(rng, used, rng.randrange(1, 4) + 1):
                seq_idx += [index] * length
                index += 1
            seq_idx += [-1] * (seqlen - used)
        yield _packed("test_causal_conv1d_varlen_padding", parameters, seq_idx)


def cases():
    for part in (forward, update, update_gathered, update_padded, varlen_states, repeated, packed, packed_padded):
        yield from part()

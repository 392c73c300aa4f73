"""ggml's operations as functions of tensors. Shapes are row-major, so that ggml's ne = {a, b, c, d} reads [d, c, b, a].
What ggml takes as a context before its arguments is left out."""
import math

import gdnbench

from . import convolution, recurrence
from .tensors import View, copy_into, copy_newest_first, empty, indices, part, unsupported


def ggml_ssm_conv(sx, c, *, bias=None, activation=None):
    """dst [n_s, n_t, C] of sx [n_s, C, d_conv - 1 + n_t], where the window stands in front of the inputs, and taps
    c [C, d_conv]. `bias` and `activation` are the additions that ggml's backends fuse with it: ggml_add and
    ggml_silu."""
    inputs, taps = View.of(sx, "sx"), View.of(c, "c")
    sequences, channels, places = inputs.extents
    before = taps.extents[1] - 1
    tokens = places - before
    dst = empty(sx, (sequences, tokens, channels))
    offsets, numbers = convolution.even_offsets(sequences, tokens, sx)
    convolution.convolve(inputs.narrow(2, before, tokens).permute(0, 2, 1), View.of(dst), taps, View.of(bias, "bias"),
                         activation, offsets=View.of(offsets), host_offsets=numbers,
                         state=inputs.narrow(2, 0, before), window="read")
    return dst


def ggml_gated_delta_net(q, k, v, g, beta, state, K=1):
    """dst, one array: the outputs [n_seqs, T, H, D], then the states after the last K tokens, the newest first, each
    [n_seqs, H, D, D], values first. With fewer heads in q and k, head h of v reads head h modulo their number. g are log
    decays [.., H, 1], or [.., H, D] for one of each key channel. One state alone is copied there first and updated in
    place; several are copied there behind the call, which gdnbench.strict refuses."""
    values, decays = View.of(v, "v"), View.of(g, "g")
    sequences, tokens, heads, size = values.extents
    kept = min(K, tokens)
    if kept < 1:
        unsupported("K", f"{K}, expected at least 1")
    dst = empty(v, (math.prod(values.extents) + kept * sequences * heads * size * size,))
    after = part(dst, math.prod(values.extents), (kept, sequences, heads, size, size))
    checkpoints = inner = None
    if kept == 1:
        copy_into(part(dst, math.prod(values.extents), (sequences, heads, size, size)), state)
    elif gdnbench.strict:
        unsupported("K", f"{K}, expected 1: the states would be copied, the newest first")
    else:
        counts = indices([tokens - kept + 1 + j for _ in range(sequences) for j in range(kept)], v)
        inner = empty(v, (sequences, kept, heads, size, size))
        checkpoints = View.of(counts).split(0, (sequences, kept)), View.of(inner)
    channels = decays.extents[3] > 1
    offsets, numbers = convolution.even_offsets(sequences, tokens, v)
    key_heads = View.of(q).extents[2]
    recurrence.run(recurrence.tiled(View.of(q, "q"), heads, "q"), recurrence.tiled(View.of(k, "k"), heads, "k"),
                   values, View.of(part(dst, 0, values.extents)), gate=None,
                   gates={"log_decay": decays if channels else decays.select(3, 0)}, beta=None,
                   betas={"beta": View.of(beta, "beta").select(3, 0)}, offsets=View.of(offsets), host_offsets=numbers,
                   state=View.of(after).select(0, 0) if kept == 1 else View.of(state, "state"), writes=kept == 1,
                   v_first=True,
                   channels=channels, heads=None if key_heads == heads else (heads, heads), checkpoints=checkpoints)
    if inner is not None:
        copy_newest_first(after, inner)
    return dst

"""Dao-AILab's causal-conv1d: its three functions. Tensors of tokens are [B, C, L], in any order in memory."""
from . import convolution
from .tensors import View, bad_input, empty, empty_like, indices, unsupported, zero_view


def causal_conv1d_fn(x, weight, bias=None, seq_idx=None, initial_states=None, return_final_states=False,
                     final_states_out=None, activation=None):
    """out [B, C, L], or (out, final states [B, C, W - 1]) with return_final_states.

    seq_idx [B, L] is read on the host at every call and becomes offsets: tokens of one number that follow one another
    are a sequence, those of a negative number are padding, whose outputs are zeros. A number that comes back within its
    row is refused, and so are states beside seq_idx."""
    tokens, w, b = (View.of(tensor, name) for tensor, name in ((x, "x"), (weight, "weight"), (bias, "bias")))
    if tokens.rank != 3:
        bad_input("x", f"{tokens.rank} dimensions, expected [B, C, L]")
    batch, channels, length = tokens.extents
    out = empty_like(x)
    slots, state, window, final = None, None, "none", None
    if seq_idx is not None:
        if initial_states is not None or return_final_states:
            unsupported("seq_idx", "beside initial_states or return_final_states, expected one of them")
        numbers, rows, padded = _sequences(View.of(seq_idx, "seq_idx").numbers())
        offsets = indices(numbers, x)
        slots = View.of(indices(rows, x)) if padded else None
    else:
        offsets, numbers = convolution.even_offsets(batch, length, x)
        before = View.of(initial_states, "initial_states")
        if before is not None:
            state, window = before, "read"
        if return_final_states:
            final = final_states_out
            if final is None:
                final = empty_like(initial_states) if before is not None else \
                    empty(x, (batch, channels, w.extents[1] - 1), order=(0, 2, 1))
            after = View.of(final, "final_states_out")
            state, window = (after, "written") if before is None else ((before, after), "carried")
            if before is not None and (before.dtype, before.extents, before.strides) != (
                    after.dtype, after.extents, after.strides):
                unsupported("final_states_out", "in another form than initial_states, expected the same strides")
    convolution.convolve(tokens.permute(0, 2, 1), View.of(out).permute(0, 2, 1), w, b, activation,
                         offsets=View.of(offsets), host_offsets=numbers, state=state, window=window, slots=slots)
    return (out, final) if return_final_states else out


def _sequences(rows):
    """(offsets, a slot for each sequence, whether some are padding) of numbers token by token."""
    offsets, slots, padded = [0], [], False
    for row in rows:
        begin, seen = 0, set()
        while begin < len(row):
            number, end = row[begin], begin + 1
            while end < len(row) and row[end] == number:
                end += 1
            if number >= 0 and number in seen:
                unsupported("seq_idx", f"sequence {number} comes back within its row, expected its tokens together")
            seen.add(number)
            slots.append(-1 if number < 0 else len(slots))
            padded = padded or number < 0
            offsets.append(offsets[-1] + end - begin)
            begin = end
    return offsets, slots, padded


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None,
                         conv_state_indices=None):
    """out, as x: [B, C] or [B, C, L]. conv_state [rows, C, places >= W - 1] is updated in place. A negative index is
    padding, whose outputs are zeros. With cache_seqlens [B], the tokens before the call, windows are rings."""
    out = empty_like(x)
    one = View.of(x, "x").rank == 2
    tokens, outputs = (view.insert(2) if one else view for view in (View.of(x, "x"), View.of(out)))
    if tokens.rank != 3:
        bad_input("x", f"{tokens.rank} dimensions, expected [B, C] or [B, C, L]")
    offsets, numbers = convolution.even_offsets(tokens.extents[0], tokens.extents[2], x)
    convolution.convolve(tokens.permute(0, 2, 1), outputs.permute(0, 2, 1), View.of(weight, "weight"),
                         View.of(bias, "bias"), activation, offsets=View.of(offsets), host_offsets=numbers,
                         state=View.of(conv_state, "conv_state"), window="carried",
                         slots=View.of(conv_state_indices, "conv_state_indices"),
                         position=View.of(cache_seqlens, "cache_seqlens"))
    return out


def causal_conv1d_varlen_states(x, cu_seqlens, state_len):
    """States [N, C, state_len]: the last inputs of each sequence of x [T, C], zeros in front of the first one.

    It is the window that a convolution of two taps leaves. Its outputs go to a tensor that nobody sees, and its weights
    are zeros that all lie on one place."""
    tokens, ends = View.of(x, "x"), View.of(cu_seqlens, "cu_seqlens")
    channels, count = tokens.extents[1], ends.extents[0] - 1
    states = empty(x, (count, channels, state_len), order=(0, 2, 1))
    zero = zero_view(x, (channels, 2), tokens.dtype)
    convolution.convolve(tokens, View.of(empty_like(x)), zero, None, None, offsets=ends, host_offsets=ends.numbers,
                         state=View.of(states), window="written")
    return states

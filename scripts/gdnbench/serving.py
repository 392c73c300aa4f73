"""What vLLM and SGLang share: short convolutions and recurrences of batches that are served, with windows and states in
pools that are read and written in place through indices. A row's index of -1 is padding: no row is touched, and the
outputs of its tokens are zeros. Offsets are read on the host where a plan is made."""
from . import convolution, recurrence
from .tensors import View, bad_input, empty_like, flags, unsupported


def _activation(activation):
    return ("silu" if activation else None) if isinstance(activation, bool) else activation


def _slots(indices, argument, count, pad_slot_id=-1):
    if indices is None:
        return None
    if pad_slot_id not in (-1, None):
        unsupported("pad_slot_id", f"{pad_slot_id}, expected -1")
    slots = View.of(indices, argument)
    if slots.rank != 1:
        unsupported(argument, f"{slots.rank} dimensions, a row for each token, expected one row a sequence")
    # There may be more of them than sequences.
    return slots.narrow(0, 0, count)


def convolve_ragged(x, weight, bias, conv_states, query_start_loc, cache_indices, has_initial_state, activation,
                    pad_slot_id, host_offsets=None):
    """out of x [C, T], sequences one behind the other. A sequence whose flag in has_initial_state is not set starts
    from zeros, and without flags all do; flags are widened to int64 on the device at every call. `host_offsets` gives
    the offsets where the host knows them."""
    ends = View.of(query_start_loc, "query_start_loc")
    count = ends.extents[0] - 1
    out = empty_like(x)
    state, width = View.of(conv_states, "conv_states"), View.of(weight, "weight").extents[1]
    window = "none" if state is None else "written" if has_initial_state is None else "carried"
    convolution.convolve(View.of(x, "x").permute(1, 0), View.of(out).permute(1, 0), View.of(weight), View.of(bias, "bias"),
                         _activation(activation), offsets=ends, host_offsets=host_offsets or ends.numbers,
                         state=_first_places(state, width), window=window,
                         slots=_slots(cache_indices, "cache_indices", count, pad_slot_id),
                         has_window=View.of(flags(has_initial_state)) if window == "carried" else None)
    return out


def _first_places(state, width):
    """Of windows with more places than the convolution reads, the first ones are read and written."""
    return None if state is None else state.narrow(2, 0, width - 1)


def update(x, conv_state, weight, bias, activation, conv_state_indices, pad_slot_id, query_start_loc=None):
    """out, as x: [B, C], [B, C, L], or [T, C] with query_start_loc. conv_state is updated in place."""
    tokens, out = View.of(x, "x"), empty_like(x)
    outputs = View.of(out)
    if query_start_loc is None:
        tokens, outputs = (view.insert(2) if view.rank == 2 else view for view in (tokens, outputs))
        if tokens.rank != 3:
            bad_input("x", f"{tokens.rank} dimensions, expected [B, C] or [B, C, L]")
        offsets, numbers = convolution.even_offsets(tokens.extents[0], tokens.extents[2], x)
        tokens, outputs, ends = tokens.permute(0, 2, 1), outputs.permute(0, 2, 1), View.of(offsets)
    else:
        ends = View.of(query_start_loc, "query_start_loc")
        numbers = ends.numbers
    w = View.of(weight, "weight")
    convolution.convolve(tokens, outputs, w, View.of(bias, "bias"), _activation(activation), offsets=ends,
                         host_offsets=numbers, state=_first_places(View.of(conv_state, "conv_state"), w.extents[1]),
                         window="carried",
                         slots=_slots(conv_state_indices, "conv_state_indices", ends.extents[0] - 1, pad_slot_id))
    return out


def recur(q, k, v, pool, rows, argument, cu_seqlens, out, *, logits=None, g=None, beta=None, scale=None, norm=False,
          v_first=True, channels=False, writes=True, written=None):
    """Runs the recurrence of q, k, v, out (views [.., H, D]) on the rows of a pool. Gates and betas are `logits`, the
    tensors (a, A_log, dt_bias, b), or g and beta themselves. `written`: (name, tensor) of the rows that are written,
    where they are others than those that are read."""
    value_heads, key_dim = v.extents[-2], q.extents[-1]
    if cu_seqlens is None:
        offsets, numbers = convolution.even_offsets(*q.extents[:2], q.owner)
        ends = View.of(offsets)
    else:
        ends = View.of(cu_seqlens, "cu_seqlens")
        numbers = ends.numbers
    if logits is None:
        gates, betas = {"log_decay": View.of(g, "g")}, {"beta": View.of(beta, "beta")}
    else:
        gates, betas = recurrence.of_logits(*logits)
        if channels:
            gates = {name: view.split(view.rank - 1, (value_heads, key_dim))
                     if name != "A_log" and view.extents[-1] == value_heads * key_dim else view
                     for name, view in gates.items()}
    recurrence.run(q, k, v, out, gate=None if logits is None else "logits", gates=gates,
                   beta=None if logits is None else "logit", betas=betas, offsets=ends, host_offsets=numbers,
                   state=View.of(pool, "initial_state"), reads=pool is not None, writes=writes and pool is not None,
                   slots=_slots(rows, argument, ends.extents[0] - 1),
                   written=None if written is None else _slots(written[1], written[0], ends.extents[0] - 1),
                   v_first=v_first, norm=norm, scale=scale, channels=channels)

"""A short convolution as every project means it, on views. Tokens are [.., C] here and windows [rows, C, places]: each
project's module turns its tensors so."""
from . import calls
from .tensors import bad_input, indices, unsupported

ACTIVATIONS = {None: "none", "silu": "silu", "swish": "silu"}


def _types(x, weight, bias):
    """Problem fields of tokens, weights and bias of these types: weights and bias have one, the tokens' or float32."""
    types = {view.dtype for view in (weight, bias) if view is not None}
    if x.dtype == "f32" or types == {x.dtype}:
        return {"dtype": x.dtype}
    if types != {"f32"}:
        unsupported("weight", f"{' and '.join(sorted(types))} beside x of {x.dtype}, expected {x.dtype} or f32, and "
                              "bias as weight")
    return {"dtype": x.dtype, "weights": "f32"}


def _is_time_fastest(x):
    """Of [.., C]: whether tokens lie side by side and channels do not, as [B, C, L] has them. Such tokens are taken as
    they lie, and so is an output beside them in whichever order."""
    return len(x.extents) > 1 and x.extents[-1] > 1 and x.strides[-1] != 1 and x.strides[-2] == 1


def convolve(x, out, weight, bias, activation, *, offsets, host_offsets, state=None, window="none", slots=None,
             has_window=None, residual=None, places=None, position=None):
    """Runs one call. x and out: views [.., C] with any dimensions of tokens; weight [C, W], bias [C] or None. `offsets`
    is the view of the offsets, `host_offsets` what gives them on the host. `state`: a view [rows, C, places], or a pair
    of them, read and written. `window` is the problem's field. `places`: entries of a row, width - 1 where absent.
    `residual`: a view of as many tokens as x has, which is added to the activated output; x itself is read but once.
    `position`: a view of indices, the tokens that each sequence had before: windows are rings."""
    if activation not in ACTIVATIONS:
        bad_input("activation", f"'{activation}', expected None, silu or swish")
    channels, width = weight.extents
    first = state[0] if isinstance(state, tuple) else state
    itself = residual is not None and residual == x
    fields = {"channels": channels, "seq": "1x1", **_types(x, weight, bias), "width": width,
              "bias": 1 if bias is not None else None, "act": ACTIVATIONS[activation], "window": window,
              "slots": "padding" if slots is not None else None, "fresh": 1 if has_window is not None else None,
              "residual": None if residual is None else 1 if itself else "tensor",
              "window_order": "ring" if position is not None else None}
    if first is not None:
        # A window is copied, bit for bit: it keeps the type that it has.
        fields["state"] = first.dtype
        fields["conv_in_place"] = 0 if isinstance(state, tuple) else None
        if first.extents[2] != width - 1:
            fields["window_length"] = first.extents[2]
        if first.strides[1] == 1 and first.extents[1] > 1:
            fields["window_layout"] = "channels"
            state = tuple(each.permute(0, 2, 1) for each in state) if isinstance(state, tuple) else \
                state.permute(0, 2, 1)
    if itself:
        residual = None
    if _is_time_fastest(x):
        fields["conv_layout"] = "time"
        x, out, residual = (view and view.permute(len(view.extents) - 1, *range(len(view.extents) - 1))
                            for view in (x, out, residual))
    calls.run("causal_conv1d", fields, {
        "qkv": x, "conv_weight": weight, "conv_bias": bias, "residual": residual, "sequence_offsets": offsets,
        "slot_index": slots, "has_window": has_window, "window_position": position, "conv_state": state,
        "conv_output": out}, host_offsets)


def even_offsets(batch, length, like):
    """(tensor, host numbers) of a batch of sequences of one length."""
    numbers = range(0, batch * length + 1, length) if length else [0] * (batch + 1)
    return indices(numbers, like), numbers

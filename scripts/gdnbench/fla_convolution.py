"""flash-linear-attention's short convolutions. Tokens come first, [B, T, D]; windows are [N, D, W], of which a call reads
the last W - 1 columns. The final window is a tensor of its own: where there is an initial one, a copy of it on the device
is what the call updates. A decoding step updates its window in place."""
import functools

from . import convolution
from .tensors import View, bad_input, clone, empty, empty_like, refuse_given, unsupported


def _weights(weight, bias):
    if weight is None:
        unsupported("weight", "None, expected [D, W]")
    return View.of(weight, "weight"), View.of(bias, "bias")


def causal_conv1d(x, weight=None, bias=None, residual=None, initial_state=None, output_final_state=False,
                  activation=None, backend="triton", cu_seqlens=None, cu_seqlens_cpu=None, chunk_indices=None,
                  cp_context=None, *, seq_idx=None):
    """(y, final window or None). With cu_seqlens the batch is 1. seq_idx, which some backends of FLA take beside
    cu_seqlens, says the same and is not looked at; without cu_seqlens it is refused."""
    refuse_given(cp_context=cp_context, seq_idx=seq_idx if cu_seqlens is None else None)
    tokens, (w, b) = View.of(x, "x"), _weights(weight, bias)
    batch, length = tokens.extents[:2]
    channels, width = w.extents
    ends = View.of(cu_seqlens, "cu_seqlens")
    if ends is None:
        made, numbers = convolution.even_offsets(batch, length, x)
        count, ends = batch, View.of(made)
    else:
        count, numbers = ends.extents[0] - 1, (ends if cu_seqlens_cpu is None else View.of(cu_seqlens_cpu)).numbers
    state, window = initial_state, "none" if initial_state is None else "read"
    if output_final_state:
        window = "written" if initial_state is None else "carried"
        state = empty(x, (count, channels, width)) if initial_state is None else clone(initial_state)
    out = empty_like(x)
    convolution.convolve(tokens, View.of(out), w, b, activation, offsets=ends, host_offsets=numbers,
                         state=View.of(state, "initial_state"), window=window, residual=View.of(residual, "residual"))
    return out, state if output_final_state else None


def fast_causal_conv1d_fn(x, weight=None, bias=None, residual=None, initial_state=None, output_final_state=False,
                          activation=None, cu_seqlens=None, cu_seqlens_cpu=None, chunk_indices=None, seq_idx=None):
    """As causal_conv1d."""
    return causal_conv1d(x, weight, bias, residual, initial_state, output_final_state, activation,
                         cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens_cpu, seq_idx=seq_idx)


def causal_conv1d_update(x, cache, residual=None, weight=None, bias=None, activation=None):
    """(y, cache) of one token a row: x [N, D], [N, 1, D] or [1, N, D]. cache [N, D, W] is updated in place."""
    w, b = _weights(weight, bias)
    state = View.of(cache, "cache")
    if state is None:
        bad_input("cache", "None, expected [N, D, W]")
    offsets, numbers = convolution.even_offsets(state.extents[0], 1, x)
    out = empty_like(x)
    convolution.convolve(View.of(x, "x"), View.of(out), w, b, activation, offsets=View.of(offsets),
                         host_offsets=numbers, state=state, window="carried", residual=View.of(residual, "residual"))
    return out, cache


def forward(weight, bias, activation, x, residual=None, mask=None, cache=None, output_final_state=False,
            cu_seqlens=None, chunk_indices=None, *, cu_seqlens_cpu=None, cp_context=None, seq_idx=None):
    """ShortConvolution.forward with a module's weights [D, 1, W]: (y, window or None). Where every sequence has one
    token it is a step, which updates cache in place. A mask is refused."""
    refuse_given(mask=mask)
    tokens = View.of(x, "x")
    count = tokens.extents[0] if cu_seqlens is None else View.of(cu_seqlens, "cu_seqlens").extents[0] - 1
    if tokens.extents[0] * tokens.extents[1] == count:
        return step(weight, bias, activation, x, residual, cache, output_final_state, cu_seqlens)
    return causal_conv1d(x, View.of(weight, "weight").select(1, 0), bias, residual, cache, output_final_state,
                         activation, cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens_cpu, cp_context=cp_context,
                         seq_idx=seq_idx)


def step(weight, bias, activation, x, residual=None, cache=None, output_final_state=False, cu_seqlens=None):
    """ShortConvolution.step with a module's weights [D, 1, W]: (y, window or None). cache is updated in place; without
    one, zeros stand before the token."""
    taps, tokens = View.of(weight, "weight").select(1, 0), View.of(x, "x")
    if cache is not None:
        y, cache = causal_conv1d_update(x, cache, residual, taps, bias, activation)
        return y, cache if output_final_state else None
    turned = tokens if cu_seqlens is None else tokens.permute(1, 0, 2)
    out = empty_like(x)
    state = empty(x, (turned.extents[0], *taps.extents)) if output_final_state else None
    offsets, numbers = convolution.even_offsets(turned.extents[0], 1, x)
    convolution.convolve(tokens, View.of(out), taps, View.of(bias, "bias"), activation, offsets=View.of(offsets),
                         host_offsets=numbers, state=View.of(state), window="written" if output_final_state else "none",
                         residual=View.of(residual, "residual"))
    return out, state


@functools.cache
def module():
    """FLA's ShortConvolution as a module of PyTorch's, with the same parameters under the same names."""
    import torch

    class ShortConvolution(torch.nn.Conv1d):
        def __init__(self, hidden_size, kernel_size, bias=False, activation="silu", backend="triton", device=None,
                     dtype=None, *, use_fast_conv1d=None):
            super().__init__(hidden_size, hidden_size, kernel_size, groups=hidden_size, bias=bias,
                             padding=kernel_size - 1, device=device, dtype=dtype)
            if activation not in convolution.ACTIVATIONS:
                bad_input("activation", f"'{activation}', expected None, silu or swish")
            self.hidden_size, self.activation, self.backend = hidden_size, activation, backend

        def forward(self, x, residual=None, mask=None, cache=None, output_final_state=False, cu_seqlens=None,
                    chunk_indices=None, **options):
            return forward(self.weight, self.bias, self.activation, x, residual, mask, cache, output_final_state,
                           cu_seqlens, chunk_indices, **options)

        def step(self, x, residual, cache, output_final_state=False, cu_seqlens=None):
            return step(self.weight, self.bias, self.activation, x, residual, cache, output_final_state, cu_seqlens)

        @property
        def state_size(self):
            return self.hidden_size * self.kernel_size[0]

    return ShortConvolution

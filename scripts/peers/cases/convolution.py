"""Short causal convolutions in float64, as the peers' functions mean them. Inputs of one sequence are [C, L], channels
first; a window is [C, W - 1], oldest input first."""
import numpy as np


def activate(numbers, activation):
    """SiLU where the activation is "silu" or "swish", which mean the same; nothing where it is None."""
    if activation is None:
        return numbers
    if activation not in ("silu", "swish"):
        raise ValueError(f"activation '{activation}': expected None, silu or swish")
    return numbers / (1 + np.exp(-numbers))


def convolve(extended, weight, bias, activation):
    """Outputs [.., C, L] of inputs [.., C, W - 1 + L] that begin with their window."""
    width = weight.shape[1]
    length = extended.shape[-1] - (width - 1)
    taps = sum(weight[:, j, None] * extended[..., j:j + length] for j in range(width))
    return activate(taps if bias is None else taps + bias[:, None], activation)


def extend(x, window, width):
    """x behind its window, zeros where there is none."""
    if window is None:
        window = np.zeros((*x.shape[:-1], width - 1))
    return np.concatenate([window, x], axis=-1)


def last(extended, count):
    """The last `count` inputs, zeros in front of the first one."""
    missing = max(0, count - extended.shape[-1])
    padded = np.pad(extended, [(0, 0)] * (extended.ndim - 1) + [(missing, 0)])
    return padded[..., padded.shape[-1] - count:]


def forward(x, weight, bias, activation, window=None):
    """(outputs, new window) of x [.., C, L]."""
    extended = extend(x, window, weight.shape[1])
    return convolve(extended, weight, bias, activation), last(extended, weight.shape[1] - 1)


def forward_packed(x, weight, bias, activation, seq_idx):
    """Outputs of x [B, C, L] whose tokens belong to the sequences seq_idx [B, L] of their row: a tap on a token of
    another sequence counts as zero. Tokens of a negative sequence have outputs of zero."""
    width, length = weight.shape[1], x.shape[2]
    taps = np.zeros(x.shape)
    for lag in range(min(width, length)):
        same = seq_idx[:, lag:] == seq_idx[:, :length - lag]
        taps[:, :, lag:] += weight[:, width - 1 - lag, None] * x[:, :, :length - lag] * same[:, None, :]
    outputs = activate(taps if bias is None else taps + bias[:, None], activation)
    return np.where(seq_idx[:, None, :] >= 0, outputs, 0)


def forward_ragged(x, weight, bias, activation, offsets, windows):
    """Outputs [C, T] and the new windows of sequences that lie one behind the other in x [C, T]; windows[n] is
    sequence n's, or None."""
    outputs, new_windows = np.zeros(x.shape), []
    for n, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
        outputs[:, begin:end], window = forward(x[:, begin:end], weight, bias, activation, windows[n])
        new_windows.append(window)
    return outputs, new_windows


def update(x, state, weight, bias, activation, lengths=None):
    """Outputs of x [C, L] and the new state [C, S], S >= W - 1. The state holds the last inputs, or, where `lengths`
    says how many inputs there have been, it is a ring: input i lies at i modulo S."""
    width, size, count = weight.shape[1], state.shape[1], x.shape[1]
    if lengths is None:
        extended = np.concatenate([state, x], axis=1)
        return convolve(extended[:, size - (width - 1):], weight, bias, activation), extended[:, count:]
    window = state[:, (lengths + np.arange(1 - width, 0)) % size]
    new_state = state.copy()
    for t in range(count):
        new_state[:, (lengths + t) % size] = x[:, t]
    return convolve(np.concatenate([window, x], axis=1), weight, bias, activation), new_state

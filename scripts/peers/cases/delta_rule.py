"""The gated delta rule in float64, token by token, and the encodings of gates and betas that the peers use."""
import numpy as np

NORM_EPSILON = 1e-6  # under the root of every peer's own l2 norm
NEAR = 2**18         # elements of states that are taken through the tokens together: 2 MiB stay in a cache


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def normalized(x, epsilon=NORM_EPSILON):
    """The last dimension divided by sqrt(sum of squares + epsilon)."""
    return x / np.sqrt(np.square(x).sum(-1, keepdims=True) + epsilon)


def decay_of_logits(logits, a_log, dt_bias, lower_bound=None, channels=False):
    """Log decays -exp(a_log) softplus(logits + dt_bias), or lower_bound sigmoid(exp(a_log) (logits + dt_bias)). Logits
    are [.., H] or, with `channels`, [.., H, D]; a_log has H numbers and dt_bias as many as a token. Either may be None,
    which counts as zeros."""
    token = logits.shape[-2:] if channels else logits.shape[-1:]
    rate = 1.0 if a_log is None else np.exp(a_log.reshape(token[:1] + (1,) * channels))
    if dt_bias is not None:
        logits = logits + dt_bias.reshape(token)
    if lower_bound is not None:
        return lower_bound * sigmoid(rate * logits)
    return -rate * softplus(logits)


def grouped(x, heads):
    """x [.., H, D] for `heads` heads, of which each so many consecutive ones share one: head h reads h // ratio."""
    return np.repeat(x, heads // x.shape[-2], axis=-2)


def tiled(x, heads):
    """x [.., H, D] for `heads` heads, where head h reads head h % H."""
    return np.concatenate([x] * (heads // x.shape[-2]), axis=-2)


def recurrence(q, k, v, log_decay, beta, state, scale, steps=1, seen=None):
    """(outputs [N, T, H, Dv], final state [N, H, Dk, Dv]) of N sequences of one length: q [N, T, H, Dk]; k, v and beta
    [N, T * steps, H, ..], `steps` of each for a token's one decay and one output; log_decay [N, T, H] or, a decay for
    each key channel, [N, T, H, Dk], or None; state as the final one. `seen(t, state)` is told each token's state."""
    count, tokens, heads = q.shape[:3]
    state, outputs = state.copy(), np.empty((count, tokens, heads, v.shape[-1]))
    together = max(1, NEAR // max(1, count * q.shape[-1] * v.shape[-1]))
    if seen is None and heads > together:
        for begin in range(0, heads, together):
            part = (slice(None), slice(None), slice(begin, begin + together))
            outputs[part], state[part[1:]] = recurrence(
                q[part], k[part], v[part], None if log_decay is None else log_decay[part], beta[part], state[part[1:]],
                scale, steps)
        return outputs, state
    for t in range(tokens):
        if log_decay is not None:
            decay = np.exp(log_decay[:, t])
            state *= decay[..., None] if decay.ndim == 3 else decay[..., None, None]
        for step in range(t * steps, (t + 1) * steps):
            key = k[:, step]
            missing = v[:, step] - np.einsum("nhk,nhkv->nhv", key, state)
            state += (beta[:, step, :, None] * key)[..., None] * missing[..., None, :]
        outputs[:, t] = scale * np.einsum("nhk,nhkv->nhv", q[:, t], state)
        if seen is not None:
            seen(t, state)
    return outputs, state


def ragged(offsets, q, k, v, log_decay, beta, state, scale, steps=1):
    """The same for sequences of any lengths, one behind the other in arrays of one row ([1, T, ..]); state [N, ..]."""
    outputs, final = np.zeros((*q.shape[:3], v.shape[-1])), state.copy()
    for n, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
        part, parts = slice(begin, end), slice(begin * steps, end * steps)
        outputs[:, part], final[n:n + 1] = recurrence(
            q[:, part], k[:, parts], v[:, parts], None if log_decay is None else log_decay[:, part], beta[:, parts],
            state[n:n + 1], scale, steps)
    return outputs, final


def turned(state):
    """[.., Dv, Dk] as [.., Dk, Dv] and the other way round."""
    return np.swapaxes(state, -1, -2)

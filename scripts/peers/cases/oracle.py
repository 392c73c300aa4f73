"""What each peer's function computes, in float64, from a case's tensors: inputs as they are rounded to their dtype,
outputs by the peer's names and not rounded. A tensor that the function writes is an output of its own name.

    outputs = expected(case, make_tensors(case))
"""
import numpy as np

from . import convolution, delta_rule

ORACLES = {}  # (peer, function) -> callable(Arguments) -> dict of arrays


def oracle(*names):
    """Registers a function as the oracle of these (peer, function)."""
    def register(function):
        ORACLES.update(dict.fromkeys(names, function))
        return function
    return register


class Arguments:
    """A call's arguments: args.x is tensor x in float64 (integers as integers) or the option x; None where absent."""

    def __init__(self, tensors, options):
        self._tensors, self._options, self._numbers = tensors, options, {}

    def __getattr__(self, name):
        if name in self._numbers:
            return self._numbers[name]
        if name in self._tensors:
            tensor = self._tensors[name]
            whole = tensor.dtype in ("int32", "int64", "bool")
            self._numbers[name] = tensor.array.astype(np.int64) if whole else tensor.to_float64()
            return self._numbers[name]
        return self._options.get(name)


def expected(case, tensors):
    """The outputs of a case's call on these tensors, which stay as they are."""
    key = (case.peer, case.function)
    if key not in ORACLES:
        raise KeyError(f"{case.peer} {case.function}: no oracle, expected one of "
                       f"{', '.join(' '.join(each) for each in sorted(ORACLES))}")
    return ORACLES[key](Arguments(tensors, {**case.options, "function": case.function}))


@oracle(("causal-conv1d", "causal_conv1d_fn"))
def _forward(args):
    if args.seq_idx is not None:
        return {"out": convolution.forward_packed(args.x, args.weight, args.bias, args.activation, args.seq_idx)}
    out, window = convolution.forward(args.x, args.weight, args.bias, args.activation, args.initial_states)
    return {"out": out, "final_states_out": window} if args.return_final_states else {"out": out}


@oracle(("causal-conv1d", "causal_conv1d_update"), ("vllm", "causal_conv1d_update"),
        ("sglang", "causal_conv1d_update"))
def _update(args):
    out, state = np.zeros(args.x.shape), args.conv_state.copy()
    for n, x in enumerate(args.x):
        slot = n if args.conv_state_indices is None else args.conv_state_indices[n]
        if slot < 0:
            continue
        lengths = None if args.cache_seqlens is None else args.cache_seqlens[n]
        out[n], state[slot] = convolution.update(x, state[slot], args.weight, args.bias, args.activation, lengths)
    return {"out": out, "conv_state": state}


@oracle(("causal-conv1d", "causal_conv1d_varlen_states"))
def _varlen_states(args):
    ends = args.cu_seqlens
    return {"states": np.stack([convolution.last(args.x[begin:end].T, args.state_len)
                                for begin, end in zip(ends[:-1], ends[1:])])}


@oracle(("vllm", "causal_conv1d_fn"), ("sglang", "causal_conv1d_fn"))
def _forward_with_pool(args):
    slots, starts = args.cache_indices, args.query_start_loc
    windows = [args.conv_states[slot] if slot >= 0 and args.has_initial_state[n] else None
               for n, slot in enumerate(slots[:len(starts) - 1])]
    out, new_windows = convolution.forward_ragged(args.x, args.weight, args.bias, args.activation, starts, windows)
    states = args.conv_states.copy()
    for slot, window in zip(slots, new_windows):
        if slot >= 0:
            states[slot] = window
    return {"out": out, "conv_states": states}


def _fla_forward(args, window, weight):
    """FLA's convolutions have tokens first, [B, T, D], and windows [N, D, W] whose first column is never used."""
    x = args.x.transpose(0, 2, 1)
    bias, activation, width = args.bias, args.activation, weight.shape[1]
    before = np.zeros((*(x.shape[:2] if args.cu_seqlens is None else (len(args.cu_seqlens) - 1, x.shape[1])), width))
    if window is not None:
        before = window
    if args.cu_seqlens is None:
        out, _ = convolution.forward(x, weight, bias, activation, before[..., 1:])
        final = convolution.last(np.concatenate([before, x], axis=-1), width)
    else:
        ends = args.cu_seqlens
        out = convolution.forward_ragged(x[0], weight, bias, activation, ends, before[..., 1:])[0][None]
        final = np.stack([convolution.last(np.concatenate([before[n], x[0, :, begin:end]], axis=-1), width)
                          for n, (begin, end) in enumerate(zip(ends[:-1], ends[1:]))])
    y = out.transpose(0, 2, 1)
    return {"y": y if args.residual is None else y + args.residual, "final_state": final}


@oracle(("fla", "causal_conv1d"), ("fla", "fast_causal_conv1d_fn"))
def _fla_convolution(args):
    return _fla_forward(args, args.initial_state, args.weight)


@oracle(("fla", "ShortConvolution.forward"))
def _fla_module(args):
    return _fla_forward(args, args.cache, args.weight[:, 0])


@oracle(("fla", "causal_conv1d_update"), ("fla", "ShortConvolution.step"))
def _fla_update(args):
    """One token for each row; the window [N, D, W] takes the new input before it is read."""
    outputs = _fla_forward(args, args.cache, args.weight.reshape(args.weight.shape[0], -1))
    return {"y": outputs["y"], "cache": outputs["final_state"]}


def _fla_gates(args):
    """(log decays, betas) of an FLA call."""
    g, beta = args.g, args.beta
    if args.use_gate_in_kernel:
        g = delta_rule.decay_of_logits(g, args.A_log, args.dt_bias, args.lower_bound, g.ndim == 4)
    if args.use_beta_sigmoid_in_kernel:
        beta = delta_rule.sigmoid(beta) * (2 if args.allow_neg_eigval else 1)
    return g, beta


def _fla_queries(args, value_heads):
    """(q, k, scale) of an FLA call, for all value heads."""
    q, k = (delta_rule.normalized(x) if args.use_qk_l2norm_in_kernel else x for x in (args.q, args.k))
    scale = args.q.shape[-1]**-0.5 if args.scale is None else args.scale
    return delta_rule.grouped(q, value_heads), delta_rule.grouped(k, value_heads), scale


@oracle(("fla", "chunk_gated_delta_rule"), ("fla", "fused_recurrent_gated_delta_rule"), ("fla", "chunk_kda"),
        ("fla", "fused_recurrent_kda"), ("fla", "chunk_gated_delta_product"))
def _fla_delta_rule(args):
    g, beta = _fla_gates(args)
    q, k, scale = _fla_queries(args, args.v.shape[2])
    state = delta_rule.turned(args.initial_state) if args.state_v_first else args.initial_state
    steps = args.num_householder or 1
    if args.cu_seqlens is None:
        o, final = delta_rule.recurrence(q, k, args.v, g, beta, state, scale, steps)
    else:
        o, final = delta_rule.ragged(args.cu_seqlens, q, k, args.v, g, beta, state, scale, steps)
    return {"o": o, "final_state": delta_rule.turned(final) if args.state_v_first else final}


@oracle(("fla", "fused_recurrent_kda_fwd"))
def _fla_decode(args):
    """States in a pool, which is written in place."""
    g, beta = _fla_gates(args)
    q, k, scale = _fla_queries(args, args.v.shape[2])
    pool, slots = args.initial_state.copy(), args.ssm_state_indices
    o, pool[slots] = delta_rule.ragged(args.cu_seqlens, q, k, args.v, g, beta, pool[slots], scale)
    return {"o": o, "initial_state": pool}


@oracle(("fla", "fused_gdn_gate"), ("fla", "fused_kda_gate"))
def _fla_gate(args):
    return {"o": delta_rule.decay_of_logits(args.g, args.A_log, args.dt_bias, args.lower_bound, args.g.ndim == 4)}


@oracle(("ggml", "ggml_ssm_conv"), ("ggml", "ggml_ssm_conv+ggml_silu"), ("ggml", "ggml_ssm_conv+ggml_add+ggml_silu"))
def _ggml_convolution(args):
    return {"dst": convolution.convolve(args.sx, args.c, args.bias, args.activation).transpose(0, 2, 1)}


@oracle(("ggml", "ggml_gated_delta_net"))
def _ggml_delta_net(args):
    """One array: the outputs [n_seqs, T, H, D], then the last K states [K, n_seqs, H, V, K], the newest first."""
    heads, size = args.v.shape[2:]
    g = args.g if args.g.shape[3] == size else args.g[..., 0]
    states = []
    out, _ = delta_rule.recurrence(delta_rule.tiled(args.q, heads), delta_rule.tiled(args.k, heads), args.v, g,
                                   args.beta[..., 0], delta_rule.turned(args.state), size**-0.5,
                                   seen=lambda t, state: states.append(delta_rule.turned(state).copy()))
    kept = states[::-1][:args.K]
    return {"dst": np.concatenate([out.ravel(), *(state.ravel() for state in kept)])}


@oracle(("flashinfer", "chunk_gated_delta_rule"))
def _flashinfer_prefill(args):
    """Decays are factors; use_qk_l2norm_in_kernel changes nothing. With more query heads than value heads these share
    keys and values. An empty sequence's row of the output state stays as it was."""
    heads, size = max(args.q.shape[1], args.v.shape[1]), args.q.shape[2]
    q, k, v = (delta_rule.grouped(x, heads)[None] for x in (args.q, args.k, args.v))
    ones = np.ones((len(args.q), heads))
    # A decay of zero is a reset; its logarithm is -inf.
    with np.errstate(divide="ignore"):
        log_decay = np.log(ones if args.g is None else args.g)[None]
    beta = (ones if args.beta is None else args.beta)[None]
    scale, ends = size**-0.5 if args.scale is None else args.scale, args.cu_seqlens
    count = len(ends) - 1
    slots = range(count) if args.state_indices is None else args.state_indices
    state = args.output_state if args.output_state is not None else None
    if args.initial_state is not None and (state is None or isinstance(state, str)):
        state = args.initial_state
    state = np.zeros((count, heads, size, size)) if state is None else state.copy()
    output, checkpoints, every = np.zeros(v.shape), [], args.checkpoint_every_n_tokens or 0
    for n, (begin, end) in enumerate(zip(ends[:-1], ends[1:])):
        if begin == end:
            continue
        start = np.zeros((1, heads, size, size))
        if args.initial_state is not None:
            start = delta_rule.turned(args.initial_state[slots[n]])[None]
        part = slice(begin, end)

        def keep(t, now):
            if every and (t + 1) % every == 0:
                checkpoints.append(delta_rule.turned(now[0]).copy())
        output[:, part], final = delta_rule.recurrence(q[:, part], k[:, part], v[:, part], log_decay[:, part],
                                                       beta[:, part], start, scale, seen=keep)
        state[slots[n]] = delta_rule.turned(final[0])
    outputs = {"output": output[0], "output_state": state}
    return {**outputs, "state_checkpoints": np.stack(checkpoints)} if checkpoints else outputs


@oracle(("flashinfer", "gated_delta_rule_decode_pretranspose"), ("flashinfer", "gated_delta_rule_decode"),
        ("flashinfer", "gated_delta_rule_mtp"), ("flashinfer", "gdn_decode_bf16_state.gated_delta_rule"),
        ("flashinfer", "gdn_decode_bf16_state.gated_delta_rule_mtp"))
def _flashinfer_decode(args):
    name = next(name for name in ("state", "initial_state", "initial_state_source") if getattr(args, name) is not None)
    turn = (lambda state: state) if args.function == "gated_delta_rule_decode" else delta_rule.turned
    pool = getattr(args, name).copy()
    batch, tokens, heads, _ = args.v.shape
    reads = np.arange(batch) if args.initial_state_indices is None else args.initial_state_indices
    writes = reads if args.output_state_indices is None else args.output_state_indices
    q, k = (delta_rule.grouped(delta_rule.normalized(x), heads) for x in (args.q, args.k))
    log_decay = delta_rule.decay_of_logits(args.a, args.A_log, args.dt_bias)
    valid = reads >= 0
    output, between = np.zeros(args.v.shape), np.zeros((batch, tokens, *pool.shape[1:]))

    def keep(t, now):
        between[valid, t] = turn(now)
    output[valid], final = delta_rule.recurrence(
        q[valid], k[valid], args.v[valid], log_decay[valid], delta_rule.sigmoid(args.b[valid]),
        turn(pool[reads[valid]]), q.shape[-1]**-0.5 if args.scale is None else args.scale,
        seen=keep if args.cache_intermediate_states else None)
    if not args.disable_state_update:
        pool[writes[valid]] = turn(final)
    outputs = {"output": output, name: pool}
    return {**outputs, "intermediate_states_buffer": between} if args.cache_intermediate_states else outputs


@oracle(("vllm", "fused_recurrent_gated_delta_rule_packed_decode"))
def _vllm_packed_decode(args):
    """One token for each row of mixed_qkv [B, q | k | v]; what belongs to no row of the pool is zeros here."""
    heads, size = args.num_v_heads, args.initial_state.shape[-1]
    q, k, v = np.split(args.mixed_qkv, [args.num_qk_heads * size, 2 * args.num_qk_heads * size], axis=1)
    q, k = (delta_rule.grouped(delta_rule.normalized(x.reshape(len(x), 1, -1, size)), heads) for x in (q, k))
    v = v.reshape(len(v), 1, heads, -1)
    log_decay = delta_rule.decay_of_logits(args.a, args.A_log, args.dt_bias)[:, None]
    pool, slots, out = args.initial_state.copy(), args.ssm_state_indices, np.zeros(v.shape)
    valid = slots >= 0
    out[valid], final = delta_rule.recurrence(q[valid], k[valid], v[valid], log_decay[valid],
                                              delta_rule.sigmoid(args.b[valid])[:, None],
                                              delta_rule.turned(pool[slots[valid]]), args.scale)
    pool[slots[valid]] = delta_rule.turned(final)
    return {"out": out, "initial_state": pool}


@oracle(("vllm", "fused_sigmoid_gating_delta_rule_update"), ("sglang", "fused_sigmoid_gating_delta_rule_update"))
def _sigmoid_gating(args):
    """Sequences one behind the other, whatever the batch's shape says; a and b [tokens, H]. With indices for each token
    ([N, T]) the state is left after every token. SGLang's states are [.., K, V]."""
    vllm = args.initial_state is not None
    name = "initial_state" if vllm else "initial_state_source"
    turn = delta_rule.turned if vllm else lambda state: state
    reads = args.ssm_state_indices if vllm else args.initial_state_indices
    writes = reads if args.ssm_state_indices_output is None else args.ssm_state_indices_output
    before, pool = getattr(args, name), getattr(args, name).copy()
    tokens = args.v.shape[0] * args.v.shape[1]
    q, k, v = (x.reshape(1, tokens, *x.shape[2:]) for x in (args.q, args.k, args.v))
    if args.use_qk_l2norm_in_kernel:
        q, k = delta_rule.normalized(q), delta_rule.normalized(k)
    q, k = delta_rule.grouped(q, v.shape[2]), delta_rule.grouped(k, v.shape[2])
    log_decay = delta_rule.decay_of_logits(args.a, args.A_log, args.dt_bias)[None]
    beta, out = delta_rule.sigmoid(args.b)[None], np.zeros(v.shape)
    for n, (begin, end) in enumerate(zip(args.cu_seqlens[:-1], args.cu_seqlens[1:])):
        part = slice(begin, end)
        read = reads[n] if reads.ndim == 1 else reads[n, args.num_accepted_tokens[n] - 1]

        def keep(t, state):
            if writes.ndim == 2:
                pool[writes[n, t]] = turn(state[0])
        out[:, part], final = delta_rule.recurrence(q[:, part], k[:, part], v[:, part], log_decay[:, part],
                                                    beta[:, part], turn(before[read])[None], q.shape[-1]**-0.5,
                                                    seen=keep)
        if writes.ndim == 1:
            pool[writes[n]] = turn(final[0])
    return {"out": out.reshape(args.v.shape), name: pool}


@oracle(("sglang", "chunk_gated_delta_rule"))
def _sglang_chunk(args):
    """States [.., V, K] in a pool, written in place. Padding writes no row, and its outputs are zeros here."""
    pool, ends, slots = args.initial_state.copy(), args.cu_seqlens, args.initial_state_indices
    q, k, o = delta_rule.normalized(args.q), delta_rule.normalized(args.k), np.zeros(args.v.shape)
    for n, (begin, end) in enumerate(zip(ends[:-1], ends[1:])):
        if slots[n] < 0:
            continue
        part = slice(begin, end)
        o[:, part], final = delta_rule.recurrence(q[:, part], k[:, part], args.v[:, part], args.g[:, part],
                                                  args.beta[:, part], delta_rule.turned(pool[slots[n]])[None],
                                                  q.shape[-1]**-0.5)
        pool[slots[n]] = delta_rule.turned(final[0])
    return {"o": o, "initial_state": pool}


@oracle(("sglang", "fused_gdn_gating"))
def _sglang_gating(args):
    return {"g": delta_rule.decay_of_logits(args.a, args.A_log, args.dt_bias)[None],
            "beta": delta_rule.sigmoid(args.b)[None]}

"""The same functions once more for the tests, number by number in loops: of an output's elements only those that
somebody asks for. Nothing is shared with convolution.py and delta_rule.py, so that a mistake in one shows.

    samples(case, tensors, rng, count) -> [(output, index, number)]
"""
import math

KNOWN = {}  # (peer, function) -> callable(call, rng) -> (output, index, number)


def known(*names):
    def register(function):
        KNOWN.update(dict.fromkeys(names, function))
        return function
    return register


class Call:
    """A case's numbers: call.x is the array of tensor x, in float64 or as integers, the option x, or None."""

    def __init__(self, case, tensors):
        self._case, self._arrays = case, {}
        for name, tensor in tensors.items():
            whole = tensor.dtype in ("int32", "int64", "bool")
            self._arrays[name] = tensor.array.tolist() if whole else tensor.to_float64()

    def __getattr__(self, name):
        return self._arrays[name] if name in self._arrays else self._case.options.get(name)

    @property
    def function(self):
        return self._case.function

    @property
    def normalizes(self):
        """Whether q and k are divided by their length; FlashInfer's decoding does so where nothing is said."""
        options = self._case.options
        return options.get("use_qk_l2norm", options.get("use_qk_l2norm_in_kernel", False))


def samples(case, tensors, rng, count):
    call = Call(case, tensors)
    return [number for _ in range(count) for number in KNOWN[case.peer, case.function](call, rng)]


def _silu(x, activation):
    return x / (1 + math.exp(-x)) if activation else x


def _tap_sum(call, weights, channel, history, t):
    """`history(t)` is the channel's input t; of t < 0 what the window holds."""
    width = len(weights[channel])
    total = 0.0 if call.bias is None else call.bias[channel]
    for tap in range(width):
        total += weights[channel][tap] * history(t - (width - 1) + tap)
    return _silu(total, call.activation)


@known(("causal-conv1d", "causal_conv1d_fn"))
def _forward(call, rng):
    batch, channels, tokens = call.x.shape
    b, c, t = rng.randrange(batch), rng.randrange(channels), rng.randrange(tokens)
    width = call.weight.shape[1]
    mine = None if call.seq_idx is None else call.seq_idx[b][t]

    def history(at):
        if at < 0:
            return 0.0 if call.initial_states is None else call.initial_states[b, c, at + width - 1]
        return call.x[b, c, at] if mine is None or call.seq_idx[b][at] == mine else 0.0
    yield "out", (b, c, t), 0.0 if mine is not None and mine < 0 else _tap_sum(call, call.weight, c, history, t)
    if call.return_final_states:
        slot = rng.randrange(width - 1)
        yield "final_states_out", (b, c, slot), history(tokens - (width - 1) + slot)


@known(("causal-conv1d", "causal_conv1d_update"), ("vllm", "causal_conv1d_update"),
       ("sglang", "causal_conv1d_update"))
def _update(call, rng):
    batch, channels, tokens = call.x.shape
    b, c, t = rng.randrange(batch), rng.randrange(channels), rng.randrange(tokens)
    row = b if call.conv_state_indices is None else call.conv_state_indices[b]
    if row < 0:
        yield "out", (b, c, t), 0.0
        return
    held = [float(number) for number in call.conv_state[row, c]]
    size, width = len(held), call.weight.shape[1]
    begin = size if call.cache_seqlens is None else call.cache_seqlens[b]
    # Input number i is `begin` + t of this call, or one of those that the state holds.
    inputs = {begin + at: call.x[b, c, at] for at in range(tokens)}
    after = list(held)
    if call.cache_seqlens is None:
        inputs.update({at: held[at] for at in range(size)})
        after = [inputs[at + tokens] for at in range(size)]
    else:
        inputs.update({at: held[at % size] for at in range(begin - (width - 1), begin)})
        for at in range(begin, begin + tokens):
            after[at % size] = inputs[at]
    yield "out", (b, c, t), _tap_sum(call, call.weight, c, lambda at: inputs[begin + at], t)
    slot = rng.randrange(size)
    yield "conv_state", (row, c, slot), after[slot]


@known(("causal-conv1d", "causal_conv1d_varlen_states"))
def _states(call, rng):
    n, c, slot = rng.randrange(len(call.cu_seqlens) - 1), rng.randrange(call.x.shape[1]), rng.randrange(call.state_len)
    at = call.cu_seqlens[n + 1] - call.state_len + slot
    yield "states", (n, c, slot), call.x[at, c] if at >= call.cu_seqlens[n] else 0.0


@known(("vllm", "causal_conv1d_fn"), ("sglang", "causal_conv1d_fn"))
def _forward_with_pool(call, rng):
    channels, width = call.weight.shape
    n, c = rng.randrange(len(call.query_start_loc) - 1), rng.randrange(channels)
    begin, end = call.query_start_loc[n:n + 2]
    row = call.cache_indices[n]

    def history(at):
        if at >= 0:
            return call.x[c, begin + at]
        return call.conv_states[row, c, at + width - 1] if row >= 0 and call.has_initial_state[n] else 0.0
    t = rng.randrange(end - begin)
    yield "out", (c, begin + t), _tap_sum(call, call.weight, c, history, t)
    if row >= 0:
        slot = rng.randrange(width - 1)
        yield "conv_states", (row, c, slot), history(end - begin - (width - 1) + slot)


def _tokens_first(call, rng, window, weights, window_after):
    batch, tokens, channels = call.x.shape
    width = len(weights[0])
    ends = call.cu_seqlens
    n, c = rng.randrange(batch if ends is None else len(ends) - 1), rng.randrange(channels)
    row, begin, length = (n, 0, tokens) if ends is None else (0, ends[n], ends[n + 1] - ends[n])

    def history(at):
        if at >= 0:
            return call.x[row, begin + at, c]
        return 0.0 if window is None or at + width < 0 else window[n, c, at + width]
    t = rng.randrange(length)
    index = (row, begin + t, c)
    added = 0.0 if call.residual is None else call.residual[index]
    yield "y", index, _tap_sum(call, weights, c, history, t) + added
    slot = rng.randrange(width)
    yield window_after, (n, c, slot), history(length - width + slot)


@known(("fla", "causal_conv1d"), ("fla", "fast_causal_conv1d_fn"))
def _fla_forward(call, rng):
    return _tokens_first(call, rng, call.initial_state, call.weight, "final_state")


@known(("fla", "ShortConvolution.forward"))
def _fla_module(call, rng):
    return _tokens_first(call, rng, call.cache, [row[0] for row in call.weight], "final_state")


@known(("fla", "ShortConvolution.step"))
def _fla_step(call, rng):
    return _tokens_first(call, rng, call.cache, [row[0] for row in call.weight], "cache")


@known(("fla", "causal_conv1d_update"))
def _fla_update(call, rng):
    return _tokens_first(call, rng, call.cache, call.weight, "cache")


@known(("ggml", "ggml_ssm_conv"), ("ggml", "ggml_ssm_conv+ggml_silu"), ("ggml", "ggml_ssm_conv+ggml_add+ggml_silu"))
def _ggml_convolution(call, rng):
    sequences, channels, inputs = call.sx.shape
    width = call.c.shape[1]
    n, c, t = rng.randrange(sequences), rng.randrange(channels), rng.randrange(inputs - width + 1)
    yield "dst", (n, t, c), _tap_sum(call, call.c, c, lambda at: call.sx[n, c, at + width - 1], t)


def _length(numbers):
    return math.sqrt(sum(number * number for number in numbers) + 1e-6)


def _softplus(x):
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))


def _sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def column(tokens, steps, q, k, v, decay, beta, state, scale):
    """(outputs, state after each token) of one value column: `state` is its list of Dk numbers; q(t) and k(i) are lists
    of as many, v(i) and beta(i) numbers, decay(t) a number for each key channel."""
    outputs, states = [], []
    for t in range(tokens):
        factors = decay(t)
        state = [factor * number for factor, number in zip(factors, state)]
        for i in range(t * steps, (t + 1) * steps):
            key = k(i)
            missing = v(i) - sum(a * b for a, b in zip(key, state))
            state = [number + beta(i) * a * missing for a, number in zip(key, state)]
        outputs.append(scale * sum(a * b for a, b in zip(q(t), state)))
        states.append(state)
    return outputs, states


def _fla_decay(call, index, head, dim):
    """Factors of one token and head for its key channels."""
    per_channel = call.v.ndim == call.g.ndim if call.g is not None else False
    factors = []
    for channel in range(dim if per_channel else 1):
        g = call.g[index + (head, channel)] if per_channel else call.g[index + (head,)]
        if call.use_gate_in_kernel:
            rate = 1.0 if call.A_log is None else math.exp(call.A_log.reshape(-1)[head])
            flat = head * dim + channel if per_channel else head
            x = g + (0.0 if call.dt_bias is None else call.dt_bias[flat])
            g = -rate * _softplus(x) if call.lower_bound is None else call.lower_bound * _sigmoid(rate * x)
        factors.append(math.exp(g))
    return factors if per_channel else factors * dim


def _fla_column(call, rng, state_of, after):
    rows, tokens, heads, dim = call.q.shape
    values = call.v.shape[2]
    n, head, j = (rng.randrange(extent) for extent in (rows if call.cu_seqlens is None else len(call.cu_seqlens) - 1,
                                                       values, call.v.shape[3]))
    row, begin, length = (n, 0, tokens) if call.cu_seqlens is None else (
        0, call.cu_seqlens[n], call.cu_seqlens[n + 1] - call.cu_seqlens[n])
    steps, key_head = call.num_householder or 1, head // (values // heads)

    def vector(array, at):
        numbers = array[row, at, key_head].tolist()
        norm = _length(numbers) if call.use_qk_l2norm_in_kernel else 1.0
        return [number / norm for number in numbers]

    def beta(i):
        number = call.beta[row, begin * steps + i, head]
        if call.use_beta_sigmoid_in_kernel:
            number = _sigmoid(number) * (2 if call.allow_neg_eigval else 1)
        return number
    before = state_of(n)[head]
    state = (before[j, :] if call.state_v_first else before[:, j]).tolist()
    outputs, states = column(
        length, steps, lambda t: vector(call.q, begin + t), lambda i: vector(call.k, begin * steps + i),
        lambda i: call.v[row, begin * steps + i, head, j],
        lambda t: [1.0] * dim if call.g is None else _fla_decay(call, (row, begin + t), head, dim), beta, state,
        dim**-0.5 if call.scale is None else call.scale)
    i, t = rng.randrange(dim), length - 1
    yield "o", (row, begin + t, head, j), outputs[t]
    yield (*after(n, head, j, i), states[-1][i])


@known(("fla", "chunk_gated_delta_rule"), ("fla", "fused_recurrent_gated_delta_rule"), ("fla", "chunk_kda"),
       ("fla", "fused_recurrent_kda"), ("fla", "chunk_gated_delta_product"))
def _fla_delta_rule(call, rng):
    return _fla_column(call, rng, lambda n: call.initial_state[n], lambda n, head, j, i: (
        "final_state", (n, head, j, i) if call.state_v_first else (n, head, i, j)))


@known(("fla", "fused_recurrent_kda_fwd"))
def _fla_decode(call, rng):
    rows = call.ssm_state_indices
    return _fla_column(call, rng, lambda n: call.initial_state[rows[n]],
                       lambda n, head, j, i: ("initial_state", (rows[n], head, i, j)))


@known(("fla", "fused_gdn_gate"), ("fla", "fused_kda_gate"))
def _fla_gate(call, rng):
    index = tuple(rng.randrange(extent) for extent in call.g.shape)
    flat = index[2] if len(index) == 3 else index[2] * call.g.shape[3] + index[3]
    x = call.g[index] + (0.0 if call.dt_bias is None else call.dt_bias[flat])
    rate = 1.0 if call.A_log is None else math.exp(call.A_log.reshape(-1)[index[2]])
    yield "o", index, -rate * _softplus(x) if call.lower_bound is None else call.lower_bound * _sigmoid(rate * x)


@known(("ggml", "ggml_gated_delta_net"))
def _ggml_delta_net(call, rng):
    sequences, tokens, heads, dim = call.v.shape
    n, head, j, i = (rng.randrange(extent) for extent in (sequences, heads, dim, dim))
    key_head = head % call.q.shape[2]

    def decay(t):
        factors = [math.exp(number) for number in call.g[n, t, head]]
        return factors if len(factors) == dim else factors * dim
    outputs, states = column(tokens, 1, lambda t: call.q[n, t, key_head].tolist(),
                             lambda t: call.k[n, t, key_head].tolist(), lambda t: call.v[n, t, head, j], decay,
                             lambda t: call.beta[n, t, head, 0], call.state[n, head, j].tolist(), dim**-0.5)
    t = rng.randrange(tokens)
    yield "dst", (((n * tokens + t) * heads + head) * dim + j,), outputs[t]
    kept = rng.randrange(call.K)
    place = sequences * tokens * heads * dim + (((kept * sequences + n) * heads + head) * dim + j) * dim + i
    yield "dst", (place,), states[tokens - 1 - kept][i]


@known(("flashinfer", "chunk_gated_delta_rule"))
def _flashinfer_prefill(call, rng):
    ends = call.cu_seqlens
    heads = max(call.q.shape[1], call.v.shape[1])
    n, head, j, i = (rng.randrange(extent) for extent in (len(ends) - 1, heads, call.v.shape[2], call.q.shape[2]))
    begin, length = ends[n], ends[n + 1] - ends[n]
    row = n if call.state_indices is None else call.state_indices[n]
    if length == 0:
        held = 0.0 if call.output_state is None else call.output_state[row, head, j, i]
        yield "output_state", (row, head, j, i), held
        return

    def of(array, at):
        return array[begin + at, head * array.shape[1] // heads]
    dim = call.q.shape[2]
    state = [0.0] * dim if call.initial_state is None else call.initial_state[row, head, j].tolist()
    outputs, states = column(
        length, 1, lambda t: of(call.q, t).tolist(), lambda t: of(call.k, t).tolist(), lambda t: of(call.v, t)[j],
        lambda t: [1.0 if call.g is None else call.g[begin + t, head]] * dim,
        lambda t: 1.0 if call.beta is None else call.beta[begin + t, head], state,
        dim**-0.5 if call.scale is None else call.scale)
    t = rng.randrange(length)
    yield "output", (begin + t, head, j), outputs[t]
    yield "output_state", (row, head, j, i), states[-1][i]
    if call.checkpoint_every_n_tokens and length >= call.checkpoint_every_n_tokens:
        yield ("state_checkpoints", (call.checkpoint_cu_starts[n], head, j, i),
               states[call.checkpoint_every_n_tokens - 1][i])


def _logit_column(call, row, head, j, state, q, k, v, a, b, tokens):
    """A column where gates and betas are logits; q(t), k(t) are arrays, a(t), b(t), v(t) numbers."""
    dim = len(state)

    def unit(numbers):
        numbers = numbers.tolist()
        norm = _length(numbers) if call.normalizes else 1.0
        return [number / norm for number in numbers]
    rate = math.exp(call.A_log.reshape(-1)[head])
    return column(tokens, 1, lambda t: unit(q(t)), lambda t: unit(k(t)), v,
                  lambda t: [math.exp(-rate * _softplus(a(t) + call.dt_bias[head]))] * dim,
                  lambda t: _sigmoid(b(t)), state, dim**-0.5 if call.scale is None else call.scale)


@known(("flashinfer", "gated_delta_rule_decode_pretranspose"), ("flashinfer", "gated_delta_rule_decode"),
       ("flashinfer", "gated_delta_rule_mtp"), ("flashinfer", "gdn_decode_bf16_state.gated_delta_rule"),
       ("flashinfer", "gdn_decode_bf16_state.gated_delta_rule_mtp"))
def _flashinfer_decode(call, rng):
    name = next(name for name in ("state", "initial_state", "initial_state_source") if getattr(call, name) is not None)
    states_before = getattr(call, name)
    batch, tokens, heads, size = call.v.shape
    n, head, j, i = (rng.randrange(extent) for extent in (batch, heads, size, size))
    read = n if call.initial_state_indices is None else call.initial_state_indices[n]
    write = read if call.output_state_indices is None else call.output_state_indices[n]
    t = rng.randrange(tokens)
    if read < 0:
        yield "output", (n, t, head, j), 0.0
        return
    key_head = head // (heads // call.q.shape[2])
    keys_first = call.function == "gated_delta_rule_decode"
    before = states_before[read, head]
    outputs, states = _logit_column(
        call, n, head, j, (before[:, j] if keys_first else before[j]).tolist(), lambda at: call.q[n, at, key_head],
        lambda at: call.k[n, at, key_head], lambda at: call.v[n, at, head, j], lambda at: call.a[n, at, head],
        lambda at: call.b[n, at, head], tokens)
    yield "output", (n, t, head, j), outputs[t]
    kept = call.disable_state_update
    index = (read if kept else write, head, *((i, j) if keys_first else (j, i)))
    yield name, index, states_before[index] if kept else states[-1][i]
    if call.cache_intermediate_states:
        yield "intermediate_states_buffer", (n, t, head, j, i), states[t][i]


@known(("vllm", "fused_recurrent_gated_delta_rule_packed_decode"))
def _vllm_packed_decode(call, rng):
    size, heads, keys = call.initial_state.shape[3], call.num_v_heads, call.num_qk_heads
    n, head, j, i = (rng.randrange(extent) for extent in (len(call.mixed_qkv), heads, size, size))
    row, key_head = call.ssm_state_indices[n], head // (heads // keys)
    if row < 0:
        return

    def at(start, count):
        return call.mixed_qkv[n, start:start + count]
    outputs, states = _logit_column(
        call, n, head, j, call.initial_state[row, head, j].tolist(), lambda t: at(key_head * size, size),
        lambda t: at((keys + key_head) * size, size), lambda t: at((2 * keys + head) * size + j, 1)[0],
        lambda t: call.a[n, head], lambda t: call.b[n, head], 1)
    yield "out", (n, 0, head, j), outputs[0]
    yield "initial_state", (row, head, j, i), states[0][i]


@known(("vllm", "fused_sigmoid_gating_delta_rule_update"), ("sglang", "fused_sigmoid_gating_delta_rule_update"))
def _sigmoid_gating(call, rng):
    values_first = call.initial_state is not None
    name = "initial_state" if values_first else "initial_state_source"
    rows, per_row, heads, size = call.v.shape
    n, head, j, i = (rng.randrange(extent) for extent in (len(call.cu_seqlens) - 1, heads, size, call.q.shape[3]))
    begin, end = call.cu_seqlens[n:n + 2]
    read = (call.ssm_state_indices if values_first else call.initial_state_indices)[n]
    write = read if call.ssm_state_indices_output is None else call.ssm_state_indices_output[n]
    if isinstance(read, list):
        read = read[call.num_accepted_tokens[n] - 1]
    key_head = head // (heads // call.q.shape[2])

    def of(array, t):
        return array[(begin + t) // per_row, (begin + t) % per_row]
    before = getattr(call, name)[read, head]
    outputs, states = _logit_column(
        call, n, head, j, (before[j] if values_first else before[:, j]).tolist(), lambda t: of(call.q, t)[key_head],
        lambda t: of(call.k, t)[key_head], lambda t: of(call.v, t)[head, j], lambda t: call.a[begin + t, head],
        lambda t: call.b[begin + t, head], end - begin)
    t = rng.randrange(end - begin)
    yield "out", ((begin + t) // per_row, (begin + t) % per_row, head, j), outputs[t]
    kept = t if isinstance(write, list) else end - begin - 1
    row = write[kept] if isinstance(write, list) else write
    yield name, (row, head, *((j, i) if values_first else (i, j))), states[kept][i]


@known(("sglang", "chunk_gated_delta_rule"))
def _sglang_chunk(call, rng):
    _, _, heads, size = call.v.shape
    dim = call.q.shape[3]
    n, head, j, i = (rng.randrange(extent) for extent in (len(call.cu_seqlens) - 1, heads, size, dim))
    begin, end = call.cu_seqlens[n:n + 2]
    row = call.initial_state_indices[n]
    if row < 0:
        return

    def unit(numbers):
        norm = _length(numbers.tolist())
        return [number / norm for number in numbers.tolist()]
    outputs, states = column(
        end - begin, 1, lambda t: unit(call.q[0, begin + t, head]), lambda t: unit(call.k[0, begin + t, head]),
        lambda t: call.v[0, begin + t, head, j], lambda t: [math.exp(call.g[0, begin + t, head])] * dim,
        lambda t: call.beta[0, begin + t, head], call.initial_state[row, head, j].tolist(), dim**-0.5)
    t = rng.randrange(end - begin)
    yield "o", (0, begin + t, head, j), outputs[t]
    yield "initial_state", (row, head, j, i), states[-1][i]


@known(("sglang", "fused_gdn_gating"))
def _sglang_gating(call, rng):
    n, head = rng.randrange(len(call.a)), rng.randrange(call.a.shape[1])
    yield "g", (0, n, head), -math.exp(call.A_log[head]) * _softplus(call.a[n, head] + call.dt_bias[head])
    yield "beta", (0, n, head), _sigmoid(call.b[n, head])

"""flash-linear-attention's functions. Tokens come first, [B, T, H, D]; states are [N, H, K, V], or [N, H, V, K] with
state_v_first, which an older name of it, transpose_state_layout, says too. A final state is a tensor of its own: where
there is an initial one, a copy of it on the device is what the call updates.

Arguments that choose among FLA's own kernels change nothing here: chunk_size, chunk_indices, safe_gate,
disable_recompute, backend. Of cu_seqlens the numbers are read on the host where a plan is made, from cu_seqlens_cpu where
that is given. A token's sequence over several devices (cp_context) is refused."""
from . import convolution, fla_convolution, recurrence
from .fla_convolution import causal_conv1d, causal_conv1d_update, fast_causal_conv1d_fn  # noqa: F401: FLA's names
from .tensors import View, bad_input, clone, empty, refuse_given, unsupported, zero_view


def __getattr__(name):
    # A module of PyTorch's, which is imported where somebody asks for it.
    if name == "ShortConvolution":
        return fla_convolution.module()
    raise AttributeError(f"module 'gdnbench.fla' has no attribute '{name}'")


def _rule(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens, *, A_log=None,
          dt_bias=None, use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
          state_v_first=False, transpose_state_layout=False, cu_seqlens_cpu=None, lower_bound=None, channels=False,
          steps=1, rows=None, out=None):
    if state_v_first and transpose_state_layout:
        bad_input("transpose_state_layout", "beside state_v_first, expected one of them, which mean the same")
    state_v_first = state_v_first or transpose_state_layout
    views = {name: View.of(tensor, name) for name, tensor in (("q", q), ("k", k), ("v", v), ("beta", beta))}
    batch, tokens = views["q"].extents[:2]
    if steps > 1:
        for name in ("k", "v", "beta"):
            views[name] = views[name].split(1, (-1, steps))
    value_heads, value_dim = views["v"].extents[-2:]
    key_dim = views["q"].extents[-1]
    ends = View.of(cu_seqlens, "cu_seqlens")
    if ends is None:
        made, numbers = convolution.even_offsets(batch, tokens, q)
        count, ends = batch, View.of(made)
    else:
        count, numbers = ends.extents[0] - 1, (ends if cu_seqlens_cpu is None else View.of(cu_seqlens_cpu)).numbers
    gates, gate, bound = _gates(View.of(g, "g"), A_log, dt_bias, use_gate_in_kernel, lower_bound, channels, views["q"],
                                value_heads)
    betas, encoding = {"beta": views["beta"]}, None
    if use_beta_sigmoid_in_kernel:
        encoding = "logit2" if allow_neg_eigval else "logit"
        betas = {"beta_logit2" if allow_neg_eigval else "beta_logit": views["beta"]}
    out = empty(v, (batch, tokens, value_heads, value_dim)) if out is None else out
    state = initial_state
    if output_final_state and rows is None:
        shape = (value_dim, key_dim) if state_v_first else (key_dim, value_dim)
        state = clone(initial_state) if initial_state is not None else empty(q, (count, value_heads, *shape), "f32")
    recurrence.run(views["q"], views["k"], views["v"], View.of(out), gate=gate, gates=gates, beta=encoding, betas=betas,
                   offsets=ends, host_offsets=numbers, state=View.of(state, "initial_state"),
                   reads=initial_state is not None, writes=output_final_state, v_first=state_v_first,
                   norm=use_qk_l2norm_in_kernel, scale=scale, steps=steps, channels=channels, bound=bound,
                   slots=View.of(rows, "ssm_state_indices"))
    return out, state if output_final_state else None


def _gates(g, A_log, dt_bias, in_kernel, lower_bound, channels, q, value_heads):
    """(operands, encoding, bound)."""
    if g is None:
        return {"log_decay": zero_view(q.owner, (*q.extents[:2], value_heads))}, None, None
    if not in_kernel:
        return {"log_decay": g}, None, None
    heads = g.extents[2]
    # What is absent counts as zeros: a rate of one, and no shift.
    rate = zero_view(q.owner, (heads,)) if A_log is None else View.of(A_log, "A_log").with_form((heads,), (1,))
    if dt_bias is None:
        shift = zero_view(q.owner, (heads, g.extents[3]) if channels else (heads,))
    else:
        shift = View.of(dt_bias, "dt_bias")
        if channels and shift.rank == 1:
            shift = shift.split(0, (heads, g.extents[3]))
    bounded = lower_bound is not None
    return {"bounded_decay_logit" if bounded else "decay_logit": g, "A_log": rate, "dt_bias": shift}, \
        "bounded" if bounded else "logits", -lower_bound if bounded else None


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
                           state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None, chunk_indices=None,
                           cp_context=None, *, use_gate_in_kernel=False, A_log=None, dt_bias=None, chunk_size=64,
                           transpose_state_layout=False):
    """(o [B, T, Hv, Dv], final state or None). With cu_seqlens the batch is 1."""
    refuse_given(cp_context=cp_context)
    return _rule(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens,
                 A_log=A_log, dt_bias=dt_bias, use_gate_in_kernel=use_gate_in_kernel,
                 use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel, allow_neg_eigval=allow_neg_eigval,
                 state_v_first=state_v_first, transpose_state_layout=transpose_state_layout,
                 cu_seqlens_cpu=cu_seqlens_cpu)


def fused_recurrent_gated_delta_rule(q, k, v, g=None, gk=None, gv=None, beta=None, scale=None, initial_state=None,
                                     output_final_state=False, use_qk_l2norm_in_kernel=False,
                                     use_gate_in_kernel=False, A_log=None, dt_bias=None,
                                     use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False,
                                     cu_seqlens=None, *, transpose_state_layout=False):
    """As chunk_gated_delta_rule. Gates for keys or values beside g are refused."""
    refuse_given(gk=gk, gv=gv)
    return _rule(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens,
                 A_log=A_log, dt_bias=dt_bias, use_gate_in_kernel=use_gate_in_kernel,
                 use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel, allow_neg_eigval=allow_neg_eigval,
                 state_v_first=state_v_first, transpose_state_layout=transpose_state_layout)


def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
              use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False,
              allow_neg_eigval=False, safe_gate=False, lower_bound=None, disable_recompute=False,
              return_intermediate_states=False, state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None,
              cp_context=None, *, A_log=None, dt_bias=None, chunk_size=64, transpose_state_layout=False):
    """(o, final state or None) of a decay for each key channel, g [B, T, Hv, Dk]. States inside the call
    (return_intermediate_states) are refused."""
    refuse_given(cp_context=cp_context, return_intermediate_states=return_intermediate_states or None)
    return _rule(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens,
                 A_log=A_log, dt_bias=dt_bias, use_gate_in_kernel=use_gate_in_kernel,
                 use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel, allow_neg_eigval=allow_neg_eigval,
                 state_v_first=state_v_first, transpose_state_layout=transpose_state_layout,
                 cu_seqlens_cpu=cu_seqlens_cpu, lower_bound=lower_bound, channels=True)


def fused_recurrent_kda(q, k, v, g, beta, A_log=None, dt_bias=None, scale=None, initial_state=None,
                        output_final_state=False, use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
                        use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, lower_bound=None,
                        state_v_first=False, cu_seqlens=None, *, transpose_state_layout=False):
    """As chunk_kda."""
    return chunk_kda(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                     use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, lower_bound=lower_bound,
                     state_v_first=state_v_first, cu_seqlens=cu_seqlens, A_log=A_log, dt_bias=dt_bias,
                     transpose_state_layout=transpose_state_layout)


def fused_recurrent_kda_fwd(q, k, v, g, beta, A_log=None, dt_bias=None, initial_state=None, scale=None,
                            output_final_state=False, inplace_final_state=True, state_v_first=False, cu_seqlens=None,
                            ssm_state_indices=None, num_accepted_tokens=None, use_qk_l2norm_in_kernel=False,
                            use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
                            lower_bound=None, out=None):
    """As chunk_kda; with ssm_state_indices (o, initial_state), a pool that is updated in place. Rows for each token are
    refused, and a pool that is not written."""
    refuse_given(num_accepted_tokens=num_accepted_tokens)
    if ssm_state_indices is not None:
        if View.of(ssm_state_indices, "ssm_state_indices").rank != 1 or not inplace_final_state:
            unsupported("ssm_state_indices", "a row for each token, expected one row a sequence, updated in place")
        if initial_state is None:
            bad_input("initial_state", "None beside ssm_state_indices, expected the pool")
    return _rule(q, k, v, g, beta, scale, initial_state, output_final_state or ssm_state_indices is not None,
                 use_qk_l2norm_in_kernel, cu_seqlens, A_log=A_log, dt_bias=dt_bias,
                 use_gate_in_kernel=use_gate_in_kernel, use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
                 allow_neg_eigval=allow_neg_eigval, state_v_first=state_v_first, lower_bound=lower_bound, channels=True,
                 rows=ssm_state_indices, out=out)


def chunk_gated_delta_product(q, k, v, g=None, beta=None, num_householder=1, scale=None, initial_state=None,
                              output_final_state=False, use_qk_l2norm_in_kernel=False, cu_seqlens=None,
                              cu_seqlens_cpu=None):
    """(o, final state or None). k, v and beta are [B, T * num_householder, ..]."""
    return _rule(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens,
                 cu_seqlens_cpu=cu_seqlens_cpu, steps=num_householder)

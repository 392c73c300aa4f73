"""SGLang's functions: the short convolution of sglang.srt.layers.attention.mamba and the recurrences of
sglang.srt.layers.attention.fla. Arguments that belong to drafts of tokens are refused; metadata and validate_data change
nothing. States are [.., V, K] in chunk_gated_delta_rule and [.., K, V] in fused_sigmoid_gating_delta_rule_update."""
import itertools

from . import recurrence, serving
from .tensors import View, empty, refuse_given, unsupported


def causal_conv1d_fn(x, weight, bias, conv_states, query_start_loc, seq_lens_cpu, cache_indices=None,
                     has_initial_state=None, activation="silu", pad_slot_id=-1, validate_data=False):
    """out of x [C, T]; conv_states [rows, C, W - 1] is updated in place. The lengths are those of seq_lens_cpu, so that
    nothing is read from the device."""
    def ends():
        return [0, *itertools.accumulate(int(length) for length in seq_lens_cpu)]
    return serving.convolve_ragged(x, weight, bias, conv_states, query_start_loc, cache_indices, has_initial_state,
                                   activation, pad_slot_id, ends)


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None,
                         conv_state_indices=None, num_accept_tokens=None, intermediate_conv_window=None,
                         intermediate_state_indices=None, retrieve_next_token=None, retrieve_next_sibling=None,
                         retrieve_parent_token=None, pad_slot_id=-1, metadata=None, validate_data=False):
    """out, as x: [B, C] or [B, C, L]. conv_state is updated in place."""
    refuse_given(cache_seqlens=cache_seqlens, num_accept_tokens=num_accept_tokens,
                 intermediate_conv_window=intermediate_conv_window,
                 intermediate_state_indices=intermediate_state_indices, retrieve_next_token=retrieve_next_token,
                 retrieve_next_sibling=retrieve_next_sibling, retrieve_parent_token=retrieve_parent_token)
    return serving.update(x, conv_state, weight, bias, activation, conv_state_indices, pad_slot_id)


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, initial_state_indices=None,
                           cu_seqlens=None, head_first=False, use_qk_l2norm_in_kernel=False):
    """(o, None, None): initial_state [rows, H, V, K] is updated in place. The third is where SGLang returns the states
    before each chunk; here there are none."""
    if head_first:
        unsupported("head_first", "True, expected tokens first")
    values = View.of(v, "v")
    out = empty(q, values.extents)
    serving.recur(View.of(q, "q"), View.of(k, "k"), values, initial_state, initial_state_indices,
                  "initial_state_indices", cu_seqlens, View.of(out), g=g, beta=beta, scale=scale,
                  norm=use_qk_l2norm_in_kernel)
    return out, None, None


def fused_sigmoid_gating_delta_rule_update(A_log, a, dt_bias, softplus_beta, softplus_threshold, q, k, v, b,
                                           initial_state_source, initial_state_indices, scale=None,
                                           use_qk_l2norm_in_kernel=False, cu_seqlens=None, is_kda=False,
                                           disable_state_update=False, intermediate_states_buffer=None,
                                           intermediate_state_indices=None, cache_steps=None,
                                           retrieve_parent_token=None):
    """o; initial_state_source [rows, HV, K, V] is updated in place unless disable_state_update."""
    refuse_given(intermediate_states_buffer=intermediate_states_buffer, cache_steps=cache_steps,
                 intermediate_state_indices=intermediate_state_indices, retrieve_parent_token=retrieve_parent_token)
    recurrence.require_plain_softplus(softplus_beta, softplus_threshold)
    values = View.of(v, "v")
    out = empty(q, values.extents)
    serving.recur(View.of(q, "q"), View.of(k, "k"), values, initial_state_source, initial_state_indices,
                  "initial_state_indices", cu_seqlens, View.of(out), logits=(a, A_log, dt_bias, b), scale=scale,
                  norm=use_qk_l2norm_in_kernel, v_first=False, channels=is_kda, writes=not disable_state_update)
    return out

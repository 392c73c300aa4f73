"""vLLM's functions: the short convolution of vllm.model_executor.layers.mamba.ops.causal_conv1d and the recurrences of
vllm.model_executor.layers.fla.ops that decode. Arguments that choose blocks of a cache, or belong to drafts of tokens, are
refused; metadata and validate_data change nothing."""
from . import recurrence, serving
from .tensors import View, empty, refuse_given, unsupported


def causal_conv1d_fn(x, weight, bias, conv_states, query_start_loc, cache_indices=None, has_initial_state=None,
                     activation="silu", pad_slot_id=-1, block_idx_first_scheduled_token=None,
                     block_idx_last_scheduled_token=None, initial_state_idx=None, num_computed_tokens=None,
                     block_size_to_align=0, metadata=None, validate_data=False):
    """out of x [C, T]; conv_states [rows, C, W - 1] is updated in place."""
    refuse_given(block_idx_first_scheduled_token=block_idx_first_scheduled_token,
                 block_idx_last_scheduled_token=block_idx_last_scheduled_token, initial_state_idx=initial_state_idx,
                 num_computed_tokens=num_computed_tokens)
    return serving.convolve_ragged(x, weight, bias, conv_states, query_start_loc, cache_indices, has_initial_state,
                                   activation, pad_slot_id)


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, conv_state_indices=None,
                         num_accepted_tokens=None, query_start_loc=None, max_query_len=-1, pad_slot_id=-1,
                         block_idx_last_scheduled_token=None, initial_state_idx=None, retrieve_parent_token=None,
                         validate_data=False):
    """out, as x: [B, C], [B, C, L], or [T, C] with query_start_loc. conv_state is updated in place."""
    refuse_given(num_accepted_tokens=num_accepted_tokens, initial_state_idx=initial_state_idx,
                 block_idx_last_scheduled_token=block_idx_last_scheduled_token,
                 retrieve_parent_token=retrieve_parent_token)
    return serving.update(x, conv_state, weight, bias, activation, conv_state_indices, pad_slot_id, query_start_loc)


def fused_recurrent_gated_delta_rule_packed_decode(mixed_qkv, a, b, A_log, dt_bias, scale, initial_state, out,
                                                   ssm_state_indices, use_qk_l2norm_in_kernel=False):
    """(out, initial_state): one token for each row of mixed_qkv [B, q | k | v]. out [B, 1, HV, V] is written and
    initial_state [rows, HV, V, K] updated in place."""
    states, packed = View.of(initial_state, "initial_state"), View.of(mixed_qkv, "mixed_qkv")
    value_heads, value_dim, key_dim = states.extents[1:]
    keys = (packed.extents[1] - value_heads * value_dim) // 2
    parts, begin = [], 0
    for heads, size in ((keys // key_dim, key_dim), (keys // key_dim, key_dim), (value_heads, value_dim)):
        # A token a sequence: [B, 1, heads, size].
        parts.append(packed.narrow(1, begin, heads * size).split(1, (1, heads, size)))
        begin += heads * size
    serving.recur(*parts, initial_state, ssm_state_indices, "ssm_state_indices", None, View.of(out, "out"),
                  logits=(a, A_log, dt_bias, b), scale=scale, norm=use_qk_l2norm_in_kernel)
    return out, initial_state


def fused_sigmoid_gating_delta_rule_update(A_log, a, b, dt_bias, q=None, k=None, v=None, beta=1.0, threshold=20.0,
                                           scale=None, initial_state=None, inplace_final_state=True, cu_seqlens=None,
                                           ssm_state_indices=None, ssm_state_indices_output=None,
                                           num_accepted_tokens=None, block_table=None, read_anchor=None,
                                           write_anchor=None, packed_anchors=None, mixed_qkv=None, num_qk_heads=None,
                                           head_qk_dim=None, num_v_heads=None, head_v_dim=None,
                                           use_qk_l2norm_in_kernel=False, is_kda=False):
    """(o, initial_state), whose rows of ssm_state_indices are read and those of ssm_state_indices_output, where they are
    given, else the same, are written. Rows for each token and tokens in one array (mixed_qkv) are refused."""
    refuse_given(num_accepted_tokens=num_accepted_tokens, block_table=block_table, read_anchor=read_anchor,
                 write_anchor=write_anchor, packed_anchors=packed_anchors, mixed_qkv=mixed_qkv)
    if not inplace_final_state:
        unsupported("inplace_final_state", "False, a state for each token, expected True")
    recurrence.require_plain_softplus(beta, threshold)
    values = View.of(v, "v")
    out = empty(q, values.extents)
    serving.recur(View.of(q, "q"), View.of(k, "k"), values, initial_state, ssm_state_indices, "ssm_state_indices",
                  cu_seqlens, View.of(out), logits=(a, A_log, dt_bias, b), scale=scale, norm=use_qk_l2norm_in_kernel,
                  channels=is_kda, written=("ssm_state_indices_output", ssm_state_indices_output))
    return out, initial_state

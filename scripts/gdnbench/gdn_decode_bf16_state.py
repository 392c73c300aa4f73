"""FlashInfer's functions of bfloat16 states, flashinfer.gdn_kernels.gdn_decode_bf16_state. The state is rounded once, at
the end of a call, and not after every token. A negative index is padding, which touches no row."""
from . import recurrence
from .flashinfer import _decode
from .tensors import refuse_given


def gated_delta_rule(A_log, a, dt_bias, softplus_beta=1.0, softplus_threshold=20.0, q=None, k=None, v=None, b=None,
                     initial_state_source=None, initial_state_indices=None, output_state_indices=None, output=None,
                     use_qk_l2norm_in_kernel=True, scale=None):
    """output [B, 1, HV, V]; initial_state_source is updated in place."""
    recurrence.require_plain_softplus(softplus_beta, softplus_threshold)
    return _decode(q, k, v, initial_state_source, A_log, a, dt_bias, b, scale, output, use_qk_l2norm_in_kernel,
                   reads=initial_state_indices, written=output_state_indices)


def gated_delta_rule_mtp(A_log, a, dt_bias, softplus_beta=1.0, softplus_threshold=20.0, q=None, k=None, v=None, b=None,
                         initial_state_source=None, initial_state_indices=None, output_state_indices=None,
                         intermediate_states_buffer=None, accepted_steps=None, ssm_state_indices=None,
                         disable_state_update=False, use_qk_l2norm_in_kernel=True, scale=None, output=None,
                         disable_output=False, recovery_steps=0):
    """output [B, T, HV, V]; initial_state_source is updated in place unless disable_state_update. Row n of
    intermediate_states_buffer gets sequence n's states after each token; other rows of it, and steps that are taken
    back, are refused."""
    recurrence.require_plain_softplus(softplus_beta, softplus_threshold)
    refuse_given(accepted_steps=accepted_steps, ssm_state_indices=ssm_state_indices,
                 disable_output=disable_output or None, recovery_steps=recovery_steps or None)
    return _decode(q, k, v, initial_state_source, A_log, a, dt_bias, b, scale, output, use_qk_l2norm_in_kernel,
                   reads=initial_state_indices, written=output_state_indices, updates=not disable_state_update,
                   between=intermediate_states_buffer)

"""Which function of scripts/gdnbench/ stands for which of the cases, and what it returns, by the cases' names of outputs.
A tensor that a function writes in place is an output of its own name."""
from gdnbench import causal_conv1d, fla, fla_convolution, flashinfer, gdn_decode_bf16_state, ggml, sglang, vllm
from gdnbench.tensors import empty


def _of_module(method, returned):
    """A method of ShortConvolution, whose cases hold the module's weights beside the call's arguments. Its backend
    chooses among FLA's kernels."""
    def call(weight, activation, bias=None, backend=None, **arguments):
        return method(weight, bias, activation, **arguments)
    return call, returned


def _flashinfer_prefill(q, v, cu_seqlens, state_dtype=None, output_state=None, **arguments):
    """States that are only written belong to no case: where its test makes them in another dtype than float32, they are
    made here."""
    if state_dtype is not None:
        size, rows = q.shape[2], cu_seqlens.shape[0] - 1
        output_state = empty(q, (rows, max(q.shape[1], v.shape[1]), size, size), state_dtype)
    return flashinfer.chunk_gated_delta_rule(q, v=v, cu_seqlens=cu_seqlens, output_state=output_state, **arguments)


def _several_tokens(function):
    """Of a case that asks for the states after each token, a test hands over the array they go to."""
    def call(q, v, cache_intermediate_states=False, **arguments):
        states = None
        if cache_intermediate_states:
            states = empty(q, (*v.shape[:3], v.shape[3], q.shape[3]), "f32")
        result = function(q=q, v=v, intermediate_states_buffer=states, **arguments)
        return result[0] if isinstance(result, tuple) else result, states
    return call


def _decode_pretranspose(state=None, **arguments):
    return flashinfer.gated_delta_rule_decode_pretranspose(state=state, **arguments)


def _packed_decode(mixed_qkv, initial_state, num_qk_heads, num_v_heads, **arguments):
    """A test hands over the outputs' array. Numbers of heads are the tensors' own."""
    out = empty(mixed_qkv, (mixed_qkv.shape[0], 1, num_v_heads, initial_state.shape[2]))
    return vllm.fused_recurrent_gated_delta_rule_packed_decode(mixed_qkv=mixed_qkv, initial_state=initial_state,
                                                               out=out, **arguments)


def _with_bias(function):
    """Where a bias has no default, its absence is None."""
    return lambda bias=None, **arguments: function(bias=bias, **arguments)


FUNCTIONS = {
    ("causal-conv1d", "causal_conv1d_fn"): (causal_conv1d.causal_conv1d_fn, ("out", "final_states_out")),
    ("causal-conv1d", "causal_conv1d_update"): (causal_conv1d.causal_conv1d_update, ("out",)),
    ("causal-conv1d", "causal_conv1d_varlen_states"): (causal_conv1d.causal_conv1d_varlen_states, ("states",)),
    **{("fla", name): (getattr(fla, name), ("o", "final_state")) for name in (
        "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "chunk_kda", "fused_recurrent_kda",
        "chunk_gated_delta_product", "fused_recurrent_kda_fwd")},
    **{("fla", name): (getattr(fla, name), ("y", "final_state")) for name in (
        "causal_conv1d", "fast_causal_conv1d_fn")},
    ("fla", "causal_conv1d_update"): (fla.causal_conv1d_update, ("y",)),
    ("fla", "ShortConvolution.forward"): _of_module(fla_convolution.forward, ("y", "final_state")),
    ("fla", "ShortConvolution.step"): _of_module(fla_convolution.step, ("y",)),
    ("flashinfer", "chunk_gated_delta_rule"): (_flashinfer_prefill, ("output", "output_state")),
    ("flashinfer", "gated_delta_rule_decode_pretranspose"): (_decode_pretranspose, ("output",)),
    ("flashinfer", "gated_delta_rule_decode"): (flashinfer.gated_delta_rule_decode, ("output",)),
    ("flashinfer", "gated_delta_rule_mtp"): (
        _several_tokens(flashinfer.gated_delta_rule_mtp), ("output", "intermediate_states_buffer")),
    ("flashinfer", "gdn_decode_bf16_state.gated_delta_rule"): (gdn_decode_bf16_state.gated_delta_rule, ("output",)),
    ("flashinfer", "gdn_decode_bf16_state.gated_delta_rule_mtp"): (
        _several_tokens(gdn_decode_bf16_state.gated_delta_rule_mtp), ("output", "intermediate_states_buffer")),
    ("vllm", "causal_conv1d_fn"): (_with_bias(vllm.causal_conv1d_fn), ("out",)),
    ("vllm", "causal_conv1d_update"): (vllm.causal_conv1d_update, ("out",)),
    ("vllm", "fused_recurrent_gated_delta_rule_packed_decode"): (_packed_decode, ("out",)),
    ("vllm", "fused_sigmoid_gating_delta_rule_update"): (vllm.fused_sigmoid_gating_delta_rule_update, ("out",)),
    ("sglang", "causal_conv1d_fn"): (_with_bias(sglang.causal_conv1d_fn), ("out",)),
    ("sglang", "causal_conv1d_update"): (sglang.causal_conv1d_update, ("out",)),
    ("sglang", "chunk_gated_delta_rule"): (sglang.chunk_gated_delta_rule, ("o",)),
    ("sglang", "fused_sigmoid_gating_delta_rule_update"): (sglang.fused_sigmoid_gating_delta_rule_update, ("out",)),
    ("ggml", "ggml_gated_delta_net"): (ggml.ggml_gated_delta_net, ("dst",)),
    **{("ggml", f"ggml_ssm_conv{behind}"): (ggml.ggml_ssm_conv, ("dst",)) for behind in (
        "", "+ggml_silu", "+ggml_add+ggml_silu")},
}

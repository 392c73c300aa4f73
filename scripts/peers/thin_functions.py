"""Which function of scripts/gdnbench/ stands for which of the cases, and what it returns, by the cases' names of outputs.
A tensor that a function writes in place is an output of its own name."""
from gdnbench import causal_conv1d, fla, fla_convolution


def _of_module(method, returned):
    """A method of ShortConvolution, whose cases hold the module's weights beside the call's arguments. Its backend
    chooses among FLA's kernels."""
    def call(weight, activation, bias=None, backend=None, **arguments):
        return method(weight, bias, activation, **arguments)
    return call, returned


FUNCTIONS = {
    ("causal-conv1d", "causal_conv1d_fn"): (causal_conv1d.causal_conv1d_fn, ("out", "final_states_out")),
    ("causal-conv1d", "causal_conv1d_update"): (causal_conv1d.causal_conv1d_update, ("out",)),
    ("causal-conv1d", "causal_conv1d_varlen_states"): (causal_conv1d.causal_conv1d_varlen_states, ("states",)),
    **{("fla", name): (getattr(fla, name), ("o", "final_state")) for name in (
        "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "chunk_kda", "fused_recurrent_kda",
        "chunk_gated_delta_product")},
    **{("fla", name): (getattr(fla, name), ("y", "final_state")) for name in (
        "causal_conv1d", "fast_causal_conv1d_fn")},
    ("fla", "causal_conv1d_update"): (fla.causal_conv1d_update, ("y",)),
    ("fla", "ShortConvolution.forward"): _of_module(fla_convolution.forward, ("y", "final_state")),
    ("fla", "ShortConvolution.step"): _of_module(fla_convolution.step, ("y",)),
}

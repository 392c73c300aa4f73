"""Which function of scripts/gdnbench/ stands for which of the cases, and what it returns, by the cases' names of outputs.
A tensor that a function writes in place is an output of its own name."""
from gdnbench import causal_conv1d, fla

FUNCTIONS = {
    ("causal-conv1d", "causal_conv1d_fn"): (causal_conv1d.causal_conv1d_fn, ("out", "final_states_out")),
    ("causal-conv1d", "causal_conv1d_update"): (causal_conv1d.causal_conv1d_update, ("out",)),
    ("causal-conv1d", "causal_conv1d_varlen_states"): (causal_conv1d.causal_conv1d_varlen_states, ("states",)),
    **{("fla", name): (getattr(fla, name), ("o", "final_state")) for name in (
        "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "chunk_kda", "fused_recurrent_kda",
        "chunk_gated_delta_product")},
}

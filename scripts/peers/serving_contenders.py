"""Who is timed by time_serving.py. Each contender is a function (problem's tensors by operand name) -> Call. It imports
what it needs when it is called, and what a library must be told in another form is made there, outside of what is
timed. Call.run() enqueues one step and returns what it wrote, by the names that the float64 reference has; Call.prepare()
puts the states back, outside the time."""
import torch

import gdnbench_torch as gdn
from contenders import Call

HEADS, VALUE_HEADS, DIM = 16, 32, 128
KEYS = HEADS * DIM


def ours(problem, implementation=None):
    """A plan of any operation. Pools are updated in place, and hold their first values again before each run."""
    def make(tensors):
        plan = gdn.Plan(problem, {name: x.clone() for name, x in tensors.items()}, implementation)
        known = [x for x in gdn.operands(problem, tensors["sequence_offsets"].tolist()) if x.is_written]
        pools = [x.name for x in known if x.is_read and x.name in tensors]
        written = {x.name_after: plan.tensors[x.name] for x in known if x.name in plan.tensors}

        def run():
            plan.run()
            return written
        return Call(run, prepare=lambda: [plan.tensors[name].copy_(tensors[name]) for name in pools],
                    choice=f"{plan.implementation}, {plan.info['launches']}", close=plan.close)
    return make


# ---- decode: gated_delta:gate=logits,beta=logit,logits=token,norm=1,layout=vk, sequences of one token

def decode_flashinfer(tensors):
    from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose
    q, k, v, a, b = (tensors[name][:, None] for name in ("q", "k", "v", "decay_logit", "beta_logit"))
    state, output = tensors["initial_state"].clone(), torch.empty_like(v)

    def run():
        gated_delta_rule_decode_pretranspose(q, k, v, state, tensors["A_log"], a, tensors["dt_bias"], b, output=output,
                                             backend="flashinfer")
        return {"output": output[:, 0], "final_state": state}
    return Call(run, prepare=lambda: state.copy_(tensors["initial_state"]))


def decode_fla(tensors):
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule
    q, k, v, a, b = (tensors[name][:, None] for name in ("q", "k", "v", "decay_logit", "beta_logit"))

    def run():
        output, state = fused_recurrent_gated_delta_rule(
            q, k, v, a, beta=b, initial_state=tensors["initial_state"], output_final_state=True,
            use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, A_log=tensors["A_log"], dt_bias=tensors["dt_bias"],
            use_beta_sigmoid_in_kernel=True, state_v_first=True)
        return {"output": output[:, 0], "final_state": state}
    return Call(run)


# ---- drafts: gated_delta_verify, all tokens accepted

def drafts_ucache(cycle):
    """FlashInfer's history ring: a step reads the state and appends to the ring, and one step of a cycle folds the ring
    into the state. A run is a whole cycle, `cycle` steps of the same draft, all of them accepted; what it returns is of
    the first step. Its cursors, which the caller advances, are tensors made before."""
    def make(tensors):
        from flashinfer.gdn_kernels.gdn_decode_bf16_wy_ucache_flush import gated_delta_rule_mtp_ucache_flush
        sequences = tensors["initial_state"].shape[0]
        tokens = tensors["q"].shape[0] // sequences
        q, k, v, a, b = (tensors[name].view(sequences, tokens, *tensors[name].shape[1:])
                         for name in ("q", "k", "v", "decay_logit", "beta_logit"))
        state = tensors["initial_state"].clone()
        device, ring = state.device, 32
        keys = torch.zeros(sequences, HEADS, ring, DIM, dtype=torch.bfloat16, device=device)
        values = torch.zeros(sequences, VALUE_HEADS, ring, DIM, dtype=torch.bfloat16, device=device)
        decays = torch.zeros(sequences, VALUE_HEADS, ring, device=device)
        outputs = [torch.empty_like(v) for _ in range(cycle)]
        cursors = []
        length = base = 0
        for _ in range(cycle):
            cursors.append([torch.full((sequences,), x, dtype=torch.int32, device=device) for x in (length, base)])
            if length > 16 - tokens:  # folded now
                base, length = (base + length) % ring, 0
            length += tokens

        def run():
            for output, (length, base) in zip(outputs, cursors):
                gated_delta_rule_mtp_ucache_flush(
                    tensors["A_log"], a, tensors["dt_bias"], q=q, k=k, v=v, b=b, initial_state_source=state, output=output,
                    k_cache=keys, u_cache=values, g_cache=decays, hist_len=length, cache_base=base,
                    restart_hist_on_flush=False)
            return {"output": outputs[0].view(-1, VALUE_HEADS, DIM)}
        return Call(run, prepare=lambda: state.copy_(tensors["initial_state"]))
    return make


# ---- convolutions: four taps, SiLU

def convolution_fla(tensors):
    from fla.modules.causal_conv1d import causal_conv1d
    offsets = tensors["sequence_offsets"]
    cut = offsets if len(offsets) > 2 else None

    def run():
        return {"conv_output": causal_conv1d(tensors["qkv"][None], tensors["conv_weight"], activation="silu",
                                             cu_seqlens=cut)[0][0]}
    return Call(run)


def convolution_causal_conv1d(tensors):
    from causal_conv1d import causal_conv1d_fn
    x, lengths = tensors["qkv"][None].transpose(1, 2), tensors["sequence_offsets"].diff()
    index = None
    if len(lengths) > 1:
        index = torch.repeat_interleave(torch.arange(len(lengths), device=x.device), lengths)[None].int()

    def run():
        return {"conv_output": causal_conv1d_fn(x, tensors["conv_weight"], seq_idx=index,
                                                activation="silu")[0].transpose(0, 1)}
    return Call(run)


def convolution_step_fla(tensors):
    """Its windows have four places, the first of which no output needs."""
    from fla.modules.causal_conv1d import causal_conv1d_update
    window = torch.nn.functional.pad(tensors["conv_state"], (1, 0))
    first = window.clone()

    def run():
        output = causal_conv1d_update(tensors["qkv"], window, weight=tensors["conv_weight"], activation="silu")
        if isinstance(output, tuple):
            output = output[0]
        return {"conv_output": output, "conv_state": window[..., 1:]}
    return Call(run, prepare=lambda: window.copy_(first))


def convolution_step_causal_conv1d(tensors):
    from causal_conv1d import causal_conv1d_update
    window = tensors["conv_state"].clone()

    def run():
        output = causal_conv1d_update(tensors["qkv"], window, tensors["conv_weight"], activation="silu")
        return {"conv_output": output, "conv_state": window}
    return Call(run, prepare=lambda: window.copy_(tensors["conv_state"]))


# ---- layers: what a server calls one after the other

def layer_step_of_peers(tensors):
    """causal-conv1d's update, then FlashInfer's step on slices of its output."""
    from causal_conv1d import causal_conv1d_update
    from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose
    window, state = tensors["conv_state"].clone(), tensors["initial_state"].clone()
    a, b = (tensors[name][:, None] for name in ("decay_logit", "beta_logit"))
    sequences = len(window)
    output = torch.empty(sequences, 1, VALUE_HEADS, DIM, dtype=torch.bfloat16, device=window.device)

    def prepare():
        window.copy_(tensors["conv_state"])
        state.copy_(tensors["initial_state"])

    def run():
        mixed = causal_conv1d_update(tensors["qkv"], window, tensors["conv_weight"], activation="silu")
        q, k, v = (x.view(sequences, 1, -1, DIM) for x in mixed.split((KEYS, KEYS, VALUE_HEADS * DIM), dim=-1))
        gated_delta_rule_decode_pretranspose(q, k, v, state, tensors["A_log"], a, tensors["dt_bias"], b, output=output,
                                             backend="flashinfer")
        return {"output": output[:, 0], "final_state": state, "conv_state": window}
    return Call(run, prepare=prepare)


def layer_of_peers(tensors):
    """causal-conv1d, then FlashInfer with its norm; the gates are computed before, outside the time."""
    from causal_conv1d import causal_conv1d_fn
    from flashinfer.gdn_prefill import chunk_gated_delta_rule
    x, lengths = tensors["qkv"][None].transpose(1, 2), tensors["sequence_offsets"].diff()
    index = torch.repeat_interleave(torch.arange(len(lengths), device=x.device), lengths)[None].int()
    offsets, longest = tensors["sequence_offsets"].int(), int(lengths.max())
    logit = tensors["decay_logit"].float() + tensors["dt_bias"]
    decay = (-tensors["A_log"].exp() * torch.nn.functional.softplus(logit)).exp()
    beta = tensors["beta_logit"].float().sigmoid()
    start = tensors["initial_state"].transpose(-1, -2).contiguous()
    output = torch.empty(x.shape[2], VALUE_HEADS, DIM, dtype=torch.bfloat16, device=x.device)
    state = torch.empty_like(start)

    def run():
        mixed = causal_conv1d_fn(x, tensors["conv_weight"], seq_idx=index, activation="silu")[0].transpose(0, 1)
        q, k, v = (part.view(len(part), -1, DIM) for part in mixed.split((KEYS, KEYS, VALUE_HEADS * DIM), dim=-1))
        chunk_gated_delta_rule(q, k, v.contiguous(), decay, beta, None, start, True, offsets, True, output, state,
                               use_cp=False, max_seqlen=longest)
        return {"output": output, "final_state": state.transpose(-1, -2)}
    return Call(run)

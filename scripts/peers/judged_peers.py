"""Whom judge_peers.py judges: functions of other libraries, each with what makes its arguments of a case. A function is
called in its library's own terms, and what these cannot say of a case raises NotImplementedError, so that it is not
called. Nothing is converted that a caller of the library would not convert: values are handed over in the element types
that the case has."""
import dataclasses
import importlib
import pathlib
import sys
from typing import Callable, Optional

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent)]
from gdnbench import conventions  # noqa: E402: found by the line above

RECURRENCE = ("h0", "ht", "layout", "norm", "scale")


@dataclasses.dataclass(frozen=True)
class Peer:
    """`function` is MODULE:NAME, `call` is (function, Inputs) -> outputs. Cases with another field than these off its
    default are not chosen, nor those without one of `needs`."""
    library: str
    distribution: str
    function: str
    operation: str
    honours: tuple
    call: Callable
    needs: tuple = ()
    word: Optional[str] = None  # told in the place of the function's name
    holds_states_as_tokens: bool = False  # cases whose states are of another type are asked with states of the tokens'
    further: tuple = ()  # problems beside the suites', of what these have little of

    @property
    def name(self):
        return self.word or self.function.rpartition(":")[2]

    def load(self):
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(module), name)


def convention(name):
    return lambda function, x: conventions.caller(function, name)(x)


def lengths_of(x):
    offsets = [int(offset) for offset in x["sequence_offsets"]]
    return [end - begin for begin, end in zip(offsets, offsets[1:])]


def one_length(x):
    """Of sequences of equal length, which some functions need."""
    lengths = set(lengths_of(x))
    if len(lengths) != 1 or lengths == {0}:
        raise NotImplementedError("sequences of equal length alone")
    return lengths.pop()


def no_other_dtype(x, *names):
    """For functions that write states in the tokens' type."""
    if x.fields["state"] != x.fields["dtype"]:
        raise NotImplementedError(f"{' and '.join(names)} in the tokens' element type alone")


GATES = ("mid", "weak", "strong", "near_one", "none", "reset", "edges", "mixture", "tiny")
# One token a sequence, as a server has them, and one decay per key channel, which the suites have few of at 128 x 128.
STEPS = tuple(f"gated_delta:heads={heads},dim=128,seq={count}x1,dtype=bf16,state={state},layout={layout},h0={before},"
              f"norm=1,gate=logits,beta=logit,logits=token,gates={gates}"
              for gates in GATES for heads, count in (("16/32", 1), ("2/8", 37), ("4/4", 128))
              for state, layout, before in (("f32", "vk", "normal"), ("bf16", "vk", "large")))
CHANNELS = tuple(f"gated_delta:heads={heads},dim=128,seq={seq},dtype=bf16,layout=vk,h0=normal,decay=channel,gates={gates}"
                 for gates in (*GATES, "-5", "-12", "-20..-0.01")
                 for heads, seq in (("4/4", "1x200"), ("2/2", "1x129+1x0+1x1+1x64"), ("12/12", "1x2048")))


# ---- gated_delta

def channel_decay(function, x):
    """One decay per key channel, as FLA's functions of it take them."""
    return convention("fla")(function, x)


def cudnn_channel_decay(function, x):
    heads = [head * x["k"].shape[1] // x["v"].shape[1] for head in range(x["v"].shape[1])]
    if "final_state" not in x.outputs:
        raise NotImplementedError("a final state is always written")
    if x.fields["scale"] != "auto" or x.fields["norm"] != "0":
        raise NotImplementedError("scale and norm are no arguments")
    state = x.get("initial_state")
    if state is None:
        raise NotImplementedError("an initial state is always read")
    start = state if x.fields["layout"] == "vk" else state.swapaxes(-1, -2).contiguous()
    query, key = (x[name][:, heads].contiguous() for name in ("q", "k"))
    output, final = function(query, key, x["v"], x["log_decay"], x["beta"], x["sequence_offsets"].int(),
                             initial_state=start, output_final_state=True)[:2]
    return output, final if x.fields["layout"] == "vk" else final.swapaxes(-1, -2)


def flashinfer_decode(function, x):
    """One token a sequence, gates and betas from logits."""
    if one_length(x) != 1:
        raise NotImplementedError("one token a sequence alone")
    if x.fields["gate"] != "logits" or x.fields["beta"] != "logit":
        raise NotImplementedError("gates and betas from logits alone")
    if "initial_state" not in x or "final_state" not in x.outputs:
        raise NotImplementedError("a state is always read and written")
    token = {name: x[name][:, None] for name in ("q", "k", "v")}
    # Logits are in the tokens' type there.
    if x.fields["logits"] != "token":
        raise NotImplementedError("logits in the tokens' element type alone")
    state = x["initial_state"]
    state = state.clone() if x.fields["layout"] == "vk" else state.swapaxes(-1, -2).contiguous()
    scale = None if x.fields["scale"] == "auto" else float(x.fields["scale"])
    output, state = function(token["q"], token["k"], token["v"], state, x["A_log"], x["decay_logit"][:, None],
                             x["dt_bias"], x["beta_logit"][:, None], scale=scale, use_qk_l2norm=x.fields["norm"] == "1")
    return output.reshape(x["v"].shape), state if x.fields["layout"] == "vk" else state.swapaxes(-1, -2)


# ---- gated_delta_backward

def autograd(function, x):
    """PyTorch's gradients through chunk_gated_delta_rule: of <output, d_output> + <final state, d_final_state>."""
    import torch
    if x.fields["gate"] != "log_decay" or x.fields["beta"] != "beta":
        raise NotImplementedError("log decays and betas alone")
    if x.fields["state"] != "f32":
        raise NotImplementedError("states in float32 alone")
    # Zeros have no gradient of an absent state; d_initial_state is an output all the same.
    tensors = {name: x[name].detach().clone().requires_grad_() for name in ("q", "k", "v", "log_decay", "beta")}
    given = x.get("initial_state")
    kv = lambda state: state if x.fields["layout"] == "kv" else state.swapaxes(-1, -2).contiguous()
    if given is None:
        sequences = len(x["sequence_offsets"]) - 1
        given = torch.zeros(sequences, x["v"].shape[1], x["k"].shape[2], x["v"].shape[2], device=x["q"].device)
    else:
        given = kv(given)
    start = given.clone().requires_grad_()
    scale = x["q"].shape[-1] ** -0.5 if x.fields["scale"] == "auto" else float(x.fields["scale"])
    output, final = function(*(tensors[name][None] for name in ("q", "k", "v")), g=tensors["log_decay"][None],
                             beta=tensors["beta"][None], scale=scale, initial_state=start,
                             output_final_state="d_final_state" in x,
                             use_qk_l2norm_in_kernel=x.fields["norm"] == "1", cu_seqlens=x["sequence_offsets"])
    outputs, gradients = [output], [x["d_output"][None]]
    if "d_final_state" in x:
        outputs.append(final)
        gradients.append(kv(x["d_final_state"]))
    torch.autograd.backward(outputs, gradients)
    found = {f"d_{name}": tensor.grad for name, tensor in tensors.items()}
    for name in ("d_log_decay", "d_beta"):
        found[name] = found[name].float()
    return {**found, "d_initial_state": kv(start.grad)}


# ---- causal_conv1d

CONVOLUTION = ("act", "bias", "channels", "conv_in_place", "state", "weights", "width", "window")


def _activation(x):
    return "silu" if x.fields["act"] == "silu" else None


def _weights(x):
    if x.fields["weights"] != "token" and x.fields["dtype"] != "f32":
        raise NotImplementedError("weights in the tokens' element type alone")
    return x["conv_weight"], x.get("conv_bias")


def _window(x):
    """The inputs before the sequences, [N, channels, width - 1], or None."""
    if x.fields["window"] == "none":
        return None
    no_other_dtype(x, "windows")
    return x["conv_state"] if x.fields["window"] in ("carried", "read") else None


def _convolved(x, output, window):
    return {"conv_output": output, **({"conv_state": window} if "conv_state" in x.outputs else {})}


def fla_convolution(function, x):
    """Its windows have a place more in front, which no output needs."""
    import torch
    weight, bias = _weights(x)
    window = _window(x)
    before = None if window is None else torch.nn.functional.pad(window, (1, 0))
    output, after = function(x["qkv"][None], weight, bias, initial_state=before,
                             output_final_state="conv_state" in x.outputs, activation=_activation(x),
                             cu_seqlens=x["sequence_offsets"])
    return _convolved(x, output[0], None if after is None else after[..., 1:].contiguous())


def batched_convolution(function, x):
    """[N, channels, length], channels fastest, with windows; sequences of unlike lengths by the number of their sequence,
    without windows."""
    import torch
    weight, bias = _weights(x)
    window, lengths = _window(x), lengths_of(x)
    if len(set(lengths)) == 1 and lengths[0] > 0:
        batch = x["qkv"].view(len(lengths), lengths[0], -1).transpose(1, 2)
        writes = "conv_state" in x.outputs
        before = None if window is None else window.transpose(1, 2).contiguous().transpose(1, 2)
        returned = function(batch, weight, bias, initial_states=before, return_final_states=writes,
                            activation=_activation(x))
        output, after = returned if writes else (returned, None)
        return _convolved(x, output.transpose(1, 2).reshape(x["qkv"].shape), after)
    if x.fields["window"] != "none":
        raise NotImplementedError("windows beside sequences of unlike lengths")
    index = torch.repeat_interleave(torch.arange(len(lengths), device=x["qkv"].device),
                                    torch.tensor(lengths, device=x["qkv"].device))[None].int()
    output = function(x["qkv"][None].transpose(1, 2), weight, bias, seq_idx=index, activation=_activation(x))
    return _convolved(x, output[0].transpose(0, 1), None)


def step_of_convolution(function, x):
    """As many tokens of each sequence, its window updated in place."""
    weight, bias = _weights(x)
    if x.fields["window"] != "carried":
        raise NotImplementedError("windows that are read and written alone")
    window, length = _window(x).clone(), one_length(x)
    tokens = x["qkv"].view(len(window), length, -1).transpose(1, 2).contiguous()
    output = function(tokens, window, weight, bias, activation=_activation(x))
    return _convolved(x, output.transpose(1, 2).reshape(x["qkv"].shape), window)


FLA_CONV = "fla.modules.causal_conv1d:causal_conv1d"
PEERS = (
    Peer("FLA", "fla-core", "fla.ops.gated_delta_rule:chunk_gated_delta_rule", "gated_delta", RECURRENCE,
         convention("fla")),
    Peer("FLA", "fla-core", "fla.ops.gated_delta_rule:fused_recurrent_gated_delta_rule", "gated_delta", RECURRENCE,
         convention("fla")),
    Peer("FLA", "fla-core", "fla.ops.kda:chunk_kda", "gated_delta", (*RECURRENCE, "decay=channel"), channel_decay,
         ("decay=channel",), further=CHANNELS),
    Peer("FLA", "fla-core", "fla.ops.gated_delta_rule:chunk_gated_delta_rule", "gated_delta_backward", RECURRENCE,
         autograd, word="chunk_gated_delta_rule backward"),
    Peer("FLA", "fla-core", FLA_CONV, "causal_conv1d", CONVOLUTION, fla_convolution,
         holds_states_as_tokens=True),
    Peer("FlashInfer", "flashinfer-python", "flashinfer.gdn_prefill:chunk_gated_delta_rule", "gated_delta",
         ("h0", "ht", "layout", "scale"), convention("flashinfer-prefill")),
    Peer("FlashInfer", "flashinfer-python", "flashinfer.gdn_decode:gated_delta_rule_decode_pretranspose", "gated_delta",
         ("h0", "layout", "norm", "scale", "state", "gate=logits", "beta=logit", "logits"), flashinfer_decode,
         ("gate=logits", "beta=logit", "logits=token"), further=STEPS),
    Peer("FlashQLA", "flash-qla", "flash_qla:chunk_gated_delta_rule", "gated_delta", RECURRENCE, convention("fla")),
    Peer("FlashQLA", "flash-qla", "flash_qla:chunk_gated_delta_rule", "gated_delta_backward", RECURRENCE, autograd,
         word="chunk_gated_delta_rule backward"),
    Peer("cuDNN", "nvidia-cudnn-frontend", "cudnn.linear_attention.ops:kimi_delta_attention", "gated_delta",
         ("h0", "layout", "decay=channel"), cudnn_channel_decay, ("decay=channel",), further=CHANNELS),
    Peer("causal-conv1d", "causal-conv1d", "causal_conv1d:causal_conv1d_fn", "causal_conv1d", CONVOLUTION,
         batched_convolution, holds_states_as_tokens=True),
    Peer("causal-conv1d", "causal-conv1d", "causal_conv1d:causal_conv1d_update", "causal_conv1d", CONVOLUTION,
         step_of_convolution, holds_states_as_tokens=True),
)

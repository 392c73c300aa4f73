"""Functions with other projects' arguments, called on our cases: by the names that `gdnbench convert --list` has for
them, which also prints what each means.

| name | the function is called as | what it does of a problem beside heads, lengths, dtype |
|---|---|---|
| fla | chunk_gated_delta_rule of flash-linear-attention | h0, ht, layout, norm, scale |
| flashinfer-prefill | chunk_gated_delta_rule of FlashInfer | h0, ht, layout, scale; 16-bit tokens |
| huggingface | torch_chunk_gated_delta_rule of transformers | h0, ht, layout, norm; sequences of equal length |
| vllm | fused_recurrent_gated_delta_rule of vLLM | h0, layout, norm, scale, slots, state |

A case that a convention cannot express is "unsupported", with the reason. States come in the memory order that the
project has, whichever the problem's layout is."""
import dataclasses
import importlib
import math


@dataclasses.dataclass(frozen=True)
class Convention:
    honours: tuple  # fields of a problem that may be off their defaults
    call: object    # (fn, Inputs) -> a tuple of outputs


def names():
    return tuple(_CONVENTIONS)


def caller(fn, convention):
    """A function of Inputs that calls `fn` as the convention says; `fn` itself where there is none."""
    if convention is None:
        return fn
    return lambda inputs: _find(convention).call(fn, inputs)


def bound(fn, convention, inputs):
    """(arguments, named arguments, outputs of what `fn` returned for them): the call of a function taken apart, so that
    `fn` is timed without what the convention makes of a case before and after it."""
    if convention is None:
        return (inputs,), {}, lambda returned: returned
    call = _find(convention).call
    try:
        call(_raise_arguments, inputs)
    except _Arguments as found:
        return found.given, found.named, lambda returned: call(lambda *_, **__: returned, inputs)
    raise AssertionError(f"convention {convention} calls no function")


class _Arguments(BaseException):
    """What a convention calls its function with, on the way out."""

    def __init__(self, given, named):
        super().__init__()
        self.given, self.named = given, named


def _raise_arguments(*given, **named):
    raise _Arguments(given, named)


def honoured(convention):
    return _find(convention).honours


def _find(convention):
    if convention not in _CONVENTIONS:
        raise ValueError(f"convention: {convention!r}, expected one of {', '.join(_CONVENTIONS)}")
    return _CONVENTIONS[convention]


def _of(array):
    """The module that has the functions of the array's library."""
    name = type(array).__module__.partition(".")[0]
    return importlib.import_module({"torch": "torch", "cupy": "cupy", "jax": "jax.numpy", "jaxlib": "jax.numpy"}
                                   .get(name, "numpy"))


def _turned(state, x, layout):
    """A state of the problem's memory order in that of the project, or back."""
    if state is None or x.fields["layout"] == layout:
        return state
    state = state.swapaxes(-1, -2)
    return state.contiguous() if hasattr(state, "contiguous") else state


def _scale(x):
    if x.fields["scale"] != "auto":
        return float(x.fields["scale"])
    return 1 / math.sqrt(x["q"].shape[-1])


def _norm(x):
    return x.fields["norm"] == "1"


def _outputs(x, output, state):
    """In the shapes of the case, as far as it writes them."""
    output = output.reshape(x["v"].shape)
    return (output, state) if "final_state" in x.outputs else (output,)


def _fla(fn, x):
    one = lambda name: x[name][None]
    output, state = fn(one("q"), one("k"), one("v"), g=one("log_decay"), beta=one("beta"), scale=_scale(x),
                       initial_state=_turned(x.get("initial_state"), x, "kv"),
                       output_final_state="final_state" in x.outputs, use_qk_l2norm_in_kernel=_norm(x),
                       cu_seqlens=x["sequence_offsets"])
    return _outputs(x, output, _turned(state, x, "kv"))


def _flashinfer_prefill(fn, x):
    if x.fields["dtype"] == "f32":
        raise NotImplementedError("convention flashinfer-prefill takes bfloat16 or float16 tokens, not float32")
    writes = "final_state" in x.outputs
    returned = fn(x["q"], x["k"], x["v"], g=_of(x["log_decay"]).exp(x["log_decay"]), beta=x["beta"], scale=_scale(x),
                  initial_state=_turned(x.get("initial_state"), x, "vk"), output_final_state=writes,
                  cu_seqlens=x["sequence_offsets"])
    output, state = returned if writes else (returned, None)
    return _outputs(x, output, _turned(state, x, "vk"))


def _huggingface(fn, x):
    offsets = [int(offset) for offset in x["sequence_offsets"]]
    lengths = {end - begin for begin, end in zip(offsets, offsets[1:])}
    if len(lengths) != 1 or lengths == {0}:
        raise NotImplementedError("convention huggingface has no sequence offsets: sequences of equal length are "
                                  f"expected, not seq={x.fields['seq']}")
    batch = lambda array: array.reshape((len(offsets) - 1, -1, *array.shape[1:]))
    # Every key head stands once for each value head that reads it.
    heads = [head * x["k"].shape[1] // x["v"].shape[1] for head in range(x["v"].shape[1])]
    output, state = fn(batch(x["q"][:, heads]), batch(x["k"][:, heads]), batch(x["v"]), g=batch(x["log_decay"]),
                       beta=batch(x["beta"]), initial_state=_turned(x.get("initial_state"), x, "kv"),
                       output_final_state="final_state" in x.outputs, use_qk_l2norm_in_kernel=_norm(x))
    return _outputs(x, output, _turned(state, x, "kv"))


def _vllm(fn, x):
    if "initial_state" not in x:
        raise NotImplementedError("convention vllm always reads a state; the case has h0=absent")
    one = lambda name: x[name][None]
    state, module = x["initial_state"], _of(x["initial_state"])
    # Row 0 of every pool is the null block: an index to it is a padding sequence, our slot -1.
    pool = module.concatenate([module.zeros_like(state[:1]), state])
    if "slot_index" in x:
        rows = x["slot_index"] + 1
    else:
        rows = module.zeros_like(x["sequence_offsets"][1:]) + module.arange(1, len(x["sequence_offsets"]),
                                                                           **_place(x["sequence_offsets"]))
    output, written = fn(one("q"), one("k"), one("v"), g=one("log_decay"), beta=one("beta"), scale=_scale(x),
                         initial_state=_turned(pool, x, "vk"), inplace_final_state=True,
                         cu_seqlens=x["sequence_offsets"], ssm_state_indices=rows,
                         use_qk_l2norm_in_kernel=_norm(x))
    return _outputs(x, output, _turned(written, x, "vk")[1:])


def _place(array):
    return {"device": array.device} if _of(array).__name__ == "torch" else {}


_CONVENTIONS = {
    "fla": Convention(("h0", "ht", "layout", "norm", "scale"), _fla),
    "flashinfer-prefill": Convention(("h0", "ht", "layout", "scale"), _flashinfer_prefill),
    "huggingface": Convention(("h0", "ht", "layout", "norm"), _huggingface),
    "vllm": Convention(("h0", "layout", "norm", "pool_rows", "scale", "slots", "state"), _vllm),
}

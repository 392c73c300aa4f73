"""The gated delta rule as every project means it, on views. Tokens of q, k, v, gates and betas are one dimension or
several; each project's module says which encodings its gates and betas have."""
from . import calls
from .tensors import View, bad_input, unsupported

TOKEN_TYPES = ("f32", "bf16", "f16")


def token_type(views):
    """The type that the problem computes its tokens in: the widest of q, k and v. What is narrower is widened."""
    for name, view in views.items():
        if view.dtype not in TOKEN_TYPES:
            unsupported(name, f"{view.dtype}, expected one of {', '.join(TOKEN_TYPES)}")
    types = {view.dtype for view in views.values()}
    return types.pop() if len(types) == 1 else "f32"


def state_type(state):
    """The type that the problem keeps states in. Narrower ones than it knows are widened, and rounded once again."""
    return None if state is None else state.dtype if state.dtype in TOKEN_TYPES else "f32"


def run(q, k, v, out, *, gate, gates, beta, betas, offsets, host_offsets, state=None, reads=True, writes=True,
        slots=None, written=None, v_first=False, norm=False, scale=None, steps=1, channels=False, bound=None, heads=None,
        checkpoints=None):
    """Runs one call. q [.., Hk, Dk], k and v [.., (steps,) H, D], out [.., Hv, Dv]. `gate` and `beta` are the names of
    the encodings, `gates` and `betas` the operands that go with them, operand -> View. `state`: [rows, Hv, ..], of which
    `slots` are read and, where they are given, `written` are written. `heads`: (Hk, Hv), where they are several
    dimensions of q, k or v. `checkpoints`: counts of tokens [N, K] and the states after them [N, K, Hv, ..]."""
    key_dim, value_dim = q.extents[-1], v.extents[-1]
    key_heads, value_heads = heads or (q.extents[-2], v.extents[-2])
    if written == slots or state is None or not writes:
        written = None
    if value_heads % key_heads:
        unsupported("q", f"{key_heads} heads beside {value_heads} of v, expected a number that divides these")
    fields = {"heads": f"{key_heads}/{value_heads}", "dim": f"{key_dim}x{value_dim}", "seq": "1x1",
              "dtype": token_type({"q": q, "k": k, "v": v}), "state": state_type(state),
              "layout": "vk" if v_first else None, "h0": "normal" if state is not None and reads else None,
              "ht": None if state is not None and writes else 0, "norm": 1 if norm else None,
              "scale": None if scale is None else repr(float(scale)), "steps": steps if steps > 1 else None,
              "decay": "channel" if channels else None, "gate": gate, "beta": beta,
              "bound": None if bound is None else repr(float(bound)),
              "slots": "padding" if slots is not None else None,
              "output_slots": "other" if written is not None else None}
    counts, inner = checkpoints or (None, None)
    if inner is not None:
        fields["checkpoints"] = counts.extents[1]
        fields["checkpoint_dtype"] = state_type(inner)
    return calls.run("gated_delta", fields, {
        "q": q, "k": k, "v": v, **gates, **betas, "sequence_offsets": offsets, "slot_index": slots,
        "output_slot_index": written, "initial_state": state if reads or writes else None, "output": out,
        "checkpoint_tokens": counts, "checkpoint_states": inner}, host_offsets)


def of_logits(a, A_log, dt_bias, b):
    """(gate operands, beta operands) of logits with their rate and shift, as the projects that serve hold them."""
    return {"decay_logit": View.of(a, "a"), "A_log": View.of(A_log, "A_log"),
            "dt_bias": View.of(dt_bias, "dt_bias")}, {"beta_logit": View.of(b, "b")}


def require_plain_softplus(softplus_beta, softplus_threshold):
    """Refuses a softplus of another slope. Beyond 20 it is its argument in float32, whoever says so."""
    if softplus_beta != 1 or softplus_threshold < 20:
        unsupported("softplus_beta" if softplus_beta != 1 else "softplus_threshold",
                    f"{softplus_beta}, {softplus_threshold}, expected 1 and at least 20")


def shared(view, heads, argument):
    """`view` [.., H, D] for `heads` heads, of which consecutive ones share one."""
    return _repeated(view, heads, argument, view.rank - 1)


def tiled(view, heads, argument):
    """`view` [.., H, D] for `heads` heads, of which head h reads head h modulo H."""
    return _repeated(view, heads, argument, view.rank - 2)


def _repeated(view, heads, argument, dimension):
    """The heads with a stride of 0 along a dimension of those that share one. Kernels know the grouped map alone: the
    library lays the heads out one by one, on the device."""
    own = view.extents[-2]
    if own == heads:
        return view
    if own == 0 or heads % own:
        bad_input(argument, f"{own} heads, expected a number that divides {heads}")
    return view.insert(dimension, heads // own)

"""FLA's convolution tests: the forward halves, where these compare outputs. Tests that call in a loop,
token after token, give one case: a call in the middle, with a window that is drawn."""
from .case import Case, Compare, Fill, NORMAL, Storage, TensorSpec, ZEROS, dice, offsets, values

PEER = "fla"
SOURCE = "tests/modules/test_conv.py"
BOTH_WIDTHS = ((64, 3, True), (128, 4, False))  # T, W, has_bias of most lists


def _close(output, dtype):
    return Compare(output, rms_ratio=1e-3, dtype=dtype)


def _window(dtype, width):
    """The last width - 1 columns of a window of `width` of them: what lies in the first one is never read again."""
    return Compare("final_state", absolute=1e-3, relative=1e-3, dimension=2, entries=range(1, width), dtype=dtype)


def _case(test, function, parameters, tensors, compares, **options):
    return Case(PEER, f"{SOURCE}::{test}", function, parameters, tensors,
                {"activation": parameters["activation"], **options}, compares)


def _weights(p):
    tensors = {"weight": TensorSpec((p["D"], p["W"]), p["dtype"], NORMAL)}
    if p["has_bias"]:
        tensors["bias"] = TensorSpec((p["D"],), p["dtype"], NORMAL)
    return tensors


def _module_weights(p):
    """A module's own weights: [D, 1, W], drawn as PyTorch initialises a convolution."""
    drawn = Fill(low=-p["W"]**-0.5, high=p["W"]**-0.5)
    tensors = {"weight": TensorSpec((p["D"], 1, p["W"]), p["dtype"], drawn)}
    if p["has_bias"]:
        tensors["bias"] = TensorSpec((p["D"],), p["dtype"], drawn)
    return tensors


def _tokens(batch, tokens, p, storage=Storage()):
    tensors = {"x": TensorSpec((batch, tokens, p["D"]), p["dtype"], NORMAL, storage)}
    if p["has_residual"]:
        tensors["residual"] = TensorSpec((batch, tokens, p["D"]), p["dtype"], NORMAL, storage)
    return tensors


def _ends(ends, dtype):
    return {"cu_seqlens": TensorSpec((len(ends),), dtype, values(ends))}


def _named(names, rows):
    return (dict(zip(names.split(), row)) for row in rows)


def _lists(backend):
    """The first eight rows that six of the lists have in common."""
    rows = [(2, t, 128, w, "swish", bias, residual, "f32") for residual in (True, False) for t, w, bias in BOTH_WIDTHS]
    rows += [(2, 500, 1024, 3, None, True, True, "f32"), (2, 1024, 1024, 4, None, False, True, "f32")]
    rows += [(2, t, 128, w, None, bias, False, "f16") for t, w, bias in BOTH_WIDTHS]
    return [row + (backend,) for row in rows]


def _swish(backend):
    return [row for row in _lists(backend) if row[4]]


def fixed():
    rows = _lists("triton")
    rows[4] = rows[4][:-1] + ("cuda",)
    for p in _named("B T D W activation has_bias has_residual dtype backend", rows + _swish("cuda")):
        yield _case("test_conv", "causal_conv1d", p, {**_tokens(p["B"], p["T"], p), **_weights(p)},
                    (_close("y", p["dtype"]),), backend=p["backend"])


def _random_ends(test, p):
    """Sequences of which the first has sixteen tokens or more."""
    marks = dice(test, *p.values()).sample(range(16, p["T"]), p["N"] - 1)
    return [0, *sorted(marks), p["T"]]


def _even_ends(p):
    lengths = [max(1, p["T"] // p["N"])] * p["N"]
    lengths[-1] += p["T"] % p["N"]
    return offsets(lengths)


def ragged():
    for p in _named("N T D W activation has_bias has_residual dtype backend", [
            row + (backend,) for backend in ("triton", "cuda") for row in (
                (4, 500, 128, 3, "swish", True, True, "f32"), (4, 1024, 200, 4, "swish", False, True, "f32"),
                (4, 500, 128, 3, None, True, False, "f16"), (4, 1024, 1024, 4, None, False, False, "f16"))]):
        yield _case("test_conv_varlen", "causal_conv1d", p,
                    {**_tokens(1, p["T"], p), **_weights(p), **_ends(_random_ends("test_conv_varlen", p), "int64")},
                    (_close("y", p["dtype"]),), backend=p["backend"])
    for p in _named("N T D W activation has_bias has_residual dtype", (
            (4, 1024, 4096, 3, "swish", True, False, "f32"), (4, 1024, 4096, 4, "swish", False, False, "f32"),
            (4, 1024, 4096, 3, None, True, False, "f16"), (4, 1024, 4096, 4, None, False, False, "f16"))):
        yield _case("test_fast_conv_varlen", "fast_causal_conv1d_fn", p,
                    {**_tokens(1, p["T"], p), **_weights(p),
                     **_ends(_random_ends("test_fast_conv_varlen", p), "int64")}, (_close("y", p["dtype"]),))


def module():
    """Modules with a window [.., W] that they write in place."""
    rows = _lists("triton") + _swish("cuda") + [
        (2, 2, 128, 4, "swish", True, True, "f32", "cuda"), (2, 2, 128, 4, "swish", True, True, "f32", "triton"),
        (2, 3, 128, 4, "swish", True, True, "f32", "triton"), (2, 4, 128, 4, "swish", True, True, "f32", "triton"),
        (2, 2, 128, 3, "swish", True, True, "f32", "triton")]
    for p in _named("B T D W activation has_bias has_residual dtype backend", rows):
        yield _case("test_conv_with_cache_prefill_fwd", "ShortConvolution.forward", p,
                    {**_tokens(p["B"], p["T"], p), **_module_weights(p),
                     "cache": TensorSpec((p["B"], p["D"], p["W"]), p["dtype"], NORMAL)},
                    (_close("y", p["dtype"]), _window(p["dtype"], p["W"])), backend=p["backend"],
                    output_final_state=True)
    for p in _named("N T D W activation has_bias has_residual dtype backend", (
            (3, 128, 64, 4, "swish", True, True, "f32", "triton"), (4, 256, 128, 3, None, False, True, "f32", "triton"),
            (2, 64, 128, 4, "swish", True, False, "f16", "cuda"), (3, 200, 64, 3, None, False, False, "f16", "cuda"),
            (2, 3, 64, 4, "swish", True, True, "f32", "triton"), (2, 3, 64, 3, None, False, True, "f32", "cuda"))):
        yield _case("test_conv_varlen_with_cache_prefill_fwd", "ShortConvolution.forward", p,
                    {**_tokens(1, p["T"], p), **_module_weights(p), **_ends(_even_ends(p), "int32"),
                     "cache": TensorSpec((p["N"], p["D"], p["W"]), p["dtype"], NORMAL)},
                    (_close("y", p["dtype"]), _window(p["dtype"], p["W"])), backend=p["backend"],
                    output_final_state=True)
    rows = [(2, 128, w, bias, residual, "swish", "f32", backend) for backend in ("triton", "cuda")
            for residual in (True, False) for _, w, bias in BOTH_WIDTHS]
    rows += [(2, 128, 4, False, False, None, "f32", backend) for backend in ("cuda", "triton")]
    for p in _named("B D W has_bias has_residual activation dtype backend", rows):
        yield _case("test_conv_decoding_with_cache", "ShortConvolution.step", p,
                    {**_tokens(p["B"], 1, p), **_module_weights(p),
                     "cache": TensorSpec((p["B"], p["D"], p["W"]), p["dtype"], NORMAL)},
                    (_close("y", p["dtype"]),), backend=p["backend"])


def _one_token(test, p, batch, tokens, step, weight=None):
    """Token tokens // 2 of x: [B, 1, D] with the batch as far apart as all tokens are."""
    storage = Storage(extents=((1, tokens * step),), starts=((1, tokens // 2 * step),))
    tensors = {**_tokens(batch, 1, p, storage), **_weights(p),
               "cache": TensorSpec((batch, p["D"], p["W"]), p["dtype"], NORMAL)}
    if weight is not None:
        tensors["weight"] = TensorSpec((p["D"], p["W"]), p["dtype"], weight)
    return _case(test, "causal_conv1d_update", p, tensors, (_close("y", p["dtype"]), _close("cache", p["dtype"])))


def decoding():
    for p in _named("B T D W activation has_bias has_residual dtype", [row[:-1] for row in _lists("triton")]):
        yield _one_token("test_conv_decoding", p, p["B"], p["T"], 1, ZEROS)
    for p in _named("N D W activation has_bias has_residual dtype", (
            (4, 128, 3, "swish", True, True, "f32"), (4, 128, 4, "swish", False, True, "f32"),
            (4, 128, 3, "swish", True, False, "f32"), (2, 128, 3, None, True, True, "f16"))):
        yield _one_token("test_conv_varlen_decoding", p, 1, 64 // p["N"], 1)
    rows = [(2, t, 128, w, "swish", bias, True, "f32") for t, w, bias in BOTH_WIDTHS]
    rows += [(2, 64, 128, 3, "swish", True, False, "f32"), (2, 128, 128, 4, None, False, False, "f16")]
    for p in _named("B T D W activation has_bias has_residual dtype", rows):
        yield _one_token("test_conv_decoding_non_contiguous_x", p, p["B"], p["T"], 2)


def sliced():
    """x is the middle third of a projection [.., 3 D]; calls without a residual, with one, and with a state."""
    fixed_rows = ((2, 64, 128, 3, "swish", True, "f32"), (2, 128, 128, 4, "swish", False, "f32"),
                  (2, 64, 128, 3, None, True, "f16"))
    ragged_rows = ((4, 128, 64, 3, "swish", True, "f32"), (4, 256, 128, 4, "swish", False, "f32"),
                   (2, 64, 128, 3, None, True, "f16"))
    for test, names, rows in (("test_conv_non_contiguous_qkv", "B T D W activation has_bias dtype", fixed_rows),
                              ("test_conv_varlen_non_contiguous_qkv", "N T D W activation has_bias dtype",
                               ragged_rows)):
        for p in _named(names, rows):
            for call in ("plain", "residual", "state"):
                q = {**p, "call": call, "has_residual": False}
                batch = 1 if "N" in p else p["B"]
                storage = Storage(extents=((2, 3 * p["D"]),), starts=((2, p["D"]),))
                tensors = {**_tokens(batch, p["T"], q, storage), **_weights(p)}
                compares, options = (_close("y", p["dtype"]),), {}
                if "N" in p:
                    tensors.update(_ends(_even_ends(p), "int32"))
                if call == "residual":
                    tensors["residual"] = TensorSpec((batch, p["T"], p["D"]), p["dtype"], NORMAL)
                if call == "state":
                    tensors["initial_state"] = TensorSpec((p.get("N", batch), p["D"], p["W"]), p["dtype"], NORMAL)
                    compares += (_close("final_state", p["dtype"]),)
                    options["output_final_state"] = True
                q.pop("has_residual")
                yield _case(test, "causal_conv1d", q, tensors, compares, **options)


def cases():
    for part in (fixed, ragged, module, decoding, sliced):
        yield from part()

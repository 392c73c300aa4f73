"""FLA's tests of chunk_kda, fused_recurrent_kda and fused_kda_gate, with a decay for each key channel."""
from .case import Case, Compare, Fill, NORMAL, SIGMOID, TensorSpec, UNIFORM, UNIT, exact, values
from .fla_gated_delta import (LOG_OF_1_TO_16, SIGMOID_OF_UNIFORM, UNIT_OF_UNIFORM, log_sigmoid, offsets_tensor, rms,
                              same)

PEER = "fla"
SOURCE = "tests/ops/test_kda.py"
CHUNK, RECURRENT, DECODE = "chunk_kda", "fused_recurrent_kda", "fused_recurrent_kda_fwd"


def _inputs(batch, tokens, heads, value_heads, dim, dtype, *, qk, k=None, v=UNIFORM, g, beta=SIGMOID, g_dtype="f32",
            sequences=None):
    return {"q": TensorSpec((batch, tokens, heads, dim), dtype, qk),
            "k": TensorSpec((batch, tokens, heads, dim), dtype, k or qk),
            "v": TensorSpec((batch, tokens, value_heads, dim), dtype, v),
            "g": TensorSpec((batch, tokens, value_heads, dim), g_dtype, g),
            "beta": TensorSpec((batch, tokens, value_heads), dtype, beta),
            "initial_state": TensorSpec((sequences or batch, value_heads, dim, dim), "f32", NORMAL)}


def _logits(heads, dim, a_log=NORMAL, a_shape=None, has_a_log=True, has_dt_bias=True):
    tensors = {}
    if has_a_log:
        tensors["A_log"] = TensorSpec(a_shape or (heads,), "f32", a_log)
    if has_dt_bias:
        tensors["dt_bias"] = TensorSpec((heads * dim,), "f32", NORMAL)
    return tensors


def _case(test, function, parameters, tensors, compares, **options):
    return Case(PEER, f"{SOURCE}::{test}", function, parameters, tensors, {"output_final_state": True, **options},
                compares)


def _named(names, rows):
    return (dict(zip(names.split(), row)) for row in rows)


def _gates(normalizer=1, masked=0, safe=False):
    g = log_sigmoid(normalizer, masked, uniform=False)
    return Fill(g.kind, scale=g.scale, replaced=g.replaced, floor=-5.0) if safe else g


def recurrent():
    for p in _named("B T H HV D scale gate_logit_normalizer use_qk_l2norm_in_kernel dtype", (
            (1, 64, 1, 1, 64, 1, 1, False, "f32"), (2, 512, 3, 3, 60, 1, 1, False, "f32"),
            (3, 1000, 4, 4, 100, 0.1, 1, True, "f32"), (4, 1024, 4, 4, 128, 0.1, 1, False, "f32"),
            (2, 512, 2, 4, 60, 1, 1, False, "f32"), (2, 1024, 2, 8, 128, 0.1, 1, True, "f32"))):
        norm = p["use_qk_l2norm_in_kernel"]
        yield _case("test_fused_recurrent", RECURRENT, p,
                    _inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"],
                            qk=UNIFORM if norm else UNIT_OF_UNIFORM, g=_gates(p["gate_logit_normalizer"])),
                    rms(0.005, p["dtype"]), scale=p["scale"], use_qk_l2norm_in_kernel=norm)
    for p in _named("B T H D allow_neg_eigval dtype", (
            (2, 256, 4, 64, False, "f32"), (2, 256, 4, 64, True, "f32"), (1, 512, 3, 60, True, "f32"))):
        yield _case("test_fused_recurrent_use_beta_sigmoid_in_kernel", RECURRENT, p,
                    _inputs(p["B"], p["T"], p["H"], p["H"], p["D"], p["dtype"], qk=UNIT_OF_UNIFORM, g=_gates(),
                            beta=NORMAL), rms(0.005, p["dtype"]), use_beta_sigmoid_in_kernel=True,
                    allow_neg_eigval=p["allow_neg_eigval"])
    for p in _named("B T H D scale gate_logit_normalizer dtype", (
            (1, 64, 1, 64, 1, 1, "f32"), (2, 512, 3, 60, 1, 1, "f32"), (3, 1000, 4, 100, 0.1, 1, "f32"),
            (4, 1024, 4, 128, 0.1, 1, "f32"))):
        yield _case("test_fused_recurrent_state_v_first", RECURRENT, p,
                    _inputs(p["B"], p["T"], p["H"], p["H"], p["D"], p["dtype"], qk=UNIT_OF_UNIFORM, g=_gates()),
                    same(1e-4, p["dtype"]) + rms(0.005, p["dtype"]), scale=p["scale"], state_v_first=True)


def recurrent_in_kernel():
    """Gates as logits, without A_log in some cases of bounded ones."""
    for p in _named("B T H HV D scale has_a_log has_dt_bias safe_gate dtype", (
            (1, 64, 1, 1, 64, 1, True, False, False, "f32"), (2, 256, 2, 2, 64, 1, True, True, False, "f32"),
            (2, 512, 2, 4, 64, 0.1, True, True, True, "f16"), (3, 1000, 2, 8, 128, 1, True, False, False, "f16"),
            (4, 1024, 4, 4, 128, 0.1, True, True, True, "f16"), (1, 64, 1, 1, 64, 1, False, False, True, "f32"),
            (2, 256, 2, 4, 64, 1, False, True, True, "f32"))):
        tensors = {**_inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"], qk=UNIFORM, g=NORMAL,
                             beta=SIGMOID_OF_UNIFORM),
                   **_logits(p["HV"], p["D"], LOG_OF_1_TO_16, None, p["has_a_log"], p["has_dt_bias"])}
        yield _case("test_fused_recurrent_gate_in_kernel", RECURRENT, p, tensors, rms(0.002, p["dtype"]),
                    scale=p["scale"], use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
                    lower_bound=-5.0 if p["safe_gate"] else None)


def decode():
    """One token for each sequence; states in a pool of three times as many rows, which is written in place. Rows that
    no sequence names hold 1e30 in the test, and must stay."""
    for p in _named("B H D scale gate_logit_normalizer use_qk_l2norm_in_kernel use_gate_in_kernel safe_gate dtype", (
            (16, 16, 128, 0.1, 1.0, True, False, False, "bf16"), (32, 8, 64, 1.0, 1.0, False, False, False, "f16"),
            (7, 32, 128, 0.5, 0.5, True, False, False, "bf16"), (16, 16, 128, 0.1, 1.0, True, True, False, "bf16"),
            (32, 8, 64, 1.0, 1.0, False, True, False, "f16"), (7, 32, 128, 0.5, 0.5, True, True, True, "bf16"))):
        batch, heads, dim, dtype = p["B"], p["H"], p["D"], p["dtype"]
        norm, in_kernel = p["use_qk_l2norm_in_kernel"], p["use_gate_in_kernel"]
        # Every third row from the second one on, the last one first: distinct, and in no order of the pool's.
        slots = tuple(3 * n + 1 for n in reversed(range(batch)))
        tensors = {**_inputs(1, batch, heads, heads, dim, dtype, qk=UNIFORM if norm else UNIT_OF_UNIFORM,
                             g=NORMAL if in_kernel else _gates(p["gate_logit_normalizer"]),
                             g_dtype=dtype if in_kernel else "f32", sequences=3 * batch),
                   "cu_seqlens": TensorSpec((batch + 1,), "int32", values(range(batch + 1))),
                   "ssm_state_indices": TensorSpec((batch,), "int32", values(slots))}
        if in_kernel:
            tensors.update(_logits(heads, dim, LOG_OF_1_TO_16))
        untouched = tuple(row for row in range(3 * batch) if row not in slots)
        yield Case(PEER, f"{SOURCE}::test_fused_recurrent_vllm_decode", DECODE, p, tensors,
                   dict(scale=p["scale"], output_final_state=False, inplace_final_state=True,
                        use_qk_l2norm_in_kernel=norm, use_gate_in_kernel=in_kernel,
                        lower_bound=-5.0 if p["safe_gate"] else None),
                   (Compare("o", rms_ratio=0.005, dtype=dtype),
                    Compare("initial_state", rms_ratio=0.005, entries=slots),
                    exact("initial_state", "f32", untouched)))


def chunk():
    for p in _named("B T H HV D scale gate_logit_normalizer mask_p use_qk_l2norm_in_kernel use_gate_in_kernel dtype "
                    "safe_gate disable_recompute chunk_size", (
            (1, 63, 1, 1, 64, 1, 1, 0, False, False, "f16", True, False, 64),
            (2, 500, 3, 3, 60, 1, 1, 0, False, False, "f16", True, True, 64),
            (2, 1000, 3, 3, 64, 0.1, 1, 0.5, False, False, "f16", False, True, 64),
            (3, 1024, 4, 4, 100, 1, 0.1, 0, False, False, "f16", False, False, 64),
            (4, 1024, 4, 4, 128, 0.1, 1, 0, False, False, "f16", True, True, 64),
            (4, 1024, 4, 4, 128, 0.1, 1, 0, True, False, "f16", True, False, 64),
            (2, 1500, 4, 4, 128, 0.1, 10, 0, False, True, "f16", False, True, 64),
            (4, 2048, 8, 8, 64, 0.1, 1, 0, False, True, "f16", True, True, 64),
            (2, 1024, 2, 4, 64, 0.1, 1, 0, False, False, "f16", False, False, 64),
            (2, 1024, 2, 8, 64, 0.1, 1, 0, False, True, "f16", False, False, 64),
            (2, 1024, 4, 8, 128, 0.1, 1, 0, True, True, "f16", False, False, 64),
            (2, 160, 2, 4, 64, 0.1, 1, 0, False, True, "f16", True, True, 32),
            (2, 1024, 2, 4, 64, 0.1, 1, 0, True, True, "bf16", True, False, 64),
            (2, 1024, 2, 4, 64, 0.1, 1, 0, False, True, "bf16", False, False, 64),
            (2, 160, 2, 4, 64, 0.1, 1, 0, False, True, "bf16", True, True, 32),
            (2, 1024, 2, 8, 128, 0.1, 1, 0, True, True, "bf16", False, False, 64))):
        norm, in_kernel, safe = p["use_qk_l2norm_in_kernel"], p["use_gate_in_kernel"], p["safe_gate"]
        tensors = _inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"], qk=UNIFORM if norm else UNIT_OF_UNIFORM,
                          g=NORMAL if in_kernel else _gates(p["gate_logit_normalizer"], p["mask_p"], safe),
                          g_dtype=p["dtype"] if in_kernel else "f32")
        if in_kernel:
            tensors.update(_logits(p["HV"], p["D"]))
        yield _case("test_chunk", CHUNK, p, tensors, rms(0.005, p["dtype"]), scale=p["scale"],
                    use_qk_l2norm_in_kernel=norm, use_gate_in_kernel=in_kernel, safe_gate=safe,
                    lower_bound=-5.0 if safe else None, disable_recompute=p["disable_recompute"],
                    chunk_size=p["chunk_size"])
    for p in _named("B T H D scale gate_logit_normalizer dtype", (
            (1, 63, 1, 64, 1, 1, "f16"), (2, 500, 3, 60, 1, 1, "f16"), (3, 1024, 4, 128, 0.1, 1, "f16"),
            (4, 2048, 8, 64, 0.1, 1, "f16"))):
        yield _case("test_chunk_state_v_first", CHUNK, p,
                    _inputs(p["B"], p["T"], p["H"], p["H"], p["D"], p["dtype"], qk=UNIT_OF_UNIFORM, g=_gates()),
                    same(1e-4, p["dtype"]) + rms(0.005, p["dtype"]), scale=p["scale"], state_v_first=True)
    for p in _named("B T H D allow_neg_eigval dtype", (
            (1, 8192, 96, 128, False, "bf16"), (1, 8192, 96, 128, True, "bf16"), (2, 96, 2, 64, True, "f16"))):
        yield _case("test_chunk_use_beta_sigmoid_in_kernel", CHUNK, p,
                    _inputs(p["B"], p["T"], p["H"], p["H"], p["D"], p["dtype"], qk=UNIT_OF_UNIFORM, g=_gates(),
                            beta=NORMAL), same(1e-4, p["dtype"]) + rms(0.005, p["dtype"]),
                    use_beta_sigmoid_in_kernel=True, allow_neg_eigval=p["allow_neg_eigval"])


def chunk_varlen():
    """A share of the gates is -1000: as log decays resets, as logits no decay at all."""
    both = ((4, 64, 0.9, (0, 256, 500, 1000), "f16", True, False, False),
            (4, 128, 0.5, (0, 256, 500, 1000), "f16", False, False, False),
            (4, 100, 0, (0, 15, 100, 300, 1200, 2000), "f16", True, False, False),
            (4, 256, 0, (0, 100, 300, 1200, 3000, 4096), "f16", False, True, True))
    varlen = [((4, 60, 0.1, (0, 15), "f16", True, False, False), 64), *((row, 64) for row in both),
              ((4, 60, 0.1, (0, 31, 96, 160), "f16", True, False, True), 32)]
    prefill = [((4, 60, 0.1, (0, 8192), "f16", True, False, False), None), *((row, None) for row in both)]
    for test, rows in (("test_chunk_varlen", varlen), ("test_chunk_varlen_prefill", prefill)):
        for row, chunk_size in rows:
            p = next(_named("H D mask_p cu_seqlens dtype use_gate_in_kernel safe_gate disable_recompute", (row,)))
            ends, in_kernel, masked = p["cu_seqlens"], p["use_gate_in_kernel"], p["mask_p"]
            resets = ((masked, -1000.0),) if masked else ()
            gates = Fill(replaced=resets) if in_kernel else Fill(
                "log_sigmoid", replaced=(((masked, 0.0),) if masked else ()) + resets,
                floor=-5.0 if p["safe_gate"] else -float("inf"))
            tensors = {**_inputs(1, ends[-1], p["H"], p["H"], p["D"], p["dtype"], qk=UNIT, v=NORMAL, g=gates,
                                 beta=SIGMOID_OF_UNIFORM, g_dtype=p["dtype"] if in_kernel else "f32",
                                 sequences=len(ends) - 1), **offsets_tensor(ends)}
            if in_kernel:
                tensors.update(_logits(p["H"], p["D"], LOG_OF_1_TO_16, (1, 1, p["H"], 1)))
            options = {"chunk_size": chunk_size} if chunk_size else {}
            yield _case(test, CHUNK, {**p, **options}, tensors, rms(0.005, p["dtype"]), use_gate_in_kernel=in_kernel,
                        safe_gate=p["safe_gate"], disable_recompute=p["disable_recompute"], **options)


def gate():
    for p in _named("B T H D HAS_A_LOG HAS_BIAS LOWER_BOUND", (
            (1, 2, 2, 12, True, False, -5.0), (1, 32, 2, 16, True, False, -5.0), (2, 64, 4, 32, True, False, -5.0),
            (4, 128, 8, 64, True, False, -5.0), (4, 128, 8, 128, True, False, None), (1, 2, 2, 12, True, True, None),
            (1, 32, 2, 16, True, True, None), (2, 64, 4, 32, True, True, None), (4, 128, 8, 64, True, True, None),
            (4, 128, 8, 128, True, True, None), (1, 2, 2, 12, False, False, -5.0),
            (2, 64, 4, 32, False, False, -5.0), (4, 128, 8, 64, False, True, -5.0),
            (4, 128, 8, 128, False, True, -5.0))):
        tensors = {"g": TensorSpec((p["B"], p["T"], p["H"], p["D"]), "f32", Fill(scale=10.0)),
                   **_logits(p["H"], p["D"], LOG_OF_1_TO_16, (1, 1, p["H"], 1), p["HAS_A_LOG"], p["HAS_BIAS"])}
        yield Case(PEER, f"{SOURCE}::test_gate", "fused_kda_gate", p, tensors, {"lower_bound": p["LOWER_BOUND"]},
                   (Compare("o", rms_ratio=1e-4),))


def other_backend():
    """The same function, dispatched to another package's kernels: norm, bounded gate, betas and the state's layout are
    all in the call."""
    options = dict(use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True,
                   safe_gate=True, lower_bound=-5.0, state_v_first=True)
    for p in _named("B T H D", ((1, 1024, 4, 128), (2, 2048, 8, 128), (1, 4096, 16, 128))):
        tensors = {**_inputs(p["B"], p["T"], p["H"], p["H"], p["D"], "bf16", qk=UNIFORM, g=NORMAL, beta=NORMAL,
                             g_dtype="bf16"), **_logits(p["H"], p["D"], LOG_OF_1_TO_16)}
        yield _case("test_flash_kda_chunk", CHUNK, p, tensors, rms(0.006, "bf16"), scale=p["D"]**-0.5, **options)
    for p in _named("H D cu_seqlens", ((4, 128, (0, 256, 500, 1000)), (8, 128, (0, 100, 300, 1200, 2000)),
                                       (16, 128, (0, 101, 303, 1205, 3007, 4096)))):
        ends = p["cu_seqlens"]
        tensors = {**_inputs(1, ends[-1], p["H"], p["H"], p["D"], "bf16", qk=NORMAL, v=NORMAL, g=NORMAL, beta=NORMAL,
                             g_dtype="bf16", sequences=len(ends) - 1), **_logits(p["H"], p["D"], LOG_OF_1_TO_16),
                   **offsets_tensor(ends)}
        yield _case("test_flash_kda_chunk_varlen", CHUNK, p, tensors, rms(0.006, "bf16"), scale=p["D"]**-0.5,
                    **options)


def cases():
    for part in (recurrent, recurrent_in_kernel, decode, chunk, chunk_varlen, gate, other_backend):
        yield from part()

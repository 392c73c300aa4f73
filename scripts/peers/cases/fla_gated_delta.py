"""FLA's tests of chunk_gated_delta_rule, fused_recurrent_gated_delta_rule and fused_gdn_gate."""
from .case import (Case, Compare, Fill, NORMAL, SIGMOID, TensorSpec, UNIFORM, UNIT, ZEROS, values)

PEER = "fla"
SOURCE = "tests/ops/test_gdn.py"
CHUNK, RECURRENT = "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"
# Tests draw betas and gates from evenly spread numbers in 0..1 as often as from normal ones.
UNIT_OF_UNIFORM = Fill("unit", low=0.0, high=1.0)
SIGMOID_OF_UNIFORM = Fill("sigmoid", low=0.0, high=1.0)
LOG_OF_1_TO_16 = Fill("log", low=1.0, high=16.0)


def log_sigmoid(normalizer=1, masked=0, uniform=True):
    """Log decays: divided by `normalizer`, a share of them zero."""
    return Fill("log_sigmoid", low=0.0, high=1.0 if uniform else 0.0, scale=1 / normalizer,
                replaced=((masked, 0.0),) if masked else ())


def rms(bound, dtype, state_dtype="f32"):
    """What nearly all of FLA's tests ask: a bound on the ratio of root mean squares, for outputs and final states."""
    return (Compare("o", rms_ratio=bound, dtype=dtype), Compare("final_state", rms_ratio=bound, dtype=state_dtype))


def same(bound, dtype):
    """Bounds between the layouts [.., V, K] and [.., K, V] of the state in one and the same kernel."""
    return (Compare("o", rms_ratio=bound, dtype=dtype, itself=True),
            Compare("final_state", rms_ratio=bound, itself=True))


def inputs(batch, tokens, heads, value_heads, dim, dtype, *, qk=UNIFORM, k=None, v=UNIFORM, beta=SIGMOID_OF_UNIFORM,
           g=None, state=ZEROS, sequences=None, qk_dtype=None, g_dtype="f32", beta_dtype="f32", state_dtype="f32"):
    """q, k, v, g, beta and initial_state as all of these tests shape them."""
    return {"q": TensorSpec((batch, tokens, heads, dim), qk_dtype or dtype, qk),
            "k": TensorSpec((batch, tokens, heads, dim), qk_dtype or dtype, k or qk),
            "v": TensorSpec((batch, tokens, value_heads, dim), dtype, v),
            "g": TensorSpec((batch, tokens, value_heads), g_dtype, g or log_sigmoid()),
            "beta": TensorSpec((batch, tokens, value_heads), beta_dtype, beta),
            "initial_state": TensorSpec((sequences or batch, value_heads, dim, dim), state_dtype, state)}


def offsets_tensor(cu_seqlens, dtype="int64"):
    return {"cu_seqlens": TensorSpec((len(cu_seqlens),), dtype, values(cu_seqlens))}


def logits(value_heads, has_dt_bias, a_log):
    tensors = {"A_log": TensorSpec((value_heads,), "f32", a_log)}
    if has_dt_bias:
        tensors["dt_bias"] = TensorSpec((value_heads,), "f32", NORMAL)
    return tensors


def _case(test, function, parameters, tensors, compares, **options):
    return Case(PEER, f"{SOURCE}::{test}", function, parameters, tensors, {"output_final_state": True, **options},
                compares)


def _named(names, rows):
    return (dict(zip(names.split(), row)) for row in rows)


def recurrent():
    """q and k are float32 beside v of any type."""
    for p in _named("B T H HV D scale gate_logit_normalizer dtype", (
            (1, 63, 1, 1, 64, 1, 1, "f32"), (2, 500, 4, 4, 60, 1, 1, "f32"), (2, 1000, 2, 8, 128, 1, 0.1, "f32"),
            (3, 1024, 2, 2, 128, 0.1, 1, "f32"), (4, 1024, 3, 3, 128, 1, 10, "f32"),
            (4, 2048, 4, 4, 64, 0.1, 1, "f32"), (2, 1024, 4, 4, 128, 1, 0.1, "f16"),
            (2, 1024, 4, 8, 128, 1, 10, "f16"))):
        tensors = inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"], qk=NORMAL, v=NORMAL, state=NORMAL,
                         g=log_sigmoid(p["gate_logit_normalizer"]), qk_dtype="f32", beta_dtype=p["dtype"])
        yield _case("test_fused_recurrent", RECURRENT, p, tensors, rms(0.002, p["dtype"]), scale=p["scale"],
                    use_qk_l2norm_in_kernel=True)
    for p in _named("B T H HV D scale gate_logit_normalizer dtype", (
            (1, 63, 1, 1, 64, 1, 1, "f32"), (2, 500, 4, 4, 60, 1, 1, "f32"), (2, 1000, 2, 8, 128, 1, 0.1, "f32"),
            (3, 1024, 2, 2, 128, 0.1, 1, "f32"), (4, 2048, 4, 4, 64, 0.1, 1, "f32"))):
        tensors = inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"], qk=NORMAL, v=NORMAL, state=NORMAL,
                         g=log_sigmoid(p["gate_logit_normalizer"]), beta_dtype=p["dtype"])
        yield _case("test_fused_recurrent_state_v_first", RECURRENT, p, tensors,
                    same(1e-4, p["dtype"]) + rms(0.002, p["dtype"]), scale=p["scale"], use_qk_l2norm_in_kernel=True,
                    state_v_first=True)


def recurrent_in_kernel():
    """Gates and betas as logits."""
    for p in _named("B T H HV D scale has_dt_bias dtype", (
            (1, 64, 1, 1, 64, 1, False, "f32"), (2, 256, 2, 2, 64, 1, True, "f32"),
            (2, 512, 2, 4, 64, 0.1, True, "f16"), (3, 1000, 2, 8, 128, 1, False, "f16"),
            (4, 1024, 4, 4, 128, 0.1, True, "f16"))):
        tensors = {**inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"], qk=NORMAL, v=NORMAL, g=NORMAL,
                            state=NORMAL, beta_dtype=p["dtype"]), **logits(p["HV"], p["has_dt_bias"], LOG_OF_1_TO_16)}
        yield _case("test_fused_recurrent_gate_in_kernel", RECURRENT, p, tensors, rms(0.002, p["dtype"]),
                    scale=p["scale"], use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True)
    for p in _named("B T H HV D scale allow_neg_eigval dtype", (
            (1, 64, 1, 1, 64, 1, False, "f32"), (2, 512, 2, 4, 64, 0.1, True, "f16"),
            (3, 1000, 2, 8, 128, 1, True, "f16"), (4, 1024, 4, 4, 128, 0.1, False, "f16"))):
        tensors = inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"], qk=NORMAL, v=NORMAL, beta=NORMAL,
                         state=NORMAL, beta_dtype=p["dtype"])
        yield _case("test_fused_recurrent_beta_sigmoid_in_kernel", RECURRENT, p, tensors, rms(0.005, p["dtype"]),
                    scale=p["scale"], use_qk_l2norm_in_kernel=True, use_beta_sigmoid_in_kernel=True,
                    allow_neg_eigval=p["allow_neg_eigval"])
    for p in _named("H HV D has_dt_bias cu_seqlens dtype", (
            (2, 2, 64, True, (0, 15, 100, 300), "f16"), (2, 4, 64, False, (0, 256, 500, 1000), "f16"),
            (4, 4, 128, True, (0, 15, 100, 300, 1200, 2000), "f16"))):
        ends = p["cu_seqlens"]
        tensors = {**inputs(1, ends[-1], p["H"], p["HV"], p["D"], p["dtype"], qk=NORMAL, v=NORMAL, g=NORMAL,
                            state=NORMAL, sequences=len(ends) - 1, beta_dtype=p["dtype"]),
                   **logits(p["HV"], p["has_dt_bias"], LOG_OF_1_TO_16), **offsets_tensor(ends)}
        yield _case("test_fused_recurrent_gate_in_kernel_varlen", RECURRENT, p, tensors, rms(0.002, p["dtype"]),
                    use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True)


def chunk():
    for p in _named("B T H HV D scale gate_logit_normalizer mask_p use_qk_l2norm_in_kernel dtype", (
            (4, 1024, 4, 4, 128, 0.1, 1, 1.0, False, "f16"), (2, 75, 4, 4, 64, 1, 0.01, 0, False, "f16"),
            (2, 500, 3, 3, 60, 1, 1, 0, False, "f16"), (2, 1000, 3, 3, 64, 0.1, 1, 0.5, False, "f16"),
            (3, 1024, 4, 4, 100, 1, 0.1, 0, False, "f16"), (4, 1024, 4, 4, 128, 0.1, 1, 0, True, "f16"),
            (2, 1500, 4, 4, 128, 0.1, 10, 0, False, "f16"), (4, 2048, 8, 8, 64, 0.1, 1, 0, False, "f16"),
            (2, 256, 2, 4, 64, 1, 1, 0, False, "f16"), (2, 512, 2, 8, 64, 1, 0.1, 0, True, "f16"),
            (2, 1024, 4, 8, 128, 0.1, 1, 0, False, "f16"))):
        norm = p["use_qk_l2norm_in_kernel"]
        tensors = inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"], qk=UNIFORM if norm else UNIT_OF_UNIFORM,
                         g=log_sigmoid(p["gate_logit_normalizer"], p["mask_p"]))
        yield _case("test_chunk", CHUNK, p, tensors, rms(0.005, p["dtype"]), scale=p["scale"],
                    use_qk_l2norm_in_kernel=norm)
    for chunk_size in (16, 32, 64):
        p = dict(B=1, T=64, H=2, HV=4, D=32, scale=0.1, gate_logit_normalizer=1.0, dtype="f32", chunk_size=chunk_size)
        yield _case("test_chunk_with_chunk_size", CHUNK, p, inputs(1, 64, 2, 4, 32, "f32", qk=UNIT_OF_UNIFORM),
                    rms(0.005, "f32"), scale=0.1, chunk_size=chunk_size)
    for p in _named("B T H HV D scale use_qk_l2norm_in_kernel allow_neg_eigval dtype", (
            (2, 500, 4, 4, 64, 1, False, False, "f16"), (3, 1024, 4, 4, 128, 0.1, True, True, "f16"),
            (2, 1024, 4, 8, 128, 0.1, False, True, "f16"), (4, 2048, 8, 8, 64, 0.1, True, False, "f16"))):
        norm = p["use_qk_l2norm_in_kernel"]
        tensors = inputs(p["B"], p["T"], p["H"], p["HV"], p["D"], p["dtype"], qk=UNIFORM if norm else UNIT_OF_UNIFORM,
                         beta=NORMAL)
        yield _case("test_chunk_beta_sigmoid_in_kernel", CHUNK, p, tensors, rms(0.005, p["dtype"]), scale=p["scale"],
                    use_qk_l2norm_in_kernel=norm, use_beta_sigmoid_in_kernel=True,
                    allow_neg_eigval=p["allow_neg_eigval"])
    for p in _named("B T H D scale gate_logit_normalizer dtype", (
            (1, 63, 1, 64, 1, 1, "f16"), (2, 500, 3, 60, 1, 1, "f16"), (3, 1024, 4, 128, 0.1, 1, "f16"),
            (4, 2048, 8, 64, 0.1, 1, "f16"))):
        tensors = inputs(p["B"], p["T"], p["H"], p["H"], p["D"], p["dtype"], qk=UNIT_OF_UNIFORM, state=NORMAL,
                         beta_dtype=p["dtype"])
        yield _case("test_chunk_state_v_first", CHUNK, p, tensors, same(1e-4, p["dtype"]) + rms(0.005, p["dtype"]),
                    scale=p["scale"], state_v_first=True)


def chunk_varlen():
    """Log decays and initial states are float16 here, as nowhere else."""
    for p in _named("H HV D mask_p cu_seqlens dtype", (
            (4, 4, 60, 0, (0, 15), "f16"), (4, 4, 64, 0, (0, 256, 500, 1000), "f16"),
            (4, 4, 64, 0.5, (0, 256, 500, 1000), "f16"), (4, 4, 100, 0, (0, 15, 100, 300, 1200, 2000), "f16"),
            (2, 4, 64, 0, (0, 256, 500, 1000), "f16"), (2, 8, 64, 0, (0, 256, 500, 1000), "f16"))):
        yield _varlen("test_chunk_varlen", p, p["HV"], "f32")
    for p in _named("H D mask_p cu_seqlens dtype", (
            (4, 60, 0, (0, 8192), "f16"), (4, 60, 0, (0, 15), "f16"), (4, 64, 0, (0, 256, 500, 1000), "f16"),
            (4, 64, 0.5, (0, 256, 500, 1000), "f16"), (4, 100, 0, (0, 15, 100, 300, 1200, 2000), "f16"))):
        yield _varlen("test_chunk_varlen_prefill", p, p["H"], "f16")


def _varlen(test, p, value_heads, beta_dtype):
    ends, dtype = p["cu_seqlens"], p["dtype"]
    tensors = {**inputs(1, ends[-1], p["H"], value_heads, p["D"], dtype, qk=NORMAL, k=UNIT, v=NORMAL, state=NORMAL,
                        g=log_sigmoid(masked=p["mask_p"]), sequences=len(ends) - 1, g_dtype=dtype,
                        beta_dtype=beta_dtype, state_dtype=dtype), **offsets_tensor(ends)}
    return _case(test, CHUNK, p, tensors, rms(0.005, dtype))


def chunk_in_kernel():
    """Gates as logits."""
    for p in _named("B T H D scale has_dt_bias use_qk_l2norm_in_kernel dtype", (
            (2, 75, 4, 64, 1, True, True, "f16"), (2, 500, 3, 60, 1, False, False, "f16"),
            (2, 1000, 3, 64, 0.1, True, False, "f16"), (3, 1024, 4, 100, 1, True, True, "f16"),
            (4, 1024, 4, 128, 0.1, False, True, "f16"), (4, 2048, 8, 64, 0.1, True, False, "f16"))):
        norm = p["use_qk_l2norm_in_kernel"]
        tensors = {**inputs(p["B"], p["T"], p["H"], p["H"], p["D"], p["dtype"],
                            qk=UNIFORM if norm else UNIT_OF_UNIFORM, g=NORMAL),
                   **logits(p["H"], p["has_dt_bias"], NORMAL)}
        yield _case("test_chunk_gate_in_kernel", CHUNK, p, tensors, rms(0.005, p["dtype"]), scale=p["scale"],
                    use_qk_l2norm_in_kernel=norm, use_gate_in_kernel=True)
    for p in _named("B T Hq H D scale has_dt_bias dtype", (
            (2, 256, 2, 4, 64, 1, True, "f16"), (2, 512, 1, 4, 64, 0.1, False, "f16"),
            (2, 512, 2, 8, 64, 1, True, "f16"), (2, 1024, 4, 8, 128, 0.1, True, "f16"))):
        tensors = {**inputs(p["B"], p["T"], p["Hq"], p["H"], p["D"], p["dtype"], g=NORMAL),
                   **logits(p["H"], p["has_dt_bias"], NORMAL)}
        yield _case("test_chunk_gate_in_kernel_gqa", CHUNK, p, tensors, rms(0.005, p["dtype"]), scale=p["scale"],
                    use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True)
    for p in _named("H D has_dt_bias cu_seqlens dtype", (
            (4, 60, True, (0, 15), "f16"), (4, 64, False, (0, 256, 500, 1000), "f16"),
            (4, 64, True, (0, 256, 500, 1000), "f16"), (4, 100, True, (0, 15, 100, 300, 1200, 2000), "f16"))):
        ends = p["cu_seqlens"]
        tensors = {**inputs(1, ends[-1], p["H"], p["H"], p["D"], p["dtype"], qk=NORMAL, v=NORMAL, g=NORMAL,
                            state=NORMAL, sequences=len(ends) - 1),
                   **logits(p["H"], p["has_dt_bias"], NORMAL), **offsets_tensor(ends)}
        yield _case("test_chunk_gate_in_kernel_varlen", CHUNK, p, tensors, rms(0.005, p["dtype"]),
                    use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True)


def gate():
    for p in _named("B T HV HAS_BIAS", ((1, 32, 2, False), (2, 64, 4, True), (4, 128, 8, True), (4, 128, 16, False))):
        tensors = {"g": TensorSpec((p["B"], p["T"], p["HV"]), "f32", NORMAL),
                   **logits(p["HV"], p["HAS_BIAS"], LOG_OF_1_TO_16)}
        yield Case(PEER, f"{SOURCE}::test_gate", "fused_gdn_gate", p, tensors, {},
                   (Compare("o", rms_ratio=1e-4),))


def other_backend():
    """The same function, dispatched to another package's kernels."""
    def tensors(batch, tokens, heads, value_heads, dim, dtype, sequences=None):
        return inputs(batch, tokens, heads, value_heads, dim, dtype, qk=NORMAL, v=NORMAL, beta=SIGMOID, state=NORMAL,
                      g=log_sigmoid(uniform=False), sequences=sequences)

    for test, rows in (("test_flash_qla_chunk", (
            (1, 1024, 4, 4, 128, "bf16"), (2, 2048, 8, 8, 128, "bf16"), (1, 4096, 16, 16, 128, "bf16"),
            (1, 1024, 4, 4, 128, "f16"), (2, 2048, 8, 8, 128, "f16"), (1, 1024, 2, 8, 128, "bf16"),
            (2, 2048, 4, 16, 128, "bf16"))), ("test_flash_qla_chunk_forward_only", (
                (1, 1024, 4, 4, 128, "bf16"), (2, 2048, 8, 8, 128, "bf16"), (1, 1024, 4, 4, 128, "f16"),
                (1, 1024, 2, 8, 128, "bf16")))):
        for p in _named("B T H HV D dtype", rows):
            yield _case(test, CHUNK, p, tensors(*p.values()), rms(0.008, p["dtype"]), scale=p["D"]**-0.5,
                        use_qk_l2norm_in_kernel=True)
    for p in _named("H D cu_seqlens", ((4, 128, (0, 256, 500, 1000)), (8, 128, (0, 100, 300, 1200, 2000)),
                                       (16, 128, (0, 101, 303, 1205, 3007, 4096)))):
        ends = p["cu_seqlens"]
        yield _case("test_flash_qla_chunk_varlen", CHUNK, p,
                    {**tensors(1, ends[-1], p["H"], p["H"], p["D"], "bf16", len(ends) - 1), **offsets_tensor(ends)},
                    rms(0.008, "bf16"), scale=p["D"]**-0.5, use_qk_l2norm_in_kernel=True)
    for p in _named("B T H D", ((1, 1024, 4, 128), (2, 2048, 8, 128))):
        yield _case("test_flash_qla_chunk_state_v_first", CHUNK, p,
                    tensors(p["B"], p["T"], p["H"], p["H"], p["D"], "bf16"), same(0.0, "bf16") + rms(0.008, "bf16"),
                    scale=p["D"]**-0.5, use_qk_l2norm_in_kernel=True, state_v_first=True)


def cases():
    for part in (recurrent, recurrent_in_kernel, chunk, chunk_varlen, chunk_in_kernel, gate, other_backend):
        yield from part()

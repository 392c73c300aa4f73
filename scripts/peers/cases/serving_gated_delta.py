"""vLLM's and SGLang's tests of the recurrence as they serve it: q, k and v as slices of the convolution's output, gates
and betas as logits, states [.., V, K] in a pool that is read and written through indices."""
import itertools

from .case import Case, Compare, Fill, NORMAL, SIGMOID, Storage, TensorSpec, UNIFORM, ZEROS, dice, exact, values

BOTH = (False, True)
VLLM_PACKED = "tests/kernels/test_fused_recurrent_packed_decode.py"
VLLM_INDICES = "tests/kernels/mamba/test_fused_sigmoid_gating_dual_index.py"
VLLM_QKV = "tests/kernels/mamba/test_fused_sigmoid_gating_packed.py"
SGLANG_CHUNK = "test/registered/attention/test_chunk_gated_delta_rule.py"
SGLANG_STRIDES = "test/registered/attention/test_gdn_noncontiguous_stride.py"
SIGMOID_GATING = "fused_sigmoid_gating_delta_rule_update"


def _close(output, absolute, relative, dtype, entries=None, dimension=0):
    return Compare(output, absolute, relative, dtype=dtype, entries=entries, dimension=dimension)


def _columns(width, start, dimension=1):
    """Entries from `start` of a last dimension that holds `width`."""
    return Storage(extents=((dimension, width),), starts=((dimension, start),))


def _indices(numbers, shape=None, storage=Storage()):
    numbers = tuple(numbers)
    return TensorSpec(shape or (len(numbers),), "int32", values(numbers), storage)


def packed_decode():
    """q, k and v in one row of an array, gates and betas out of another, weights in the tokens' dtype. The last three
    rows of the batch are padding, whose outputs are not looked at; their rows of the pool do not change."""
    batch, heads, value_heads, size = 32, 4, 8, 128
    width = 2 * heads * size + value_heads * size
    for gates, qkv, dtype in itertools.product(BOTH, BOTH, ("f16", "bf16", "f32")):
        absolute, relative = (1e-4, 1e-4) if dtype == "f32" else (2e-2, 1e-2)
        one = {"a": Storage(), "b": Storage()}
        if gates:
            one = {"a": _columns(4 * value_heads, 2 * value_heads), "b": _columns(4 * value_heads, 0)}
        tensors = {"mixed_qkv": TensorSpec((batch, width), dtype, NORMAL,
                                           _columns(width + 64, 0) if qkv else Storage()),
                   **{name: TensorSpec((batch, value_heads), dtype, NORMAL, one[name]) for name in one},
                   "A_log": TensorSpec((value_heads,), dtype, NORMAL),
                   "dt_bias": TensorSpec((value_heads,), dtype, NORMAL),
                   "initial_state": TensorSpec((batch + 1, value_heads, size, size), dtype, NORMAL),
                   "ssm_state_indices": _indices([*range(1, batch - 2), -1, -1, -1])}
        yield Case("vllm", f"{VLLM_PACKED}::test_fused_recurrent_packed_decode_matches_reference",
                   "fused_recurrent_gated_delta_rule_packed_decode",
                   dict(dtype=dtype, strided_mixed_qkv=qkv, strided_gates=gates), tensors,
                   dict(scale=size**-0.5, use_qk_l2norm_in_kernel=True, num_qk_heads=heads, num_v_heads=value_heads),
                   (_close("out", absolute, relative, dtype, range(batch - 3)),
                    _close("initial_state", absolute, relative, dtype)))


def _sliced(sequences, tokens, heads, value_heads, size, dtype, state_dtype, rows):
    """q, k and v are views [1, T, H, D] of the columns of one array [T, all of them]."""
    count, width = sequences * tokens, 2 * heads + value_heads

    def view(number, start):
        # In the unit of heads: each token's row of the array holds `width` of them.
        return TensorSpec((1, count, number, size), dtype, UNIFORM, _columns(width, start, 2))
    return {"q": view(heads, 0), "k": view(heads, heads), "v": view(value_heads, 2 * heads),
            "a": TensorSpec((count, value_heads), dtype, UNIFORM),
            "b": TensorSpec((count, value_heads), dtype, UNIFORM),
            "A_log": TensorSpec((value_heads,), dtype, UNIFORM), "dt_bias": TensorSpec((value_heads,), dtype, UNIFORM),
            "initial_state": TensorSpec((rows, value_heads, size, size), state_dtype, UNIFORM),
            "cu_seqlens": _indices(range(0, count + 1, tokens))}


def _gating(source, test, parameters, tensors, written, dtype, state_dtype, bound):
    rows = tensors["initial_state"].shape[0]
    untouched = tuple(row for row in range(rows) if row not in written)
    own = () if bound else (exact("out", dtype, itself=True), exact("initial_state", state_dtype, itself=True))
    return Case("vllm", f"{source}::{test}", SIGMOID_GATING, parameters, tensors,
                dict(inplace_final_state=True, use_qk_l2norm_in_kernel=True), own + (
                    _close("out", 1e-2, 1e-2, dtype), _close("initial_state", 1e-2, 1e-2, state_dtype, tuple(written)),
                    exact("initial_state", state_dtype, untouched)))


def separate_indices():
    """Rows that are read and rows that are written. With indices for each token a sequence begins in the row of its
    last accepted token, and leaves a state for every token."""
    for dtype, requests in itertools.product(("f32", "bf16"), (1, 2, 4)):
        rows = dice("dual", dtype, requests).sample(range(1, 4 * requests), 2 * requests)
        tensors = {**_sliced(requests, 1, 16, 32, 128, dtype, dtype, 4 * requests),
                   "ssm_state_indices": _indices(rows[:requests]),
                   "ssm_state_indices_output": _indices(rows[requests:])}
        yield _gating(VLLM_INDICES, "test_dual_index_read_write_isolation", dict(num_reqs=requests, dtype=dtype),
                      tensors, rows[requests:], dtype, dtype, True)
    for dtype in ("f32", "bf16"):
        rows = dice("in place", dtype).sample(range(1, 8), 2)
        tensors = {**_sliced(2, 1, 16, 32, 128, dtype, dtype, 8), "ssm_state_indices": _indices(rows)}
        yield _gating(VLLM_INDICES, "test_dual_index_none_is_inplace", dict(dtype=dtype), tensors, rows, dtype, dtype,
                      False)
    for test, drafts, dtype, order in (("test_dual_index_spec_2d", 1, "f32", ()),
                                       ("test_dual_index_spec_2d", 3, "f32", ()),
                                       ("test_dual_index_spec_2d", 1, "bf16", ()),
                                       ("test_dual_index_spec_2d", 3, "bf16", ()),
                                       ("test_dual_index_noncontiguous_2d", 3, "f32", (1, 0))):
        tokens, shape, storage = drafts + 1, (2, drafts + 1), Storage(order=order)
        rng = dice(test, drafts, dtype)
        rows = rng.sample(range(1, 8 * tokens), 4 * tokens)
        tensors = {**_sliced(2, tokens, 16, 32, 128, dtype, dtype, 8 * tokens),
                   "ssm_state_indices": _indices(rows[:2 * tokens], shape, storage),
                   "ssm_state_indices_output": _indices(rows[2 * tokens:], shape, storage),
                   "num_accepted_tokens": _indices(rng.randrange(1, tokens + 1) for _ in range(2))}
        yield _gating(VLLM_INDICES, test, dict(num_speculative_tokens=drafts, dtype=dtype), tensors,
                      rows[2 * tokens:], dtype, dtype, not order)
    for test, requests, tokens, accepted, apart in (
            ("test_packed_matches_tensor_decode", 4, 1, None, False),
            ("test_packed_table_matrix", 2, 3, (2, 1), True),
            ("test_packed_pointer_advance_multi_token", 3, 4, (3, 1, 4), False)):
        rows = dice(test).sample(range(1, 4 * requests * tokens), 2 * requests * tokens)
        reads, writes = rows[:requests * tokens], rows[requests * tokens:]
        shape = (requests, tokens) if accepted else (requests,)
        tensors = {**_sliced(requests, tokens, 4, 8, 128, "bf16", "f32", 4 * requests * tokens),
                   "ssm_state_indices": _indices(reads, shape)}
        if accepted:
            tensors["num_accepted_tokens"] = _indices(accepted)
        if apart:
            tensors["ssm_state_indices_output"] = _indices(writes, shape)
        yield _gating(VLLM_QKV, test, {}, tensors, writes if apart else reads, "bf16", "f32", False)


# B, T_per_seq, H, K, V, pool_size; indices in order where the pool has B rows.
CHUNKS = {
    "production_nt1": (4, 64, 16, 128, 128, 32), "production_nt2": (4, 128, 16, 128, 128, 32),
    "production_nt4": (4, 256, 16, 128, 128, 32), "batch_1": (1, 128, 16, 128, 128, 32),
    "batch_2": (2, 128, 16, 128, 128, 32), "batch_8": (8, 128, 16, 128, 128, 64),
    "batch_16": (16, 64, 16, 128, 128, 128), "batch_32": (32, 32, 16, 128, 128, 256),
    "heads_4": (4, 128, 4, 128, 128, 32), "heads_8": (4, 128, 8, 128, 128, 32),
    "heads_32": (4, 128, 32, 128, 128, 32), "heads_64": (4, 128, 64, 128, 128, 32),
    "dim_64x64": (4, 128, 16, 64, 64, 32), "dim_k_lt_v": (4, 128, 16, 64, 128, 32),
    "dim_k_gt_v": (4, 128, 16, 128, 64, 32), "dim_256x256": (4, 128, 16, 256, 256, 32),
    "seqlen_1": (4, 1, 16, 128, 128, 32), "seqlen_7": (4, 7, 16, 128, 128, 32),
    "seqlen_16": (4, 16, 16, 128, 128, 32), "seqlen_32": (4, 32, 16, 128, 128, 32),
    "multi_chunk_nt8": (4, 512, 16, 128, 128, 32), "large_pool": (4, 128, 16, 128, 128, 512),
    "long_prompt_1024": (1, 1024, 16, 128, 128, 32), "long_prompt_1536": (1, 1536, 16, 128, 128, 32),
    "long_prompt_2048": (1, 2048, 16, 128, 128, 32), "long_prompt_2x1024": (2, 1024, 16, 128, 128, 32),
    "stress": (32, 128, 32, 128, 128, 256), "seq_idx_b4": (4, 128, 16, 128, 128, 4),
    "seq_idx_b8": (8, 128, 16, 128, 128, 8), "seq_idx_h32": (4, 128, 32, 128, 128, 4),
    "seq_idx_h64": (4, 128, 64, 128, 128, 4), "seq_idx_stress": (32, 128, 32, 128, 128, 32),
    "padded_mixed": (4, 64, 4, 128, 128, 8), "padded_all": (4, 64, 4, 128, 128, 8),
}
PADDED = {"padded_mixed": (0, -1, 2, -1), "padded_all": (-1,) * 4}


def chunk():
    """Decays and betas are bfloat16. Of padding only the pool is looked at."""
    for name, (batch, tokens, heads, keys, vals, rows) in CHUNKS.items():
        slots = PADDED.get(name, tuple(range(batch)) if rows == batch else
                           tuple(dice("sglang chunk", name).sample(range(rows), batch)))
        count = batch * tokens
        tensors = {"q": TensorSpec((1, count, heads, keys), "bf16", NORMAL),
                   "k": TensorSpec((1, count, heads, keys), "bf16", NORMAL),
                   "v": TensorSpec((1, count, heads, vals), "bf16", NORMAL),
                   "g": TensorSpec((1, count, heads), "bf16", Fill("log_sigmoid")),
                   "beta": TensorSpec((1, count, heads), "bf16", SIGMOID),
                   "initial_state": TensorSpec((rows, heads, vals, keys), "f32", Fill(scale=0.1)),
                   "initial_state_indices": _indices(slots),
                   "cu_seqlens": TensorSpec((batch + 1,), "int64", values(range(0, count + 1, tokens)))}
        used = tuple(slot for slot in slots if slot >= 0)
        seen = tuple(n * tokens + t for n, slot in enumerate(slots) if slot >= 0 for t in range(tokens))
        compares = (exact("initial_state", "f32", tuple(row for row in range(rows) if row not in used)),)
        if used:
            compares += (_close("o", 2e-2, 1e-2, "bf16", seen, 1), _close("initial_state", 2e-2, 1e-2, "f32", used))
        yield Case("sglang", f"{SGLANG_CHUNK}::test_{name}", "chunk_gated_delta_rule",
                   dict(B=batch, T_per_seq=tokens, H=heads, K=keys, V=vals, pool_size=rows), tensors,
                   dict(head_first=False, use_qk_l2norm_in_kernel=True), compares)


def strides():
    """Gates and betas are the two halves of one array."""
    for test, batch, heads in (("small", 4, 8), ("qwen35_27b_tp1", 16, 48), ("qwen35_27b_tp2", 32, 24),
                               ("single_batch", 1, 48)):
        tensors = {"A_log": TensorSpec((heads,), "f32", NORMAL), "dt_bias": TensorSpec((heads,), "bf16", NORMAL),
                   "a": TensorSpec((batch, heads), "bf16", NORMAL, _columns(2 * heads, heads)),
                   "b": TensorSpec((batch, heads), "bf16", NORMAL, _columns(2 * heads, 0))}
        yield Case("sglang", f"{SGLANG_STRIDES}::TestFusedGdnGatingNonContiguous.test_{test}", "fused_gdn_gating",
                   dict(batch=batch, num_heads=heads), tensors, {},
                   (exact("g", "f32", itself=True), exact("beta", "f32", itself=True),
                    _close("g", 1e-3, 1e-2, "f32"), _close("beta", 1e-3, 1e-2, "f32")))
    for test, batch, tokens, heads, keys, vals in (("decode_single_token", 4, 1, 8, 64, 32),
                                                   ("qwen35_decode", 8, 1, 48, 128, 128),
                                                   ("multi_token", 4, 4, 8, 64, 32)):
        count = batch * tokens
        tensors = {"q": TensorSpec((batch, tokens, heads, keys), "bf16", NORMAL),
                   "k": TensorSpec((batch, tokens, heads, keys), "bf16", NORMAL),
                   "v": TensorSpec((batch, tokens, heads, vals), "bf16", NORMAL),
                   "a": TensorSpec((count, heads), "bf16", NORMAL, _columns(2 * heads, heads)),
                   "b": TensorSpec((count, heads), "bf16", NORMAL, _columns(2 * heads, 0)),
                   "A_log": TensorSpec((heads,), "f32", NORMAL), "dt_bias": TensorSpec((heads,), "bf16", NORMAL),
                   "initial_state_source": TensorSpec((batch + 4, heads, keys, vals), "f32", ZEROS),
                   "initial_state_indices": _indices(range(batch)),
                   "cu_seqlens": _indices(range(0, count + 1, tokens))}
        yield Case("sglang",
                   f"{SGLANG_STRIDES}::TestFusedSigmoidGatingDeltaRuleUpdateNonContiguous.test_{test}",
                   SIGMOID_GATING, dict(batch=batch, T=tokens, num_v_heads=heads, head_k_dim=keys, head_v_dim=vals),
                   tensors, dict(softplus_beta=1.0, softplus_threshold=20.0, is_kda=False),
                   (exact("out", "bf16", itself=True), exact("initial_state_source", "f32", itself=True),
                    Compare("out", rms_ratio=1e-2, dtype="bf16"), Compare("initial_state_source", rms_ratio=1e-2)))


def cases():
    for part in (packed_decode, separate_indices, chunk, strides):
        yield from part()

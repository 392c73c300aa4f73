"""FlashInfer's tests of decoding: one token, or a few of them (MTP), for each row of a batch; gates and betas as
logits; states [.., V, K] but in gated_delta_rule_decode, whose own are [.., K, V]."""
import itertools

from .case import Case, Compare, Fill, NORMAL, Storage, TensorSpec, UNIT, dice, exact, values

PEER = "flashinfer"
DECODE = "tests/gdn/test_decode_delta_rule.py"
PADDED = "tests/gdn/test_decode_pretranspose_bf16_padded_pool.py"
GAPS = "tests/gdn/test_decode_pretranspose_noncontiguous_pool.py"
PRETRANSPOSE, NONTRANSPOSE, MTP = ("gated_delta_rule_decode_pretranspose", "gated_delta_rule_decode",
                                   "gated_delta_rule_mtp")
BF16_ONE, BF16_MTP = "gdn_decode_bf16_state.gated_delta_rule", "gdn_decode_bf16_state.gated_delta_rule_mtp"
BOTH = (False, True)
SIZE, HEADS, VALUES = 128, 16, 32
TENTH, HUNDREDTH, TWENTIETH = Fill(scale=0.1), Fill(scale=0.01), Fill(scale=0.05)


def _inputs(batch, tokens, *, value_heads=VALUES, q=NORMAL, k=UNIT, v=NORMAL, a=TENTH, b=NORMAL, dt_bias="f32"):
    def tensor(*shape, fill):
        return TensorSpec((batch, tokens, *shape), "bf16", fill)
    return {"q": tensor(HEADS, SIZE, fill=q), "k": tensor(HEADS, SIZE, fill=k), "v": tensor(value_heads, SIZE, fill=v),
            "a": tensor(value_heads, fill=a), "b": tensor(value_heads, fill=b),
            "A_log": TensorSpec((value_heads,), "f32", TENTH),
            "dt_bias": TensorSpec((value_heads,), dt_bias, TENTH)}


def _states(rows, dtype, fill=NORMAL, value_heads=VALUES, storage=Storage()):
    return TensorSpec((rows, value_heads, SIZE, SIZE), dtype, fill, storage)


def _indices(numbers):
    numbers = tuple(numbers)
    return TensorSpec((len(numbers),), "int32", values(numbers))


def _close(output, bound, dtype="bf16", entries=None, itself=False):
    absolute, relative = bound if isinstance(bound, tuple) else (bound, bound)
    return Compare(output, absolute, relative, dtype=dtype, entries=entries, itself=itself)


REFERENCE = (0.016, 5e-3)        # against the tests' own reference, with a float32 state
REFERENCE_BF16 = (0.001, 0.005)  # the same with a bfloat16 state


def _bound(dtype):
    return REFERENCE if dtype == "f32" else REFERENCE_BF16


def _case(test, function, parameters, tensors, compares, scale, source=DECODE, **options):
    return Case(PEER, f"{source}::{test}", function, parameters, tensors, {"scale": scale, **options}, compares)


def direct():
    """A state for each row of the batch."""
    for test, function, batches in (("test_decode_kernel_basic_pretranspose", PRETRANSPOSE, (1, 32, 512)),
                                    ("test_decode_kernel_basic_nontranspose", NONTRANSPOSE, (1, 16, 32, 512))):
        for batch in batches:
            yield _case(test, function, dict(batch_size=batch), {**_inputs(batch, 1), "state": _states(batch, "f32")},
                        (_close("output", REFERENCE), _close("state", REFERENCE, "f32")), 1.0, use_qk_l2norm=True)
    for batch, tokens in itertools.product((1, 2, 4), (1, 2, 3, 4)):
        yield _case("test_pretranspose_api_uses_gdn_decode_bf16_state", PRETRANSPOSE,
                    dict(batch_size=batch, seq_len=tokens),
                    {**_inputs(batch, tokens, k=NORMAL), "state": _states(batch, "bf16")},
                    (_close("output", 1e-2), _close("state", (0.016, 1e-2), "bf16")), SIZE**-0.5, use_qk_l2norm=True)


def _pool_case(test, parameters, tensors, slots, rows, dtype, own, reference, scale, source=DECODE, skip=(), **more):
    used = tuple(slot for slot in slots if slot >= 0)
    written = tuple(more.pop("written", used))
    untouched = tuple(row for row in range(rows) if row not in written and row not in skip)
    valid = tuple(n for n, slot in enumerate(slots) if slot >= 0)
    looked_at = more.pop("looked_at", None)
    state = (0.016, 5e-3) if dtype == "f32" else (0.02, 0.01)
    compares = tuple(_close(name, own, kind, entries, True) for name, kind, entries in (
        ("output", "bf16", valid), ("initial_state", dtype, written)) if own is not None and entries)
    compares += (_close("output", reference, entries=looked_at),)
    compares += (_close("initial_state", state, dtype, written),) if written else ()
    compares += (exact("initial_state", dtype, untouched),) if untouched else ()
    return _case(test, more.pop("function", PRETRANSPOSE), parameters,
                 {**tensors, "initial_state_indices": _indices(slots)}, compares, scale, source, use_qk_l2norm=True,
                 **more)


def pools():
    """States in a pool, read and written through indices. A negative index is padding, whose outputs are zeros."""
    for batch, dtype in itertools.product((1, 4, 16, 32), ("bf16", "f32")):
        yield _pool_case("test_decode_kernel_pretranspose_pool", dict(batch_size=batch, state_dtype=dtype),
                         {**_inputs(batch, 1), "initial_state": _states(3 * batch, dtype)},
                         [3 * n for n in range(batch)], 3 * batch, dtype, 5e-3, _bound(dtype), 1.0)
    for batch in (1, 4, 8, 32, 127):
        rng = dice("negative", batch)
        padding = [rng.random() < 0.2 for _ in range(batch)]
        if batch >= 2:
            padding[0], padding[-1] = False, True
        rows = rng.sample(range(2 * batch), batch)
        yield _pool_case("test_decode_kernel_pretranspose_pool_negative_indices", dict(batch_size=batch),
                         {**_inputs(batch, 1), "initial_state": _states(2 * batch, "f32")},
                         [-1 if pad else row for pad, row in zip(padding, rows)], 2 * batch, "f32", None, (1e-2, 1e-2),
                         1.0)
    for batch in (1, 4, 16, 32):
        yield _pool_case("test_decode_kernel_pretranspose_pool_all_padding", dict(batch_size=batch),
                         {**_inputs(batch, 1), "initial_state": _states(2 * batch, "f32")}, [-1] * batch, 2 * batch,
                         "f32", None, (0.0, 0.0), 1.0)
    for batch in (1, 4, 16, 32):
        # Padding may write to row 0, and its outputs are not looked at.
        rng = dice("bf16 padding", batch)
        padding = [rng.random() < 0.5 for _ in range(batch)]
        padding[0] = False
        if batch >= 2:
            padding[-1] = True
        slots = [-1 if pad else n + 1 for n, pad in enumerate(padding)]
        yield _pool_case("test_decode_kernel_bf16_padding_indices", dict(batch_size=batch),
                         {**_inputs(batch, 1), "initial_state": _states(2 * batch + 1, "bf16")}, slots, 2 * batch + 1,
                         "bf16", 5e-3, REFERENCE_BF16, 1.0, skip=(0,),
                         looked_at=tuple(n for n, slot in enumerate(slots) if slot >= 0))
    for batch, dtype, same in itertools.product((1, 4, 16), ("bf16", "f32"), BOTH):
        writes = list(range(batch)) if same else list(range(batch, 2 * batch))
        yield _pool_case("test_output_state_indices_same_as_input" if same else "test_output_state_indices",
                         dict(batch_size=batch, state_dtype=dtype),
                         {**_inputs(batch, 1), "initial_state": _states(4 * batch, dtype),
                          "output_state_indices": _indices(writes)}, list(range(batch)), 4 * batch, dtype, 1e-3,
                         _bound(dtype), 1.0, written=writes)


def pools_with_gaps():
    """Rows of a pool that share their memory with something else: an extra head's worth, or other pages."""
    for batch, layout in itertools.product((1, 4, 16, 32), ("tight", "padded")):
        rows = max(8, 2 * batch)
        storage = Storage(extents=((1, VALUES + 1),)) if layout == "padded" else Storage()
        yield _pool_case("test_decode_bf16_pool_strided", dict(B=batch, pool_layout=layout),
                         {**_inputs(batch, 1, q=TWENTIETH, v=TWENTIETH, a=TWENTIETH, b=TWENTIETH, dt_bias="bf16"),
                          "initial_state": _states(rows, "bf16", TENTH, storage=storage)},
                         [(2 * n + 1) % rows for n in range(batch)], rows, "bf16", 5e-3, REFERENCE_BF16, SIZE**-0.5,
                         PADDED)
    for gap in (2, 3):
        storage = Storage(extents=((1, gap * VALUES),), starts=((1, (gap - 1) * VALUES),))
        yield _pool_case("test_decode_pretranspose_pool_noncontiguous_state", dict(page_gap=gap),
                         {**_inputs(8, 1), "initial_state": _states(24, "f32", storage=storage)},
                         [2 * n for n in range(8)], 24, "f32", 5e-3, REFERENCE, 1.0, GAPS)


def several_tokens():
    """States after each token are stored beside the outputs where `cache_intermediate_states` says so."""
    small = dict(q=TENTH, k=TENTH, v=TENTH, b=TENTH)
    verify = [(tokens, batch, cached, True, 1.0)
              for batch, tokens, cached in itertools.product((1, 4, 8, 16), (2, 4, 8), BOTH)]
    update = [(tokens, batch, True, False, SIZE**-0.5)
              for batch, tokens in itertools.product((1, 4, 8, 16, 64), (2, 4, 8))]
    for test, rows in (("test_verify_kernel_mtp", verify),
                       ("test_mtp_fp32_state_with_cache_and_state_update", update)):
        for tokens, batch, cached, kept, scale in rows:
            compares = (_close("output", 1e-2),)
            compares += (_close("intermediate_states_buffer", 1e-2, "f32"),) if cached else ()
            compares += () if kept else (_close("initial_state", 1e-2, "f32"),)
            yield _case(test, MTP, dict(batch_size=batch, seq_len=tokens, cache_intermediate_states=cached),
                        {**_inputs(batch, tokens, **small), "initial_state": _states(batch, "f32", HUNDREDTH),
                         "initial_state_indices": _indices(range(batch))}, compares, scale,
                        cache_intermediate_states=cached, disable_state_update=kept, use_qk_l2norm=True)
    for batch, tokens, apart, cached in itertools.product((1, 4, 16), (2, 4), BOTH, BOTH):
        reads = [3 * n for n in range(batch)]
        writes = [row + 1 for row in reads] if apart else reads
        tensors = {**_inputs(batch, tokens, q=TENTH, v=TENTH), "initial_state": _states(3 * batch, "f32", HUNDREDTH)}
        if apart:
            tensors["output_state_indices"] = _indices(writes)
        yield _pool_case("test_mtp_fp32_state_pool", dict(batch_size=batch, seq_len=tokens,
                                                          use_separate_output_indices=apart,
                                                          cache_intermediate_states=cached), tensors, reads, 3 * batch,
                         "f32", 1e-3, (1e-2, 1e-2), SIZE**-0.5, function=MTP, written=writes,
                         cache_intermediate_states=cached, disable_state_update=False)
    for batch, tokens, step in itertools.product((1, 4), (2, 4), (2, 3)):
        storage = Storage(extents=((1, step * VALUES),), steps=((1, step),))
        yield _pool_case("test_mtp_fp32_state_pool_non_contiguous", dict(batch_size=batch, seq_len=tokens,
                                                                         stride_multiplier=step),
                         {**_inputs(batch, tokens, q=TENTH, v=TENTH),
                          "initial_state": _states(batch, "f32", HUNDREDTH, storage=storage)}, list(range(batch)),
                         batch, "f32", 1e-3, (1e-2, 1e-2), SIZE**-0.5, function=MTP, disable_state_update=False)


def bfloat16_states():
    """The kernels of bfloat16 states by themselves. They round the state after every token."""
    def tensors(batch, tokens, value_heads=VALUES):
        return {**_inputs(batch, tokens, value_heads=value_heads, k=NORMAL),
                "initial_state_source": _states(batch, "bf16", value_heads=value_heads),
                "initial_state_indices": _indices(range(batch))}

    for batch, tokens in itertools.product((1, 2, 4, 8, 16, 32, 64, 128), (1, 2, 3, 4)):
        yield _case("test_gdn_decode_bf16_state_kernel", BF16_ONE if tokens == 1 else BF16_MTP,
                    dict(batch_size=batch, seq_len=tokens), tensors(batch, tokens),
                    (_close("output", REFERENCE_BF16), _close("initial_state_source", (0.016, 0.005))), SIZE**-0.5,
                    use_qk_l2norm_in_kernel=True)
    for batch, value_heads in itertools.product((1, 4, 8, 16, 32), (32, 64)):
        yield _case("test_gdn_decode_bf16_state_t1_kernel", BF16_ONE, dict(batch_size=batch, num_v_heads=value_heads),
                    tensors(batch, 1, value_heads),
                    (_close("output", REFERENCE_BF16), _close("initial_state_source", (0.02, 0.01))), SIZE**-0.5,
                    use_qk_l2norm_in_kernel=True)
    for batch, tokens, cached in itertools.product((1, 2, 4, 8, 16), (2, 4, 8), BOTH):
        yield _case("test_gdn_decode_bf16_state_mtp_kernel", BF16_MTP,
                    dict(batch_size=batch, seq_len=tokens, cache_intermediate_states=cached), tensors(batch, tokens),
                    (_close("output", REFERENCE_BF16), exact("initial_state_source", "bf16")) + (
                        (_close("intermediate_states_buffer", (0.02, 0.01)),) if cached else ()), SIZE**-0.5,
                    cache_intermediate_states=cached, disable_state_update=True, use_qk_l2norm_in_kernel=True)


def packed():
    """q, k and v are heads of one array [B, T, heads of all three, D]."""
    together = 2 * HEADS + VALUES

    def inputs(batch, tokens):
        tensors = _inputs(batch, tokens, k=NORMAL)
        for name, start in (("q", 0), ("k", HEADS), ("v", 2 * HEADS)):
            tensors[name] = TensorSpec(tensors[name].shape, "bf16", NORMAL,
                                       Storage(extents=((2, together),), starts=((2, start),)))
        return tensors

    for batch in (2, 8, 64):
        for test, function, dtype in (("test_decode_pretranspose_packed_qkv", PRETRANSPOSE, "bf16"),
                                      ("test_decode_pretranspose_packed_qkv", PRETRANSPOSE, "f32"),
                                      ("test_decode_nontranspose_packed_qkv", NONTRANSPOSE, "f32")):
            yield _case(test, function, dict(batch_size=batch, state_dtype=dtype),
                        {**inputs(batch, 1), "state": _states(batch, dtype)},
                        (exact("output", "bf16", itself=True), exact("state", dtype, itself=True),
                         _close("output", _bound(dtype)), _close("state", (0.02, 0.01), dtype)), SIZE**-0.5,
                        use_qk_l2norm=True)
        for tokens in (2, 4):
            yield _case("test_mtp_packed_qkv", MTP, dict(batch_size=batch, seq_len=tokens),
                        {**inputs(batch, tokens), "initial_state": _states(batch, "f32"),
                         "initial_state_indices": _indices(range(batch))},
                        (exact("output", "bf16", itself=True), _close("output", REFERENCE)), SIZE**-0.5,
                        disable_state_update=True, use_qk_l2norm=True)


def cases():
    for part in (direct, pools, pools_with_gaps, several_tokens, bfloat16_states, packed):
        yield from part()

"""FlashInfer's tests of chunk_gated_delta_rule: sequences one behind the other, decays as factors of 0..1, states
[.., V, K]."""
import itertools

from .case import Case, Compare, Fill, NORMAL, Storage, TensorSpec, UNIFORM, UNIT, exact, offsets, values

PEER = "flashinfer"
FUNCTION = "chunk_gated_delta_rule"
PREFILL, INDICES = "tests/gdn/test_prefill_delta_rule.py", "tests/gdn/test_prefill_state_indices.py"
BOTH = (False, True)
DTYPES = ("f16", "bf16")
SIZE = 128
# Around zero, within a quarter; the tests move each vector by a further N(0, 0.05).
NARROW = Fill(low=-0.25, high=0.25)
HEADS = ((1, 1, 1), (4, 1, 1), (3, 3, 3), (6, 2, 2), (1, 1, 2), (2, 2, 4), (16, 16, 32), (16, 16, 64))
# Neither decays nor betas makes numbers explode, and the tests leave that out.
GATES = ((True, True), (True, False), (False, True))


def _close(output, dtype, entries=None):
    bounds = {"output": {"bf16": (1e-2, 1e-2), "f16": (2e-3, 1e-3)},
              "state": {"bf16": (5e-3, 1e-3), "f16": (1e-3, 1e-4)}}["output" if output == "output" else "state"][dtype]
    return Compare(output, *bounds, dtype=dtype if output == "output" else "f32", entries=entries)


def _both(dtype):
    return (_close("output", dtype), _close("output_state", dtype))


def _tensors(lengths, heads, dtype, alpha=UNIFORM, beta=UNIFORM, index_dtype="int64"):
    tokens, ends = sum(lengths), offsets(lengths)
    queries, keys, vals = heads
    states = max(queries, vals)
    tensors = {"q": TensorSpec((tokens, queries, SIZE), dtype, NARROW),
               "k": TensorSpec((tokens, keys, SIZE), dtype, Fill("unit", low=-0.25, high=0.25)),
               "v": TensorSpec((tokens, vals, SIZE), dtype, NARROW),
               "cu_seqlens": TensorSpec((len(ends),), index_dtype, values(ends))}
    for name, fill in (("g", alpha), ("beta", beta)):
        if fill is not None:
            tensors[name] = TensorSpec((tokens, states), "f32", fill)
    return tensors


def _states(rows, heads, dtype, scale, storage=Storage()):
    return TensorSpec((rows, max(heads[0], heads[2]), SIZE, SIZE), dtype, Fill(scale=scale), storage)


def _case(test, parameters, tensors, compares, scale, source=PREFILL, **options):
    return Case(PEER, f"{source}::{test}", FUNCTION, parameters, tensors,
                {"scale": scale, "output_final_state": True, "use_qk_l2norm_in_kernel": True, **options}, compares)


def _scale(scale):
    return SIZE**-0.5 if scale == "auto" else scale


def kernels():
    full = ((64,), (128,), (256,), (256, 256), (64, 128, 512))
    ragged = ((31,), (61,), (91,), (121,), (251,), (511, 501), (31, 63, 93, 123, 150, 500))
    for test, lists, block in (("test_prefill_kernel_basic", full, 64), ("test_prefill_kernel_nonfull", ragged, 32)):
        for dtype, lengths, heads, use_cp, scale, (alpha, beta) in itertools.product(DTYPES, lists, HEADS, BOTH,
                                                                                    (1.0, "auto"), GATES):
            yield _case(test, dict(dtype=dtype, block_size=block, seq_lens=lengths, heads=heads, use_cp=use_cp,
                                   scale=scale, alpha=alpha, beta=beta),
                        _tensors(lengths, heads, dtype, UNIFORM if alpha else None, UNIFORM if beta else None),
                        _both(dtype), _scale(scale), use_cp=use_cp)
    near_one = Fill(low=0.99, high=1.0)
    yield _case("test_prefill_block_end_decay", {}, _tensors((64, 111, 192), (1, 1, 1), "f16", near_one, near_one),
                _both("f16"), 1.0, use_cp=False)


def empty_sequences():
    """A sequence of no tokens changes nothing of the others' outputs, and its row of the states stays as it was."""
    for dtype, length, heads, use_cp in itertools.product(DTYPES, (256, 255), ((1, 1, 1), (16, 16, 64)), BOTH):
        parameters = dict(dtype=dtype, seq_len=length, heads=heads, use_cp=use_cp)
        yield _case("test_prefill_kernel_zero_length_sequence", parameters, _tensors((length, 0), heads, dtype),
                    (Compare("output", 2e-2, 2e-2, itself=True), _close("output", dtype)), 0.1,
                    output_final_state=False, use_cp=use_cp)
    for dtype, use_cp in itertools.product(DTYPES, BOTH):
        tensors = _tensors((256, 0), (1, 1, 1), dtype)
        tensors["output_state"] = TensorSpec((2, 1, SIZE, SIZE), "f32", Fill("constant", scale=123.0))
        yield _case("test_prefill_zero_length_sequence_state_untouched", dict(dtype=dtype, use_cp=use_cp), tensors,
                    (exact("output_state", "f32", (1,)),), 0.1, use_cp=use_cp)


def in_two_calls():
    firsts = ((61,), (128,), (511, 501), (256, 256), (123, 150, 500), (64, 128, 512))
    seconds = ((128,), (61,), (256, 256), (511, 501), (64, 128, 512), (123, 150, 500))
    heads_of = ((6, 2, 2), (2, 2, 4), (16, 16, 32), (16, 16, 64))
    for dtype, lengths, heads, scale, (alpha, beta) in itertools.product(DTYPES, tuple(zip(firsts, seconds)), heads_of,
                                                                         (1.0, "auto"), GATES):
        for call in (1, 2):
            tensors = _tensors(lengths[call - 1], heads, dtype, UNIFORM if alpha else None, UNIFORM if beta else None)
            if call == 2:
                tensors["initial_state"] = _states(len(lengths[1]), heads, "f32", 0.1)
            yield _case("test_chunked_prefill", dict(dtype=dtype, seq_lens=lengths, heads=heads, scale=scale,
                                                     alpha=alpha, beta=beta, call=call), tensors, _both(dtype),
                        _scale(scale), use_cp=False)


def checkpoints():
    """States after every so many tokens, of all sequences one behind the other."""
    for use_cp, dtype, lengths, heads, every in itertools.product(BOTH, DTYPES, ((256,), (128, 256, 512)),
                                                                  ((4, 1, 1), (2, 2, 4)), (64, 128)):
        tensors = _tensors(lengths, heads, dtype)
        starts = offsets([length // every for length in lengths])
        tensors["checkpoint_cu_starts"] = TensorSpec((len(starts),), "int64", values(starts))
        tensors["state_checkpoints"] = TensorSpec((starts[-1], max(heads), SIZE, SIZE), "f32",
                                                  Fill("constant", scale=123.0))
        yield _case("test_checkpoint_correctness", dict(dtype=dtype, seq_lens=lengths, heads=heads, use_cp=use_cp,
                                                        checkpoint_every_n_tokens=every), tensors,
                    (exact("state_checkpoints", "f32", itself=True), _close("state_checkpoints", dtype)),
                    SIZE**-0.5, checkpoint_every_n_tokens=every, use_cp=use_cp)
    yield _case("test_checkpoint_noop", {}, _tensors((256,), (4, 1, 1), "f16"), _both("f16"), SIZE**-0.5,
                checkpoint_every_n_tokens=0, use_cp=False)


def state_dtypes():
    for use_cp, state, lengths, heads in itertools.product(
            BOTH, ("bf16", "f16", "f8_e4m3", "f8_e5m2"), ((64,), (256,), (256, 256), (64, 128, 512)),
            ((1, 1, 1), (6, 2, 2), (16, 16, 32))):
        tensors = _tensors(lengths, heads, "bf16")
        tensors["initial_state"] = _states(len(lengths), heads, state, 0.01)
        yield _case("test_prefill_kernel_state_dtype", dict(dtype="bf16", seq_lens=lengths, heads=heads,
                                                            state_dtype=state, use_cp=use_cp), tensors,
                    (Compare("output", 1e-1, 5e-2, dtype="bf16"), Compare("output_state", 1e-1, 5e-2, dtype=state)),
                    SIZE**-0.5, use_cp=use_cp, state_dtype=state)


def _indexed(test, parameters, lengths, heads, dtype, slots, rows, storage, index_dtype, use_cp):
    """States in a pool that is read and written through indices; its rows may have gaps between them."""
    tensors = _tensors(lengths, (heads,) * 3, dtype, Fill("sigmoid", mean=2.0, deviation=0.5), index_dtype=index_dtype)
    tokens = sum(lengths)
    tensors.update(q=TensorSpec((tokens, heads, SIZE), dtype, UNIT), k=TensorSpec((tokens, heads, SIZE), dtype, UNIT),
                   v=TensorSpec((tokens, heads, SIZE), dtype, NORMAL),
                   initial_state=_states(rows, (heads,) * 3, "f32", 1.0, storage),
                   state_indices=TensorSpec((len(slots),), index_dtype, values(slots)))
    untouched = tuple(row for row in range(rows) if row not in slots)
    compares = (exact("output", dtype, itself=True), exact("output_state", "f32", slots, itself=True),
                _close("output", dtype), _close("output_state", dtype, slots),
                exact("output_state", "f32", untouched))
    return _case(test, parameters, tensors, compares, None, INDICES, use_qk_l2norm_in_kernel=False, use_cp=use_cp,
                 output_state="=initial_state")


def indices():
    for dtype, lengths, heads, pad, use_cp in itertools.product(("bf16", "f16"), ((128,), (256,), (128, 192, 64),
                                                                                  (64, 512)), (8, 16, 32), (0, 96),
                                                                BOTH):
        rows = len(lengths) + 5
        slots = tuple((3 * n + 2) % rows for n in range(len(lengths)))
        yield _indexed("test_prefill_state_indices_matches_packed",
                       dict(dtype=dtype, seq_lens=lengths, H=heads, pad=pad, use_cp=use_cp), lengths, heads, dtype,
                       slots, rows, Storage(padding=pad), "int32", use_cp)
    for index_dtype, use_cp in itertools.product(("int32", "int64"), BOTH):
        yield _indexed("test_prefill_integer_index_dtypes", dict(index_dtype=index_dtype, use_cp=use_cp), (64,), 8,
                       "bf16", (2,), 4, Storage(padding=96), index_dtype, use_cp)
    for use_cp in BOTH:
        every_second = Storage(extents=((3, 2 * SIZE),), steps=((3, 2),), padding=96)
        yield _indexed("test_prefill_state_indices_preserves_inner_strides", dict(use_cp=use_cp), (64,), 8, "bf16",
                       (2,), 4, every_second, "int32", use_cp)


def cases():
    for part in (kernels, empty_sequences, in_two_calls, checkpoints, state_dtypes, indices):
        yield from part()

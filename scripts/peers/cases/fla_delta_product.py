"""FLA's DeltaProduct tests: chunk_gated_delta_product with gates and without."""
from .case import Case, Compare, NORMAL, TensorSpec, UNIT, ZEROS
from .fla_gated_delta import SIGMOID_OF_UNIFORM, log_sigmoid, offsets_tensor

PEER = "fla"
GATED, UNGATED = "tests/ops/test_gdp.py", "tests/ops/test_delta_product.py"
FUNCTION = "chunk_gated_delta_product"

# B, T, H, D, scale, num_householder, gate_logit_normalizer, mask_p, use_qk_l2norm_in_kernel
FIXED = ((1, 63, 1, 64, 0.1, 1, 1, 0, False), (2, 200, 3, 60, 0.1, 1, 1, 0, False),
         (2, 1000, 4, 64, 0.1, 2, 0.1, 0.5, False), (2, 1024, 4, 64, 1, 2, 1, 0, True),
         (2, 1024, 6, 100, 1, 2, 10, 0, False), (4, 1500, 8, 128, 0.1, 3, 1, 0.5, False),
         (2, 2048, 8, 128, 1, 3, 1, 0, False), (2, 2048, 8, 128, 1, 3, 1, 0, True))
# H, D, num_householder, mask_p, cu_seqlens. One of the sequences is empty.
RAGGED = ((2, 64, 3, 0, (0, 63)), (2, 100, 2, 0, (0, 63, 100, 500, 1000)),
          (2, 100, 2, 0, (0, 100, 256, 512, 1500, 1500)), (2, 128, 2, 0, (0, 100, 300, 800, 1500, 2000)),
          (2, 128, 2, 0.5, (0, 31, 111, 799, 1000, 1500, 1800, 2000)),
          (2, 128, 2, 0.5, (0, 63, 300, 800, 1000, 1399, 2048)),
          (2, 256, 3, 0, (0, 100, 123, 300, 500, 800, 1000, 1500, 2048)))
RAGGED_UNGATED = tuple(RAGGED[row] for row in (0, 1, 3, 6))


def _tensors(batch, tokens, heads, dim, steps, qk, state, state_dtype, sequences):
    return {"q": TensorSpec((batch, tokens, heads, dim), "f16", qk),
            "k": TensorSpec((batch, tokens * steps, heads, dim), "f16", qk),
            "v": TensorSpec((batch, tokens * steps, heads, dim), "f16", NORMAL),
            "beta": TensorSpec((batch, tokens * steps, heads), "f16", SIGMOID_OF_UNIFORM),
            "initial_state": TensorSpec((sequences, heads, dim, dim), state_dtype, state)}


def _compares(state_dtype):
    return (Compare("o", rms_ratio=0.005, dtype="f16"), Compare("final_state", rms_ratio=0.005, dtype=state_dtype))


def fixed(source):
    for batch, tokens, heads, dim, scale, steps, normalizer, masked, norm in FIXED:
        parameters = dict(B=batch, T=tokens, H=heads, D=dim, scale=scale, num_householder=steps,
                          use_qk_l2norm_in_kernel=norm)
        tensors = _tensors(batch, tokens, heads, dim, steps, NORMAL if norm else UNIT, ZEROS, "f32", batch)
        if source == GATED:
            parameters.update(gate_logit_normalizer=normalizer, mask_p=masked)
            tensors["g"] = TensorSpec((batch, tokens, heads), "f32", log_sigmoid(normalizer, masked))
        yield Case(PEER, f"{source}::test_chunk", FUNCTION, parameters, tensors,
                   dict(num_householder=steps, scale=scale, output_final_state=True, use_qk_l2norm_in_kernel=norm),
                   _compares("f32"))


def ragged(source):
    """Initial states and, where there are any, log decays are float16."""
    for heads, dim, steps, masked, ends in RAGGED if source == GATED else RAGGED_UNGATED:
        parameters = dict(H=heads, D=dim, num_householder=steps, cu_seqlens=ends)
        tensors = {**_tensors(1, ends[-1], heads, dim, steps, UNIT, NORMAL, "f16", len(ends) - 1),
                   **offsets_tensor(ends)}
        scale = 1.0
        if source == GATED:
            parameters["mask_p"], scale = masked, dim**-0.5
            tensors["g"] = TensorSpec((1, ends[-1], heads), "f16", log_sigmoid(masked=masked))
        yield Case(PEER, f"{source}::test_chunk_varlen", FUNCTION, parameters, tensors,
                   dict(num_householder=steps, scale=scale, output_final_state=True), _compares("f16"))


def cases():
    for source in (UNGATED, GATED):
        yield from fixed(source)
        yield from ragged(source)

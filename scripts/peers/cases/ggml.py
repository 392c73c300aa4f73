"""ggml's tests of its backends: GATED_DELTA_NET, SSM_CONV, and SSM_CONV with a bias and SiLU behind it. Shapes
are row-major as everywhere here, so that ggml's ne = {a, b, c, d} reads (d, c, b, a)."""
import itertools

from .case import Case, Compare, Fill, Storage, TensorSpec, UNIFORM

PEER = "ggml"
SOURCE = "tests/test-backend-ops.cpp"
ERROR = Compare("dst", nmse=1e-7)  # what the file asks of every operation that says nothing else
AROUND_ZERO = Fill(low=-1.0, high=1.0)

# head_count, head_size, n_seq_tokens, n_seqs, v_repeat, permuted, kda, K
DELTA_NETS = (
    (32, 128, 1, 1, 1, 0, 0, 1), (32, 16, 1, 1, 1, 0, 0, 1), (32, 16, 1, 1, 1, 1, 1, 1), (32, 16, 1, 1, 1, 0, 1, 1),
    (16, 64, 1, 2, 1, 0, 0, 1), (4, 64, 4, 1, 1, 0, 0, 1), (4, 64, 4, 2, 1, 0, 0, 1), (8, 32, 4, 2, 2, 0, 0, 1),
    (4, 64, 4, 2, 1, 1, 0, 1), (4, 64, 4, 1, 1, 1, 0, 1), (4, 64, 1, 1, 1, 0, 1, 1), (4, 64, 1, 2, 1, 0, 1, 1),
    (4, 16, 1, 2, 1, 0, 1, 1), (4, 32, 4, 1, 1, 0, 1, 1), (4, 64, 4, 2, 1, 0, 1, 1), (8, 32, 4, 2, 2, 0, 1, 1),
    (4, 64, 4, 2, 1, 1, 1, 1), (4, 16, 4, 2, 1, 1, 1, 1), (4, 64, 64, 1, 1, 0, 0, 1), (4, 64, 127, 1, 1, 0, 0, 1),
    (4, 64, 256, 1, 1, 0, 0, 1), (4, 64, 65, 1, 1, 0, 0, 1), (4, 64, 100, 1, 1, 0, 0, 1), (4, 64, 200, 1, 1, 0, 0, 1),
    (4, 64, 127, 2, 1, 0, 0, 1), (4, 64, 64, 1, 1, 0, 1, 1), (4, 64, 33, 1, 1, 0, 1, 1), (4, 64, 100, 1, 1, 0, 1, 1),
    (4, 16, 2, 1, 1, 0, 0, 2), (4, 32, 4, 1, 1, 0, 0, 4), (4, 64, 4, 2, 1, 0, 0, 4), (8, 128, 4, 1, 1, 0, 0, 4),
    (4, 64, 4, 2, 1, 0, 1, 4), (8, 32, 4, 2, 2, 0, 1, 4), (4, 32, 8, 1, 1, 0, 0, 3), (4, 64, 16, 2, 1, 0, 0, 4))


def delta_nets():
    """q and k come out of a norm, which makes them dense where v is permuted. A value head h reads key head h modulo
    their number. K is how many of the last states are kept, the newest one first."""
    for heads, size, tokens, sequences, repeat, permuted, kda, kept in DELTA_NETS:
        values = heads * repeat
        tensors = {"q": TensorSpec((sequences, tokens, heads, size), "f32", Fill("unit", low=-1.0, high=1.0)),
                   "k": TensorSpec((sequences, tokens, heads, size), "f32", Fill("unit", low=-1.0, high=1.0)),
                   "v": TensorSpec((sequences, tokens, values, size), "f32", Fill(low=-0.3, high=5.0),
                                   Storage(order=(0, 2, 1, 3)) if permuted else Storage()),
                   "g": TensorSpec((sequences, tokens, values, size if kda else 1), "f32",
                                   Fill(low=-20.0, high=-1e-4)),
                   "beta": TensorSpec((sequences, tokens, values, 1), "f32", UNIFORM),
                   "state": TensorSpec((sequences, values, size, size), "f32", AROUND_ZERO)}
        yield Case(PEER, f"{SOURCE}::test_gated_delta_net", "ggml_gated_delta_net",
                   dict(type="f32", head_count=heads, head_size=size, n_seq_tokens=tokens, n_seqs=sequences,
                        v_repeat=repeat, permuted=bool(permuted), kda=bool(kda), K=kept), tensors, {"K": kept},
                   (ERROR,))


def _convolution(test, function, width, channels, inputs, sequences, bias):
    tensors = {"sx": TensorSpec((sequences, channels, inputs), "f32", AROUND_ZERO),
               "c": TensorSpec((channels, width), "f32", AROUND_ZERO)}
    if bias:
        tensors["bias"] = TensorSpec((channels,), "f32", AROUND_ZERO)
    return Case(PEER, f"{SOURCE}::{test}", function,
                dict(type="f32", d_conv=width, d_inner=channels, ne_a0=inputs, n_s=sequences, bias=bias), tensors,
                {} if function == "ggml_ssm_conv" else {"activation": "silu"}, (ERROR,))


def convolutions():
    """The window stands in front of the inputs, in one array with time fastest: d_conv - 1 + n_t of them."""
    for fused, width, channels in itertools.product((False, True), (3, 4, 9), (1024, 1536, 2048)):
        for bias in (False, True) if fused else (False,):
            for inputs, sequences in ((width, 1), (2 * width, 1), (width, 4), (width + 63, 1), (width + 63, 4)):
                yield _convolution("test_ssm_conv_bias_silu" if fused else "test_ssm_conv",
                                   "ggml_ssm_conv+ggml_add+ggml_silu" if bias else
                                   "ggml_ssm_conv+ggml_silu" if fused else "ggml_ssm_conv",
                                   width, channels, inputs, sequences, bias)


def cases():
    yield from delta_nets()
    yield from convolutions()

"""All cases, peer after peer. The modules are named in the order of the tables."""
from . import (causal_conv1d, fla_convolution, fla_delta_product, fla_gated_delta, fla_kda, flashinfer_decode,
               flashinfer_prefill, ggml, serving_convolution, serving_gated_delta)

MODULES = (causal_conv1d, fla_gated_delta, fla_kda, fla_delta_product, fla_convolution, flashinfer_prefill,
           flashinfer_decode, serving_convolution, serving_gated_delta, ggml)


def cases():
    for module in MODULES:
        yield from module.cases()

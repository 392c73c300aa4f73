#!/usr/bin/env python3
"""Builds causal-conv1d's extension for this machine's GPU, in the folder of packed libraries that this file lies in
(pack.sh). Needs PyTorch and nvcc. The kernels of its gradients are left out: they take most of the time to compile, and
nothing here calls them. In their places stand functions that say so."""
import os
import pathlib
import shutil

import torch
from torch.utils.cpp_extension import load

NO_GRADIENTS = """#include <stdexcept>
#include <ATen/ATen.h>
#include <cuda_runtime.h>
#include "{sources}/causal_conv1d.h"
#define NONE(name, input, weight) \\
  template <> void name<input, weight>(ConvParamsBwd&, cudaStream_t) {{ throw std::runtime_error("built without gradients"); }}
"""
PLACES = ("causal_conv1d_bwd_cuda", "causal_conv1d_channellast_bwd_cuda")
TYPES = ("float", "at::Half", "at::BFloat16")


def without_gradients(sources, build):
    """A source that defines what the kernels of gradients would."""
    text = NO_GRADIENTS.format(sources=sources)
    for name in PLACES:
        text += f"template <typename, typename> void {name}(ConvParamsBwd&, cudaStream_t);\n"
        text += "".join(f"NONE({name}, {tokens}, {weights})\n" for tokens in TYPES for weights in TYPES)
    (build / "no_gradients.cpp").write_text(text, encoding="utf-8")
    return build / "no_gradients.cpp"


here = pathlib.Path(__file__).resolve().parent
os.environ["TORCH_CUDA_ARCH_LIST"] = "%d.%d" % torch.cuda.get_device_capability()
build = here / "causal_conv1d_build"
build.mkdir(exist_ok=True)
# PyTorch forbids what these sources use of the 16-bit types.
allowed = [f"-U__CUDA_NO_{what}__" for what in ("HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_OPERATORS",
                                                "BFLOAT16_CONVERSIONS", "BFLOAT162_OPERATORS", "BFLOAT162_CONVERSIONS")]
csrc = here / "causal_conv1d_source/csrc"
sources = [file for file in (*csrc.glob("*.cpp"), *csrc.glob("*.cu")) if file.name != "causal_conv1d_bwd.cu"]
load("causal_conv1d_cuda", [str(file) for file in (*sources, without_gradients(csrc, build))],
     extra_cuda_cflags=["-O3", "--use_fast_math", *allowed], build_directory=str(build))
shutil.copy(build / "causal_conv1d_cuda.so", here)

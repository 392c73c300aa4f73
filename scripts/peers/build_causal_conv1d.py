#!/usr/bin/env python3
"""Builds causal-conv1d's extension for this machine's GPU, in the folder of packed libraries that this file lies in
(pack.sh). Needs PyTorch and nvcc, and takes some two minutes with 16 cores."""
import glob
import os
import pathlib
import shutil

import torch
from torch.utils.cpp_extension import load

here = pathlib.Path(__file__).resolve().parent
os.environ["TORCH_CUDA_ARCH_LIST"] = "%d.%d" % torch.cuda.get_device_capability()
build = here / "causal_conv1d_build"
build.mkdir(exist_ok=True)
# PyTorch forbids what these sources use of the 16-bit types.
allowed = [f"-U__CUDA_NO_{what}__" for what in ("HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_OPERATORS",
                                                "BFLOAT16_CONVERSIONS", "BFLOAT162_OPERATORS", "BFLOAT162_CONVERSIONS")]
sources = [file for ending in ("cpp", "cu") for file in glob.glob(f"{here}/causal_conv1d_source/csrc/*.{ending}")]
load("causal_conv1d_cuda", sources, extra_cuda_cflags=["-O3", "--use_fast_math", *allowed], build_directory=str(build))
shutil.copy(build / "causal_conv1d_cuda.so", here)

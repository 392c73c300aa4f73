#!/usr/bin/env python3
"""Compiles FlashQLA's kernels for an H200 on a machine that has none, into a folder that TileLang reads on one that has:
a head count takes TileLang minutes, of which none need a GPU. Needs the CUDA toolkit, PyTorch of any build, tilelang and
flash_qla of the versions of requirements.txt.

    scripts/peers/compile_without_gpu.py FOLDER [--shapes 16/32:4x8192,2/4:1x1000]     here; FOLDER to the GPU machine, there:
    TILELANG_CACHE_DIR=FOLDER scripts/peers/time_backward.py --who ours,fla,flashqla

FlashQLA's own functions run, forward and backward, on tensors of zeros on the host, where PyTorch says of the GPU what
FlashQLA asks and every kernel does nothing once it is compiled: so what is compiled is what these shapes will ask for.
Which kernels a shape takes does not depend on what is in its tensors.
Exit 0 done, 1 a shape failed, 2 bad usage.
"""
import argparse
import contextlib
import os
import pathlib
import sys
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
from inputs import DIM, parse_heads, parse_lengths  # noqa: E402: found above
from time_backward import JUDGED, SHAPES, parse_shapes  # noqa: E402
from gdnbench.turns import first_line  # noqa: E402: time_backward lets it be found

SCALE = DIM ** -0.5  # contenders.SCALE, which cannot be imported without this project's library


def fail(message):
    print(f"compile_without_gpu: {message}", file=sys.stderr)
    sys.exit(2)


def stand_in_gpu():
    """Makes PyTorch say that there is an H200."""
    import torch
    properties = types.SimpleNamespace(name="NVIDIA H200", major=9, minor=0, multi_processor_count=132)
    for name, answer in {"is_available": True, "device_count": 1, "current_device": 0,
                         "get_device_capability": (9, 0), "get_device_name": properties.name,
                         "get_device_properties": properties, "is_current_stream_capturing": False}.items():
        setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    torch.cuda.device = lambda *_: contextlib.nullcontext()


def load():
    """FlashQLA's function, whose kernels are compiled and never launched."""
    import tilelang
    from tilelang.cuda.target import _detect_cuda_target
    sys.modules["tilelang.jit"].JITKernel.__call__ = lambda *_, **__: None
    with _detect_cuda_target():  # FlashQLA asks for the architecture as it is imported
        import flash_qla
    print(f"tilelang {tilelang.__version__}, {_detect_cuda_target()}", flush=True)
    return flash_qla.chunk_gated_delta_rule


def compile_shape(rule, heads, seq):
    """A forward and a backward pass as time_backward.py makes them (backward_contenders.by_autograd)."""
    import torch
    (key_heads, value_heads), lengths = parse_heads(heads), parse_lengths(seq)
    tokens = sum(lengths)

    def zeros(*shape, dtype=torch.float32):
        return torch.zeros(1, tokens, *shape, dtype=dtype, requires_grad=True)
    leaves = [zeros(key_heads, DIM, dtype=torch.bfloat16), zeros(key_heads, DIM, dtype=torch.bfloat16),
              zeros(value_heads, DIM, dtype=torch.bfloat16), zeros(value_heads), zeros(value_heads)]
    offsets = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    output = rule(*leaves, scale=SCALE, output_final_state=False, cu_seqlens=offsets)[0]
    torch.autograd.grad(output, leaves, torch.zeros_like(output))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = fail
    parser.add_argument("folder", help="TILELANG_CACHE_DIR of the GPU machine")
    parser.add_argument("--shapes", default=f"{':'.join(JUDGED)},{SHAPES}", help="comma list of heads:lengths (%(default)s)")
    options = parser.parse_args()
    try:
        shapes = parse_shapes(options.shapes)
    except ValueError as error:
        fail(f"--shapes: {error}")
    os.environ["TILELANG_CACHE_DIR"] = str(pathlib.Path(options.folder).resolve())
    try:
        stand_in_gpu()
        rule = load()
    except ImportError as error:
        fail(f"PyTorch, tilelang and flash_qla are needed: {error}")
    code = 0
    for heads, seq in shapes:
        begin = time.monotonic()
        try:
            compile_shape(rule, heads, seq)
            print(f"{heads} {seq}: {time.monotonic() - begin:.1f} s", flush=True)
        except Exception as error:  # noqa: BLE001 - whatever a compiler raises
            print(f"compile_without_gpu: {heads} {seq}: {first_line(error)}", file=sys.stderr, flush=True)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())

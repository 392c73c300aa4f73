"""Arrays of other libraries: what a case's values are handed over as, and what comes back, on the host. Only NumPy is
imported here; PyTorch, JAX and CuPy where somebody asks for their arrays.

numpy has no bfloat16: without another library the values of bfloat16 operands are float32 numbers that bfloat16 holds,
and what is returned for such an output may be float32 too."""
import importlib

import numpy as np

LIBRARIES = ("numpy", "torch", "jax", "cupy")
WORDS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i8": "int8"}
# What an output of each element type may come back as: that type, or one that has all of its values.
HOLDING = {"f32": ("float32", "float64"), "bf16": ("bfloat16", "float32", "float64"),
           "f16": ("float16", "float32", "float64"), "i8": ("int8", "float32", "float64")}


class ArrayError(ValueError):
    """What came back is no array of the form that was expected; one line that names it."""


def maker(library, device):
    """A function (operand, float32 or int64 NumPy array, element type) -> array of the library on the device."""
    if callable(library):
        return library
    if library is None:
        library = "numpy" if device == "cpu" else "torch"
    if library not in LIBRARIES:
        raise ValueError(f"arrays: {library!r}, expected one of {', '.join(LIBRARIES)}, or a function")
    if library == "numpy":
        if device != "cpu":
            raise ValueError(f"device: {device!r} with arrays of numpy, expected 'cpu'")
        return lambda operand, values, dtype: values.astype(np.float16) if dtype == "f16" else values.copy()
    return {"torch": _of_torch, "jax": _of_jax, "cupy": _of_cupy}[library](device)


def _of_torch(device):
    torch = importlib.import_module("torch")
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.int8,
             "int64": torch.int64}
    return lambda operand, values, dtype: torch.from_numpy(values.copy()).to(device=device, dtype=types[dtype])


def _of_jax(device):
    jax = importlib.import_module("jax")
    kind, _, index = device.partition(":")
    place = jax.devices("gpu" if kind == "cuda" else kind)[int(index or 0)]
    types = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i8": "int8"}
    # Indices become int32 where JAX is not told to keep 64 bits.
    kept = lambda dtype: types.get(dtype) or ("int64" if jax.config.jax_enable_x64 else "int32")
    return lambda operand, values, dtype: jax.device_put(jax.numpy.asarray(values, dtype=kept(dtype)), place)


def _of_cupy(device):
    cupy = importlib.import_module("cupy")
    kind, _, index = device.partition(":")
    if kind != "cuda":
        raise ValueError(f"device: {device!r} with arrays of cupy, expected 'cuda' or 'cuda:0'")

    def made(operand, values, dtype):
        with cupy.cuda.Device(int(index or 0)):
            return cupy.asarray(values.astype(np.float16) if dtype == "f16" else values)
    return made


def on_host(value, name):
    """(NumPy array, name of its element type): bfloat16 as the 16 bits of each number."""
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.detach().cpu().contiguous()
        if str(value.dtype) == "torch.bfloat16":
            return value.view(importlib.import_module("torch").int16).numpy().view(np.uint16), "bfloat16"
        return value.numpy(), str(value.dtype).removeprefix("torch.")
    if type(value).__module__.partition(".")[0] == "cupy":
        value = value.get()
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__array__"):
            value = np.asarray(value)
        elif hasattr(value, "__dlpack__"):
            value = np.from_dlpack(value)
        else:
            raise ArrayError(f"{name}: {type(value).__name__}, expected an array (NumPy's, or one with __array__ or "
                             "__dlpack__)")
    kind = str(value.dtype)
    return (value.view(np.uint16) if kind == "bfloat16" else value), kind


def of_output(value, operand):
    """(array on the host, its element type) as the library takes an output; ArrayError names what is wrong."""
    name = operand.name_after
    values, kind = on_host(value, name)
    if values.shape != operand.extents:
        named = ", ".join(f"{dimension} = {extent}" for dimension, extent in zip(operand.dimensions, operand.extents))
        raise ArrayError(f"{name}: shape {list(values.shape)}, expected [{named}]")
    if kind not in HOLDING[operand.dtype]:
        raise ArrayError(f"{name}: {kind}, expected {' or '.join(HOLDING[operand.dtype])}")
    if kind == "float64":
        with np.errstate(over="ignore"):
            values, kind = values.astype(np.float32), "float32"
    return np.ascontiguousarray(values), {word: dtype for dtype, word in WORDS.items()}[kind]

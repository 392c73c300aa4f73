"""A case's tensors in numpy memory. Tensor has what a C call needs to know of a tensor (shape, strides, dtype,
address); what lies between the elements of a strided one is poison, so that reading it shows.

    tensors = make_tensors(case)
    tensors["x"].strides, tensors["x"].address
"""
import zlib

import numpy as np

# dtype -> how it is stored. What numpy has no type for is stored as its bits.
DTYPES = {
    "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "f8_e4m3": np.uint8, "f8_e5m2": np.uint8,
    "int32": np.int32, "int64": np.int64, "bool": np.bool_,
}
# NaN in every floating-point type. An index of this size leaves every array.
POISON = {
    "f32": np.float32(np.nan), "f16": np.float16(np.nan), "bf16": np.uint16(0x7FFF), "f8_e4m3": np.uint8(0x7F),
    "f8_e5m2": np.uint8(0x7F), "int32": np.int32(-0x7FFFFFFF), "int64": np.int64(-0x7FFFFFFFFFFFFFFF),
    "bool": np.bool_(True),
}


def _bfloat16_bits(numbers):
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(numbers), np.uint32(0x7FC0), rounded).astype(np.uint16)


def _float8_table(dtype):
    """What each of the 256 bit patterns stands for. e4m3 has no infinity: its largest pattern but NaN is 448."""
    mantissa_bits, bias = (3, 7) if dtype == "f8_e4m3" else (2, 15)
    table = np.empty(256)
    for bits in range(256):
        exponent = (bits & 0x7F) >> mantissa_bits
        fraction = (bits & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
        magnitude = (1 + fraction) * 2.0 ** (exponent - bias) if exponent else fraction * 2.0 ** (1 - bias)
        if dtype == "f8_e4m3" and bits & 0x7F == 0x7F:
            magnitude = np.nan
        if dtype == "f8_e5m2" and exponent == 31:
            magnitude = np.nan if fraction else np.inf
        table[bits] = -magnitude if bits & 0x80 else magnitude
    return table


FLOAT8 = {dtype: _float8_table(dtype) for dtype in ("f8_e4m3", "f8_e5m2")}


def _float8_bits(numbers, dtype):
    """To nearest, ties to the even pattern; beyond the largest finite value to that value."""
    table = FLOAT8[dtype][:0x80]
    magnitudes = table[np.isfinite(table)]
    numbers = np.asarray(numbers, np.float64)
    size = np.minimum(np.abs(numbers), magnitudes[-1])
    above = np.searchsorted(magnitudes, np.where(np.isnan(size), 0, size)).clip(1)
    low, high = size - magnitudes[above - 1], magnitudes[above] - size
    take_low = (low < high) | ((low == high) & ((above - 1) % 2 == 0))
    bits = np.where(take_low, above - 1, above) | np.where(np.signbit(numbers), 0x80, 0)
    return np.where(np.isnan(numbers), 0x7F, bits).astype(np.uint8)


def to_storage(numbers, dtype):
    """Numbers rounded once to a dtype, as that dtype is stored."""
    if dtype == "bf16":
        return _bfloat16_bits(np.asarray(numbers, np.float32))
    if dtype in FLOAT8:
        return _float8_bits(numbers, dtype)
    if dtype not in DTYPES:
        raise ValueError(f"dtype '{dtype}': expected one of {', '.join(DTYPES)}")
    return np.asarray(numbers).astype(DTYPES[dtype])


def from_storage(stored, dtype):
    """What stored elements stand for, in float64."""
    if dtype == "bf16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return FLOAT8[dtype][stored] if dtype in FLOAT8 else stored.astype(np.float64)


class Tensor:
    """A tensor in memory of this process. `array` is a numpy view of its elements as they are stored."""
    device = "cpu"

    def __init__(self, array, dtype):
        self.array, self.dtype = array, dtype

    @property
    def shape(self):
        return self.array.shape

    @property
    def strides(self):
        """Elements from one entry of each dimension to the next."""
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    @property
    def address(self):
        return self.array.ctypes.data

    def to_float64(self):
        return from_storage(self.array, self.dtype)

    def copy(self):
        """Another tensor of the same numbers, shape and strides, with poison in its gaps."""
        return _place(self.array, self.dtype, self.strides)

    def to_torch(self):
        """A PyTorch tensor on this memory: shape, strides and address stay."""
        import torch
        types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "int32": torch.int32,
                 "int64": torch.int64, "bool": torch.bool, "f8_e4m3": torch.float8_e4m3fn,
                 "f8_e5m2": torch.float8_e5m2}
        bits = {"bf16": np.int16, "f8_e4m3": np.int8, "f8_e5m2": np.int8}.get(self.dtype)
        return torch.from_numpy(self.array if bits is None else self.array.view(bits)).view(types[self.dtype])


def _poisoned(count, dtype):
    return np.full(count, POISON[dtype], DTYPES[dtype])


def _place(stored, dtype, strides):
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(stored.shape, strides)) if stored.size else 1
    flat = _poisoned(span, dtype)
    view = np.lib.stride_tricks.as_strided(flat, stored.shape, [stride * flat.itemsize for stride in strides])
    view[...] = stored
    return Tensor(view, dtype)


def _draw(rng, fill, shape):
    if fill.kind == "values":
        return np.array(fill.values).reshape(shape)
    if fill.kind == "constant":
        return np.full(shape, fill.scale)
    if fill.high > fill.low:
        drawn = np.float32(fill.low) + np.float32(fill.high - fill.low) * rng.random(shape, np.float32)
    else:
        drawn = rng.standard_normal(shape, np.float32) * np.float32(fill.deviation) + np.float32(fill.mean)
    if fill.kind == "unit":
        drawn /= np.linalg.norm(drawn, axis=-1, keepdims=True)
    elif fill.kind == "sigmoid":
        drawn = 1 / (1 + np.exp(-drawn))
    elif fill.kind == "log_sigmoid":
        drawn = -np.logaddexp(0, -drawn)
    elif fill.kind in ("exp", "log"):
        drawn = getattr(np, fill.kind)(drawn)
    elif fill.kind != "plain":
        raise ValueError(f"fill '{fill.kind}': expected one of those that case.Fill lists")
    if fill.scale != 1 or fill.shift:
        drawn = drawn * np.float32(fill.scale) + np.float32(fill.shift)
    for share, number in fill.replaced:
        drawn = np.where(rng.random(shape, np.float32) < share, np.float32(number), drawn)
    return np.maximum(drawn, fill.floor) if fill.floor > -np.inf else drawn


def make_tensor(spec, key, drawn=True):
    """The tensor of a TensorSpec; the same numbers for the same key. Not `drawn`: numbers that the spec does not list
    are whatever the memory holds, which is for calls that look at no number but offsets and indices."""
    strides = spec.storage.strides(spec.shape)
    starts, steps = dict(spec.storage.starts), dict(spec.storage.steps)
    count, listed = max(1, spec.storage.elements(spec.shape)), spec.fill.kind == "values"
    flat = _poisoned(count, spec.dtype) if drawn or listed else np.empty(count, DTYPES[spec.dtype])
    begin = sum(starts.get(d, 0) * stride // steps.get(d, 1) for d, stride in enumerate(strides))
    view = np.lib.stride_tricks.as_strided(flat[begin:], spec.shape, [stride * flat.itemsize for stride in strides])
    if drawn or listed:
        rng = np.random.default_rng(zlib.crc32(key.encode()))
        view[...] = to_storage(_draw(rng, spec.fill, spec.shape), spec.dtype)
    return Tensor(view, spec.dtype)


def make_tensors(case, drawn=True):
    """All tensors of a case, by argument."""
    return {name: make_tensor(spec, f"{case.name}/{name}", drawn) for name, spec in case.tensors.items()}

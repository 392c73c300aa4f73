"""Tensors as addresses: View is where a tensor lies and in which form. Everything here is arithmetic on extents and
strides; nothing is copied. PyTorch is imported only where a PyTorch tensor comes in.

    x = View.of(tensor)                     # None for None
    x.permute(0, 2, 1).split(1, (2, -1)).select(0, 3).narrow(0, 0, 5).expand(1, 4)
"""
import dataclasses
import functools
import math

from gdnbench_library import GdnbenchError


def unsupported(argument, reason):
    """Raises for what the library cannot say: one line that names the argument."""
    raise GdnbenchError("unsupported", f"{argument}: {reason}")


def bad_input(argument, reason):
    """Raises for what the caller can correct."""
    raise GdnbenchError("bad input", f"{argument}: {reason}")


def refuse_given(**arguments):
    """Refuses arguments that the library has nothing for, where they are not None."""
    for name, given in arguments.items():
        if given is not None:
            unsupported(name, "is not supported, expected its default")


@functools.cache
def _torch_names():
    import torch
    names = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int64: "int64",
             torch.int32: "int32", torch.int8: "i8", torch.bool: "bool"}
    return names | {getattr(torch, held): name for held, name in (("float8_e4m3fn", "f8_e4m3"),
                                                                 ("float8_e5m2", "f8_e5m2")) if hasattr(torch, held)}


def is_torch(tensor):
    return type(tensor).__module__.partition(".")[0] == "torch" or hasattr(tensor, "data_ptr")


@dataclasses.dataclass(frozen=True)
class View:
    """Where elements lie. `strides` are counted in elements. `owner` is the tensor that the memory belongs to."""
    address: int
    dtype: str
    extents: tuple
    strides: tuple
    device: str
    owner: object = dataclasses.field(repr=False, compare=False, hash=False)

    @staticmethod
    def of(tensor, argument="tensor"):
        if tensor is None or isinstance(tensor, View):
            return tensor
        if is_torch(tensor):
            if tensor.dtype not in _torch_names():
                unsupported(argument, f"{tensor.dtype}, expected one of {', '.join(map(str, _torch_names()))}")
            return View(tensor.data_ptr(), _torch_names()[tensor.dtype], tuple(tensor.shape), tuple(tensor.stride()),
                        _torch_device(tensor), tensor)
        if not hasattr(tensor, "address"):
            bad_input(argument, f"{type(tensor).__name__}, expected a tensor")
        return View(tensor.address, tensor.dtype, tuple(tensor.shape), tuple(tensor.strides), str(tensor.device), tensor)

    @property
    def rank(self):
        return len(self.extents)

    def with_form(self, extents, strides, skipped=0):
        """The same memory in another form, from `skipped` elements on."""
        return dataclasses.replace(self, address=self.address + skipped * SIZES[self.dtype], extents=tuple(extents),
                                   strides=tuple(strides))

    def permute(self, *order):
        return self.with_form((self.extents[d] for d in order), (self.strides[d] for d in order))

    def narrow(self, dimension, start, count):
        extents = list(self.extents)
        extents[dimension] = count
        return self.with_form(extents, self.strides, start * self.strides[dimension])

    def select(self, dimension, index):
        """The view without that dimension, at one entry of it."""
        keep = [d for d in range(self.rank) if d != dimension % self.rank]
        return self.with_form((self.extents[d] for d in keep), (self.strides[d] for d in keep),
                              index * self.strides[dimension])

    def split(self, dimension, sizes):
        """One dimension as several, of which one size may be -1."""
        known = math.prod(size for size in sizes if size >= 0)
        sizes = [self.extents[dimension] // max(known, 1) if size < 0 else size for size in sizes]
        strides = [self.strides[dimension] * math.prod(sizes[d + 1:]) for d in range(len(sizes))]
        return self.with_form((*self.extents[:dimension], *sizes, *self.extents[dimension + 1:]),
                              (*self.strides[:dimension], *strides, *self.strides[dimension + 1:]))

    def insert(self, dimension, count=1):
        """A further dimension of `count` entries that all lie on one place."""
        return self.with_form((*self.extents[:dimension], count, *self.extents[dimension:]),
                              (*self.strides[:dimension], 0, *self.strides[dimension:]))

    def numbers(self):
        """Host numbers of a small tensor, which is read now: on a CUDA device the host waits for it."""
        if is_torch(self.owner):
            return self.owner.tolist()
        return self.owner.array.tolist()


SIZES = {"f32": 4, "bf16": 2, "f16": 2, "f8_e4m3": 1, "f8_e5m2": 1, "i8": 1, "int32": 4, "int64": 8, "bool": 1}


def _torch_device(tensor):
    import torch
    if tensor.device.type != "cuda":
        return tensor.device.type
    return f"cuda:{torch.cuda.current_device() if tensor.device.index is None else tensor.device.index}"


def empty(like, shape, dtype=None, order=None):
    """A new tensor by the framework of `like` (a tensor), on its device. `order` names the dimensions from the slowest
    in memory to the fastest."""
    order = tuple(order or range(len(shape)))
    memory, back = [shape[d] for d in order], [order.index(d) for d in range(len(shape))]
    if is_torch(like):
        import torch
        types = {name: held for held, name in _torch_names().items()}
        made = torch.empty(memory, dtype=types[dtype] if dtype else like.dtype, device=like.device)
        return made.permute(back)
    import numpy as np
    stored = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "f8_e4m3": np.uint8, "f8_e5m2": np.uint8,
              "i8": np.int8, "int32": np.int32, "int64": np.int64, "bool": np.bool_}[dtype or like.dtype]
    return type(like)(np.empty(memory, stored).transpose(back), dtype or like.dtype)


def empty_like(tensor, dtype=None):
    """A new tensor of the same shape, whose dimensions lie in the order of the tensor's."""
    view = View.of(tensor)
    order = sorted(range(view.rank), key=lambda d: (-view.strides[d], d))
    return empty(tensor, view.extents, dtype, order)


def clone(tensor):
    """A copy on the tensor's device, dense."""
    if is_torch(tensor):
        return tensor.clone()
    return type(tensor)(tensor.array.copy(), tensor.dtype)


@functools.lru_cache(64)
def _indices(values, device, kind):
    if kind is None:
        import torch
        return torch.tensor(values, dtype=torch.int64, device=device)
    import numpy as np
    return kind(np.array(values, np.int64), "int64")


def indices(values, like):
    """An int64 tensor of these host numbers on the device of `like`; the same tensor for the same numbers."""
    view = View.of(like)
    return _indices(tuple(values), view.device, None if is_torch(like) else type(like))


def part(tensor, begin, shape):
    """Some elements of a dense tensor of one dimension, from `begin` on, as a tensor of this shape."""
    end = begin + math.prod(shape)
    if is_torch(tensor):
        return tensor[begin:end].view(shape)
    return type(tensor)(tensor.array[begin:end].reshape(shape), tensor.dtype)


def flags(tensor):
    """Flags as int64, on their device: a new tensor unless they are numbers already. None for None."""
    if tensor is None or View.of(tensor, "flags").dtype != "bool":
        return tensor
    if is_torch(tensor):
        import torch
        return tensor.to(torch.int64)
    return type(tensor)(tensor.array.astype("int64"), "int64")


def copy_into(written, read):
    """Copies a tensor's numbers to one of the same shape and dtype on the same device."""
    target, source = View.of(written), View.of(read)
    if (target.extents, target.dtype) != (source.extents, source.dtype):
        bad_input("output_state", f"{target.extents} of {target.dtype}, expected {source.extents} of {source.dtype}")
    if is_torch(written):
        written.copy_(read)
    else:
        written.array[...] = read.array


def copy_rows(written, begin, read, row, count):
    """Copies read[row, :count] to written[begin:begin + count]."""
    if is_torch(written):
        written[begin:begin + count].copy_(read[row, :count])
    else:
        written.array[begin:begin + count] = read.array[row, :count]


def copy_newest_first(written, read):
    """Copies read [N, K, ..], oldest first, to written [K, N, ..], newest first."""
    if is_torch(written):
        written.copy_(read.flip(1).transpose(0, 1))
    else:
        written.array[...] = read.array[:, ::-1].swapaxes(0, 1)


@functools.lru_cache(64)
def _one_number(number, device, kind):
    if kind is None:
        import torch
        return torch.full((1,), number, dtype=torch.float32, device=device)
    import numpy as np
    return kind(np.full(1, number, np.float32), "f32")


def _constant(number, like, extents):
    view = View.of(_one_number(number, View.of(like).device, None if is_torch(like) else type(like)))
    return view.with_form(extents, (0,) * len(extents))


def zero_view(like, extents, dtype="f32"):
    """Zeros of these extents on the device of `like`, all of them on one place: for inputs that are absent. Zero has
    the same bits in every type."""
    return dataclasses.replace(_constant(0.0, like, extents), dtype=dtype)


def one_view(like, extents):
    """The same of ones in float32."""
    return _constant(1.0, like, extents)

"""What a case is: a call as a peer's own test makes it, as plain values. Nothing here holds a tensor's numbers;
tensors.py makes them, oracle.py says what the call means."""
import dataclasses
import math
import random
import zlib


@dataclasses.dataclass(frozen=True)
class Fill:
    """How a tensor's numbers are drawn: evenly from low..high where these differ, else from a normal distribution of
    `mean` and `deviation`; then what `kind` says; then times scale plus shift; then shares of them are replaced, each
    (share, number) of `replaced` in turn; then none is below `floor`.

    kind         what is done with a drawn x
    plain        nothing
    unit         the last dimension is divided by its length
    sigmoid      sigmoid(x)
    log_sigmoid  log(sigmoid(x))
    exp, log     exp(x), log(x)
    constant     the number is `scale`, and nothing is drawn
    values       the numbers are those of `values`, in row-major order: offsets, indices, flags
    """
    kind: str = "plain"
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    deviation: float = 1.0
    scale: float = 1.0
    shift: float = 0.0
    replaced: tuple = ()
    floor: float = -float("inf")
    values: tuple = ()


NORMAL = Fill()
UNIFORM = Fill(low=0.0, high=1.0)
UNIT = Fill("unit")
SIGMOID = Fill("sigmoid")
ZEROS = Fill("constant", scale=0.0)


def values(numbers):
    """A Fill of exactly these numbers."""
    return Fill("values", values=tuple(numbers))


@dataclasses.dataclass(frozen=True)
class Storage:
    """Where a tensor's elements lie. `order` names its dimensions from the slowest in memory to the fastest (the usual
    order where empty). `extents`, `starts` and `steps` say for some dimensions how many entries the memory holds, at
    which of them the tensor begins, and how many of them one step is: a slice of a wider projection has an extent and
    a start, every second token has a step of 2. `padding` are elements behind each entry of the slowest dimension."""
    order: tuple = ()
    extents: tuple = ()  # pairs (dimension, entries)
    starts: tuple = ()   # pairs (dimension, entry)
    steps: tuple = ()    # pairs (dimension, entries)
    padding: int = 0

    def memory(self, shape):
        """The extents of the memory in the tensor's order of dimensions."""
        extents, starts, steps = dict(self.extents), dict(self.starts), dict(self.steps)
        needed = [starts.get(d, 0) + (n - 1) * steps.get(d, 1) + 1 if n else 0 for d, n in enumerate(shape)]
        memory = [extents.get(d, needed[d]) for d in range(len(shape))]
        for d, (have, need) in enumerate(zip(memory, needed)):
            if have < need:
                raise ValueError(f"storage of dimension {d}: {have} entries in memory, expected at least {need}")
        return tuple(memory)

    def strides(self, shape):
        """Elements from one entry of each dimension to the next."""
        memory, steps = self.memory(shape), dict(self.steps)
        order = self.order or range(len(shape))
        strides, size = [0] * len(shape), 1
        for d in reversed(order):
            size += self.padding if d == order[0] else 0
            strides[d] = size * steps.get(d, 1)
            size *= memory[d]
        return tuple(strides)

    def elements(self, shape):
        """How many elements the memory holds."""
        memory = self.memory(shape)
        slowest = memory[self.order[0] if self.order else 0] if shape else 1
        return math.prod(memory) + self.padding * slowest


DENSE = Storage()


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """A tensor that a call takes: its shape as the peer sees it, its dtype (tensors.DTYPES), its storage and fill."""
    shape: tuple
    dtype: str
    fill: Fill = NORMAL
    storage: Storage = DENSE


@dataclasses.dataclass(frozen=True)
class Compare:
    """An output that the test looks at, by the peer's name, and how close it must be: |got - expected| <= absolute +
    relative * |expected| for every element; or `rms_ratio`, the root mean square of the difference over that of the
    expected numbers; or `nmse`, the square of that. Both zero, or a ratio of zero, is bit for bit. Where `entries` is
    given, only these of dimension `dimension` are looked at; others may hold anything. `dtype` is the one that the
    output is stored in, to which the expected numbers are rounded first, as those of the tests are. `itself` marks a
    bound between two runs of the peer's own kernel, which says nothing about a distance from exact numbers."""
    output: str
    absolute: float | None = None
    relative: float | None = None
    rms_ratio: float | None = None
    nmse: float | None = None
    dimension: int = 0
    entries: tuple | range | None = None
    dtype: str = "f32"
    itself: bool = False


def exact(output, dtype, entries=None, itself=False):
    """A Compare that allows no difference."""
    return Compare(output, absolute=0.0, relative=0.0, entries=entries, dtype=dtype, itself=itself)


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of one test. `parameters` are the test's own, in its words; with `source` they name the case. Arrays
    that a function only writes are not among the tensors, but where what they held before must stay. An option of the
    text "=NAME" is the tensor NAME once more: a pool that is written in place."""
    peer: str
    source: str    # path in the peer's repository, "::", test
    function: str  # as the peer names it
    parameters: dict
    tensors: dict  # argument -> TensorSpec
    options: dict  # the other arguments; what is left out has the peer's default
    compares: tuple

    @property
    def name(self):
        parameters = ",".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.peer}:{self.source.rpartition('::')[2]}[{parameters}]:{self.function}"


def dice(*key):
    """Random choices that a test leaves to its seed (lengths, slots), the same ones for the same key everywhere."""
    return random.Random(zlib.crc32(repr(key).encode()))


def offsets(lengths):
    """Exclusive prefix sums: [0, 2, 5] of [2, 3]."""
    sums = [0]
    for length in lengths:
        sums.append(sums[-1] + length)
    return sums


def cuts(rng, total, pieces):
    """`total` cut at random into that many pieces of 1 or more."""
    marks = sorted(rng.sample(range(1, total), pieces - 1))
    return [end - begin for begin, end in zip([0, *marks], [*marks, total])]

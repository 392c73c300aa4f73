"""What every contender of a row is given: the same tensors, made once on the GPU, as harness/inputs/draw_recurrence.h
describes the distributions (unit queries and keys, N(0,1) values, beta = sigmoid(N(0,1)), initial state N(0,1)/sqrt(Dk)).
A regime of gates whose name begins with channel- has a log decay for each key channel, and else one for each head. One
whose name begins with steps2- or steps3- has so many keys, values and betas a token (DeltaProduct)."""
import dataclasses
import math
import zlib

DIM = 128
DEVICE = "cuda"
LOGIT_MEANS = {"none": None, "weak": 3.0, "strong": -1.0, "near_one": 8.0}  # log_sigmoid(N(mean, 1))
PER_CHANNEL = "channel-"
# -5 sigmoid(exp(A_log) (f + dt_bias)) with f and dt_bias ~ N(0, 1) and exp(A_log) log-uniform in 0.5 .. 2
BOUNDED, BOUND = "bounded", 5.0
# -5 sigmoid(f): no channel and no head decays less than others for long, and each forgets within a chunk or two.
BOUNDED_ALIKE = "bounded-alike"
STEPS = {"steps2-": 2, "steps3-": 3}
GATES = (*LOGIT_MEANS, *(PER_CHANNEL + name for name in (*LOGIT_MEANS, BOUNDED, BOUNDED_ALIKE)),
         *(steps + name for steps in STEPS for name in LOGIT_MEANS))


def parse_heads(text):
    """(Hk, Hv) of '16/32'."""
    try:
        key_heads, value_heads = (int(part) for part in text.split("/"))
    except ValueError:
        raise ValueError(f"heads '{text}': expected Hk/Hv, as 16/32") from None
    if key_heads < 1 or value_heads < 1 or value_heads % key_heads:
        raise ValueError(f"heads '{text}': Hv must be a multiple of Hk")
    return key_heads, value_heads


def parse_lengths(text):
    """[8192, 8192] of '2x8192', [28672, 4096] of '1x28672+1x4096'."""
    lengths = []
    try:
        for term in text.split("+"):
            count, _, length = term.rpartition("x")
            lengths += [int(length)] * int(count or 1)
    except ValueError:
        raise ValueError(f"seq '{text}': expected lengths as 4x8192 or 1x28672+1x4096") from None
    if not lengths or min(lengths) < 1:
        raise ValueError(f"seq '{text}': lengths must be 1 or more")
    return lengths


@dataclasses.dataclass
class Inputs:
    """bfloat16 query, key [T, Hk, 128], value [T, Hv, 128]; float32 log_decay [T, Hv] or [T, Hv, 128], beta
    [T, Hv]; with n steps per token key [T, n, Hk, 128], value [T, n, Hv, 128], beta [T, n, Hv]; initial_state
    [N, Hv, 128, 128] float32; offsets [N + 1] in int64 and int32 (each contender keeps to one tensor: FlashQLA knows its
    plans by the tensor's identity)."""
    query: object
    key: object
    value: object
    log_decay: object
    beta: object
    initial_state: object
    offsets: object
    offsets32: object
    lengths: list

    @property
    def tokens(self):
        return self.query.shape[0]

    @property
    def decays_by_channel(self):
        return self.log_decay.dim() == 3


def steps_of(inputs):
    """Keys, values and betas of a token."""
    return inputs.key.shape[1] if inputs.key.dim() == 4 else 1


def rows_of_steps(inputs):
    """The same with a token for every step: the first of a token's has its decay, and the last its query; the others
    have none, and zeros for a query."""
    import torch
    steps, tokens = steps_of(inputs), inputs.query.shape[0]

    def rows(tensor, at):
        result = torch.zeros(tokens, steps, *tensor.shape[1:], dtype=tensor.dtype, device=tensor.device)
        result[:, at] = tensor
        return result.flatten(0, 1)
    return dataclasses.replace(
        inputs, query=rows(inputs.query, -1), key=inputs.key.flatten(0, 1), value=inputs.value.flatten(0, 1),
        beta=inputs.beta.flatten(0, 1), log_decay=rows(inputs.log_decay, 0), offsets=inputs.offsets * steps,
        offsets32=inputs.offsets32 * steps, lengths=[length * steps for length in inputs.lengths])


def offsets_of(lengths, dtype):
    import torch
    return torch.tensor([0, *lengths], dtype=dtype).cumsum(0, dtype=dtype).to(DEVICE)


def random_inputs(heads, seq):
    """Everything but the gates: log_decay is None."""
    import torch
    (key_heads, value_heads), lengths = parse_heads(heads), parse_lengths(seq)
    tokens = sum(lengths)
    generator = torch.Generator(device=DEVICE).manual_seed(zlib.crc32(f"{heads} {seq}".encode()))

    def normal(*shape):
        return torch.randn(*shape, device=DEVICE, generator=generator)

    unit = torch.nn.functional.normalize
    return Inputs(query=unit(normal(tokens, key_heads, DIM), dim=-1).bfloat16(),
                  key=unit(normal(tokens, key_heads, DIM), dim=-1).bfloat16(),
                  value=normal(tokens, value_heads, DIM).bfloat16(), log_decay=None,
                  beta=normal(tokens, value_heads).sigmoid(),
                  initial_state=normal(len(lengths), value_heads, DIM, DIM) / DIM ** 0.5,
                  offsets=offsets_of(lengths, torch.int64), offsets32=offsets_of(lengths, torch.int32),
                  lengths=lengths)


def with_gates(inputs, gates):
    """The same tensors with gates of a regime of GATES."""
    import torch
    by_channel, name = gates.startswith(PER_CHANNEL), gates.removeprefix(PER_CHANNEL)
    steps = next((count for prefix, count in STEPS.items() if gates.startswith(prefix)), 1)
    if steps > 1:
        name = name.split("-", 1)[1]
    shape = (*inputs.beta.shape, DIM) if by_channel else tuple(inputs.beta.shape)
    generator = torch.Generator(device=DEVICE).manual_seed(zlib.crc32(f"{gates} {shape}".encode()))

    def normal(*of):
        return torch.randn(*of, device=DEVICE, generator=generator)

    if name == BOUNDED:
        heads = shape[1]
        rate = ((torch.rand(heads, 1, device=DEVICE, generator=generator) * 2 - 1) * math.log(2)).exp()
        log_decay = -BOUND * torch.sigmoid(rate * (normal(*shape) + normal(heads, DIM)))
    elif name == BOUNDED_ALIKE:
        log_decay = -BOUND * torch.sigmoid(normal(*shape))
    elif LOGIT_MEANS[name] is None:
        log_decay = torch.zeros(shape, device=DEVICE)
    else:
        log_decay = torch.nn.functional.logsigmoid(normal(*shape) + LOGIT_MEANS[name])
    if steps == 1:
        return dataclasses.replace(inputs, log_decay=log_decay)
    tokens, key_heads, value_heads = inputs.query.shape[0], inputs.query.shape[1], inputs.value.shape[1]
    return dataclasses.replace(
        inputs, log_decay=log_decay, beta=normal(tokens, steps, value_heads).sigmoid(),
        key=torch.nn.functional.normalize(normal(tokens, steps, key_heads, DIM), dim=-1).bfloat16(),
        value=normal(tokens, steps, value_heads, DIM).bfloat16())


def read_cases(path):
    """[(name, heads, seq, arrays)] of a file written by export_case.py."""
    import numpy
    found = []
    with numpy.load(path) as file:
        for name in sorted({key.rsplit(".", 1)[0] for key in file.files}):
            arrays = {part: file[f"{name}.{part}"] for part in ("q", "k", "v", "g", "beta", "cu_seqlens")}
            lengths = numpy.diff(arrays["cu_seqlens"]).tolist()
            found.append((name, f"{arrays['q'].shape[1]}/{arrays['v'].shape[1]}",
                          "+".join(f"1x{length}" for length in lengths), arrays))
    return found


def case_inputs(arrays):
    import torch
    lengths = [int(b - a) for a, b in zip(arrays["cu_seqlens"], arrays["cu_seqlens"][1:])]
    tensor = {name: torch.from_numpy(array).to(DEVICE) for name, array in arrays.items()}
    state = torch.zeros(len(lengths), arrays["v"].shape[1], DIM, DIM, device=DEVICE)
    return Inputs(query=tensor["q"].bfloat16(), key=tensor["k"].bfloat16(), value=tensor["v"].bfloat16(),
                  log_decay=tensor["g"].float().contiguous(), beta=tensor["beta"].float().contiguous(),
                  initial_state=state, offsets=offsets_of(lengths, torch.int64),
                  offsets32=offsets_of(lengths, torch.int32), lengths=lengths)

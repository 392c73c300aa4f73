"""Tensors for the operands of any problem, random and of a size that keeps states bounded."""
import torch

import gdnbench_torch as gdn
from inputs import parse_lengths


def lengths_of(problem):
    fields = dict(field.split("=", 1) for field in problem.split(":")[1].split(","))
    return parse_lengths(fields["seq"])


def offsets_of(lengths):
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return offsets


def values_of(operand, device):
    """Random values that keep a state bounded, whatever number of runs go on from it."""
    x = torch.randn(operand.extents, device=device)
    if operand.name in ("q", "k"):
        x = torch.nn.functional.normalize(x, dim=-1)
    elif operand.name == "log_decay":
        x = -0.1 * x.abs()
    elif operand.name == "beta":
        x = x.sigmoid()
    elif operand.name in ("conv_weight", "conv_bias"):
        x = 0.5 * x
    return x.to(gdn.DTYPES[operand.dtype])


def dense(problem, device, given=()):
    """Tensors of what the problem reads, by operand name; outputs are made by the plan. `given`: those that the caller
    has itself."""
    offsets = offsets_of(lengths_of(problem))
    tensors = {"sequence_offsets": torch.tensor(offsets, device=device)}
    for operand in gdn.operands(problem, offsets):
        if operand.name in given or operand.name in tensors:
            continue
        if operand.name == "slot_index":
            tensors[operand.name] = torch.randperm(operand.extents[0], device=device)
        elif operand.is_read:
            tensors[operand.name] = values_of(operand, device)
    return tensors

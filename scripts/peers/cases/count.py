#!/usr/bin/env python3
"""Prints how many cases there are: a Markdown table by peer and function, one by what callers need to understand.

    python3 scripts/peers/cases/count.py
"""
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from cases import peers  # noqa: E402: the package is found by the line above

GATES = ("g", "a", "alpha", "beta", "b")
WINDOWS = ("initial_states", "conv_state", "conv_states", "cache", "initial_state",
           "initial_state_source", "state", "sx")
INDICES = ("conv_state_indices", "cache_indices", "ssm_state_indices", "initial_state_indices", "state_indices",
           "output_state_indices", "ssm_state_indices_output")
# Recurrences whose states are [.., K, V], of peers whose others are [.., V, K].
KEYS_FIRST = {"flashinfer": ("gated_delta_rule_decode",), "vllm": (), "ggml": (),
              "sglang": ("fused_sigmoid_gating_delta_rule_update",)}
SIXTEEN_BITS = ("bf16", "f16")


def dense(spec):
    """Whether a tensor's elements follow one another; a dimension of one entry may have any stride."""
    expected, strides = 1, spec.storage.strides(spec.shape)
    for extent, stride in reversed(list(zip(spec.shape, strides))):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


def has(case, names):
    return [case.tensors[name] for name in names if name in case.tensors]


def negative(spec):
    return any(number < 0 for number in spec.fill.values)


NEEDS = {
    "some tensor strided": lambda case: any(not dense(spec) for spec in case.tensors.values()),
    "tokens as a slice of a wider array": lambda case: any(
        spec.storage.extents for spec in has(case, ("x", "q", "k", "v", "a", "b", "mixed_qkv"))),
    "a pool with gaps between its rows": lambda case: any(
        spec.storage.extents or spec.storage.steps or spec.storage.padding for spec in has(case, WINDOWS)),
    "float32 weights beside 16-bit inputs": lambda case: any(
        spec.dtype in SIXTEEN_BITS for spec in has(case, ("x",))) and any(
            spec.dtype == "f32" for spec in has(case, ("weight",))),
    "no window or state given": lambda case: not has(case, WINDOWS),
    "windows read for some sequences only": lambda case: bool(has(case, ("has_initial_state",))),
    "a ring as window": lambda case: bool(has(case, ("cache_seqlens",))),
    "sequences numbered token by token": lambda case: bool(has(case, ("seq_idx",))),
    "sequences of different lengths": lambda case: bool(has(case, ("cu_seqlens", "query_start_loc"))),
    "int32 offsets or indices": lambda case: any(spec.dtype == "int32" for spec in case.tensors.values()),
    "rows of a pool by index": lambda case: bool(has(case, INDICES)),
    "padding by a negative index": lambda case: any(negative(spec) for spec in has(case, INDICES)),
    "16-bit gates or betas": lambda case: any(spec.dtype in SIXTEEN_BITS for spec in has(case, GATES)),
    "gates as logits": lambda case: bool(has(case, ("A_log", "dt_bias"))),
    "a decay for each key channel": lambda case: "kda" in case.function or bool(case.parameters.get("kda")),
    "a 16-bit or 8-bit state": lambda case: any(spec.dtype != "f32" for spec in has(case, WINDOWS)) and any(
        name in case.tensors for name in ("q", "mixed_qkv")),
    "a state of [V, K]": lambda case: bool(has(case, ("q", "mixed_qkv"))) and (
        bool(case.options.get("state_v_first")) if case.peer == "fla" else case.function not in KEYS_FIRST[case.peer]),
    "a residual": lambda case: bool(has(case, ("residual",))),
    "several steps for each token": lambda case: case.options.get("num_householder", 1) > 1,
}


def table(title, counts):
    lines = [f"| {title} | cases |", "|:--|--:|"]
    return "\n".join(lines + [f"| {name} | {count} |" for name, count in counts.items()])


def main():
    every = list(peers.cases())
    by_function = collections.Counter(f"{case.peer} | {case.function}" for case in every)
    print(table("peer | function", by_function).replace("|:--|--:|", "|:--|:--|--:|"))
    print()
    print(table("what a case needs", {name: sum(map(need, every)) for name, need in NEEDS.items()}))
    print(f"\n{len(every)} cases")


if __name__ == "__main__":
    main()

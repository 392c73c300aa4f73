#!/usr/bin/env python3
"""Writes data/fixtures/numpy_reference.h5: cases in the gdn-case/1 form and their outputs in float64,
computed here by a recurrence in numpy that shares no code with the C++ reference.

    /CASE          attributes and inputs (docs/contract.md, section 3)
    /CASE/outputs  output, final_state, conv_output, conv_state

The file is frozen in data/; run this only to change the set of cases:
    python3 scripts/make_numpy_fixtures.py data/fixtures/numpy_reference.h5
Needs numpy and h5py (Debian: python3-numpy python3-h5py).
"""
import argparse

import h5py
import numpy as np


def round_to(dtype, x):
    """x rounded to the element type (nearest even), widened to float32 again."""
    x = np.asarray(x, np.float32)
    if dtype == "float16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        bits = x.view(np.uint32).astype(np.uint64)
        bits += 0x7FFF + ((bits >> 16) & 1)
        return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return x


def silu(x):
    return x / (1 + np.exp(-x))


def gates_of(case, attributes):
    """log decay and beta in float64."""
    if "log_decay" in case:
        log_decay = case["log_decay"].astype(np.float64)
    elif "neg_log_decay" in case:
        log_decay = -case["neg_log_decay"].astype(np.float64)
    elif "decay" in case:
        with np.errstate(divide="ignore"):
            log_decay = np.log(case["decay"].astype(np.float64))
    elif "bounded_decay_logit" in case:
        x = case["bounded_decay_logit"].astype(np.float64) + case["dt_bias"].astype(np.float64)
        rate = np.exp(case["A_log"].astype(np.float64))
        rate = rate.reshape(rate.shape + (1,) * (x.ndim - 2))
        log_decay = -attributes.get("decay_bound", 5.0) / (1 + np.exp(-rate * x))
    else:
        x = case["decay_logit"].astype(np.float64) + case["dt_bias"].astype(np.float64)
        rate = np.exp(case["A_log"].astype(np.float64))
        log_decay = -rate.reshape(rate.shape + (1,) * (x.ndim - 2)) * np.logaddexp(0, x)
    if "beta" in case:
        return log_decay, case["beta"].astype(np.float64)
    if "beta_logit2" in case:
        return log_decay, 2 / (1 + np.exp(-case["beta_logit2"].astype(np.float64)))
    return log_decay, 1 / (1 + np.exp(-case["beta_logit"].astype(np.float64)))


def convolve(case, attributes):
    """The causal convolution of every sequence behind its window, and the new windows."""
    qkv = case["qkv"].astype(np.float64)
    if attributes.get("conv_layout") == "time":
        qkv = qkv.T
    weight = case["conv_weight"].astype(np.float64)
    width = weight.shape[1]
    output = np.zeros_like(qkv)
    windows = case["conv_state"].astype(np.float64).copy()
    offsets = case["sequence_offsets"]
    slots = case.get("slot_index", np.arange(len(offsets) - 1))
    for n, slot in enumerate(slots):
        if slot < 0:
            continue
        part = slice(offsets[n], offsets[n + 1])
        extended = np.concatenate([windows[slot].T, qkv[part]])
        length = offsets[n + 1] - offsets[n]
        y = sum(weight[:, j] * extended[j:j + length] for j in range(width))
        if "conv_bias" in case:
            y = y + case["conv_bias"].astype(np.float64)
        output[part] = silu(y) if attributes["activation"] == "silu" else y
        windows[slot] = extended[len(extended) - (width - 1):].T
    return output, windows


def recurrence(q, k, v, case, attributes, normalise):
    """Outputs and the state pool after the call, all heads of a sequence at once.

    k, v and beta have a row per step, [T, n, heads, dim] and [T, n, heads]; log_decay is [T, heads]
    or, one per key channel, [T, heads, Dk].
    """
    log_decay, beta = gates_of(case, attributes)
    if log_decay.ndim == 2:
        log_decay = log_decay[:, :, None]
    beta = beta.reshape(len(beta), -1, v.shape[-2])
    additive = attributes.get("update") == "additive"
    value_heads, value_dim = v.shape[-2:]
    group = value_heads // q.shape[1]
    q, k = np.repeat(q, group, axis=1), np.repeat(k, group, axis=-2)
    if normalise:
        q = q / np.sqrt((q * q).sum(-1, keepdims=True) + 1e-6)
        k = k / np.sqrt((k * k).sum(-1, keepdims=True) + 1e-6)
    scale = attributes.get("scale", 1 / np.sqrt(q.shape[-1]))
    offsets = case["sequence_offsets"]
    slots = case.get("slot_index", np.arange(len(offsets) - 1))
    transposed = attributes["state_layout"] == "vk"
    shape = (value_heads, q.shape[-1], value_dim)
    if "initial_state" in case:
        pool = case["initial_state"].astype(np.float64).copy()
    else:
        stored = (shape[0], shape[2], shape[1]) if transposed else shape
        pool = np.full((max(slots) + 1,) + stored, np.nan)
    output = np.zeros(v.shape[:1] + v.shape[-2:])
    for n, slot in enumerate(slots):
        if slot < 0 or offsets[n] == offsets[n + 1]:
            continue
        state = np.zeros(shape)
        if "initial_state" in case:
            state = pool[slot].swapaxes(1, 2) if transposed else pool[slot]
        for t in range(offsets[n], offsets[n + 1]):
            state = np.exp(log_decay[t])[:, :, None] * state
            for step in range(k.shape[1]):
                residual = v[t, step]
                if not additive:
                    residual = residual - np.einsum("hij,hi->hj", state, k[t, step])
                state = state + np.einsum("h,hi,hj->hij", beta[t, step], k[t, step], residual)
            output[t] = scale * np.einsum("hij,hi->hj", state, q[t])
        pool[slot] = state.swapaxes(1, 2) if transposed else state
    return output, pool


def evaluate(case, attributes):
    op = attributes["op"]
    heads = (attributes["num_key_heads"], attributes["key_head_dim"])
    result = {}
    if op == "gated_delta":
        q, k, v = (case[name].astype(np.float64) for name in "qkv")
        normalise = attributes["normalize_qk"]
    else:
        conv, windows = convolve(case, attributes)
        by_time = attributes.get("conv_layout") == "time"
        result["conv_output"] = conv.T.copy() if by_time else conv
        result["conv_state"] = windows
        if op == "causal_conv1d":
            return result
        width = heads[0] * heads[1]
        q = conv[:, :width].reshape(-1, *heads)
        k = conv[:, width:2 * width].reshape(-1, *heads)
        v = conv[:, 2 * width:].reshape(
            -1, attributes["num_value_heads"], attributes["value_head_dim"])
        normalise = True
    if attributes.get("steps", 1) == 1:
        k, v = k[:, None], v[:, None]
    result["output"], pool = recurrence(q, k, v, case, attributes, normalise)
    if attributes.get("final_state", 1):
        result["final_state"] = pool
    return result


def build(op, lengths, Hk, Hv, Dk, Dv, *, seed, token="float32", state="float32", layout="kv",
          norm=0, scale=None, gate="log_decay", beta="beta", initial=False, slots=None, rows=None,
          reset=(), final=1, width=4, bias=False, activation="silu", conv_layout="channels",
          update="delta", steps=1, decay="head", bound=5.0):
    """One case: attributes and inputs, rounded to their element types."""
    rng = np.random.default_rng(seed)
    T, channels = sum(lengths), 2 * Hk * Dk + Hv * Dv
    rows = rows or len(lengths)
    attributes = {"schema": "gdn-case/1", "op": op, "num_key_heads": Hk, "num_value_heads": Hv,
                  "key_head_dim": Dk, "value_head_dim": Dv, "token_dtype": token,
                  "state_dtype": state, "normalize_qk": norm, "state_layout": layout,
                  "activation": activation}
    if scale is not None:
        attributes["scale"] = scale
    if not final:
        attributes["final_state"] = 0
    if conv_layout != "channels":
        attributes["conv_layout"] = conv_layout
    for name, value, usual in (("update", update, "delta"), ("steps", steps, 1),
                               ("decay", decay, "head"), ("decay_bound", bound, 5.0)):
        if value != usual:
            attributes[name] = value
    per_step = (T,) if steps == 1 else (T, steps)
    per_gate = (Hv,) if decay == "head" else (Hv, Dk)
    case = {"sequence_offsets": np.cumsum([0] + list(lengths)).astype(np.int64)}
    if slots is not None:
        case["slot_index"] = np.array(slots, np.int64)
    if op == "gated_delta":
        q = rng.standard_normal((T, Hk, Dk))
        k = rng.standard_normal(per_step + (Hk, Dk))
        if not norm:
            q /= np.linalg.norm(q, axis=-1, keepdims=True)
            k /= np.linalg.norm(k, axis=-1, keepdims=True)
        case.update(q=round_to(token, q), k=round_to(token, k),
                    v=round_to(token, rng.standard_normal(per_step + (Hv, Dv))))
    else:
        qkv = rng.standard_normal((T, channels))
        case["qkv"] = round_to(token, qkv if conv_layout == "channels" else qkv.T.copy())
        case["conv_weight"] = round_to(token, rng.standard_normal((channels, width)) / width**0.5)
        case["conv_state"] = round_to(state, rng.standard_normal((rows, channels, width - 1)))
        if bias:
            case["conv_bias"] = round_to(token, 0.1 * rng.standard_normal(channels))
    if op != "causal_conv1d":
        log_decay = np.log(rng.uniform(0.8, 1, (T,) + per_gate))
        log_decay[list(reset)] = -np.inf
        if gate in ("decay_logit", "bounded_decay_logit"):
            case[gate] = rng.standard_normal((T,) + per_gate).astype(np.float32)
            case["A_log"] = np.log(rng.uniform(0.1, 4, Hv)).astype(np.float32)
            case["dt_bias"] = rng.uniform(-5, -1, per_gate).astype(np.float32)
        else:
            encoded = {"log_decay": log_decay, "neg_log_decay": -log_decay,
                       "decay": np.exp(log_decay)}[gate]
            case[gate] = encoded.astype(np.float32)
        shape = per_step + (Hv,)
        b = rng.standard_normal(shape) if beta.startswith("beta_logit") else rng.uniform(0, 2, shape)
        case[beta] = b.astype(np.float32)
        if initial:
            shape = (Hv, Dk, Dv) if layout == "kv" else (Hv, Dv, Dk)
            case["initial_state"] = round_to(state, rng.standard_normal((rows,) + shape))
    return attributes, case


CASES = {
    "plain": build("gated_delta", [50], 1, 2, 16, 8, seed=1),
    "ragged_slots_vk": build("gated_delta", [20, 0, 7, 33], 2, 4, 8, 6, seed=2, layout="vk",
                             slots=[4, 1, -1, 0], rows=6, initial=True, norm=1, scale=0.3,
                             gate="decay"),
    "bfloat16_reset": build("gated_delta", [40, 3], 2, 6, 8, 12, seed=3, token="bfloat16",
                            state="float16", initial=True, gate="neg_log_decay", reset=(5, 17)),
    "logits": build("gated_delta", [70], 1, 3, 12, 4, seed=4, gate="decay_logit",
                    beta="beta_logit", norm=1),
    "no_final_state": build("gated_delta", [9, 9], 1, 1, 4, 4, seed=5, initial=True, final=0,
                            token="float16"),
    "conv": build("causal_conv1d", [9, 0, 2, 5, 1], 1, 2, 4, 3, seed=6, bias=True,
                  slots=[3, 0, 5, -1, 2], rows=6),
    "conv_by_time": build("causal_conv1d", [9, 3], 1, 2, 4, 3, seed=7, width=6,
                          conv_layout="time", activation="none", token="bfloat16"),
    "layer": build("gated_delta_layer", [30, 2, 1], 2, 4, 8, 6, seed=8, gate="decay_logit",
                   beta="beta_logit", initial=True, slots=[2, 0, 1], rows=4, token="bfloat16"),
    "layer_by_time": build("gated_delta_layer", [17], 1, 2, 8, 6, seed=9, gate="decay_logit",
                           beta="beta_logit", layout="vk", conv_layout="time", bias=True, width=3),
    "additive": build("gated_delta", [30, 4], 1, 2, 8, 6, seed=10, update="additive", initial=True),
    "additive_channel": build("gated_delta", [40], 2, 2, 6, 5, seed=11, update="additive",
                              decay="channel", gate="decay"),
    "channel": build("gated_delta", [25, 0, 9], 2, 4, 8, 6, seed=12, decay="channel", initial=True,
                     layout="vk", reset=(3, 11), token="bfloat16"),
    "channel_logits": build("gated_delta", [50], 1, 3, 12, 4, seed=13, decay="channel",
                            gate="decay_logit", beta="beta_logit", norm=1),
    "steps_2": build("gated_delta", [20, 3], 2, 4, 8, 6, seed=14, steps=2, initial=True,
                     slots=[2, 0], rows=3, norm=1),
    "steps_3_channel": build("gated_delta", [15], 1, 2, 6, 4, seed=15, steps=3, decay="channel",
                             gate="neg_log_decay", beta="beta_logit"),
    "steps_2_additive": build("gated_delta", [12], 1, 1, 5, 4, seed=16, steps=2, update="additive",
                              token="float16", final=0),
    "layer_channel": build("gated_delta_layer", [17, 3], 1, 2, 8, 6, seed=17, decay="channel",
                           gate="decay_logit", beta="beta_logit", initial=True),
    "layer_additive": build("gated_delta_layer", [11], 2, 2, 4, 6, seed=18, update="additive",
                            gate="decay_logit", beta="beta_logit"),
    "bounded": build("gated_delta", [30, 7], 1, 3, 12, 4, seed=19, gate="bounded_decay_logit",
                     bound=1.75, beta="beta_logit2", initial=True),
    "channel_bounded": build("gated_delta", [40], 2, 4, 8, 6, seed=20, decay="channel",
                             gate="bounded_decay_logit", beta="beta_logit2", norm=1),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="the fixture to write")
    with h5py.File(parser.parse_args().file, "w") as file:
        for name, (attributes, case) in CASES.items():
            group = file.create_group(name)
            group.attrs.update(attributes)
            for dataset, values in case.items():
                group[dataset] = values
            outputs = group.create_group("outputs")
            outputs.attrs["implementation"] = "numpy float64 recurrence"
            for dataset, values in evaluate(case, attributes).items():
                outputs[dataset] = values


if __name__ == "__main__":
    main()

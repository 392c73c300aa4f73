#!/usr/bin/env python3
"""What the errors of a chunked kernel are made of: gated_delta in float64, with 16-bit roundings where a kernel has them.

    scripts/rounding_model.py                            random tokens as the harness draws them, three gate regimes
    scripts/rounding_model.py --without                  and cuda/fused_sm90 without one of its roundings at a time
    scripts/rounding_model.py --keys equal --betas half  keys that are all the same (also: alternating, near_equal)
    scripts/rounding_model.py --case trace.npz           cases that scripts/peers/export_case.py wrote

Prints, per gate regime or case and form, the output's error over its rounding floor (output rounded to bfloat16) and the
state's relative error. Forms: where beta is applied, and what goes to the state unrounded. Needs numpy.
Exit 0 done, 2 bad usage or input.
"""
import argparse
import sys

CHUNK = 64
DIM = 128
FORGETS = 2.0 ** -14  # gamma_C up to which fused_sm90 adds a token's own update unrounded (record.h there)
GATES = {"none": None, "near_one": 8.0, "weak": 3.0, "strong": -1.0}  # mean of x in log decay = log sigmoid(x)
KEYS = ("random", "equal", "alternating", "near_equal")
BETAS = ("sigmoid", "half", "one", "mixture")
ROUNDED = ("P", "S", "T", "x", "V'")
FORMS = ("fused_sm90", "T x", "x + T x", "beta in T", "FLA")


def fail(message):
    print(f"rounding_model: {message}", file=sys.stderr)
    sys.exit(2)


try:
    import numpy as np
except ImportError as missing:
    fail(str(missing))


def bfloat16(x):
    bits = np.asarray(x, np.float64).astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def exact(x):
    return x


def evaluate(head, form, rounding):
    """(output [T, DIM], final state [value, key]) of one value head, rounding[name] applied to each of ROUNDED."""
    query, key, value, log_decay, beta, state = head
    output = np.zeros((len(log_decay), DIM))
    round_p, round_s, round_t, round_x, round_v = (rounding[name] for name in ROUNDED)
    for begin in range(0, len(log_decay), CHUNK):
        part = slice(begin, begin + CHUNK)
        q, k, v, b = query[part], key[part], value[part], beta[part][:, None]
        cumulative = np.cumsum(log_decay[part])
        gamma, gamma_end = np.exp(cumulative)[:, None], np.exp(cumulative[-1])
        lower = np.tril(np.exp(np.minimum(cumulative[:, None] - cumulative[None, :], 0)))
        identity = np.eye(len(cumulative))
        inverse = np.linalg.inv(identity + np.tril(b * lower * (k @ k.T), -1))
        operand = round_s(state)
        predicted = gamma * (k @ operand.T)
        if form == "beta in T":
            update = round_t(inverse * b.T) @ round_x(v - predicted)
        elif form == "FLA":
            inverse = round_t(inverse)
            update = (round_x(inverse @ round_x(b * v)) -
                      round_x(inverse @ round_x(b * gamma * k)) @ operand.T)
        else:
            x = b * (v - predicted)
            if form == "x + T x" or (form == "fused_sm90" and gamma_end <= FORGETS):
                update = x + round_t(inverse - identity) @ round_x(x)
            else:
                update = round_t(inverse) @ round_x(x)
        p = round_p(DIM ** -0.5 * lower * (q @ k.T))
        output[part] = DIM ** -0.5 * gamma * (q @ operand.T) + p @ round_v(update)
        state = gamma_end * state + round_v(update * np.exp(cumulative[-1] - cumulative)[:, None]).T @ k
    return output, state


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def random_heads(gates, keys, betas, heads, tokens, random):
    for _ in range(heads):
        key = {
            "random": lambda: random.normal(size=(tokens, DIM)),
            "equal": lambda: np.tile(random.normal(size=DIM), (tokens, 1)),
            "alternating": lambda: np.outer(1 - 2 * (np.arange(tokens) % 2), random.normal(size=DIM)),
            "near_equal": lambda: random.normal(size=DIM) + 0.1 * random.normal(size=(tokens, DIM)),
        }[keys]()
        beta = {
            "sigmoid": lambda: 1 / (1 + np.exp(-random.normal(size=tokens))),
            "half": lambda: np.full(tokens, 0.5),
            "one": lambda: np.ones(tokens),
            "mixture": lambda: random.choice([0.5, 1.0, 2.0], tokens),
        }[betas]()
        mean = GATES[gates]
        decay = np.zeros(tokens) if mean is None else -np.log1p(np.exp(-random.normal(size=tokens) - mean))
        yield (bfloat16(unit(random.normal(size=(tokens, DIM)))), bfloat16(unit(key)),
               bfloat16(random.normal(size=(tokens, DIM))), decay, beta, random.normal(size=(DIM, DIM)) / DIM ** 0.5)


def case_heads(arrays, name):
    q, k, v, g, beta = (arrays[f"{name}.{part}"].astype(np.float64) for part in ("q", "k", "v", "g", "beta"))
    if q.shape[2] != DIM or v.shape[2] != DIM:
        fail(f"{name}: heads of {q.shape[2]}x{v.shape[2]}, expected {DIM}x{DIM}")
    if len(arrays[f"{name}.cu_seqlens"]) != 2:
        fail(f"{name}: expected one sequence")
    for head in range(v.shape[1]):
        of_key = head * q.shape[1] // v.shape[1]
        yield (bfloat16(q[:, of_key]), bfloat16(k[:, of_key]), bfloat16(v[:, head]), g[:, head], beta[:, head],
               np.zeros((DIM, DIM)))


def relative(pairs):
    """Error of all heads together over their size: pairs of (result, float64)."""
    return (sum(np.linalg.norm(a - b) ** 2 for a, b in pairs) / sum(np.linalg.norm(b) ** 2 for _, b in pairs)) ** 0.5


def errors(heads, wholes, form, rounding):
    """(output's error, state's)"""
    results = [evaluate(head, form, rounding) for head in heads]
    return (relative([(bfloat16(output), whole) for (output, _), (whole, _) in zip(results, wholes)]),
            relative([(state, whole) for (_, state), (_, whole) in zip(results, wholes)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", default="none,weak,strong", help=f"comma list of {', '.join(GATES)}")
    parser.add_argument("--keys", default="random", choices=KEYS)
    parser.add_argument("--betas", default="sigmoid", choices=BETAS)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", metavar="CASES.npz", help="its cases in the place of random tokens")
    parser.add_argument("--without", action="store_true", help="also fused_sm90 without each of its roundings")
    options = parser.parse_args()
    if options.heads < 1 or options.tokens < 1:
        fail("--heads and --tokens: expected 1 or more")
    if options.case:
        try:
            arrays = dict(np.load(options.case))
            sets = {name[:-2]: list(case_heads(arrays, name[:-2])) for name in arrays if name.endswith(".q")}
        except (OSError, ValueError, EOFError) as error:
            fail(f"{options.case}: {error}")
        except KeyError as error:
            fail(f"{options.case}: has no {error}")
        if not sets:
            fail(f"{options.case}: no case in it; scripts/peers/export_case.py writes such files")
    else:
        unknown = [gates for gates in options.gates.split(",") if gates not in GATES]
        if unknown:
            fail(f"--gates '{unknown[0]}' is unknown: {', '.join(GATES)}")
        random = np.random.default_rng(options.seed)
        sets = {gates: list(random_heads(gates, options.keys, options.betas, options.heads, options.tokens, random))
                for gates in options.gates.split(",")}
    everywhere = {name: bfloat16 for name in ROUNDED}
    nowhere = {name: exact for name in ROUNDED}
    print("| | form | output error | over the floor | state error |\n|---|---|---|---|---|")
    for name, heads in sets.items():
        wholes = [evaluate(head, "T x", nowhere) for head in heads]
        floor = relative([(bfloat16(output), output) for output, _ in wholes])
        kinds = [(form, form, everywhere) for form in FORMS]
        if options.without:
            kinds += [(f"fused_sm90, {left_out} not rounded", "fused_sm90", {**everywhere, left_out: exact})
                      for left_out in ROUNDED]
        for title, form, rounding in kinds:
            output, state = errors(heads, wholes, form, rounding)
            print(f"| {name} | {title} | {output:.2e} | {output / floor:.2f} | {state:.2e} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The peers' cases: how many there are, tensors that lie as their case says, oracles against loops that share nothing
with them, and the library's float64 reference where there is a library. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/peers/cases/cases_test.py
"""
import collections
import contextlib
import dataclasses
import io
import math
import pathlib
import sys
import unittest
from unittest import mock

try:
    import numpy as np
except ImportError:
    print("cases_test: no numpy here")
    sys.exit(77)

SCRIPTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SCRIPTS / "peers"), str(SCRIPTS)]
from cases import count, delta_rule, naive, peers, tensors  # noqa: E402: the package is found by the line above
from cases.case import Case, Compare, Fill, NORMAL, Storage, TensorSpec, dice, values  # noqa: E402
from cases.judge import failures  # noqa: E402
from cases.oracle import ORACLES, expected  # noqa: E402

COUNTS = {
    ("causal-conv1d", "test_causal_conv1d"): 6480,
    ("causal-conv1d", "test_causal_conv1d_update"): 648,
    ("causal-conv1d", "test_causal_conv1d_update_with_batch_gather"): 648,
    ("causal-conv1d", "test_causal_conv1d_update_with_padding"): 324,
    ("causal-conv1d", "test_causal_conv1d_get_states"): 9,
    ("causal-conv1d", "test_causal_conv1d_race_condition"): 1,
    ("causal-conv1d", "test_causal_conv1d_varlen"): 1008,
    ("causal-conv1d", "test_causal_conv1d_varlen_padding"): 288,
    ("vllm", "test_causal_conv1d_update"): 12,
    ("vllm", "test_causal_conv1d_update_with_batch_gather"): 128,
    ("vllm", "test_causal_conv1d_varlen"): 24,
    ("sglang", "test_causal_conv1d_update"): 12,
    ("sglang", "test_causal_conv1d_update_with_batch_gather"): 192,
    ("sglang", "test_causal_conv1d_varlen"): 40,
    ("flashinfer", "test_prefill_kernel_basic"): 960,
    ("flashinfer", "test_prefill_kernel_nonfull"): 1344,
    ("flashinfer", "test_prefill_kernel_zero_length_sequence"): 16,
    ("flashinfer", "test_chunked_prefill"): 576,  # two calls each
    ("flashinfer", "test_checkpoint_correctness"): 32,
    ("flashinfer", "test_prefill_kernel_state_dtype"): 96,
    ("flashinfer", "test_prefill_state_indices_matches_packed"): 96,
    ("flashinfer", "test_verify_kernel_mtp"): 24,
    ("flashinfer", "test_mtp_fp32_state_pool"): 24,
    ("flashinfer", "test_gdn_decode_bf16_state_kernel"): 32,
    ("flashinfer", "test_gdn_decode_bf16_state_mtp_kernel"): 30,
    ("vllm", "test_fused_recurrent_packed_decode_matches_reference"): 12,
    ("vllm", "test_dual_index_read_write_isolation"): 6,
    ("vllm", "test_dual_index_spec_2d"): 4,
    ("ggml", "test_gated_delta_net"): 36,
    ("ggml", "test_ssm_conv"): 45,
    ("ggml", "test_ssm_conv_bias_silu"): 90,
}
PEERS = {"causal-conv1d": 9406, "fla": 290, "flashinfer": 3352, "vllm": 192, "sglang": 285, "ggml": 171}
EVERY = list(peers.cases())


def elements(case):
    return sum(math.prod(tensor.shape) for tensor in case.tensors.values())


def smallest():
    """The smallest case of each test and function; cases whose options, flags, head map or window differ in kind are
    apart."""
    kinds = {}
    for case in EVERY:
        p = case.parameters
        flags = tuple(value for value in p.values() if isinstance(value, (bool, str, type(None))))
        heads = p.get("v_repeat", p.get("HV", 0) // p.get("H", 1)) > 1
        options = tuple((name, type(value), bool(value)) for name, value in case.options.items())
        key = (case.peer, case.source, case.function, tuple(case.tensors), options, flags, heads,
               p.get("state_len", 0) > p.get("width", 0), p.get("K", 1) > 1, p.get("num_householder", 1) > 1)
        if key not in kinds or elements(case) < elements(kinds[key]):
            kinds[key] = case
    return list(kinds.values())


def quick():
    """Of these the small ones, and the smallest one of each function and choice of tensors whatever its size."""
    kinds = sorted(smallest(), key=elements)
    first = {(case.peer, case.function, tuple(case.tensors)): case.name for case in reversed(kinds)}
    return [case for case in kinds
            if elements(case) < 800_000 or first[case.peer, case.function, tuple(case.tensors)] == case.name]


QUICK = quick()


class Lists(unittest.TestCase):
    def test_there_are_as_many_cases_as_the_tests_have_parameters(self):
        found = collections.Counter((case.peer, case.source.rpartition("::")[2]) for case in EVERY)
        for key, count in COUNTS.items():
            with self.subTest(test=key):
                self.assertEqual(found[key], count)
        self.assertEqual(collections.Counter(case.peer for case in EVERY), PEERS)

    def test_no_two_cases_have_one_name(self):
        repeated = [name for name, count in collections.Counter(case.name for case in EVERY).items() if count > 1]
        self.assertEqual(repeated, [])

    def test_every_function_has_an_oracle_and_every_oracle_a_case(self):
        self.assertEqual({(case.peer, case.function) for case in EVERY}, set(ORACLES))

    def test_the_tables_count_every_case_and_find_some_for_every_need(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            count.main()
        lines = printed.getvalue().splitlines()
        rows = [int(line.split("|")[-2]) for line in lines if line.startswith("| ") and line.count("|") == 4
                and line.split("|")[-2].strip().isdigit()]
        self.assertEqual((sum(rows), lines[-1]), (len(EVERY), f"{len(EVERY)} cases"))
        self.assertEqual([line for line in lines if line.endswith("| 0 |")], [])

    def test_a_function_without_an_oracle_is_named(self):
        unknown = dataclasses.replace(EVERY[0], function="causal_conv2d")
        with self.assertRaisesRegex(KeyError, "causal-conv1d causal_conv2d: no oracle, expected one of"):
            expected(unknown, {})


class Memory(unittest.TestCase):
    def test_tensors_have_the_shape_strides_and_dtype_that_their_case_says(self):
        specs = {(spec.storage, spec.shape, spec.dtype): (case, name) for case in QUICK
                 for name, spec in case.tensors.items() if spec.storage != Storage() or math.prod(spec.shape) < 10_000}
        for case, name in specs.values():
            with self.subTest(case=case.name, tensor=name):
                spec = case.tensors[name]
                tensor = tensors.make_tensor(spec, name)
                self.assertEqual((tensor.shape, tensor.dtype, tensor.device), (spec.shape, spec.dtype, "cpu"))
                self.assertEqual(tensor.strides, spec.storage.strides(spec.shape), case.name)
                self.assertEqual(tensor.address, tensor.array.__array_interface__["data"][0])

    def test_strides_are_those_of_a_transposed_slice_of_a_wider_projection(self):
        spec = TensorSpec((2, 3, 5), "bf16", NORMAL, Storage((0, 2, 1), extents=((1, 11),), starts=((1, 4),)))
        self.assertEqual(spec.storage.strides(spec.shape), (55, 1, 11))
        self.assertEqual(tensors.make_tensor(spec, "x").strides, (55, 1, 11))

    def test_strides_are_those_of_every_second_token(self):
        spec = TensorSpec((2, 3, 5), "f32", NORMAL, Storage(extents=((1, 6),), steps=((1, 2),)))
        self.assertEqual(tensors.make_tensor(spec, "x").strides, (30, 10, 1))

    def test_rows_of_a_pool_lie_their_padding_further_apart(self):
        spec = TensorSpec((2, 3, 5), "f32", NORMAL, Storage(padding=7))
        self.assertEqual(tensors.make_tensor(spec, "x").strides, (22, 5, 1))
        self.assertEqual(spec.storage.elements(spec.shape), 44)

    def test_a_slice_that_its_memory_does_not_hold_is_refused(self):
        with self.assertRaisesRegex(ValueError, "dimension 1: 6 entries in memory, expected at least 7"):
            Storage(extents=((1, 6),), starts=((1, 4),)).strides((2, 3, 5))

    def test_gaps_hold_poison_and_elements_none(self):
        for dtype in ("f32", "f16", "bf16", "f8_e4m3", "f8_e5m2"):
            spec = TensorSpec((2, 3, 4), dtype, NORMAL, Storage((0, 2, 1), extents=((1, 9),), starts=((1, 2),)))
            tensor = tensors.make_tensor(spec, "x")
            with self.subTest(dtype=dtype):
                self.assertTrue(np.isfinite(tensor.to_float64()).all())
                base = tensor.array
                while isinstance(base.base, np.ndarray):
                    base = base.base
                # as_strided keeps its memory by an interface object; count what lies around the first element.
                memory = np.lib.stride_tricks.as_strided(tensor.array, (1, 4, 7), (0, 9 * base.itemsize, base.itemsize))
                around = tensors.from_storage(memory, dtype)
                self.assertTrue(np.isnan(around[:, :, 3:]).all())
                self.assertTrue(np.isfinite(around[:, :, :3]).all())

    def test_a_case_gives_the_same_numbers_every_time_and_another_case_others(self):
        first, other = EVERY[0], EVERY[1]
        one, same = (tensors.make_tensors(first)["x"].to_float64() for _ in range(2))
        self.assertTrue((one == same).all())
        self.assertFalse((one == tensors.make_tensors(other)["x"].to_float64()).all())

    def test_a_copy_keeps_numbers_and_strides_and_shares_no_memory(self):
        tensor = tensors.make_tensor(TensorSpec((2, 3, 4), "bf16", NORMAL, Storage((0, 2, 1))), "x")
        copy = tensor.copy()
        self.assertEqual(copy.strides, tensor.strides)
        self.assertTrue((copy.array == tensor.array).all())
        copy.array[...] = 0
        self.assertFalse((copy.array == tensor.array).all())


class Rounding(unittest.TestCase):
    def test_bfloat16_is_rounded_to_nearest_and_ties_to_even(self):
        numbers = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.3895314e38, np.inf, np.nan])
        rounded = tensors.from_storage(tensors.to_storage(numbers, "bf16"), "bf16")
        np.testing.assert_array_equal(rounded, [1, 1, 1 + 2**-6, 1 + 2**-7, -3.3895313892515355e38, np.inf, np.nan])

    def test_8_bit_floats_have_the_values_of_their_formats(self):
        for dtype, largest, smallest_one in (("f8_e4m3", 448.0, 2.0**-9), ("f8_e5m2", 57344.0, 2.0**-16)):
            with self.subTest(dtype=dtype):
                table = tensors.FLOAT8[dtype]
                finite = table[np.isfinite(table)]
                self.assertEqual((finite.max(), finite[finite > 0].min()), (largest, smallest_one))
                again = tensors.from_storage(tensors.to_storage(finite, dtype), dtype)
                np.testing.assert_array_equal(again, finite)
                self.assertEqual(tensors.FLOAT8[dtype][tensors.to_storage(1e9, dtype)], largest)
        # 1.0625 lies between 1 and 1.125, whose patterns are even and odd.
        self.assertEqual(tensors.FLOAT8["f8_e4m3"][tensors.to_storage(1.0625, "f8_e4m3")], 1.0)

    def test_an_unknown_dtype_is_refused_with_those_there_are(self):
        with self.assertRaisesRegex(ValueError, "dtype 'f64': expected one of f32, f16"):
            tensors.to_storage(1.0, "f64")

    def test_fills_are_what_they_say(self):
        def drawn(fill, shape=(4000,)):
            return tensors.make_tensor(TensorSpec(shape, "f32", fill), "x").to_float64()
        self.assertAlmostEqual(np.std(drawn(Fill(scale=0.1))), 0.1, delta=0.01)
        self.assertTrue((np.abs(np.linalg.norm(drawn(Fill("unit"), (50, 8)), axis=-1) - 1) < 1e-6).all())
        self.assertTrue((drawn(Fill("log_sigmoid", replaced=((0.5, -9.0),), floor=-5.0)) >= -5).all())
        self.assertAlmostEqual(np.mean(drawn(Fill("log_sigmoid", replaced=((0.25, 0.0),))) == 0), 0.25, delta=0.03)
        self.assertTrue((drawn(values(range(4000))) == np.arange(4000)).all())


class Judge(unittest.TestCase):
    def judged(self, compare, got, wanted):
        case = Case("peer", "file::test", "function", {}, {}, {}, (compare,))
        return failures(case, {"o": np.array(got, float)}, {"o": np.array(wanted, float)})

    def test_an_error_above_the_bound_is_told_and_one_below_is_not(self):
        near = Compare("o", absolute=0.1, relative=0.1)
        self.assertEqual(self.judged(near, [1.19], [1.0]), [])
        self.assertRegex(self.judged(near, [1.21], [1.0])[0], r"peer:test\[\]:function: o differs in 1 of 1 elements")
        self.assertEqual(self.judged(Compare("o", rms_ratio=0.1), [1.09, 1.0], [1.0, 1.0]), [])
        self.assertRegex(self.judged(Compare("o", rms_ratio=0.01), [1.09, 1.0], [1.0, 1.0])[0], "rms_ratio")
        self.assertRegex(self.judged(Compare("o", nmse=1e-3), [1.09, 1.0], [1.0, 1.0])[0], "nmse")

    def test_nan_passes_no_bound(self):
        for compare in (Compare("o", absolute=1e9, relative=0.0), Compare("o", rms_ratio=1e9), Compare("o", nmse=1e9)):
            with self.subTest(compare=compare):
                self.assertEqual(len(self.judged(compare, [np.nan], [1.0])), 1)

    def test_entries_that_nobody_compares_may_hold_anything(self):
        some = Compare("o", absolute=0.0, relative=0.0, dimension=1, entries=(0, 2))
        self.assertEqual(self.judged(some, [[1, np.nan, 3]], [[1, 2, 3]]), [])
        self.assertEqual(len(self.judged(some, [[1, np.nan, 4]], [[1, 2, 3]])), 1)

    def test_expected_numbers_are_rounded_to_the_dtype_of_the_output(self):
        exactly = Compare("o", absolute=0.0, relative=0.0, dtype="bf16")
        self.assertEqual(self.judged(exactly, [1.0], [1 + 2**-10]), [])

    def test_an_output_of_another_shape_fails(self):
        self.assertRegex(self.judged(Compare("o", rms_ratio=1.0), [1.0], [1.0, 1.0])[0], r"shape \(1,\), expected")


class Oracles(unittest.TestCase):
    def test_oracles_agree_with_loops_and_give_every_output_that_a_test_compares(self):
        seen = set()
        for case in QUICK:
            rng = dice(case.name)
            made = tensors.make_tensors(case)
            got = expected(case, made)
            for compare in case.compares:
                with self.subTest(case=case.name, output=compare.output):
                    self.assertIn(compare.output, got, case.name)
                    self.assertTrue(np.isfinite(got[compare.output]).all(), case.name)
            for output, index, number in naive.samples(case, made, rng, 2):
                with self.subTest(case=case.name, output=output, index=index):
                    self.assertTrue(abs(got[output][index] - number) <= 1e-9 * (1 + abs(number)),
                                    f"{case.name}: {output}{index} is {got[output][index]}, by loops {number}")
            seen.add((case.peer, case.function))
        self.assertEqual(seen, set(ORACLES))

    def test_heads_that_are_taken_together_change_no_bit(self):
        draw = np.random.default_rng(1)
        for channels, steps in ((False, 1), (True, 1), (False, 3), (True, 2)):
            q, k, v = draw.standard_normal((2, 5, 5, 8)), *draw.standard_normal((2, 2, 5 * steps, 5, 8)) / 4
            decay = -draw.random((2, 5, 5, 8) if channels else (2, 5, 5))
            arguments = (q, k, v, decay, draw.random((2, 5 * steps, 5)), draw.standard_normal((2, 5, 8, 8)), 0.5, steps)
            whole = delta_rule.recurrence(*arguments)
            with mock.patch.object(delta_rule, "NEAR", 2 * 2 * 8 * 8):  # two of five heads
                parts = delta_rule.recurrence(*arguments)
            with self.subTest(channels=channels, steps=steps):
                for name, one, other in zip(("output", "final state"), whole, parts):
                    self.assertTrue((one == other).all(), f"{name}, channels={channels}, steps={steps}")


def library():
    """The built library, or None."""
    try:
        from gdnbench_library import Library
        return Library()
    except (OSError, RuntimeError):
        return None


@unittest.skipIf(library() is None, "no libgdnbench.so: build it, or set GDNBENCH_LIBRARY")
class Library(unittest.TestCase):
    """Cases that read like an operation of the library as they stand: float32, dense, of one length."""

    def compared(self, case, problem, inputs, results):
        """`results` are (what the library calls it, its shape, what the oracle's output of that shape is)."""
        arrays = {name: np.empty(shape) for name, shape, _ in results}
        rows, tokens = next(iter(inputs.values())).shape[:2]
        offsets = np.arange(rows + 1, dtype=np.int64) * tokens
        addresses = {name: array.ctypes.data for name, array in (*inputs.items(), ("sequence_offsets", offsets))}
        library().reference_float64(problem, addresses, {name: array.ctypes.data for name, array in arrays.items()},
                                    "cpu")
        for name, _, wanted in results:
            error = np.abs(arrays[name] - wanted).max()
            self.assertTrue(error <= 1e-12 * (1 + np.abs(wanted).max()), f"{case.name} as {problem}: {name} {error}")

    def test_recurrences_are_those_of_the_library_in_float64(self):
        compared = 0
        for case in EVERY:
            p = case.parameters
            if case.function not in ("fused_recurrent_gated_delta_rule", "fused_recurrent_kda") or p["dtype"] != "f32" \
                    or elements(case) > 1_500_000 or case.options.get("use_beta_sigmoid_in_kernel") \
                    or case.options.get("lower_bound") or case.options.get("use_gate_in_kernel"):
                continue
            made = tensors.make_tensors(case)
            batch, tokens, heads, dim = made["q"].shape
            values = made["v"].shape[2]
            scale = case.options.get("scale") or dim**-0.5
            problem = (f"gated_delta:heads={heads}/{values},dim={dim}x{dim},seq={batch}x{tokens},dtype=f32,"
                       f"norm={int(case.options.get('use_qk_l2norm_in_kernel', False))},scale={scale!r},h0=normal,"
                       f"layout={'vk' if case.options.get('state_v_first') else 'kv'}")
            problem += ",decay=channel" if made["g"].array.ndim == 4 else ""
            names = {"q": "q", "k": "k", "v": "v", "g": "log_decay", "beta": "beta", "initial_state": "initial_state"}
            outputs = expected(case, made)
            with self.subTest(case=case.name, problem=problem):
                self.compared(case, problem, {ours: made[theirs].array for theirs, ours in names.items()},
                              [("output", made["v"].shape, outputs["o"]),
                               ("final_state", made["initial_state"].shape, outputs["final_state"])])
            compared += 1
        self.assertGreater(compared, 8)

    def test_convolutions_are_those_of_the_library_in_float64(self):
        compared = 0
        for case in EVERY:
            if (case.peer, case.function) != ("fla", "causal_conv1d") or case.parameters["dtype"] != "f32" \
                    or {"cu_seqlens", "initial_state"} & set(case.tensors) or elements(case) > 1_500_000 \
                    or case.tensors["x"].storage != Storage():
                continue
            made = tensors.make_tensors(case)
            (batch, tokens, channels), width = made["x"].shape, made["weight"].shape[1]
            problem = (f"causal_conv1d:channels={channels},seq={batch}x{tokens},dtype=f32,width={width},"
                       f"bias={int('bias' in made)},act={'silu' if case.options['activation'] else 'none'}"
                       f"{',residual=tensor' if 'residual' in made else ''}")
            window = np.zeros((batch, channels, width - 1), np.float32)
            inputs = {"qkv": made["x"].array, "conv_weight": made["weight"].array, "conv_state": window}
            inputs |= {ours: made[theirs].array for theirs, ours in (("bias", "conv_bias"), ("residual", "residual"))
                       if theirs in made}
            outputs = expected(case, made)
            with self.subTest(case=case.name, problem=problem):
                self.compared(case, problem, inputs, [("conv_output", made["x"].shape, outputs["y"]),
                                                      ("conv_state", window.shape, outputs["final_state"][..., 1:])])
            compared += 1
        self.assertGreater(compared, 3)


if __name__ == "__main__":
    unittest.main()

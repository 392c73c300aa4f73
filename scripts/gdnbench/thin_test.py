#!/usr/bin/env python3
"""The functions of scripts/gdnbench/ on small cases of the peers' tests, by the peers' bounds. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/gdnbench/thin_test.py
"""
import collections
import dataclasses
import pathlib
import sys
import unittest
from unittest import mock

try:
    import numpy as np
except ImportError:
    print("thin_test: no numpy here")
    sys.exit(77)

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SCRIPTS / "peers"), str(SCRIPTS)]
import gdnbench  # noqa: E402: found by the line above
import run_cases  # noqa: E402
from cases import tensors  # noqa: E402
from gdnbench import (calls, causal_conv1d, fla, flashinfer, gdn_decode_bf16_state, ggml, sglang,  # noqa: E402
                      vllm)
from gdnbench.tensors import SIZES  # noqa: E402
from gdnbench_library import GdnbenchError  # noqa: E402


# Arguments by which calls of the cases are refused, and no others.
REFUSED = {"output_state_indices", "num_accepted_tokens", "ssm_state_indices_output"}


def kind(case):
    """What makes cases of one function different calls, whatever their sizes."""
    ones = tuple(spec.shape[-1] == 1 for spec in case.tensors.values())
    shapes = [case.tensors[name].shape for name in ("q", "v") if name in case.tensors]
    options = tuple((bool(value), name == "K" and value == 1) for name, value in case.options.items())
    return (case.function, case.source, tuple(case.tensors), options, next(iter(case.tensors.values())).dtype, ones,
            len({shape[-2] for shape in shapes}))


def smallest():
    """The smallest case of each kind, if it is a small one."""
    kinds = {}
    for case in run_cases.EVERY:
        if (case.peer, case.function) in run_cases.FUNCTIONS:
            size, key = sum(int(np.prod(spec.shape)) for spec in case.tensors.values()), kind(case)
            if size < 3000000 and (key not in kinds or size < kinds[key][0]):
                kinds[key] = (size, case)
    return [case for _, case in kinds.values()]


def for_any_numbers(case):
    """The case with bounds of no less than one unit of a 16-bit output. The tests' own are narrower here and there: they
    hold for their numbers, and break where a float32 and a float64 round to neighbours."""
    units = {"bf16": 2**-7, "f16": 2**-10}
    return dataclasses.replace(case, compares=tuple(
        dataclasses.replace(each, relative=max(each.relative, units.get(each.dtype, 0))) if each.relative else each
        for each in case.compares))


def tensor(*shape):
    return tensors.Tensor(np.ones(shape, np.float32), "f32")


def numbers(values):
    return tensors.Tensor(np.array(values, np.int32), "int32")


class Thin(unittest.TestCase):
    def setUp(self):
        calls.plan_only = False
        gdnbench.strict = False

    def test_every_kind_of_call_is_within_the_peers_bounds(self):
        outcomes = collections.Counter()
        for case in smallest():
            with self.subTest(case=case.name):
                outcome, detail = run_cases.run_case(for_any_numbers(case))
                outcomes[outcome] += 1
                if outcome != "refused" or detail.partition(":")[0] not in REFUSED:
                    self.assertEqual(outcome, "passed", f"{case.name}: {detail}")
        self.assertGreater(outcomes["passed"], 50)

    def test_a_second_call_with_the_same_tensors_plans_nothing(self):
        x, state, weight, out = tensor(2, 8, 4), tensor(2, 8, 3), tensor(8, 4), tensor(2, 8, 4)
        # The output is what a call makes anew, unless it gets this one.
        with mock.patch.object(causal_conv1d, "empty_like", lambda _: out):
            causal_conv1d.causal_conv1d_update(x, state, weight)
            first, planned = out.array.copy(), calls.planned
            x.array[...] = -2
            with mock.patch.object(calls.library(), "plan", side_effect=AssertionError("planned once more")):
                causal_conv1d.causal_conv1d_update(x, state, weight)
            self.assertEqual(calls.planned, planned)
            self.assertFalse((out.array == first).any(), "the second call ran on the new numbers")
            causal_conv1d.causal_conv1d_update(x, tensor(2, 8, 3), weight)
            self.assertEqual(calls.planned, planned + 1, "another state is another plan")

    def test_a_misspelt_argument_is_refused_by_name(self):
        x = tensor(1, 2, 1, 8)
        for function in (fla.chunk_gated_delta_rule, fla.fused_recurrent_gated_delta_rule, fla.chunk_kda,
                         fla.fused_recurrent_kda, fla.fused_recurrent_kda_fwd, fla.chunk_gated_delta_product,
                         fla.causal_conv1d, fla.fast_causal_conv1d_fn, fla.causal_conv1d_update):
            with self.subTest(function=function.__name__), self.assertRaisesRegex(TypeError, "output_final_sate"):
                function(x, x, x, x, x, output_final_sate=True)

    def test_misspelt_arguments_of_the_others_are_refused_by_name(self):
        functions = [getattr(module, name) for module in (flashinfer, gdn_decode_bf16_state, vllm, sglang, ggml)
                     for name, function in vars(module).items()
                     if getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")]
        self.assertEqual(len(functions), 16)
        for function in functions:
            with self.subTest(function=f"{function.__module__}.{function.__name__}"), \
                    self.assertRaisesRegex(TypeError, "pad_slot_idx"):
                function(pad_slot_idx=-1)

    def test_both_names_of_one_option_are_refused(self):
        x = tensor(1, 2, 1, 8)
        with self.assertRaisesRegex(GdnbenchError, "^transpose_state_layout: beside state_v_first"):
            fla.chunk_kda(x, x, x, x, x, state_v_first=True, transpose_state_layout=True)

    def test_a_residual_is_the_input_or_any_tensor_of_its_shape(self):
        x, weight = tensor(1, 4, 8), tensor(8, 2)
        added = tensors.Tensor(np.arange(32, dtype=np.float32).reshape(1, 4, 8), "f32")
        convolved = np.array([1, 2, 2, 2])[:, None]
        turned = tensors.Tensor(np.asfortranarray(added.array[0])[None], "f32")
        for residual, numbers_added, problem in ((x, 1, "residual=1"), (added, added.array, "residual=tensor"),
                                                 (turned, added.array, "residual=tensor")):
            with mock.patch.object(calls, "run", wraps=calls.run) as run:
                y, _ = fla.causal_conv1d(x, weight, residual=residual)
            self.assertTrue((y.array == convolved + numbers_added).all(), y.array)
            self.assertEqual(f"residual={run.call_args.args[1]['residual']}", problem)
        with self.assertRaisesRegex(GdnbenchError, "^residual: "):
            fla.causal_conv1d(x, weight, residual=tensor(1, 3, 8))

    def test_rows_that_are_read_stay_where_others_are_written(self):
        x, gates, rows = tensor(1, 1, 1, 8), tensor(1, 1, 1), numbers([0])
        states = []
        for written in (None, rows, numbers([1])):
            pool = tensor(2, 1, 8, 8)
            flashinfer.gated_delta_rule_decode_pretranspose(
                x, x, x, None, tensor(1), gates, tensor(1), gates, initial_state=pool,
                initial_state_indices=rows, output_state_indices=written)
            states.append(pool.array)
        in_place, same, apart = states
        self.assertTrue((in_place == same).all())
        self.assertTrue((apart[0] == 1).all() and (apart[1] == in_place[0]).all())
        self.assertFalse((in_place[0] == 1).all())
        out, _ = flashinfer.gated_delta_rule_decode_pretranspose(
            x, x, x, None, tensor(1), gates, tensor(1), gates, initial_state=tensor(2, 1, 8, 8),
            initial_state_indices=rows, output_state_indices=rows)
        self.assertEqual(out.shape, (1, 1, 1, 8))
        with self.assertRaisesRegex(GdnbenchError, "^ssm_state_indices: 2 dimensions, a row for each token"):
            vllm.fused_sigmoid_gating_delta_rule_update(
                tensor(1), gates, gates, tensor(1), x, x, x, initial_state=tensor(2, 1, 8, 8),
                ssm_state_indices=numbers([[0]]))

    def test_packed_states_are_read_from_one_tensor_and_written_to_another(self):
        q, ends, before, after = tensor(2, 1, 8), numbers([0, 2]), tensor(1, 1, 8, 8), tensor(1, 1, 8, 8)
        after.array[...] = np.nan
        _, returned = flashinfer.chunk_gated_delta_rule(q, q, q, cu_seqlens=ends, initial_state=before,
                                                        output_state=after, output_final_state=True)
        self.assertIs(returned, after)
        self.assertTrue(np.isfinite(after.array).all())
        self.assertTrue((before.array == 1).all())

    def test_states_that_are_only_read_stay_as_they_are(self):
        x, window, state = tensor(1, 2, 8), tensor(1, 8, 2), tensor(1, 1, 8, 8)
        x.array[...] = 2
        fla.causal_conv1d(x, tensor(8, 2), initial_state=window, output_final_state=True)
        fla.chunk_gated_delta_rule(*[tensor(1, 2, 1, 8)] * 3, *[tensor(1, 2, 1)] * 2, initial_state=state,
                                   output_final_state=True)
        gates = tensor(1, 2, 1)
        flashinfer.gated_delta_rule_mtp(*[tensor(1, 2, 1, 8)] * 3, state, numbers([0]), tensor(1), gates, tensor(1),
                                        gates)
        self.assertTrue((window.array == 1).all() and (state.array == 1).all())

    def test_packed_tokens_are_those_of_three_tensors(self):
        draw = np.random.default_rng(1)
        packed = tensors.Tensor(draw.standard_normal((2, 48), np.float32), "f32")  # 2 heads of q, of k and of v
        q, k, v = (tensors.Tensor(packed.array[:, None, begin:end].reshape(2, 1, -1, 8), "f32")
                   for begin, end in ((0, 16), (16, 32), (32, 48)))
        gates, rate, rows = tensor(2, 2), tensor(2), numbers([2, 0])
        pool, other, out = tensor(3, 2, 8, 8), tensor(3, 2, 8, 8), tensor(2, 1, 2, 8)
        vllm.fused_recurrent_gated_delta_rule_packed_decode(packed, gates, gates, rate, rate, 0.5, pool, out, rows,
                                                            use_qk_l2norm_in_kernel=True)
        want, _ = flashinfer.gated_delta_rule_decode_pretranspose(
            q, k, v, None, rate, tensor(2, 1, 2), rate, tensor(2, 1, 2), 0.5, initial_state=other,
            initial_state_indices=rows)
        self.assertTrue((out.array == want.array).all() and (pool.array == other.array).all())
        self.assertTrue((pool.array[1] == 1).all() and (pool.array[0] != 1).any())

    def test_windows_with_more_places_than_are_read(self):
        # Four places for a width of two: vLLM and SGLang use the first one, causal-conv1d the last ones.
        for function, window in ((vllm.causal_conv1d_update, [9, 2, 3, 4]), (sglang.causal_conv1d_update, [9, 2, 3, 4]),
                                 (causal_conv1d.causal_conv1d_update, [2, 3, 4, 9])):
            with self.subTest(function=function.__module__):
                x, state = tensor(1, 1), tensors.Tensor(np.array([[[1, 2, 3, 4]]], np.float32), "f32")
                x.array[...] = 9
                out = function(x, state, tensor(1, 2))
                self.assertEqual(state.array.ravel().tolist(), window)
                self.assertEqual(out.array.item(), 9 + (1 if window[0] == 9 else 4))

    def test_indices_behind_the_last_sequence_are_not_looked_at(self):
        x, states = tensor(8, 3), tensor(4, 8, 3)
        states.array[...] = 5
        out = vllm.causal_conv1d_fn(x, tensor(8, 4), None, states, numbers([0, 1, 3]), numbers([2, 0, 1]),
                                    tensors.Tensor(np.array([True, False]), "bool"), activation=None)
        self.assertEqual(out.array[0].tolist(), [16, 1, 2])  # the second sequence starts from zeros
        self.assertEqual(states.array[:, 0].tolist(), [[0, 1, 1], [5, 5, 5], [5, 5, 1], [5, 5, 5]])

    def test_an_index_of_minus_one_is_padding(self):
        x, state = tensor(2, 8), tensor(3, 8, 3)
        out = vllm.causal_conv1d_update(x, state, tensor(8, 4), conv_state_indices=numbers([-1, 2]))
        self.assertTrue((out.array[0] == 0).all() and (out.array[1] == 4).all(), out.array)
        with self.assertRaisesRegex(GdnbenchError, "^pad_slot_id: 0, expected -1"):
            vllm.causal_conv1d_update(x, state, tensor(8, 4), conv_state_indices=numbers([0, 2]), pad_slot_id=0)

    def test_heads_that_no_kernel_shares_so_are_laid_out_and_refused_where_strict(self):
        # q [.., H, D] and k beside it: more query heads than key heads, and keys that heads read in turn.
        maps = {("flashinfer", "chunk_gated_delta_rule"): lambda q, k, v: q[1] > k[1],
                ("ggml", "ggml_gated_delta_net"): lambda q, k, v: k[2] < v[2]}
        for function, is_shared in maps.items():
            cases = [case for case in run_cases.EVERY if (case.peer, case.function) == function
                     and is_shared(*(case.tensors[name].shape for name in "qkv"))
                     and case.options.get("K", 1) == 1 and not case.options.get("checkpoint_every_n_tokens")]
            case = min(cases, key=lambda each: sum(int(np.prod(spec.shape)) for spec in each.tensors.values()))
            with self.subTest(case=case.name):
                self.assertEqual(run_cases.run_case(for_any_numbers(case)), ("passed", ""), case.name)
                converted = [words for words in calls.latest.info["conversions"].split("; ")
                             if words.startswith("k: strides [")]
                self.assertEqual(len(converted), 1, f"{case.name}: {calls.latest.info}")
                self.assertIn("0", converted[0].partition("[")[2].strip("]").split(", "), case.name)
                # All of the keys, once for each head.
                heads = max(case.tensors[name].shape[-2] for name in "qv")
                keys = int(np.prod(case.tensors["k"].shape)) // case.tensors["k"].shape[-2] * heads
                self.assertGreaterEqual(calls.latest.info["conversion_bytes"],
                                        keys * SIZES[case.tensors["k"].dtype], case.name)
                gdnbench.strict = True
                outcome, detail = run_cases.run_case(case)
                gdnbench.strict = False
                self.assertEqual(outcome, "refused", f"{case.name}: {detail}")
                self.assertRegex(detail, r"^[\w/]+: would convert [qk]: strides \[.*0, .*\]; expected a dense \w+ array$")

    def test_heads_that_do_not_divide_those_that_share_them_are_refused_by_name(self):
        k, v = tensor(1, 1, 3, 8), tensor(1, 1, 4, 8)
        with self.assertRaisesRegex(GdnbenchError, "^q: 3 heads, expected a number that divides 4"):
            ggml.ggml_gated_delta_net(k, k, v, tensor(1, 1, 4, 1), tensor(1, 1, 4, 1), tensor(1, 4, 8, 8))

    def test_a_plan_that_converts_is_not_found_again_where_strict(self):
        # Two heads of k, each read by every second head of v: no kernel reads them so.
        k, v, gates, state = tensor(1, 1, 2, 8), tensor(1, 1, 4, 8), tensor(1, 1, 4, 1), tensor(1, 4, 8, 8)
        gates.array[...] = 0
        dst = tensor(32 + 256)
        with mock.patch.object(ggml, "empty", lambda *_: dst):
            ggml.ggml_gated_delta_net(k, k, v, gates, gates, state)
            self.assertIn("q: strides [16, 16, 0, 8, 1]", calls.latest.info["conversions"])
            gdnbench.strict = True
            with self.assertRaisesRegex(GdnbenchError, r"would convert q: strides \[16, 16, 0, 8, 1\]") as caught:
                ggml.ggml_gated_delta_net(k, k, v, gates, gates, state)
            self.assertEqual(caught.exception.status, "unsupported")
            self.assertIsNone(calls.latest)
            # What kernels take as it lies runs.
            y, _ = fla.causal_conv1d(tensor(1, 5, 8), tensor(8, 4))
            self.assertEqual(y.array[0, :, 0].tolist(), [1, 2, 3, 4, 4])

    def test_channels_whose_tokens_lie_side_by_side_are_read_as_they_lie(self):
        x, weight = tensors.Tensor(np.arange(80, dtype=np.float32).reshape(2, 8, 5), "f32"), tensor(8, 2)
        gdnbench.strict = True
        out = causal_conv1d.causal_conv1d_fn(x, weight)
        before = np.concatenate([np.zeros((2, 8, 1), np.float32), x.array[:, :, :-1]], axis=2)
        self.assertEqual(out.array.tolist(), (x.array + before).tolist())

    def test_planning_alone_is_not_called_passed(self):
        case = next(case for case in run_cases.EVERY if case.function == "causal_conv1d_varlen_states")
        self.assertEqual(run_cases.run_case(case, plan_only=True), ("planned", ""))

    def test_a_ring_keeps_each_input_at_its_number_modulo_the_places(self):
        x, state, weight = tensor(2, 8, 2), tensor(2, 8, 5), tensor(8, 3)
        x.array[...], state.array[...], weight.array[...] = [10, 20], range(5), [1, 100, 10000]
        out = causal_conv1d.causal_conv1d_update(x, state, weight, cache_seqlens=numbers([7, 5]))
        self.assertEqual(out.array[:, 0].tolist(), [[100100, 201001], [100403, 201004]])
        self.assertEqual(state.array[:, 0].tolist(), [[0, 1, 10, 20, 4], [10, 20, 2, 3, 4]])

    def test_float32_weights_beside_16_bit_tokens_keep_their_bits(self):
        # With inputs of 1 the bits that bfloat16 and float16 round off are all that is left of the sum.
        weight, bias = tensor(8, 4), tensor(8)
        weight.array[...] = [-2, 0, 0, 1 + 2**-12]
        bias.array[...] = 1 + 2**-11
        for dtype, stored in (("f16", np.float16(1)), ("bf16", np.uint16(0x3f80))):
            with self.subTest(dtype=dtype), mock.patch.object(calls, "run", side_effect=calls.run) as run:
                x = tensors.Tensor(np.full((1, 8, 7), stored), dtype)
                out = causal_conv1d.causal_conv1d_fn(x, weight, bias)
                passed = run.call_args.args[2]
                self.assertEqual([passed[name].dtype for name in ("qkv", "conv_weight", "conv_bias")],
                                 [dtype, "f32", "f32"])
                self.assertEqual(passed["conv_weight"].address, weight.array.ctypes.data, "the caller's own array")
                self.assertTrue((out.to_float64()[..., 3:] == 3 * 2**-12).all(), out.to_float64())

    def test_weights_and_bias_of_two_types_are_refused_by_name(self):
        x = tensors.Tensor(np.ones((1, 8, 4), np.float16), "f16")
        bias = tensors.Tensor(np.ones(8, np.float16), "f16")
        with self.assertRaisesRegex(GdnbenchError, "^weight: f16 and f32 beside x of f16, expected f16 or f32"):
            causal_conv1d.causal_conv1d_fn(x, tensor(8, 4), bias)


if __name__ == "__main__":
    try:
        calls.library()
    except OSError as error:
        sys.exit(f"thin_test: {error}")
    unittest.main()

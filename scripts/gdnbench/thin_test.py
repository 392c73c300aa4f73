#!/usr/bin/env python3
"""The functions of scripts/gdnbench/ on small cases of the peers' tests, by the peers' bounds. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/gdnbench/thin_test.py
"""
import collections
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
import run_cases  # noqa: E402: found by the line above
from cases import tensors  # noqa: E402
from gdnbench import calls, causal_conv1d, fla, pending  # noqa: E402
from gdnbench_library import GdnbenchError  # noqa: E402


# Arguments by which calls of the cases are refused, and no others.
REFUSED = {"cache_seqlens", "residual", "intermediate_states_buffer", "output_state_indices",
           "checkpoint_every_n_tokens", "num_accepted_tokens", "ssm_state_indices_output", "K"}


def smallest():
    """The smallest case of each function for each test, set of arguments and dtype."""
    kinds = {}
    for case in run_cases.EVERY:
        if (case.peer, case.function) in run_cases.FUNCTIONS:
            size = sum(int(np.prod(spec.shape)) for spec in case.tensors.values())
            first = next(iter(case.tensors.values()))
            key = (case.function, case.source, tuple(case.tensors), tuple(map(bool, case.options.values())), first.dtype)
            if size < 700000 and (key not in kinds or size < kinds[key][0]):
                kinds[key] = (size, case)
    return [case for _, case in kinds.values()]


def tensor(*shape):
    return tensors.Tensor(np.ones(shape, np.float32), "f32")


class Thin(unittest.TestCase):
    def setUp(self):
        calls.plan_only = False
        pending.float32_weights = pending.head_maps = pending.REFUSED

    def test_every_kind_of_call_is_within_the_peers_bounds(self):
        pending.float32_weights = pending.head_maps = pending.CONVERTED
        outcomes = collections.Counter()
        for case in smallest():
            with self.subTest(case=case.name):
                outcome, detail = run_cases.run_case(case)
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
                         fla.fused_recurrent_kda, fla.chunk_gated_delta_product, fla.causal_conv1d):
            with self.subTest(function=function.__name__), self.assertRaisesRegex(TypeError, "output_final_sate"):
                function(x, x, x, x, x, output_final_sate=True)

    def test_both_names_of_one_option_are_refused(self):
        x = tensor(1, 2, 1, 8)
        with self.assertRaisesRegex(GdnbenchError, "^transpose_state_layout: beside state_v_first"):
            fla.chunk_kda(x, x, x, x, x, state_v_first=True, transpose_state_layout=True)

    def test_a_residual_is_the_input_or_refused_by_name(self):
        x, weight = tensor(1, 4, 8), tensor(8, 2)
        y, _ = fla.causal_conv1d(x, weight, residual=x)
        self.assertTrue((y.array == np.array([2, 3, 3, 3])[:, None]).all(), y.array)
        with self.assertRaisesRegex(GdnbenchError, "^residual: another tensor than x"):
            fla.causal_conv1d(x, weight, residual=tensor(1, 4, 8))

    def test_planning_alone_is_not_called_passed(self):
        case = next(case for case in run_cases.EVERY if case.function == "causal_conv1d_varlen_states")
        self.assertEqual(run_cases.run_case(case, plan_only=True), ("planned", ""))

    def test_a_ring_is_refused_by_name(self):
        with self.assertRaisesRegex(GdnbenchError, "^cache_seqlens: windows that are rings") as caught:
            causal_conv1d.causal_conv1d_update(tensor(2, 8, 1), tensor(2, 8, 3), tensor(8, 4), cache_seqlens=tensor(2))
        self.assertEqual(caught.exception.status, "unsupported")

    def test_float32_weights_beside_16_bit_tokens_are_refused_by_name(self):
        if calls.knows("weights=f32"):
            self.skipTest("the library takes them")
        x = tensors.Tensor(np.ones((1, 8, 4), np.float16), "f16")
        with self.assertRaisesRegex(GdnbenchError, "^weight: float32 beside x of f16"):
            causal_conv1d.causal_conv1d_fn(x, tensor(8, 4))


if __name__ == "__main__":
    try:
        calls.library()
    except OSError as error:
        sys.exit(f"thin_test: {error}")
    unittest.main()

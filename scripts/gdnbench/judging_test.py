#!/usr/bin/env python3
"""gdnbench.judge() and its cases, on kernels written here. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/gdnbench/judging_test.py
"""
import importlib.util
import pathlib
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("judging_test: no numpy here")
    sys.exit(77)

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS))
import gdnbench  # noqa: E402: found by the line above
from gdnbench import calls, conventions  # noqa: E402
from gdnbench_library import GdnbenchError  # noqa: E402

SMALL = "gated_delta:heads=1/2,dim=16x24,seq=1x9+1x0+1x5,dtype=f32,gates=mid"
LIMITS = "implementation\tproblems\twitness\tcause\tseen\n"


def rule(q, k, v, g, beta, scale, state, ends, norm=False, decay_first=True):
    """(outputs, states): S <- exp(g) S; S <- S + beta k (v - S^T k)^T; o = scale S^T q, in float64. Tokens [T, H, D]."""
    q, k, v, g, beta = (np.asarray(x, np.float64) for x in (q, k, v, g, beta))
    if norm:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    heads = np.arange(v.shape[1]) * q.shape[1] // v.shape[1]
    shape = (len(ends) - 1, v.shape[1], q.shape[2], v.shape[2])
    states = np.zeros(shape) if state is None else np.array(state, np.float64)
    output = np.zeros(v.shape)
    for n, S in enumerate(states):
        for t in range(ends[n], ends[n + 1]):
            decay, key = np.exp(g[t])[:, None, None], k[t, heads]
            if decay_first:
                S *= decay
            S += (beta[t][:, None] * key)[:, :, None] * (v[t] - np.einsum("hkv,hk->hv", S, key))[:, None, :]
            if not decay_first:
                S *= decay
            output[t] = scale * np.einsum("hkv,hk->hv", S, q[t, heads])
    return output, states


def right(x, **how):
    output, states = rule(x["q"], x["k"], x["v"], x["log_decay"], x["beta"], x["q"].shape[-1] ** -0.5,
                          x.get("initial_state"), x["sequence_offsets"], **how)
    return output, states


def decay_after_the_update(x):
    return right(x, decay_first=False)


def without_state(fn):
    """A function of another project's arguments that forgets the initial state."""
    def forgetful(*arguments, initial_state=None, **named):
        return fn(*arguments, initial_state=None if initial_state is None else initial_state * 0, **named)
    return forgetful


def fla(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens):
    output, states = rule(q[0], k[0], v[0], g[0], beta[0], scale, initial_state, cu_seqlens, use_qk_l2norm_in_kernel)
    return output[None], states if output_final_state else None


def flashinfer_prefill(q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens):
    turned = None if initial_state is None else initial_state.swapaxes(-1, -2)
    with np.errstate(divide="ignore"):
        output, states = rule(q, k, v, np.log(g), beta, scale, turned, cu_seqlens)
    return (output, states.swapaxes(-1, -2)) if output_final_state else output


def huggingface(query, key, value, g, beta, initial_state, output_final_state, use_qk_l2norm_in_kernel):
    batch, time = query.shape[:2]
    flat = [x.reshape((batch * time, *x.shape[2:])) for x in (query, key, value, g, beta)]
    output, states = rule(*flat, query.shape[-1] ** -0.5, initial_state, np.arange(batch + 1) * time,
                          use_qk_l2norm_in_kernel)
    return output.reshape(value.shape), states if output_final_state else None


def vllm(q, k, v, g, beta, scale, initial_state, inplace_final_state, cu_seqlens, ssm_state_indices,
         use_qk_l2norm_in_kernel):
    assert inplace_final_state
    rows = np.where(ssm_state_indices > 0, ssm_state_indices, 0)
    output, states = rule(q[0], k[0], v[0], g[0], beta[0], scale, initial_state.swapaxes(-1, -2)[rows], cu_seqlens,
                          use_qk_l2norm_in_kernel)
    for n, row in enumerate(rows):
        if row == 0:
            output[cu_seqlens[n]:cu_seqlens[n + 1]] = 0
        elif cu_seqlens[n] < cu_seqlens[n + 1]:
            initial_state[row] = states[n].swapaxes(-1, -2)
    return output[None], initial_state


class Verdicts(unittest.TestCase):
    def test_the_recurrence_passes_every_case_that_it_honours(self):
        verdicts = gdnbench.judge(right, honours=["h0"])
        self.assertGreaterEqual(len(verdicts.of("passed")), 3, verdicts.text(True))
        self.assertEqual(len(verdicts.of("passed")) + len(verdicts.of("unsupported")), len(verdicts), str(verdicts))
        self.assertTrue(verdicts.passed)
        self.assertIs(verdicts.require(), verdicts)

    def test_the_decay_after_the_update_fails_every_case(self):
        verdicts = gdnbench.judge(decay_after_the_update, honours=["h0"])
        self.assertEqual([each.verdict for each in verdicts if each.verdict != "unsupported"],
                         ["failed"] * len(verdicts.of("failed")))
        self.assertGreaterEqual(len(verdicts.of("failed")), 3)
        self.assertFalse(verdicts.passed)
        for verdict in verdicts.of("failed"):
            self.assertRegex(verdict.reason, "relative L2 error .*, limit ")
            self.assertFalse(max(error.limit_ratio for error in verdict.errors) <= 1)
        with self.assertRaisesRegex(AssertionError, "FAIL  decay_after_the_update"):
            verdicts.require()
        self.assertIn("pattern consistent with: decay order",
                      gdnbench.explain(verdicts.of("failed")[0].problem, decay_after_the_update))

    def test_the_reference_is_within_the_limits_of_every_operation(self):
        """Pools with padding, slots, phases and gradients among them."""
        every = gdnbench.cases("quick", operation=None)
        self.assertEqual({each.problem.partition(":")[0] for each in every}, set(calls.library().operations()))
        for each in every:
            with self.subTest(problem=each.problem):
                passed, reason, _, errors = each.judge(each.reference())
                self.assertTrue(passed, reason)
                self.assertEqual([error.output for error in errors if error.output in each.outputs], each.outputs)

    def test_a_nan_anywhere_fails(self):
        for output in (0, 1):
            def poisoned(x):
                returned = right(x)
                returned[output].flat[-1] = np.nan
                return returned
            verdict, = gdnbench.judge(poisoned, problems=[SMALL])
            self.assertEqual(verdict.verdict, "failed")
            self.assertEqual(verdict.errors[output].non_finite, 1)

    def test_what_a_function_does_wrong_is_one_line_and_the_run_goes_on(self):
        def raises(x):
            raise ValueError("\nno such tile\nat all")

        def refuses(x):
            raise NotImplementedError("head dims of 128 only")

        output, state = (lambda x: right(x)[0]), (lambda x: right(x)[1])
        done = iter([raises, refuses, lambda x: (output(x)[:-1], state(x)), lambda x: (output(x) > 0, state(x)),
                     lambda x: (output(x).astype(np.float16), state(x)), output, lambda x: {"outptu": 1},
                     lambda x: (output(x), [1.0]), lambda x: None, lambda x: x["slot_index"], lambda x: x.decay, right])
        expected = [("failed", "raised ValueError: no such tile"), ("unsupported", "head dims of 128 only"),
                    ("failed", "output: shape [13, 2, 24], expected [T = 14, Hv = 2, Dv = 24]"),
                    ("failed", "output: bool, expected float32 or float64"),
                    ("failed", "output: float16, expected float32 or float64"),
                    ("failed", "arrays returned: 1, expected 2: output, final_state"),
                    ("failed", "outptu: returned, but no output of gated_delta:"),
                    ("failed", "final_state: list, expected an array"),
                    ("failed", "arrays returned: 1, expected 2: output, final_state"),
                    ("failed", "raised KeyError: 'slot_index'"), ("failed", "raised AttributeError: decay: "),
                    ("passed", "")]
        verdicts = gdnbench.judge(lambda x: next(done)(x), problems=[SMALL] * len(expected), name="mine")
        for verdict, (word, reason) in zip(verdicts, expected, strict=True):
            with self.subTest(expected=reason):
                self.assertEqual(verdict.verdict, word, verdict.reason)
                self.assertTrue(verdict.reason.startswith(reason), verdict.reason)
                self.assertNotIn("\n", verdict.reason)
        self.assertTrue(verdicts.text().endswith("1 passed, 10 failed, 0 known limits, 1 not supported"))

    def test_a_case_with_a_field_that_is_not_honoured_is_not_called(self):
        called = []
        verdicts = gdnbench.judge(lambda x: called.append(x.problem) or right(x), honours=["h0"],
                                  problems=[SMALL, SMALL + ",norm=1", SMALL + ",h0=normal"])
        self.assertEqual([each.verdict for each in verdicts], ["passed", "unsupported", "passed"])
        self.assertEqual(verdicts[1].reason, "norm=1 is not honoured")
        self.assertEqual(len(called), 2)

    def test_a_function_may_write_to_its_inputs(self):
        of = gdnbench.case(SMALL + ",h0=normal")
        first = of.inputs()
        first["initial_state"][...] = 7
        self.assertTrue(of.judge(right(of.inputs()))[0])

    def test_known_limits_are_told_and_those_that_are_gone_too(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "limits.tsv"
            table.write_text(LIMITS + f"mine\tdtype=f32\t{SMALL}\trows cancel\there\n")
            judge = lambda fn, name, *problems: gdnbench.judge(fn, problems=problems, known_limits=table, name=name)
            limited, = judge(decay_after_the_update, "mine", SMALL)
            self.assertEqual(limited.verdict, "known limit")
            self.assertTrue(limited.ok and limited.reason.startswith("rows cancel: "), limited.reason)
            other, another = judge(decay_after_the_update, "other", SMALL, SMALL + ",seed=2")
            self.assertEqual({other.verdict, another.verdict}, {"failed"})
            gone, beside = judge(right, "mine", SMALL, SMALL + ",seed=2")
            self.assertEqual((gone.verdict, gone.ok, beside.verdict), ("limit gone", False, "passed"))
            table.write_text(LIMITS + "mine\tdtpe=f32\tx\ty\tz\n")
            with self.assertRaisesRegex(GdnbenchError, "dtpe=f32"):
                judge(right, "mine", SMALL)

    def test_the_table_has_a_row_for_each_case_and_the_columns_of_rows_files(self):
        verdicts = gdnbench.judge(right, problems=[SMALL, SMALL + ",norm=1"], honours=[])
        rows = verdicts.rows()
        self.assertEqual([row["verdict"] for row in rows], ["passed", "unsupported"])
        self.assertEqual(list(rows[0]), list(rows[1]))
        self.assertTrue(rows[0]["final_state_limit_ratio"] <= 1)
        self.assertIsNone(rows[1]["final_state_limit_ratio"])
        table = verdicts.table()
        if importlib.util.find_spec("pandas") is None:
            self.assertEqual(table, rows)
        else:
            self.assertEqual((list(table["verdict"]), list(table.columns)), (["passed", "unsupported"], list(rows[0])))

    def test_bad_usage_is_one_line_that_names_it(self):
        for words, call in (("did you mean 'quick'", lambda: gdnbench.cases("quik")),
                            ("operation: 'gated'", lambda: gdnbench.cases("quick", "gated")),
                            ("did you mean 'dtype'", lambda: gdnbench.case("gated_delta:heads=1/1,dtyp=f32")),
                            ("arrays: 'nunpy'", lambda: gdnbench.judge(right, arrays_of="nunpy")),
                            ("device: 'cuda' with arrays of numpy",
                             lambda: gdnbench.judge(right, device="cuda", arrays_of="numpy")),
                            ("convention: 'flaa'", lambda: gdnbench.judge(right, convention="flaa")),
                            ("'nrom' is no field", lambda: gdnbench.judge(right, honours=["nrom"]))):
            with self.subTest(words=words), self.assertRaisesRegex((GdnbenchError, ValueError), words) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))


class OtherArrays(unittest.TestCase):
    def test_any_array_that_numpy_can_read_is_taken(self):
        class ByArray:
            def __init__(self, values):
                self.values = values

            def __array__(self, dtype=None, copy=None):
                return self.values

        class ByDlpack:
            def __init__(self, values):
                self.values = values

            def __dlpack__(self, **how):
                return self.values.__dlpack__(**how)

            def __dlpack_device__(self):
                return self.values.__dlpack_device__()

        verdict, = gdnbench.judge(lambda x: tuple(kind(array) for kind, array in zip((ByArray, ByDlpack), right(x))),
                                  problems=[SMALL])
        self.assertEqual(verdict.verdict, "passed", verdict.reason)

    def arrays_of(self, library, type_name):
        if importlib.util.find_spec(library) is None:
            self.skipTest(f"no {library} here")
        problems = [SMALL.replace("f32", dtype) for dtype in ("f32", "bf16", "f16")]
        types = []

        def kernel(x):
            types.append(str(x["q"].dtype).removeprefix("torch."))
            self.assertEqual(type(x["q"]).__name__, type_name)
            host = {name: np.asarray(x[name].float() if library == "torch" and name != "sequence_offsets" else x[name])
                    for name in x.keys()}
            output, states = right(host)
            if library == "torch":
                torch = sys.modules["torch"]
                return torch.from_numpy(output).to(x["q"].dtype), torch.from_numpy(states)
            return sys.modules["jax"].numpy.asarray(output, x["q"].dtype), states

        verdicts = gdnbench.judge(kernel, problems=problems, arrays_of=library)
        self.assertEqual([each.verdict for each in verdicts], ["passed"] * 3, verdicts.text())
        self.assertEqual(types, ["float32", "bfloat16", "float16"])

    def test_torch_arrays_go_in_and_come_out_in_their_own_types(self):
        self.arrays_of("torch", "Tensor")

    def test_jax_arrays_go_in_and_come_out_in_their_own_types(self):
        self.arrays_of("jax", "ArrayImpl")


class Conventions(unittest.TestCase):
    KERNELS = {"fla": fla, "flashinfer-prefill": flashinfer_prefill, "huggingface": huggingface, "vllm": vllm}
    BATCH = "gated_delta:heads=2/4,dim=16x24,seq=3x9,dtype=bf16,gates=mid,h0=normal"
    PROBLEMS = [BATCH, BATCH + ",layout=vk", BATCH + ",norm=1,keys=unnormalised,ht=0", BATCH + ",scale=0.7",
                BATCH + ",slots=padding,layout=vk", BATCH + ",state=bf16",
                "gated_delta:heads=2/4,dim=16x24,seq=1x9+1x0+1x5,dtype=f16,gates=mid"]
    DONE = {"fla": 5, "flashinfer-prefill": 4, "huggingface": 3, "vllm": 5}

    def test_all_are_tried_here(self):
        self.assertEqual(set(self.KERNELS), set(conventions.names()))

    def test_a_kernel_with_the_projects_arguments_passes_what_these_express(self):
        for name, kernel in self.KERNELS.items():
            with self.subTest(convention=name):
                verdicts = gdnbench.judge(kernel, problems=self.PROBLEMS, convention=name)
                self.assertEqual(len(verdicts.of("passed")), self.DONE[name], verdicts.text(True))
                self.assertEqual(len(verdicts.of("unsupported")), len(self.PROBLEMS) - self.DONE[name])

    def test_the_initial_state_reaches_the_kernel(self):
        for name, kernel in self.KERNELS.items():
            with self.subTest(convention=name):
                verdicts = gdnbench.judge(without_state(kernel), problems=[self.BATCH, self.BATCH + ",layout=vk"],
                                          convention=name)
                self.assertEqual(len(verdicts.of("failed")), 2, verdicts.text(True))


if __name__ == "__main__":
    try:
        calls.library()
    except OSError as error:
        sys.exit(f"judging_test: {error}")
    unittest.main()

#!/usr/bin/env python3
"""time_attention.py without a GPU: usage, the shapes that gdnbench estimate asks for, who is left out and why, the file. Of
tensors, the clock and contenders there are stand-ins; where PyTorch is installed the adapters run too, on stand-ins of
their libraries. GDNBENCH names the program, without which the comparison with it is left out."""
import contextlib
import csv
import io
import math
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import attention_contenders  # noqa: E402
import inputs  # noqa: E402
import time_attention  # noqa: E402
from attention_contenders import Contender, Pair  # noqa: E402
from contenders import Call  # noqa: E402
from gdnbench.turns import WARM_ROUNDS  # noqa: E402
from tests import run  # noqa: E402
from time_attention import PASSES, parse_shape  # noqa: E402
from time_backward_test import Clock, Tensor  # noqa: E402

RUNS = 3
SHAPE = parse_shape("16/2:128:2048:4x8192")
RESULTS = {"forward": ("output",), "forward_backward": ("output", "dq", "dk", "dv")}
LINE = {"device": "a card", "kernel": "k 1", "query_heads": 16, "kv_heads": 2, "head_dim": 128, "window": 2048,
        "sequences": "4x8192", "dtype": "bf16"}


class Machine:
    broken = ""

    def __init__(self):
        self.clock, self.asked = Clock(), []
        self.clock.device = "a card"

    def wait(self):
        if self.broken:
            raise RuntimeError(self.broken)

    def inputs(self, shape):
        self.asked.append(str(shape))
        return shape

    def exact(self, shape):
        return {what: Tensor(10.0) for what in RESULTS["forward_backward"]}


class Run:
    """One pass of a contender. `values`: what its results are at each of its runs, the last one for all others; None where
    it writes nothing, an exception that it raises."""

    def __init__(self, name, time_ms, results, values, is_eager):
        self.name, self.time_ms, self.values, self.is_eager = name, time_ms, list(values), is_eager
        self.prepared, self.written = 0, {what: Tensor(0.0) for what in results}

    def prepare(self):
        self.prepared += 1

    def __call__(self):
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        if isinstance(value, Exception):
            raise value
        for what, x in self.written.items() if value is not None else ():
            x.value = value.get(what, 10.0) if isinstance(value, dict) else value
        return self.written

    @property
    def run(self):
        return self


def contender(name, time_ms, values=(10.0,), small=10.0, is_eager=False):
    """`small`: results on the shape that is judged; `values`: those on the shape that is timed."""
    def make(shape):
        is_judged = shape.tokens == time_attention.JUDGED_LENGTH
        return Pair(*(Run(f"{name} {each}", time_ms * factor, RESULTS[each], [small] if is_judged else values, is_eager)
                      for each, factor in (("forward", 1), ("forward_backward", 3))))
    return Contender(f"{name} 1.0", make)


def measured(contenders, machine=None, shape=SHAPE, judge=None):
    """(lines by kernel, what was printed)."""
    machine, printed = machine or Machine(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        lines = time_attention.measure(shape, contenders, judge or time_attention.Judge(machine), machine, RUNS)
    return {line["kernel"].split()[0]: line for line in lines}, printed.getvalue()


class Usage(unittest.TestCase):
    def refused(self, words, *arguments):
        done = run("time_attention.py", *arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_bad_options_are_one_line_and_exit_2(self):
        self.refused("--shapes: '16/2:128:4x8192': expected heads/kv heads:head dim:window", "--shapes", "16/2:128:4x8192")
        self.refused("heads must be a multiple of kv heads", "--shapes", "16/3:128:0:1x64")
        self.refused("expected heads/kv heads", "--shapes", "16/0:128:0:1x64")
        self.refused("expected heads/kv heads", "--shapes", "16/2:128:-1:1x64")
        self.refused("expected heads/kv heads", "--shapes", "16/2:0:0:1x64")
        self.refused("expected lengths", "--shapes", "16/2:128:0:64x")
        self.refused("sequences must be equally long", "--shapes", "16/2:128:0:64+65")
        self.refused("--models: 'paper-h2': expected one of paper-h1-0.4b", "--models", "paper-h2")
        self.refused("--who 'flo': expected one of cudnn", "--who", "cudnn,flo")
        self.refused("--runs 2: expected 3 or more", "--runs", "2")
        self.refused("unrecognized arguments: --heads", "--heads", "2/4")

    def test_without_pytorch_it_says_so(self):
        self.refused("PyTorch is needed")

    def test_a_shape_is_written_as_it_is_read(self):
        self.assertEqual(SHAPE, time_attention.Shape(16, 2, 128, 2048, 4, 8192))
        self.assertEqual(str(SHAPE), "16/2:128:2048:4x8192")
        self.assertEqual(time_attention.parse_arguments(["--shapes", "2/1:64:0:64,2/2:64:9:3x65"]).shapes,
                         [parse_shape("2/1:64:0:1x64"), parse_shape("2/2:64:9:3x65")])

    def test_a_window_that_hides_nothing_is_none(self):
        self.assertEqual([parse_shape(f"2/1:64:{window}:1x64").effective_window for window in (0, 63, 64, 65)], [0, 63, 0, 0])

    def test_what_is_judged_has_the_row_s_group_and_a_window_where_it_has_one(self):
        self.assertEqual([str(parse_shape(shape).judged()) for shape in
                          ("18/18:128:2048:4x8192", "16/2:128:2048:16x2048", "12/2:96:0:1x64", "8/1:64:9:1x64")],
                         ["2/2:128:200:2x512", "16/2:128:0:2x512", "12/2:96:0:2x512", "8/1:64:200:2x512"])

    def test_models_shapes_are_every_layer_s_at_every_batch_once(self):
        shapes = [str(shape) for shape in time_attention.parse_arguments(["--models", "jet-nemotron-2b"]).shapes]
        self.assertEqual(len(shapes), 8)
        self.assertIn("12/2:128:1152:2x16384", shapes)
        self.assertEqual(len(time_attention.parse_arguments([]).shapes), 24)
        self.assertEqual(len(time_attention.shapes_of(["jet-nemotron-2b"] * 2, ["1x64"])), 2)

    def test_who_cannot_be_imported_is_one_line_and_the_others_stay(self):
        def missing():
            raise ModuleNotFoundError("No module named 'cudnn'\nand more")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            found = time_attention.loaded(["flex", "cudnn"], {"flex": lambda: "contender", "cudnn": missing})
        self.assertEqual(found, {"flex": "contender"})
        self.assertEqual(printed.getvalue(), "# cudnn: not timed: ModuleNotFoundError: No module named 'cudnn'\n")

    @unittest.skipUnless("GDNBENCH" in os.environ, "no program")
    def test_the_models_are_those_of_gdnbench_estimate(self):
        text = ",".join(time_attention.FIELDS) + "\n" + ",".join(
            str(LINE.get(field, "graph" if field.endswith("mode") else 1)) for field in time_attention.FIELDS) + "\n"
        help_text = subprocess.run([os.environ["GDNBENCH"], "estimate", "--help"], capture_output=True, text=True).stdout
        known = re.findall(r"[a-z][-a-z0-9.]+", re.search(r"--model TEXT(.*?)--training", help_text, re.S)[1])
        hybrids = {}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "times.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            for model in [name for name in known if name.startswith(("paper", "jet"))]:
                done = subprocess.run([os.environ["GDNBENCH"], "estimate", "--device", "cpu", "--model", model, "--attention",
                                       path, "--seq", ",".join(time_attention.SEQUENCES)], capture_output=True, text=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                asked = re.search(r"--shapes (\S+)", done.stderr)
                if asked:  # a model without attention is refused otherwise
                    hybrids[model] = time_attention.parse_shapes(asked[1])
        self.assertEqual(hybrids, {name: time_attention.shapes_of([name]) for name in time_attention.MODELS})


class Rows(unittest.TestCase):
    def test_everyone_is_timed_in_turns_with_a_cold_cache_pass_by_pass(self):
        machine = Machine()
        lines, printed = measured({"cudnn": contender("cudnn", 1.0), "flex": contender("flex", 2.0)}, machine)
        a, b = "cudnn", "flex"
        rounds = [[a, b], [b, a]] * ((WARM_ROUNDS + RUNS + 1) // 2)
        order = [name for each in rounds[:WARM_ROUNDS + RUNS] for name in each]
        self.assertEqual(machine.clock.launched, [f"{name} {each}" for each in PASSES for name in order])
        self.assertEqual(machine.clock.flushed, len(machine.clock.launched))
        self.assertEqual((lines["cudnn"]["forward_ms"], lines["cudnn"]["forward_backward_ms"]), (1.0, 3.0))
        self.assertEqual((lines["flex"]["forward_ms"], lines["flex"]["forward_backward_ms"]), (2.0, 6.0))
        self.assertEqual({field: lines["flex"][field] for field in LINE}, LINE | {"kernel": "flex 1.0"})
        self.assertEqual(printed, "")

    def test_the_error_is_the_largest_of_output_and_gradients(self):
        lines, _ = measured({"cudnn": contender("cudnn", 1.0, small={"output": 10.01, "dk": 9.9}),
                             "flex": contender("flex", 1.0, small={"output": 10.1})})
        self.assertAlmostEqual(lines["cudnn"]["error"], 0.01)
        self.assertAlmostEqual(lines["flex"]["error"], 0.01)

    def test_who_is_wrong_before_timing_is_not_timed(self):
        for wrong in RESULTS["forward_backward"]:
            for value, said in ((10.3, "0.03"), (math.nan, "nan")):
                machine = Machine()
                lines, printed = measured({"cudnn": contender("cudnn", 1.0),
                                           "flex": contender("flex", 1.0, small={wrong: value})}, machine)
                self.assertEqual(list(lines), ["cudnn"])
                self.assertEqual(printed, f"# flex at {SHAPE}: not timed: ArithmeticError: {wrong}: error {said} at "
                                          "16/2:128:200:2x512, limit 0.02\n")
                self.assertEqual({name.split()[0] for name in machine.clock.launched}, {"cudnn"})
        lines, printed = measured({"flex": contender("flex", 1.0, values=(math.inf,))})
        self.assertEqual(lines, {})
        self.assertIn("output: not finite before timing", printed)

    def test_who_is_wrong_after_timing_has_no_line(self):
        timed = (10.0,) * (2 + WARM_ROUNDS + RUNS)  # run, captured, and in the turns
        lines, printed = measured({"cudnn": contender("cudnn", 1.0), "changed": contender("changed", 1.0, (*timed, 12.0)),
                                   "nan": contender("nan", 1.0, (*timed, math.nan)),
                                   "unwritten": contender("unwritten", 1.0, (*timed, None))})
        self.assertEqual(list(lines), ["cudnn"])
        self.assertIn("# changed at 16/2:128:2048:4x8192: not timed: ArithmeticError: output: 0.2 from what it was", printed)
        self.assertEqual(printed.count("output: nan from what it was"), 2)

    def test_a_contender_is_judged_once_for_each_small_shape(self):
        machine = Machine()
        judge = time_attention.Judge(machine)
        for shape in ("18/18:128:2048:4x8192", "12/12:128:2048:2x16384", "18/18:128:2048:16x2048"):
            measured({"cudnn": contender("cudnn", 1.0)}, machine, parse_shape(shape), judge)
        self.assertEqual([shape for shape in machine.asked if shape.endswith("2x512")],
                         ["2/2:128:200:2x512", "2/2:128:0:2x512"])

    def test_who_raises_is_one_line_and_the_others_go_on(self):
        def broken(shape):
            raise NotImplementedError("no plan\nfor this")
        lines, printed = measured({"cudnn": Contender("cudnn 9", broken), "flex": contender("flex", 1.0)})
        self.assertEqual(list(lines), ["flex"])
        self.assertEqual(printed, f"# cudnn at {SHAPE}: not timed: NotImplementedError: no plan\n")

    def test_who_raises_while_it_is_timed_has_no_line(self):
        late = contender("late", 1.0, values=(10.0, 10.0, RuntimeError("too late")))
        lines, printed = measured({"late": late, "flex": contender("flex", 1.0)})
        self.assertEqual(list(lines), ["flex"])
        self.assertEqual(printed, f"# late at {SHAPE}: not timed: RuntimeError: too late\n")

    def test_a_lost_context_ends_the_run_and_names_who_left_it(self):
        machine = Machine()

        def broken(shape):
            machine.broken = "an illegal memory access"
            raise RuntimeError("launch failed")
        with self.assertRaises(time_attention.Lost) as caught:
            measured({"cudnn": Contender("cudnn 9", broken)}, machine)
        self.assertEqual(str(caught.exception),
                         f"cudnn at {SHAPE} left the GPU in an error: RuntimeError: an illegal memory access")

    def test_what_cannot_be_captured_says_so_in_its_line(self):
        lines, printed = measured({"flex": contender("flex", 1.0, is_eager=True)})
        self.assertEqual([lines["flex"][f"{each}_mode"] for each in PASSES], ["eager", "eager"])
        self.assertIn("forward is launched without a CUDA graph: RuntimeError: not allowed here", printed)
        self.assertIn("| 1.0000 eager | 3.0000 eager |", time_attention.described(lines["flex"]))


class File(unittest.TestCase):
    def test_a_line_has_every_column_and_no_quotes(self):
        named = contender("flex", 1.0)
        named.kernel = 'flex "1.0", cu13'
        lines, _ = measured({"cudnn": contender("cudnn", 1.0, small={"dq": 10.02}), "flex": named})
        for line in lines.values():
            self.assertEqual(set(line), set(time_attention.FIELDS))
        text = io.StringIO()
        writer = csv.DictWriter(text, time_attention.FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines.values())
        head, first, second = text.getvalue().splitlines()
        self.assertTrue(head.startswith("device,kernel,query_heads,kv_heads,head_dim,window,sequences,dtype,forward_ms,"))
        self.assertTrue(first.startswith("a card,cudnn 1.0,16,2,128,2048,4x8192,bf16,1.0,1.0,1.0,graph,3.0,3.0,3.0,graph,0.00"))
        self.assertTrue(second.startswith("a card,flex 1.0 cu13,16,2,"), second)

    def test_rows_have_the_columns_of_the_heading(self):
        lines, _ = measured({"cudnn": contender("cudnn", 1.0)})
        head = time_attention.heading("a card", 9).splitlines()
        row = time_attention.described(lines["cudnn"])
        self.assertEqual(row, "| 16/2 | 128 | 2048 | 4x8192 | cudnn 1.0 | 1.0000 | 3.0000 | 0.0e+00 |")
        self.assertEqual({line.count("|") for line in (*head[-2:], row)}, {row.count("|")})


@unittest.skipIf(torch is None, "PyTorch is not installed")
class WithPyTorch(unittest.TestCase):
    """The adapters, on the CPU."""

    def setUp(self):
        self.machine = time_attention.Machine.__new__(time_attention.Machine)  # without a clock of CUDA
        self.machine._torch = torch
        patch = mock.patch.object(inputs, "DEVICE", "cpu")
        patch.start()
        self.addCleanup(patch.stop)
        judged = mock.patch.object(time_attention, "JUDGED_LENGTH", 96), mock.patch.object(time_attention, "JUDGED_WINDOW", 40)
        for each in judged:
            each.start()
            self.addCleanup(each.stop)

    def error_of(self, contender):
        """The largest error, with a window and without."""
        judge = time_attention.Judge(self.machine)
        return max(judge.error_of("x", contender.make, parse_shape(shape)) for shape in
                   ("4/2:16:50:1x128", "4/2:16:0:1x128"))

    def attend(self, window, d_output=None):
        """In bfloat16, as a library: output, and gradients where there is d_output."""
        def function(query, key, value):
            exact = self.machine.exact(attention_contenders.AttentionInputs(
                query, key, value, torch.zeros_like(query) if d_output is None else d_output, window))
            return {name: x.bfloat16() for name, x in exact.items()}
        return function

    def test_float64_knows_attention_by_hand(self):
        """Zero queries weigh all that they see alike."""
        shape = parse_shape("4/2:8:3:1x6")
        made = self.machine.inputs(shape)
        self.assertEqual((tuple(made.query.shape), tuple(made.key.shape)), ((1, 6, 4, 8), (1, 6, 2, 8)))
        made.query.zero_()
        output = self.machine.exact(made)["output"]
        for token in range(6):
            for head in range(4):
                seen = made.value.double()[0, max(token - 2, 0):token + 1, head // 2]
                self.assertTrue(torch.allclose(output[0, token, head], seen.mean(0)))

    def flash_of(self, window_of):
        class Function(torch.autograd.Function):
            @staticmethod
            def forward(context, query, key, value, window):
                context.save_for_backward(query, key, value)
                context.window = window
                return self.attend(window)(query, key, value)["output"]

            @staticmethod
            def backward(context, d_output):
                results = self.attend(context.window, d_output)(*context.saved_tensors)
                return (*(results[name] for name in attention_contenders.GRADIENTS), None)

        def flash_attn_func(q, k, v, softmax_scale, causal, window_size):
            self.assertTrue(causal)
            self.assertEqual(softmax_scale, q.shape[-1] ** -0.5)
            return Function.apply(q, k, v, window_of(window_size)), "softmax statistics"
        module = types.ModuleType("flash_attn_interface")
        module.flash_attn_func = flash_attn_func
        with mock.patch.dict(sys.modules, flash_attn_interface=module):
            return attention_contenders.flash()

    def test_flash_is_given_the_tokens_before_the_query_s_own(self):
        right = self.flash_of(lambda bounds: 0 if bounds == (-1, -1) else bounds[0] + 1)
        self.assertTrue(right.kernel.startswith("flash_attn_interface "))
        self.assertLess(self.error_of(right), 4e-3)
        for wrong in (lambda bounds: max(bounds[0], 0), lambda bounds: 0):
            with self.assertRaises(ArithmeticError):
                self.error_of(self.flash_of(wrong))

    def cudnn_of(self, band_error=0):
        """A frontend whose graphs compute what their arguments say."""
        test = self

        class Output:
            def set_uid(self, uid):
                self.uid = uid
                return self

            def set_output(self, _):
                return self
            set_dim = set_stride = set_data_type = set_output

        class Graph:
            def __init__(self, **_):
                self.uids, self.outputs = {}, []

            def tensor(self, name, dim, stride, data_type, uid):
                self.uids[name] = uid
                test.assertEqual(stride[-1], 1)
                return name

            def sdpa(self, name, q, k, v, generate_stats, **options):
                test.assertTrue(generate_stats)
                self.options, self.outputs, self.names = options, [Output() for _ in range(2)], ["output"]
                return self.outputs

            def sdpa_backward(self, name, q, k, v, o, dO, stats, **options):  # noqa: N803 - the library's names
                self.options, self.outputs = options, [Output() for _ in range(3)]
                self.names = attention_contenders.GRADIENTS
                return self.outputs

            def nothing(self, *_):
                pass
            validate = build_operation_graph = create_execution_plans = check_support = build_plans = nothing

            def get_workspace_size(self):
                return 0

            def execute(self, tensors, workspace, handle):
                test.assertEqual((handle, self.options["diagonal_band_right_bound"]), ("a handle", 0))
                window = self.options.get("diagonal_band_left_bound", 0)
                read = [tensors[self.uids[name]].transpose(1, 2) for name in "qkv"]
                d_output = tensors[self.uids["dO"]].transpose(1, 2) if "dO" in self.uids else None
                results = test.attend(window and window + band_error, d_output)(*read)
                for name, output in zip(self.names, self.outputs):
                    tensors[output.uid].copy_(results[name].transpose(1, 2))
        library = types.ModuleType("cudnn")
        library.__version__, library.pygraph = "1.2", Graph
        library.backend_version, library.create_handle = lambda: 91801, lambda: "a handle"
        library.set_stream = lambda handle, stream: None
        library.data_type = types.SimpleNamespace(BFLOAT16=1, FLOAT=2)
        library.heur_mode = types.SimpleNamespace(A=1, FALLBACK=2)
        library.diagonal_alignment = types.SimpleNamespace(TOP_LEFT=1)
        with mock.patch.dict(sys.modules, cudnn=library):
            return attention_contenders.cudnn()

    def test_cudnn_is_given_the_window_with_the_query_s_own_token(self):
        stream = types.SimpleNamespace(cuda_stream=0)
        with mock.patch.object(torch.cuda, "current_stream", lambda: stream):
            right = self.cudnn_of()
            self.assertEqual(right.kernel, "cudnn 9.18.1 (frontend 1.2)")
            self.assertLess(self.error_of(right), 4e-3)
            with self.assertRaises(ArithmeticError):
                self.error_of(self.cudnn_of(band_error=-1))

    def test_autograd_s_forward_pass_alone_has_no_gradients(self):
        made = self.machine.inputs(parse_shape("2/2:4:0:1x6"))
        leaves = [x.requires_grad_() for x in (made.query, made.key, made.value)]
        pair = attention_contenders.by_autograd(lambda q, k, v: q * k + v, leaves, made.d_output)
        self.assertEqual(list(pair.forward.run()), ["output"])
        both = pair.forward_backward.run()
        self.assertEqual(list(both), list(RESULTS["forward_backward"]))
        self.assertTrue(torch.equal(both["dv"], made.d_output))
        self.assertIsInstance(pair.forward, Call)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""time_backward.py without a GPU and without PyTorch: usage, who is left out and why, turns, and the table. Tensors, the
clock and contenders are stand-ins."""
import contextlib
import io
import math
import os
import sys
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import backward_contenders  # noqa: E402
import inputs  # noqa: E402
import time_backward  # noqa: E402
from backward_contenders import GRADIENTS, Pair  # noqa: E402
from contenders import Call  # noqa: E402
from gdnbench.turns import WARM_ROUNDS  # noqa: E402
from tests import run  # noqa: E402

RUNS = 3
EXACT = dict.fromkeys(GRADIENTS, 10.0)


class Tensor:
    """One number with what a row calls of a tensor."""

    def __init__(self, value):
        self.value = value

    def double(self):
        return self

    def norm(self):
        return abs(self.value)

    def clone(self):
        return Tensor(self.value)

    def fill_(self, value):
        self.value = value

    def __sub__(self, other):
        return Tensor(self.value - other.value)


class Clock:
    """A launch takes as many milliseconds as it says. Who was launched, in order, is kept."""

    def __init__(self):
        self.launched, self.flushed = [], 0

    def capture(self, call):
        if getattr(call, "is_eager", False):
            return call.run, None, "eager", "RuntimeError: not allowed here"
        return call.run, call.run(), "graph", ""

    def flush(self):
        self.flushed += 1

    def take(self, launch):
        launch()
        self.launched.append(launch.name)
        return launch.time_ms

    def read(self, taken):
        return taken


class Machine:
    broken = ""

    def __init__(self):
        self.clock, self.ran = Clock(), []

    def wait(self):
        if self.broken:
            raise RuntimeError(self.broken)

    def inputs(self, heads, seq):
        return f"{heads} {seq}"

    def run_measured(self, run):
        return run(), 3 << 20


class Pass:
    """One pass of a contender. `values`: what its gradients are at each of its runs, the last one for all others; None
    where it writes nothing."""

    def __init__(self, name, time_ms, values, is_eager):
        self.name, self.time_ms, self.values, self.is_eager = name, time_ms, list(values), is_eager
        self.prepared, self.written = 0, {gradient: Tensor(0.0) for gradient in GRADIENTS}

    def prepare(self):
        self.prepared += 1

    def __call__(self):
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        for x in self.written.values() if value is not None else ():
            x.value = value
        return self.written

    @property
    def run(self):
        return self


def maker(name, time_ms, values=(10.0,), small=(10.0,), is_eager=False, workspace_bytes=None):
    """`small`: gradients on the shape that is judged, a value for each time it is judged."""
    small = list(small)

    def make(inputs):
        if inputs == "judged":
            value = small.pop(0) if len(small) > 1 else small[0]
            return Pair(*(Pass(name, 0, [value], False) for _ in range(2)))
        return Pair(*(Pass(f"{name} {each}", time_ms * factor, values, is_eager)
                      for each, factor in (("both", 2), ("backward", 1))),
                    choice="form", workspace_bytes=workspace_bytes)
    return make


def measured(makers, machine=None):
    judge = time_backward.Judge("judged", {name: Tensor(value) for name, value in EXACT.items()})
    return {line["contender"]: line for line in
            time_backward.measure("2/4", "1x64", makers, judge, machine or Machine(), RUNS)}


class Usage(unittest.TestCase):
    def refused(self, words, *arguments):
        done = run("time_backward.py", *arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_bad_options_are_one_line_and_exit_2(self):
        self.refused("--shapes: '16/32': expected heads:lengths", "--shapes", "16/32")
        self.refused("a multiple of Hk", "--shapes", "3/8:1x64")
        self.refused("expected lengths", "--shapes", "2/8:64x")
        self.refused("--who 'flo': expected one of ours", "--who", "ours,flo")
        self.refused("--runs 2: expected 3 or more", "--runs", "2")
        self.refused("--runs: invalid int value", "--runs", "many")
        self.refused("unrecognized arguments: --grid", "--grid", "forward")

    def test_without_pytorch_it_says_so(self):
        self.refused("PyTorch is needed")

    def test_the_shapes_are_flashqlas_rows_those_of_the_goals_and_a_ragged_one(self):
        shapes = time_backward.parse_arguments([]).shapes
        self.assertEqual(len(set(shapes)), 14)
        self.assertEqual(shapes[:8], [("16/32", "1x8192"), ("16/32", "4x2048"), ("16/32", "1x32768"), ("16/32", "8x4096"),
                                      ("8/16", "1x32768"), ("4/8", "1x32768"), ("4/8", "8x1024"), ("2/4", "1x32768")])
        self.assertIn(("16/32", "1000+77+4001+8192+333"), shapes)
        self.assertEqual(time_backward.parse_arguments(["--shapes", "2/4:2x64"]).shapes, [("2/4", "2x64")])

    def test_who_cannot_be_imported_is_one_line_and_the_others_stay(self):
        def missing():
            raise ModuleNotFoundError("No module named 'flash_qla'\nand more")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            found = time_backward.loaded(["a", "flashqla"], {"a": lambda: "make", "flashqla": missing})
        self.assertEqual(found, {"a": "make"})
        self.assertEqual(printed.getvalue(),
                         "# flashqla: not timed: ModuleNotFoundError: No module named 'flash_qla'\n")


class Rows(unittest.TestCase):
    def test_everyone_is_timed_in_turns_with_a_cold_cache_pass_by_pass(self):
        machine = Machine()
        lines = measured({"ours": maker("ours", 1.0), "fla": maker("fla", 3.0)}, machine)
        both, alone = (f"{{}} {each}".format for each in ("both", "backward"))
        a, b = "ours", "fla"
        rounds = [[a, b], [b, a]] * ((WARM_ROUNDS + RUNS + 1) // 2)
        order = [name for each in rounds[:WARM_ROUNDS + RUNS] for name in each]
        self.assertEqual(machine.clock.launched, [both(name) for name in order] + [alone(name) for name in order])
        self.assertEqual(machine.clock.flushed, len(machine.clock.launched))
        self.assertEqual((lines["fla"]["forward_backward_ms"], lines["fla"]["backward_ms"]), (6.0, 3.0))
        self.assertEqual((lines["ours"]["forward_backward_ms"], lines["ours"]["backward_ms"]), (2.0, 1.0))

    def test_errors_are_the_larger_ones_of_before_and_after(self):
        lines = measured({"ours": maker("ours", 1.0, small=(10.01, 10.05)), "fla": maker("fla", 1.0, small=(9.9, 10.0))})
        for name in GRADIENTS:
            self.assertAlmostEqual(lines["ours"][f"error_{name}"], 0.005)
            self.assertAlmostEqual(lines["fla"][f"error_{name}"], 0.01)

    def test_who_is_wrong_before_timing_is_not_timed(self):
        machine = Machine()
        lines = measured({"ours": maker("ours", 1.0), "fla": maker("fla", 1.0, small=(11.0,)),
                          "nan": maker("nan", 1.0, values=(math.nan,)),
                          "small_nan": maker("small_nan", 1.0, small=(math.nan,))}, machine)
        self.assertIn("dq: error 0.1 before timing", lines["fla"]["reason"])
        self.assertIn("dq: not finite before timing", lines["nan"]["reason"])
        self.assertIn("dq: error nan before timing", lines["small_nan"]["reason"])
        for name in ("fla", "nan", "small_nan"):
            self.assertNotIn("backward_ms", lines[name])
        self.assertEqual({name.split()[0] for name in machine.clock.launched}, {"ours"})

    def test_who_is_wrong_after_timing_has_no_time(self):
        right_at_first = (10.0,) * 5  # entered and captured, and timed until it changes
        lines = measured({"ours": maker("ours", 1.0), "changed": maker("changed", 1.0, values=(*right_at_first, 12.0)),
                          "judged": maker("judged", 1.0, small=(10.0, 11.0)),
                          "nan": maker("nan", 1.0, values=(*right_at_first, math.nan)),
                          "unwritten": maker("unwritten", 1.0, values=(*right_at_first, None))})
        self.assertIn("0.2 from what it was before timing", lines["changed"]["reason"])
        self.assertIn("dq: error 0.1 after timing", lines["judged"]["reason"])
        self.assertIn("nan from what it was", lines["nan"]["reason"])
        self.assertIn("nan from what it was", lines["unwritten"]["reason"])
        for name in ("changed", "judged", "nan", "unwritten"):
            self.assertFalse([field for field in lines[name] if field.endswith("_ms") or field.startswith("error_")])
        self.assertIn("backward_ms", lines["ours"])

    def test_memory_is_the_plans_workspace_of_ours_and_pytorchs_peak_of_peers(self):
        workspaces = {"forward_backward": 5 << 20, "backward": 4 << 20}
        lines = measured({"ours": maker("ours", 1.0, workspace_bytes=workspaces), "fla": maker("fla", 1.0)})
        self.assertEqual((lines["ours"]["forward_backward_workspace_mib"], lines["ours"]["backward_workspace_mib"]), (5, 4))
        self.assertNotIn("backward_peak_memory_mib", lines["ours"])
        self.assertEqual(lines["fla"]["backward_peak_memory_mib"], 3)
        self.assertNotIn("backward_workspace_mib", lines["fla"])

    def test_distances_are_from_the_first_contender(self):
        lines = measured({"ours": maker("ours", 1.0), "fla": maker("fla", 1.0, values=(10.1,))})
        self.assertEqual(lines["ours"]["apart"], 0)
        self.assertAlmostEqual(lines["fla"]["apart"], 0.01)

    def test_a_lost_context_ends_the_run_and_names_who_left_it(self):
        machine = Machine()

        def broken(inputs):
            machine.broken = "an illegal memory access"
            raise RuntimeError("launch failed")
        with self.assertRaises(time_backward.Lost) as caught:
            measured({"ours": maker("ours", 1.0), "fla": broken}, machine)
        self.assertEqual(str(caught.exception), "fla left the GPU in an error: RuntimeError: an illegal memory access")


class Table(unittest.TestCase):
    def test_a_row_has_times_errors_and_memory_and_says_what_is_eager(self):
        lines = measured({"ours": maker("ours", 1.0, workspace_bytes={"forward_backward": 5 << 20, "backward": 0}),
                          "fla": maker("fla", 1.5, values=(10.1,), small=(9.99,), is_eager=True),
                          "flashqla": maker("flashqla", 1.0, small=(11.0,))})
        self.assertEqual(
            [time_backward.described(line) for line in lines.values()],
            ["| 2/4 | 1x64 | ours form | 2.0000 | 1.0000 | " + "0.0e+00 | " * 6 + " | 5 |  |",
             "| 2/4 | 1x64 | fla form | 3.0000 eager | 1.5000 eager | " + "1.0e-03 | " * 5 + "1.0e-02 | 3 |  | "
             "RuntimeError: not allowed here |",
             "| 2/4 | 1x64 | flashqla |  |  | " + " | " * 8 + "ArithmeticError: dq: error 0.1 before timing, "
             "limit 0.05 |"])

    def test_the_heading_says_that_errors_are_of_another_shape(self):
        head = time_backward.heading("a card", 15).splitlines()
        self.assertEqual(head[0], "# a card, cold L2, medians of 15 runs in turns, a CUDA graph each unless the row says "
                                  "eager; gates weak")
        self.assertIn("not of this shape", head[1])
        self.assertIn("2/4 heads, 1x1000 tokens", head[1])
        self.assertEqual(head[-2].count("|"), head[-1].count("|"))
        row = time_backward.described({"heads": "2/4", "seq": "1x64", "contender": "ours"})
        self.assertEqual(row.count("|"), head[-1].count("|"))

    def test_every_column_of_the_file_is_known(self):
        lines = measured({"ours": maker("ours", 1.0, workspace_bytes=dict.fromkeys(time_backward.PASSES, 0)),
                          "fla": maker("fla", 1.0, is_eager=True)})
        for line in lines.values():
            self.assertLessEqual(set(line), set(time_backward.FIELDS))
        self.assertEqual(set().union(*lines.values()), set(time_backward.FIELDS))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class WithPyTorch(unittest.TestCase):
    """The contenders themselves, on the CPU's implementations; a function of this project's in a peer's place."""

    def test_every_contender_gives_the_float64_references_gradients_in_both_passes(self):
        import gdnbench_torch as gdn

        forwards = []

        def rule(q, k, v, g, beta, scale, output_final_state, cu_seqlens):
            forwards.append(len(cu_seqlens))
            output, state = gdn.gated_delta_autograd(q[0], k[0], v[0], g[0], beta[0], cu_seqlens, scale=scale,
                                                     final_state=output_final_state)
            return output[None], state
        peer = types.ModuleType("a_peer")
        peer.chunk_gated_delta_rule = rule
        with mock.patch.dict(sys.modules, a_peer=peer), mock.patch.object(inputs, "DEVICE", "cpu"), \
                mock.patch.object(backward_contenders, "FORWARD", "cpu/naive"), \
                mock.patch.object(time_backward, "JUDGED", ("1/2", "1x5+1x70")):
            machine = time_backward.Machine.__new__(time_backward.Machine)  # without a clock of CUDA
            machine._torch = torch
            judge = machine.judge()
            for load in (backward_contenders.ours("cpu/naive"), backward_contenders.by_autograd("a_peer")):
                errors = judge.errors_of(load(), "before")
                self.assertEqual(set(errors), set(GRADIENTS))
                # What rounding to bfloat16 costs by itself is 1.7e-3.
                self.assertLess(max(errors.values()), 2.5e-3, errors)
                self.assertGreater(errors["dq"], 0)
            pair = backward_contenders.by_autograd("a_peer")()(machine.inputs("1/2", "1x20"))
            before = len(forwards)
            pair.backward.prepare()
            pair.backward.prepare()
            self.assertEqual(len(forwards) - before, 1)
            first, second = pair.backward.run(), pair.backward.run()
            for name in GRADIENTS:
                self.assertTrue(torch.equal(first[name], second[name]), name)


if __name__ == "__main__":
    unittest.main()

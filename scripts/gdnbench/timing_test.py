#!/usr/bin/env python3
"""gdnbench.time(): who is timed when, what counts, what a row says; by clocks that are none. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/gdnbench/timing_test.py
"""
import contextlib
import importlib.util
import sys
import types
import unittest
from unittest import mock

try:
    import numpy as np
except ImportError:
    print("timing_test: no numpy here")
    sys.exit(77)

from judging_test import SMALL, decay_after_the_update, fla, right  # finds gdnbench too
import gdnbench
from gdnbench import calls, clocks, turns
from gdnbench.clocks import CudaClock, WallClock
from gdnbench.tables import Rows
from gdnbench_library import GdnbenchError

WITH_STATE = SMALL + ",h0=normal"


class StandIn:
    """A clock whose times are told: by what is launched, each its own. Keeps what happened in `events`."""
    device = "a stand-in"

    def __init__(self, times_ms=()):
        self.events, self._times_ms = [], iter(times_ms)

    def current(self):
        return contextlib.nullcontext()

    def stream(self):
        return None

    def flush(self):
        self.events.append("flush")

    def capture(self, call):
        return call.run, None, "call", ""

    def take(self, launch):
        self.events.append("take")
        launch()
        return next(self._times_ms, 1.0)

    def read(self, taken):
        return taken

    def wait(self):
        pass


def telling(clock, name):
    """The recurrence, that says when it is called."""
    def kernel(x):
        clock.events.append(name)
        return right(x)
    kernel.__name__ = name
    return kernel


class Turns(unittest.TestCase):
    def test_contenders_take_turns_in_one_run_each_behind_a_flush(self):
        clock = StandIn()
        gdnbench.time(telling(clock, "a"), SMALL, [telling(clock, "b"), telling(clock, "c")], clock=clock, runs=4)
        self.assertEqual(clock.events[:3], ["a", "b", "c"])  # each is judged before anyone is timed
        timed = clock.events[3:-6]
        self.assertEqual(timed[0::3], ["flush"] * 18)
        self.assertEqual(timed[1::3], ["take"] * 18)
        self.assertEqual("".join(timed[2::3]), "abcbcacab" * 2)
        self.assertEqual(clock.events[-6:], ["flush", "a", "flush", "b", "flush", "c"])  # and again behind all

    def test_the_median_and_the_spread_are_of_the_runs_behind_the_warm_ones(self):
        clock = StandIn([100, 100, 5, 1, 4, 2, 3])
        timing, = gdnbench.time(right, SMALL, clock=clock, runs=5)
        self.assertEqual(timing.samples_ms, (5, 1, 4, 2, 3))
        row = timing.row()
        self.assertEqual([row[name] for name in ("time_ms", "time_first_quartile_ms", "time_third_quartile_ms",
                                                 "time_min_ms", "time_max_ms", "sample_count", "device")],
                         [3, 2, 4, 1, 5, 5, "a stand-in"])
        self.assertAlmostEqual(row["time_relative_spread"], 2 / 3)
        tokens, states = 14 * (2 * 16 + 2 * 24 + 2 * 24 + 2 * 2) * 4, 3 * 2 * 16 * 24 * 4
        self.assertEqual(row["bytes_moved"], tokens + states + 4 * 8)
        self.assertEqual(gdnbench.case(WITH_STATE).bytes_moved, tokens + 2 * states + 4 * 8)
        layer = gdnbench.case("gated_delta_layer:heads=1/2,dim=16,seq=1x9,dtype=f32")
        self.assertEqual({each.name for each in layer.operands if each.bytes_moved == 0}, {"conv_output"})  # not made
        self.assertAlmostEqual(row["tb_per_s"], row["bytes_moved"] / 3e-3 / 1e12)

    def test_one_run_has_a_time_too(self):
        self.assertEqual(gdnbench.time(right, SMALL, clock=StandIn([9, 9, 7]), runs=1)[0].time_ms, 7)


class Judged(unittest.TestCase):
    def timings(self, *functions, problems=SMALL, **how):
        return gdnbench.time(functions[0], problems, functions[1:], clock=StandIn(), runs=2, **how)

    def test_a_wrong_kernels_time_is_marked(self):
        timings = self.timings(right, decay_after_the_update)
        self.assertEqual([each.verdict.verdict for each in timings], ["passed", "failed"])
        self.assertEqual(timings[1].time_ms, 1.0)
        self.assertRegex(str(timings), r"FAIL  decay_after_the_update  1 ms.*\(its outputs are wrong\)\n +output of")
        self.assertFalse(timings.passed)
        self.assertNotIn("wrong", str(timings[0]))

    def test_this_projects_implementations_are_judged_and_timed_beside_it(self):
        for dtype in ("f32", "bf16", "f16"):
            with self.subTest(dtype=dtype):
                timings = self.timings(right, "cpu/naive", "cpu/recurrent", "best",
                                       problems=WITH_STATE.replace("f32", dtype))
                self.assertEqual([each.verdict.verdict for each in timings], ["passed"] * 4, str(timings))
                self.assertEqual([each.name for each in timings][:3], ["right", "cpu/naive", "cpu/recurrent"])
                self.assertRegex(timings[3].name, "^cpu/")
                self.assertTrue(timings.passed)

    def test_every_operation_is_timed(self):
        """Pools with slots, phases, gradients and windows among them."""
        def no_kernel(x):
            raise NotImplementedError("nothing")
        for each in {of.problem.partition(":")[0]: of for of in gdnbench.cases("quick", operation=None)}.values():
            with self.subTest(problem=each.problem):
                none, best = self.timings(no_kernel, "best", problems=each)
                self.assertEqual([none.verdict.verdict, best.verdict.verdict, best.time_ms],
                                 ["unsupported", "passed", 1.0], str(best))

    def test_a_state_that_is_updated_in_place_is_put_back_before_each_run(self):
        def in_place(x):
            output, states = right(x)
            x["initial_state"][...] = states
            x["q"][...] = 0
            return output, x["initial_state"]
        timings = self.timings(in_place, "cpu/chunkwise", problems=WITH_STATE)
        self.assertEqual([each.verdict.reason for each in timings], ["", ""])

    def test_outputs_that_are_wrong_after_timing_fail(self):
        calls_made = []

        def tires(x):
            calls_made.append(1)
            return decay_after_the_update(x) if len(calls_made) == 6 else right(x)  # judged, 2 warm, 2 timed, judged
        timing, = self.timings(tires)
        self.assertEqual(len(calls_made), 6)
        self.assertEqual(timing.verdict.verdict, "failed")
        self.assertRegex(timing.verdict.reason, "^after timing: output of sequence 0")

    def test_what_a_function_raises_is_a_row_and_the_others_are_timed(self):
        def breaks_off(x, calls_made=[]):
            calls_made.append(1)
            if len(calls_made) == 5:  # judged, 2 warm, the first that counts
                raise RuntimeError("\nno memory\nat all")
            return right(x)

        def raises(x):
            raise ValueError("no such tile")

        def refuses(x):
            raise NotImplementedError("head dims of 128 only")

        def shapeless(x):
            return right(x)[0]

        timings = self.timings(right, breaks_off, raises, refuses, shapeless, "cuda/naive", "cpu/naive")
        self.assertEqual([(each.verdict.verdict, each.verdict.reason, each.time_ms) for each in timings], [
            ("passed", "", 1.0),
            ("failed", "in a timed run: RuntimeError: no memory", None),
            ("failed", "raised ValueError: no such tile", None),
            ("unsupported", "head dims of 128 only", None),
            ("failed", "arrays returned: 1, expected 2: output, final_state", None),
            ("unsupported", "cuda/naive needs a cuda device, not cpu", None),
            ("passed", "", 1.0)])
        self.assertEqual(len(timings.rows()), 7)

    def test_a_problem_that_nobody_supports_is_rows_without_times(self):
        convolution = "causal_conv1d:heads=1/2,dim=16,seq=1x9,dtype=f32"
        timings = self.timings(right, "cpu/naive", "cpu/chunkwise", problems=[SMALL + ",scale=0.3", convolution],
                               honours=[])
        self.assertEqual([each.verdict.reason for each in timings],
                         ["scale=0.3 is not honoured", "", ""] + [timings[3].verdict.reason] * 1 +
                         ["cpu/naive does not do causal_conv1d", "cpu/chunkwise does not do causal_conv1d"])
        self.assertEqual({each.time_ms for each in timings[3:]}, {None})
        self.assertFalse(gdnbench.Timings(timings[4:]).passed)  # nothing was judged

    def test_with_a_convention_the_function_alone_is_timed(self):
        clock, given = StandIn(), []

        def kernel(*arguments, **named):
            given.append(id(arguments[0]))
            return fla(*arguments, **named)
        timings = gdnbench.time(kernel, SMALL.replace("1x9+1x0+1x5", "2x9") + ",h0=normal,layout=vk", "cpu/naive",
                                convention="fla", clock=clock, runs=2)
        self.assertEqual([each.verdict.reason for each in timings], ["", ""])
        self.assertEqual(len(given), 6)
        self.assertEqual(len(set(given)), 1, "arguments were made again for a run")

    def test_rows_text_and_markdown_have_everyone(self):
        timings = self.timings(right, "cpu/naive", "cuda/naive", problems=[SMALL, WITH_STATE])
        self.assertEqual(str(timings).count("\n") + 1, 2 * (1 + 3 + 1), str(timings))  # a reason below each skip
        self.assertEqual(str(timings).count("on a stand-in"), 2)
        rows = timings.rows()
        self.assertEqual(len({tuple(row) for row in rows}), 1)
        lines = timings.markdown().splitlines()
        self.assertEqual(len(lines), 2 + 6)
        self.assertEqual(lines[0].split(" | ")[:4], ["| problem", "implementation", "verdict", "time_ms"])
        self.assertEqual({line.count(" | ") for line in lines}, {lines[0].count(" | ")})
        self.assertEqual(Rows([types.SimpleNamespace(row=lambda: {"a": "x|y\nz", "b": 0.12345, "c": None})]).markdown(),
                         "| a | b |\n| :-- | --: |\n| x\\|y z | 0.1235 |\n")
        if importlib.util.find_spec("pandas") is None:
            self.assertEqual(timings.table(), rows)
        else:
            self.assertEqual(list(timings.table()["implementation"]), [row["implementation"] for row in rows])

    def test_bad_usage_is_one_line_that_names_it(self):
        for words, call in (
                ("did you mean 'cpu/naive'", lambda: self.timings(right, "cpu/naiv")),
                ("beside: 3, expected the name", lambda: self.timings(right, 3)),
                ("beside: 'right' is there twice", lambda: self.timings(right, right)),
                ("problems: are none", lambda: self.timings(right, problems=[])),
                ("did you mean 'dtype'", lambda: self.timings(right, problems="gated_delta:heads=1/1,dtyp=f32")),
                ("runs: 0, expected a number", lambda: gdnbench.time(right, SMALL, runs=0)),
                ("device: 'tpu', expected 'cpu', 'cuda'", lambda: gdnbench.time(right, SMALL, device="tpu")),
                ("arrays: 'jax' on device 'cuda', expected 'torch'",
                 lambda: self.timings(right, device="cuda", arrays_of="jax")),
                ("convention: 'flaa'", lambda: self.timings(right, convention="flaa"))):
            with self.subTest(words=words), self.assertRaisesRegex((GdnbenchError, ValueError), words) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))

    def test_a_cuda_device_without_pytorch_is_named(self):
        with mock.patch.dict(sys.modules, {"torch": None}), self.assertRaisesRegex(
                ValueError, "device: 'cuda:1' is timed by PyTorch's events"):
            gdnbench.time(right, SMALL, device="cuda:1")


class Wall(unittest.TestCase):
    def test_a_call_is_timed_until_its_arrays_are_there(self):
        now, waited = iter([1_000_000, 4_500_000]), []
        later = types.SimpleNamespace(block_until_ready=lambda: waited.append(1))
        self.assertEqual(WallClock(now_ns=lambda: next(now)).take(lambda: (later, {"b": 1})), 3.5)
        self.assertEqual(waited, [1])

    def test_a_flush_writes_as_much_as_the_last_cache_holds(self):
        with mock.patch.object(clocks, "last_level_cache_bytes", lambda: 1001):
            clock = WallClock()
            for value in (1, 2):
                clock.flush()
                self.assertEqual(clock._buffer.raw, bytes([value]) * 1001)


class FakeTorch:
    """As much of PyTorch as a clock calls, that says what it was asked in turn."""
    uint8 = "uint8"

    def __init__(self, captures=True):
        self.said = said = []
        note = lambda word: lambda *_, **__: said.append(word)

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                said.append("record")

            def elapsed_time(self, end):
                return 2.5

        class Graph:
            replay = staticmethod(note("replay"))
            capture_end = staticmethod(note("end"))

            def capture_begin(self, capture_error_mode):
                if not captures:
                    raise RuntimeError("not here\nat all")
                said.append("begin")
        self.device = lambda name: name
        self.empty = lambda size, dtype, device: types.SimpleNamespace(zero_=note(f"write {size >> 20} MiB"))
        self.cuda = types.SimpleNamespace(Event=Event, CUDAGraph=Graph, synchronize=note("wait"),
                                          get_device_name=lambda place: "a card")


class Cuda(unittest.TestCase):
    def clock(self, **how):
        torch = FakeTorch(**how)
        with mock.patch.dict(sys.modules, {"torch": torch}):
            return CudaClock(), torch.said

    def call(self, said):
        return types.SimpleNamespace(run=lambda: said.append("run"), prepare=lambda: said.append("prepare"))

    def test_a_run_is_a_replay_between_two_events_behind_the_flush(self):
        clock, said = self.clock()
        launch, _, word, why = clock.capture(self.call(said))
        self.assertEqual((word, why), ("graph", ""))
        self.assertEqual(said, ["wait", "prepare", "begin", "run", "end", "replay", "wait"])
        said.clear()
        times = turns.time_in_turns({"a": (lambda: said.append("prepare"), launch)}, 1, clock)
        self.assertEqual(said, ["prepare", "write 512 MiB", "record", "replay", "record", "wait"] * 3)
        self.assertEqual(times, {"a": [2.5]})

    def test_what_cannot_be_captured_is_launched_as_it_is_and_says_why(self):
        clock, said = self.clock(captures=False)
        call = self.call(said)
        self.assertEqual(clock.capture(call), (call.run, None, "eager", "RuntimeError: not here"))


if __name__ == "__main__":
    try:
        calls.library()
    except OSError as error:
        sys.exit(f"timing_test: {error}")
    unittest.main()

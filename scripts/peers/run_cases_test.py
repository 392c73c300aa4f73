#!/usr/bin/env python3
"""run_cases.py on the CPU: what a run that is cut leaves, and that another one goes on with it. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/peers/run_cases_test.py
"""
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

try:
    import numpy  # noqa: F401
except ImportError:
    print("run_cases_test: no numpy here")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import case_results  # noqa: E402: found by the line above
import run_cases  # noqa: E402

ON_CPU = {"device": "cpu", "plan_only": False, "strict": False}
SMALL = ["--largest", "30000", "--sample", "5", "--jobs", "2"]
SERVE = run_cases._serve
GATES = [index for index, case in enumerate(run_cases.EVERY) if (case.peer, case.function) not in run_cases.FUNCTIONS]


def serve_until(pipe, how):
    """As _serve(), in a process that dies of the first case of GATES."""
    class Pipe:
        send = staticmethod(pipe.send)

        @staticmethod
        def recv():
            index = pipe.recv()
            if index == GATES[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return index
    SERVE(Pipe, how)


class RunCases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "results.jsonl"
        self.command = [sys.executable, HERE / "run_cases.py", "--json-lines", self.path]

    def run_cases(self, *arguments):
        return subprocess.run([*self.command, *arguments], capture_output=True, text=True)

    def test_a_run_that_is_killed_goes_on_with_what_it_has(self):
        whole = self.run_cases(*SMALL)
        self.assertEqual(whole.returncode, 0, whole.stdout + whole.stderr)
        names = sorted(name for name, *_ in case_results.read(self.path)[1])
        self.assertGreater(len(names), 50)
        run = subprocess.Popen([*self.command, *SMALL], stdout=subprocess.DEVNULL)
        while not self.path.exists() or self.path.read_bytes().count(b"\n") not in range(5, len(names)):
            self.assertIsNone(run.poll(), "it ended before it was killed")
            time.sleep(0.01)
        run.kill()
        run.wait()
        whole_lines = self.path.read_bytes().rpartition(b"\n")[0] + b"\n"
        self.path.write_bytes(whole_lines + b'["fla:test_chunk[B=')
        kept = case_results.read(self.path)[1]
        self.assertLess(len(kept), len(names))
        again = self.run_cases(*SMALL, "--resume")
        self.assertEqual((again.returncode, again.stdout), (0, whole.stdout), again.stderr)
        self.assertTrue(self.path.read_bytes().startswith(whole_lines), "what was there is run again")
        self.assertEqual(sorted(name for name, *_ in case_results.read(self.path)[1]), names)

    def test_a_result_is_in_the_file_at_once(self):
        result = ["fla:test[]:f", "passed", "", 0.5]
        file, _ = case_results.begin(self.path, {"cases": {"fla": 2}}, False)
        with file:
            case_results.append(file, result)
            self.assertEqual(case_results.read(self.path)[1], [result])

    def test_cases_that_were_not_reached_in_time_are_counted(self):
        cut = self.run_cases("--plan-only", "--seconds", "1")
        self.assertEqual(cut.returncode, 0, cut.stderr)
        head, results = case_results.read(self.path)
        left = len(run_cases.EVERY) - len(results)
        self.assertGreater(left, 0)
        self.assertIn(f"\n{left} cases were not reached in 1 seconds\n", cut.stdout)
        counts = case_results.counts_by_peer(head, results).values()
        self.assertEqual(sum(count["not_reached"] for count in counts), left)
        self.assertEqual(sum(count["cases"] for count in counts), len(run_cases.EVERY))
        self.assertEqual(list(run_cases.run(GATES, ON_CPU, 1, deadline=time.monotonic())), [])

    def test_every_part_of_the_order_has_its_share_of_each_function(self):
        chosen = {"many": list(range(1000)), "some": list(range(1000, 1100)), "one": [1100]}
        order = run_cases.fair_order(chosen, None, 1)
        self.assertEqual(sorted(order), list(range(1101)))
        self.assertEqual(order, run_cases.fair_order(chosen, None, 1))
        self.assertNotEqual(order, run_cases.fair_order(chosen, None, 2))
        for length in (3, 100, 500, 1000):
            part = order[:length]
            for found in chosen.values():
                reached = len(set(part) & set(found))
                self.assertLessEqual(abs(reached - length * len(found) / 1101), 2, length)
                self.assertGreater(reached, 0)
        self.assertNotEqual([index for index in order if index < 1000], chosen["many"])
        self.assertEqual(len(run_cases.fair_order(chosen, 7, 1)), 15)

    def test_a_case_whose_process_dies_has_failed_and_the_others_run(self):
        with mock.patch.object(run_cases, "_serve", serve_until):
            results = list(run_cases.run(GATES[:6], ON_CPU, 2))
        self.assertEqual(sorted(name for name, *_ in results), sorted(run_cases.EVERY[i].name for i in GATES[:6]))
        failed = [result for result in results if result[1] != "no function"]
        self.assertEqual([result[:3] for result in failed],
                         [(run_cases.EVERY[GATES[0]].name, "failed", "its process ended with status -9")])
        self.assertIn("- " + failed[0][0], run_cases.table(results))

    def test_what_was_converted_is_told_from_what_runs_as_called(self):
        found = {}
        for function in ("causal_conv1d_varlen_states", "causal_conv1d_update"):
            index = next(i for i, case in enumerate(run_cases.EVERY) if case.function == function)
            found[function] = run_cases._work(index, ON_CPU)
        details = {function: result[1:3] for function, result in found.items()}
        self.assertEqual(details, {"causal_conv1d_varlen_states": ("passed", "converted conv_weight"),
                                   "causal_conv1d_update": ("passed", "")})
        counted = case_results.counts(5, list(found.values()))
        self.assertEqual((counted["passed"], counted["converted"], counted["not_reached"]), (2, 1, 3))

    def test_results_of_another_kind_of_run_are_not_gone_on_with(self):
        few = ["--peer", "fla", "--function", "fused_gdn_gate"]
        self.assertEqual(self.run_cases(*few).returncode, 0)
        before = self.path.read_bytes()
        self.assertEqual(len(before.splitlines()), 5)
        for arguments, said in (([*few, "--strict", "--resume"], "begun with other strict; remove it"),
                                ([*few, "--seconds", "x"], "'x', expected a whole number"),
                                (["--peer", "nobody", "--resume"], "no case of that peer")):
            done = self.run_cases(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
            self.assertEqual(self.path.read_bytes(), before)
        head = json.loads(before.splitlines()[0])
        self.path.write_text(json.dumps({**head, "cases_sha256": "0"}) + "\n")
        self.assertIn("other cases_sha256", self.run_cases(*few, "--resume").stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""judge_peers.py on stand-ins for the libraries, on the CPU: what it calls of a library, what becomes of a function that is
wrong, raises, dies or does not end; and that the page has the tables of what is stored. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/peers/judge_peers_test.py
"""
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import numpy  # noqa: F401
except ImportError:
    print("judge_peers_test: no numpy here")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import case_results  # noqa: E402: found by the line above
import judge_peers  # noqa: E402
from judged_peers import PEERS  # noqa: E402

# A library of the name of FLA, in NumPy, whose function does as the environment says.
STAND_IN = '''
import os
import time
import numpy as np
from judging_test import rule

def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, cu_seqlens=None):
    does = os.environ["STAND_IN"]
    if q.dtype == np.float16:
        raise AssertionError("float16 is not taken")
    if does == "dies":
        os._exit(3)
    if does == "sleeps":
        time.sleep(60)
    output, states = rule(q[0], k[0], v[0], g[0], beta[0], scale, initial_state, cu_seqlens, use_qk_l2norm_in_kernel,
                          decay_first=does != "wrong")
    if does == "not finite":
        output[0] = np.nan
    return output[None], (states if output_final_state else None)
'''
FUNCTION = next(place for place, peer in enumerate(PEERS)
                if peer.library == "FLA" and peer.function.endswith(":chunk_gated_delta_rule"))
SMALL = [(FUNCTION, f"gated_delta:heads=1/2,dim=8x8,seq=1x5+1x3,dtype=f32,gates=mid,h0=normal,seed={seed}")
         for seed in range(1, 4)]


class JudgePeers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        rooms = self.folder / "site/fla/ops"
        rooms.mkdir(parents=True)
        (rooms / "gated_delta_rule.py").write_text(STAND_IN)
        for package in (rooms, rooms.parent):
            (package / "__init__.py").write_text("")
        self.found_at = [str(self.folder / "site"), str(HERE.parent / "gdnbench")]

    def results(self, does, items=SMALL, jobs=2, case_seconds=50.0):
        """outcome -> reasons. A process looks for modules where this one does."""
        with mock.patch.object(sys, "path", self.found_at + sys.path), mock.patch.dict(os.environ, STAND_IN=does):
            found = list(judge_peers.run(items, jobs, math.inf, case_seconds, "cpu"))
        self.assertEqual(sorted(name for name, *_ in found), sorted(judge_peers.name_of(*item) for item in items))
        outcomes = {}
        for _, outcome, reason, _ in found:
            outcomes.setdefault(outcome, []).append(reason)
        return outcomes

    def test_cases_that_the_host_cannot_judge_in_time_are_left_out(self):
        peer = PEERS[FUNCTION]
        large = "gated_delta:heads=16/64,dim=128,seq=1x180000,dtype=bf16"
        self.assertIsNone(judge_peers.expressible(peer, large))
        self.assertIsNotNone(judge_peers.expressible(peer, large.replace("180000", "18000")))
        self.assertEqual(judge_peers.elements_of({"seq": "1x70+3x1+1x2", "heads": "1/2", "dim": "64x32", "channels": "5"}), 375)
        self.assertEqual(judge_peers.elements_of({"seq": "2x7", "heads": "1/2", "dim": "64x32"}), 14 * 192)
        self.assertEqual(judge_peers.elements_of({"seq": "2x7", "heads": "1/2", "dim": "8"}), 14 * 32)

    def test_a_right_function_passes_and_a_wrong_one_does_not(self):
        self.assertEqual(list(self.results("right")), ["passed"])
        wrong = self.results("wrong")
        self.assertEqual(list(wrong), ["wrong"])
        self.assertIn("relative L2 error", wrong["wrong"][0])
        self.assertEqual(list(self.results("not finite")), ["not finite"])

    def test_a_process_that_dies_or_does_not_end_is_a_result_and_the_others_run(self):
        self.assertEqual(self.results("dies"), {"ended badly": ["its process ended with status 3"] * 3})
        self.assertEqual(self.results("sleeps", SMALL[:1], 1, 2.0), {"ended badly": ["it took too long"]})

    def test_what_a_function_raises_is_a_refusal_in_its_words(self):
        half = [(FUNCTION, "gated_delta:heads=1/2,dim=8x8,seq=1x5,dtype=f16")]
        self.assertEqual(self.results("right", half), {"refused": ["AssertionError: float16 is not taken"]})

    def test_what_is_not_installed_is_told(self):
        self.found_at = []
        self.assertEqual(list(self.results("right", SMALL[:1])), ["no function"])

    def run_command(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(self.found_at), "STAND_IN": "right"}
        return subprocess.run([sys.executable, HERE / "judge_peers.py", "--peer", "FLA", "--function",
                               "chunk_gated_delta_rule", *arguments], capture_output=True, text=True, env=environment)

    def test_a_run_that_was_cut_goes_on_and_its_lines_are_stored(self):
        out = self.folder / "results.jsonl"
        command = ["--out", out, "--sample", "3", "--jobs", "2"]
        whole = self.run_command(*command)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertIn("FLA  chunk_gated_delta_rule  passed", whole.stdout)
        head, results = case_results.read(out, (*judge_peers.OUTCOMES, "not expressible", "no function"))
        self.assertGreaterEqual(len(results), 3)
        lines = out.read_text().splitlines(True)
        out.write_text("".join(lines[:2]) + lines[2][:9])
        again = self.run_command(*command, "--resume")
        self.assertEqual((again.returncode, again.stdout), (0, whole.stdout), again.stderr)
        judge_peers.write({**head, "date": "2000-01-01"}, judge_peers.stored_lines(head, results),
                          self.folder / "stored.tsv")
        told, stored = judge_peers.read(self.folder / "stored.tsv")
        self.assertIn("2000-01-01", told)
        self.assertEqual(sum(line.cases for line in stored if line.function == "chunk_gated_delta_rule"),
                         len([each for each in results if each[0].endswith(":chunk_gated_delta_rule")
                              and each[1] in judge_peers.OUTCOMES]))
        page = judge_peers.page_with(f"a\n{judge_peers.BEGIN}\n{judge_peers.END}\nb", told, stored)
        self.assertIn("| `chunk_gated_delta_rule` |", page)

    def test_what_is_stored_of_functions_that_were_not_run_again_stays(self):
        stored = self.folder / "suites.tsv"
        fla, other = judge_peers.name_of(*SMALL[0]), judge_peers.name_of(SMALL[0][0] + 1, SMALL[0][1])
        head = {"device": "x", "date": "2000-01-02", "suites": "quick", "versions": {"FLA": "1"}}
        judge_peers.write(head, judge_peers.stored_lines(head, [(fla, "wrong", "is off", 1.0), (other, "passed", "", 1.0)]),
                          stored)
        file = self.folder / "again.jsonl"
        opened, _ = case_results.begin(file, {"cases": {"FLA": 1}, "suites": "full", "device": "x",
                                              "versions": {"FLA": "2"}}, False, judge_peers.OUTCOMES)
        with opened:
            case_results.append(opened, (fla, "passed", "0.5 of the limit", 1.0))
        os.utime(file, (0, 0))
        judge_peers.store([file], stored)
        told, lines = judge_peers.read(stored)
        self.assertEqual(told, "device: x; date: 1970-01-01 to 2000-01-02; suites: quick,full")
        self.assertEqual({(line.version, line.function, line.outcome) for line in lines},
                         {("1", PEERS[SMALL[0][0] + 1].name, "passed"), ("2", PEERS[SMALL[0][0]].name, "passed")})
        stored.write_text(stored.read_text().replace("device: x", "device: y"))
        with self.assertRaisesRegex(case_results.Unreadable, "suites.tsv: has results of y, expected x"):
            judge_peers.store([file], stored)

    def test_bad_usage_is_one_line(self):
        for arguments, said in (((), "expected --out"), (("--out", "x", "--suite", "nobody"), "nobody")):
            done = self.run_command(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_every_function_has_cases_that_its_arguments_may_express(self):
        for peer in PEERS:
            with self.subTest(library=peer.library, function=peer.name):
                self.assertTrue(judge_peers.chosen_problems(peer, ["quick"]))

    def test_the_page_has_the_tables_of_the_stored_file(self):
        text = judge_peers.PAGE.read_text(encoding="utf-8")
        self.assertEqual(text, judge_peers.page_with(text, *judge_peers.read()),
                         "run scripts/peers/judge_peers.py --tables")


if __name__ == "__main__":
    unittest.main()

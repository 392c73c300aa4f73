#!/usr/bin/env python3
"""`python -m gdnbench judge`: exit codes, the files it leaves, errors beside a baseline. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/gdnbench/judge_command_test.py
"""
import contextlib
import io
import json
import os
import pathlib
import stat
import sys
import tempfile
import types
import unittest

try:
    import numpy as np
except ImportError:
    print("judge_command_test: no numpy here")
    sys.exit(77)

import judging_test  # finds gdnbench too
from gdnbench import calls, judge_command, stored_verdicts


def small(fn):
    """Of float32 tokens alone, so that few cases are computed."""
    def kernel(x):
        if x.fields["dtype"] != "f32":
            raise NotImplementedError("float32 alone")
        return fn(x)
    return kernel


def coarser(x):
    output, state = judging_test.right(x)
    return output * (1 + 1e-6), state


KERNELS = types.ModuleType("kernels_of_the_test")
KERNELS.right, KERNELS.coarser = small(judging_test.right), small(coarser)
KERNELS.wrong = small(judging_test.decay_after_the_update)
KERNELS.number = 3


def nothing(x):
    raise NotImplementedError("not yet")


KERNELS.nothing = nothing


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        sys.modules[KERNELS.__name__] = KERNELS
        self.addCleanup(sys.modules.pop, KERNELS.__name__)

    def run_on(self, function, *arguments, honours="h0", name="mine"):
        """(exit code, stdout, stderr)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = judge_command.main(["judge", f"{KERNELS.__name__}:{function}", "--honours", honours, "--name", name,
                                       *map(str, arguments)])
        return code, out.getvalue(), err.getvalue()

    def test_the_exit_code_says_what_came_of_it(self):
        for function, code, words in (("right", 0, "2 passed, 0 failed"), ("wrong", 1, "FAIL  mine"),
                                      ("nothing", 1, "0 passed, 0 failed")):
            with self.subTest(function=function):
                done, said, errors = self.run_on(function)
                self.assertEqual((done, errors), (code, ""))
                self.assertIn(words, said)

    def test_the_files_hold_every_case(self):
        code, said, _ = self.run_on("wrong", "--json", self.folder / "v.json", "--markdown", self.folder / "v.md")
        rows = json.loads((self.folder / "v.json").read_text())["rows"]
        self.assertEqual(len(rows), len(judging_test.gdnbench.cases("quick")))
        text = (self.folder / "v.md").read_text()
        self.assertTrue(text.startswith("### `mine` on cpu: FAILED\n\n0 passed, 2 failed"), text[:200])
        above, table = text.split("<details>")
        self.assertEqual((above.count("\n| failed |"), table.count("\n| failed |")), (2, 2))
        self.assertEqual(table.count("\n| unsupported |"), len(rows) - 2)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["v.json", "v.md"])
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE((self.folder / "v.md").stat().st_mode), 0o666 & ~mask)

    def test_an_error_that_grew_within_the_limits_fails_beside_the_baseline(self):
        baseline = self.folder / "baseline.json"
        self.assertEqual(self.run_on("right", "--json", baseline)[0], 0)
        self.assertEqual(self.run_on("right", "--baseline", baseline)[0], 0)
        self.assertEqual(self.run_on("coarser")[0], 0)
        code, said, _ = self.run_on("coarser", "--baseline", baseline, "--markdown", self.folder / "v.md")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"WORSE gated_delta:\S+: output error 1e-06, stored \S+e-08, limit \S+ \(2\.5 x the ")
        self.assertIn("FAILED\n\n2 passed, 0 failed", (self.folder / "v.md").read_text())
        self.assertEqual(self.run_on("coarser", "--baseline", baseline, "--growth", 1000)[0], 0)
        self.assertEqual(self.run_on("coarser", "--baseline", baseline, "--json", baseline)[0], 1)

    def test_a_case_that_is_no_longer_done_fails_beside_the_baseline(self):
        baseline = self.folder / "baseline.json"
        self.run_on("right", "--json", baseline, honours="h0,norm")
        code, said, _ = self.run_on("nothing", "--baseline", baseline)
        self.assertEqual(code, 1)
        self.assertRegex(said, "WORSE .*: passed before, and is not supported now: not yet")

    def test_growth_that_rounding_explains_is_none(self):
        problem = judging_test.SMALL.replace("f32", "bf16")
        row = lambda error: {"problem": problem, "implementation": "mine", "verdict": "passed", "reason": "",
                             "output_relative_l2": error}
        verdicts = lambda error: types.SimpleNamespace(rows=lambda: [row(error)])
        stored = {(problem, "mine"): row(1e-5)}
        self.assertEqual(stored_verdicts.worse(verdicts(9e-4), stored, 2.5), [])  # 2^-10 is 9.8e-4
        self.assertEqual(len(stored_verdicts.worse(verdicts(1e-3), stored, 2.5)), 1)
        self.assertEqual(len(stored_verdicts.worse(verdicts(np.nan), stored, 2.5)), 1)

    def test_bad_input_is_one_line_and_what_is_there_stays(self):
        text, other, old = self.folder / "text", self.folder / "other.json", self.folder / "old.json"
        text.write_text("no JSON")
        old.write_text('{"schema": "gdn-verdicts/0", "rows": []}')
        self.run_on("right", "--json", other, name="another")
        kept = self.folder / "kept.json"
        for code, words, function, arguments in (
                (2, "has no function x", "x", ()), (2, "has no function number", "number", ()),
                (2, "did you mean 'quick'", "right", ("--suite", "quik")),
                (2, "operation: 'gated'", "right", ("--operation", "gated")),
                (2, "nix: No such file", "right", ("--known-limits", self.folder / "nix")),
                (2, "text: expected what --json wrote", "right", ("--baseline", text)),
                (2, "old.json: schema 'gdn-verdicts/0'", "right", ("--baseline", old)),
                (2, "nix: No such file or directory; expected", "right", ("--baseline", self.folder / "nix")),
                (2, "other.json: nothing in it is of these problems and this name", "right",
                 ("--baseline", other, "--json", kept)),
                (2, "its folder is not there", "right", ("--json", self.folder / "nix/v.json")),
                (2, "--growth: 0.5, expected", "right", ("--growth", 0.5)),
                (3, "device: 'cuda:9'", "right", ("--device", "cuda:9"))):
            with self.subTest(words=words):
                done, said, errors = self.run_on(function, *arguments)
                self.assertEqual((done, said), (code, ""))
                self.assertRegex(errors, "^gdnbench judge: .*\n$")
                self.assertIn(words, errors)
        self.assertEqual(text.read_text(), "no JSON")
        self.assertTrue(json.loads(kept.read_text())["rows"])  # what was found, whatever the baseline was
        for named in ("kernels", ":right", "nothing_of_this_name:right"):
            with contextlib.redirect_stderr(io.StringIO()) as err:
                self.assertEqual(judge_command.main(["judge", named]), 2)
            self.assertRegex(err.getvalue(), "^gdnbench judge: .*(expected MODULE:FUNCTION|cannot be imported).*\n$")

    def test_a_file_that_cannot_be_written_leaves_the_earlier_one(self):
        path = self.folder / "v.json"
        path.write_text("earlier")
        with self.assertRaises(UnicodeEncodeError):
            stored_verdicts.write_whole(path, "half \ud800")
        self.assertEqual([(each.name, each.read_text()) for each in self.folder.iterdir()], [("v.json", "earlier")])

    def test_a_long_table_is_cut_and_says_so(self):
        text = judge_command.cut("\n".join(["x" * 99] * 150))
        self.assertLess(len(text), judge_command.LONGEST_PART + 100)
        self.assertTrue(text.endswith("x\n\nand 50 lines more, which --json keeps"), text[-60:])
        self.assertEqual(judge_command.cut("a\nb\n"), "a\nb")


if __name__ == "__main__":
    try:
        calls.library()
    except OSError as error:
        sys.exit(f"judge_command_test: {error}")
    unittest.main()

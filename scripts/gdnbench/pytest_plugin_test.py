#!/usr/bin/env python3
"""The plug-in of pytest: what becomes of a suite's cases. Exit 77 without pytest and NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/gdnbench/pytest_plugin_test.py
"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

for needed in ("numpy", "pytest"):
    if importlib.util.find_spec(needed) is None:
        print(f"pytest_plugin_test: no {needed} here")
        sys.exit(77)

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCRIPTS / "gdnbench"))
from judging_test import LIMITS, SMALL  # noqa: E402: found by the line above


class Pytest(unittest.TestCase):
    TESTS = """
import pathlib, pytest
from judging_test import SMALL, decay_after_the_update, right

def sometimes(x):
    if x.fields["dtype"] == "f16":
        raise NotImplementedError("no float16 here")
    return decay_after_the_update(x) if x.fields["seed"] in "23" else right(x)

@pytest.mark.gdnbench(kernel=sometimes, problems=[SMALL, SMALL + ",seed=2", SMALL + ",seed=3", SMALL.replace("f32", "f16"),
                                                  SMALL + ",seed=5"],
                      known_limits=pathlib.Path(__file__).with_name("limits.tsv"), name="mine")
def test_mine(gdnbench_verdict):
    assert gdnbench_verdict.verdict == "passed"
"""

    def run_pytest(self, text, status):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "test_kernels.py").write_text(text)
            (pathlib.Path(folder) / "limits.tsv").write_text(
                LIMITS + "".join(f"mine\tseed={seed}\t{SMALL},seed={seed}\trows cancel\there\n" for seed in (3, 5)))
            code = (f"import sys; sys.path[:0] = [{str(SCRIPTS)!r}, {str(SCRIPTS / 'gdnbench')!r}]; import pytest; "
                    "sys.exit(pytest.main(sys.argv[1:]))")
            done = subprocess.run([sys.executable, "-B", "-c", code, "-p", "gdnbench.pytest_plugin", "-p",
                                   "no:cacheprovider", "-rA", "-q", folder], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, status, done.stdout)
            return done.stdout

    def test_each_case_is_a_test_and_known_limits_are_expected_failures(self):
        said = self.run_pytest(self.TESTS, status=1)
        self.assertRegex(said, "2 failed, 1 passed, 1 skipped, 1 xfailed")
        self.assertRegex(said, r"FAILED .*test_mine\[gated_delta:.*seed=2\]")
        self.assertIn("no float16 here", said)
        self.assertRegex(said, "XFAIL .*rows cancel: ")
        self.assertIn("limit gone, remove it from the table: rows cancel", said)

    def test_a_test_without_the_mark_is_refused_by_name(self):
        said = self.run_pytest("def test_mine(gdnbench_verdict):\n    pass\n", status=2)
        self.assertIn("gdnbench_verdict expects @pytest.mark.gdnbench(kernel=..)", said)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""plot_decode_errors.py: the points and names of its lines, and what it refuses."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import plot_decode_errors

SCRIPT = pathlib.Path(plot_decode_errors.__file__).resolve()
HEADER = ["implementation", "calls", "token 0", "1..9", "10..29", "final state"]


def table(problem, *rows):
    return {"title": f"Errors of a long decode: {problem}", "header": HEADER, "rows": list(rows)}


class DecodeErrors(unittest.TestCase):
    def test_a_line_is_what_was_run_token_by_token_at_the_last_token_of_each_window(self):
        lines = plot_decode_errors.lines_of([table("gated_delta:heads=1/2,gates=weak",
                                                   ["cpu/naive", "one a token", "0.1", "0.2", "0.3", "0.4"],
                                                   ["cpu/naive", "one", "0.5", "0.5", "0.5", "0.5"])])
        self.assertEqual([points for _, points in lines], [[(1, 0.1), (10, 0.2), (30, 0.3)]])

    def test_what_is_no_number_above_zero_is_no_point(self):
        lines = plot_decode_errors.lines_of([table("gated_delta:heads=1/2", ["cpu/naive", "one a token", "0", "nan", "inf", "1"])])
        self.assertEqual([points for _, points in lines], [[]])

    def test_lines_are_named_by_what_differs(self):
        row = ["cpu/naive", "one a token", "0.1", "0.2", "0.3", "0.4"]
        lines = plot_decode_errors.lines_of([table("gated_delta:heads=1/2,gates=weak", row),
                                             table("gated_delta:heads=1/2,state=bf16,gates=weak", row)])
        self.assertEqual(plot_decode_errors.labels_of(lines), ["state default", "state bf16"])

    def test_other_tables_are_refused_in_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tables.json"
            for text in ("[]", "{", '[{"title": "x", "header": ["a"], "rows": []}]'):
                path.write_text(text)
                done = subprocess.run([sys.executable, SCRIPT, path, "--out", pathlib.Path(folder) / "x.svg"],
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                self.assertFalse((pathlib.Path(folder) / "x.svg").exists())


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""plots.py on rows files of both schemas: what it reads, what it refuses, and the figures. Exit 77 without h5py."""
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
except ImportError:
    print("plots_test: no h5py here")
    sys.exit(77)
try:
    import matplotlib
except ImportError:
    matplotlib = None

import plots

SCRIPT = pathlib.Path(plots.__file__).resolve()
FIRST = SCRIPT.parents[1] / "data/fixtures/rows_of_0.1.h5"


class Plots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if "GDNBENCH" not in os.environ:
            raise unittest.SkipTest("GDNBENCH names no program")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.second = cls.folder / "second.h5"
        cls.sweep("--impl", "cpu/naive", "--heads", "1/2", "--dim", "8", "--seq", "1x48,1x300",
                  "--dtype", "bf16", "--state", "f32")
        cls.sweep("--op", "causal_conv1d", "--heads", "1/2", "--dim", "8", "--seq", "1x48", "--no-time")

    @classmethod
    def sweep(cls, *arguments):
        subprocess.run([os.environ["GDNBENCH"], "sweep", "--device", "cpu", *arguments, "--out", cls.second],
                       check=True, capture_output=True)

    def refused(self, path):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as done:
            plots.read_rows(str(path))
        self.assertEqual((done.exception.code, said.getvalue().count("\n")), (2, 1), said.getvalue())
        return said.getvalue()

    def test_errors_that_were_columns_are_read_by_output(self):
        rows = plots.read_rows(str(FIRST))
        self.assertEqual(len(rows), 4)
        with h5py.File(FIRST) as file:
            stored = file["rows"][()]
        for row, columns in zip(rows, stored):
            self.assertEqual(set(row["errors"]), {"output", "final_state"})
            for name, output in (("output", "output"), ("state", "final_state")):
                self.assertEqual(row["errors"][output]["relative_l2"], columns[f"{name}_relative_l2"])
            self.assertGreater(row["errors"]["output"]["floor_ratio"], 0)
            # A float32 state beside bfloat16 tokens has no floor.
            self.assertEqual("floor_ratio" in row["errors"]["final_state"], row["token_dtype"] == "f32")
            self.assertEqual(row["windows"], {})
        self.assertEqual({row["token_dtype"] for row in rows}, {"f32", "bf16"})

    def test_windows_that_were_a_text_are_read(self):
        self.assertEqual(plots.parse_windows("0:0.00125 64:2e-07"), [(0, 0.00125), (64, 2e-07)])
        self.assertEqual(plots.parse_windows(""), [])

    def test_errors_of_the_child_table_are_those_the_program_tells(self):
        rows = plots.read_rows(str(self.second))
        outputs = {"gated_delta": ("output", "final_state"), "causal_conv1d": ("conv_output", "conv_state")}
        self.assertEqual({row["operation"] for row in rows}, set(outputs))
        columns = [f"{output}_relative_l2" for pair in outputs.values() for output in pair]
        told = subprocess.run([os.environ["GDNBENCH"], "rows", self.second, "--columns", ",".join(columns)],
                              check=True, capture_output=True, text=True).stdout.splitlines()[1:]
        self.assertEqual(len(told), len(rows))
        for row, line in zip(rows, told):
            self.assertEqual(set(row["errors"]), set(outputs[row["operation"]]))
            for column, text in zip(columns, line.split(",")):
                error = plots.error_of(row, column.removesuffix("_relative_l2"), "relative_l2")
                self.assertAlmostEqual(error, float(text), delta=1e-3 * error) if text else self.assertNotEqual(error, error)
        longest = max(rows, key=lambda row: row["total_tokens"])
        self.assertGreater(len(longest["windows"]["output"]), 1)
        self.assertNotIn("floor_ratio", longest["errors"]["final_state"])

    def test_files_that_do_not_hold_what_they_should_are_refused_in_a_line(self):
        other = self.folder / "other.h5"

        def changed(change):
            shutil.copy(self.second, other)
            with h5py.File(other, "a") as file:
                change(file)
            return self.refused(other)

        def schema(file):
            file.attrs["schema"] = "gdn-rows/3"

        def errors_cut(file):
            errors = file["errors"][:1]
            del file["errors"]
            file["errors"] = errors

        self.assertIn("schema is 'gdn-rows/3', expected gdn-rows/2 or gdn-rows/1", changed(schema))
        self.assertIn("a row's errors are not in the file", changed(errors_cut))
        self.assertIn("errors", changed(lambda file: file.pop("errors") and None))
        self.assertIn("no such file", self.refused(self.folder / "none.h5"))

    @unittest.skipUnless(matplotlib, "no matplotlib here")
    def test_figures_of_both_schemas(self):
        out = self.folder / "figures"
        subprocess.run([sys.executable, SCRIPT, self.second, FIRST, "--out", out, "--baseline", self.second,
                        "--history", self.second], check=True, capture_output=True)
        names = {path.stem.rsplit("-", 1)[0] for path in out.iterdir()}
        for name in ("throughput", "error_length-output", "error_implementation-output", "error_position-output",
                     "error_implementation-conv_output", "drift-output", "drift-final_state", "drift-conv_output",
                     "history-output_relative_l2", "history-final_state_relative_l2", "history-time_ms"):
            self.assertIn(name, names)


if __name__ == "__main__":
    unittest.main()

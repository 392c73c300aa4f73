#!/usr/bin/env python3
"""check_includes.py on made-up trees: every kind of include that goes the wrong way is found, and no other."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from made_up_tree import check_tree

SCRIPT = pathlib.Path(__file__).resolve().parent / "check_includes.py"

PAGE = """# Architecture

| folder | what it holds | includes |
|---|---|---|
| `impls/interface/` | problems | itself |
| `impls/interface/backends.cpp` | the list of backends | `impls/` |
| `impls/cpu/`, `impls/cuda/` | a backend each | `impls/interface/` |
| `reference/` | the oracle | `impls/interface/` |
| `harness/` | rooms | `impls/interface/`, `reference/`, of its rooms those below |
| `harness/library/` | from C | `impls/`, `reference/` |

Its rooms:

| room | what it does |
|---|---|
| `run` | a case on a device |
| `rows`, `tables` | rows, and tables of them |
| `library` | from C |
"""

SOUND = {
    "docs/architecture.md": PAGE,
    "impls/interface/problem.h": "#include <string>\n",
    "impls/interface/backends.cpp": '#include "cpu/device.h"\n#include "interface/problem.h"\n',
    "impls/cpu/device.h": '#include "interface/problem.h"\n#include "cpu/element.h"\n',
    "impls/cpu/element.h": "",
    "impls/cuda/check.h": '  # include "cuda_runtime.h"\n',
    "impls/cuda/emulated/include/cuda_runtime.h": "",
    "impls/cuda/tests/check_test.cpp": '#include "harness/rows/row.h"\n#include "check.h"\n#include "made.inc"\n',
    "reference/errors.h": '#include "interface/problem.h"\n',
    "harness/run/execute.h": '#include "reference/errors.h"\n',
    "harness/rows/row.h": '#include "harness/run/execute.h"\n#include "source_hash.h"\n',
    "harness/rows/tests/row_test.cpp": '#include "harness/tables/table.h"\n#include "harness/tests/shell.h"\n',
    "harness/tables/table.h": '#include "harness/rows/row.h"\n// #include "harness/absent.h"\n',
    "harness/tests/shell.h": "",
    "harness/library/library.cpp": '#include "cpu/device.h"\n',
}

# What is added to a file, and what must be said of it.
WRONG = [
    ("impls/interface/problem.h", "cpu/device.h", "impls/interface/ may include"),
    ("impls/interface/backends.cpp", "reference/errors.h", "impls/interface/backends.cpp may include"),
    ("impls/cpu/device.h", "cuda/check.h", "impls/cpu/ may include"),
    ("impls/cpu/device.h", "cuda_runtime.h", "impls/cpu/ may include"),
    ("impls/cpu/device.h", "reference/errors.h", "impls/cpu/ may include"),
    ("impls/cpu/device.h", "harness/rows/row.h", "impls/cpu/ may include"),
    ("impls/cpu/device.h", "cpu/absent.h", "there is no such file"),
    ("reference/errors.h", "harness/rows/row.h", "reference/ may include"),
    ("reference/errors.h", "cpu/device.h", "reference/ may include"),
    ("harness/run/execute.h", "harness/rows/row.h", "the room run is below rows"),
    ("harness/rows/row.h", "harness/tables/table.h", "the room rows is below tables"),
    ("harness/rows/row.h", "../tables/table.h", "the room rows is below tables"),
    ("harness/rows/row.h", "cpu/device.h", "harness/ may include"),
    ("harness/rows/row.h", "harness/tests/shell.h", "tests alone include what is of tests"),
    ("harness/library/library.cpp", "harness/rows/row.h", "harness/library/ may include"),
]


class CheckIncludes(unittest.TestCase):
    def check(self, files):
        return check_tree(SCRIPT, files)

    def test_what_is_sound_is_not_found(self):
        code, said = self.check(SOUND)
        self.assertEqual((code, said), (0, "16 includes, 0 findings\n"))

    def test_every_include_that_goes_the_wrong_way_is_found_where_it_is(self):
        for name, included, expected in WRONG:
            with self.subTest(name=name, included=included):
                text = SOUND[name] + f'#include "{included}"\n'
                code, said = self.check({**SOUND, name: text})
                self.assertEqual(code, 1, said)
                found = said.splitlines()[:-1]
                self.assertEqual(len(found), 1, said)
                self.assertTrue(found[0].startswith(f"{name}:{text.count(chr(10))}: includes {included}: "), said)
                self.assertIn(expected, found[0])

    def test_what_no_row_is_about_is_found(self):
        code, said = self.check({**SOUND, "impls/new/kernel.cpp": '#include "interface/problem.h"\n'})
        self.assertEqual(code, 1, said)
        self.assertIn("impls/new/kernel.cpp:1: ", said)
        self.assertIn("no row of the folders", said)
        code, said = self.check({**SOUND, "harness/new/room.h": '#include "interface/problem.h"\n'})
        self.assertEqual(code, 1, said)
        self.assertIn("new is no room of docs/architecture.md", said)

    def test_a_page_without_its_tables_is_an_error(self):
        for head in ("| folder |", "| room |"):
            code, said = self.check({**SOUND, "docs/architecture.md": PAGE.replace(head, "| x |")})
            self.assertEqual(code, 1, said)
            self.assertIn("there is no table", said)

    def test_bad_usage(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)


if __name__ == "__main__":
    unittest.main()

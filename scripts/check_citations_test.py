#!/usr/bin/env python3
"""check_citations.py on made-up trees: every kind of broken citation is found, and what is sound is not."""
import pathlib
import subprocess
import sys
import unittest

from made_up_tree import check_tree

SCRIPT = pathlib.Path(__file__).resolve().parent / "check_citations.py"

SOUND = {
    "CMakeLists.txt": "# Written by cmake/Build.cmake.\ngdn_test(harness_rows_tests SOURCES rows_test.cpp)\n"
                      "add_test(NAME scripts.Script COMMAND x)\n",
    "cmake/Build.cmake": "set(x 1)  # of harness/rows/row.h\n",
    "impls/interface/problem.h": "// A problem (docs/contract.md,\n// section 1.2; contract section 3).\n"
                                 "const char* text = \"// interface/absent.h\";\n",
    "impls/cpu/naive.cpp": "/* interface/problem.h, naive.cpp,\n * harness/rows/{row,row}.h, impls/cpu/*.cpp */\n"
                           "int million = 1'000'000;  // interface/problem.h: UpdateRule\n",
    "harness/rows/row.h": "// Files of other projects: Eigen.h. Builds: build/gdnbench. Any: OUT/page.md $x/y.h <a>/b.h\n"
                          "// A template: impls/BACKEND/naive.cpp; from here: ../../docs/contract.md\n",
    "harness/tests/rows_test.cpp": "TEST(Rows, AreKept) {}\nTEST_P(Every, One) {}\n// See Rows.AreKept, Rows.*\n",
    "scripts/run.sh": "#!/bin/sh\n# As scripts/run.py does.\necho harness/absent.h\n",
    "scripts/run.py": '"""Runs harness/rows/row.h."""\n\nPATH = "harness/absent.h"  # run.sh\n',
    "docs/contract.md": "# Contract\n\n## 1. Operations\n\n### 1.2 `conv`\n\n## 3. Files\n\n"
                        "`harness_rows_tests: All/Every.One/cpu`, `scripts.Script`, https://a.b/harness/absent.h\n"
                        "and [the first](#1-operations), [rows](../harness/rows/row.h), [here](contract.md#12-conv).\n",
    "README.md": "docs/contract.md, sections 1 and 3; docs/contract.md, \"1. Operations\".\n\n"
                 "| " + "x" * 200 + " |\n\n    " + "y" * 100 + "\n\n```\n" + "z" * 100 + "\n```\n",
}

# What is added to a file, and what must be said of it.
BROKEN = [
    ("harness/rows/row.h", "// As harness/rows/absent.h says.\n", "there is no harness/rows/absent.h"),
    ("harness/rows/row.h", "// As harness/row.h says.\n", "there is no harness/row.h"),
    ("harness/rows/row.h", "int x;  /* interface/absent.h */\n", "there is no interface/absent.h"),
    ("harness/rows/row.h", "int x;  ///< as absent.h has it\n", "there is no absent.h"),
    ("harness/rows/row.h", "// Both of impls/interface/{problem,absent}.h\n", "there is no impls/interface/absent.h"),
    ("harness/rows/row.h", "// Any of impls/gpu/*.cpp\n", "there is no impls/gpu/*.cpp"),
    ("harness/rows/row.h", "// impls/BACKEND/absent.cpp\n", "there is no impls/BACKEND/absent.cpp"),
    ("harness/rows/row.h", "// From here ../absent/row.h\n", "there is no ../absent/row.h"),
    ("harness/rows/row.h", "// The folder harness/absent/\n", "there is no harness/absent/"),
    ("harness/rows/row.h", "// docs/contract.md, section 1.3\n", "docs/contract.md has no section 1.3"),
    ("harness/rows/row.h", "// contract section 2\n", "docs/contract.md has no section 2"),
    ("harness/rows/row.h", "// the contract\n// section 4.1\n", "docs/contract.md has no section 4.1"),
    ("harness/rows/row.h", "// docs/absent.md, section 1\n", "section 1: there is no docs/absent.md"),
    ("harness/rows/row.h", "// Rows.AreLost shows it.\n", "there is no test Rows.AreLost"),
    ("harness/rows/row.h", "// Absent.ShowsIt shows it.\n", "there is no test Absent.ShowsIt"),
    ("harness/rows/row.h", "// scripts.Absent shows it.\n", "there is no ctest scripts.Absent"),
    ("harness/rows/row.h", "// absent_tests shows it.\n", "there is no test program absent_tests"),
    ("scripts/run.sh", "x=1  # scripts/absent.sh\n", "there is no scripts/absent.sh"),
    ("scripts/run.py", "def f():\n    '''As scripts/absent.py.'''\n", "there is no scripts/absent.py"),
    ("cmake/Build.cmake", "# cmake/Absent.cmake\n", "there is no cmake/Absent.cmake"),
    ("README.md", "\n`docs/absent.md`\n", "there is no docs/absent.md"),
    ("README.md", "\n    scripts/absent.sh --help\n", "there is no scripts/absent.sh"),
    ("README.md", "\n[page](docs/absent.md)\n", "the link docs/absent.md leads nowhere"),
    ("README.md", "\n[part](docs/contract.md#absent)\n", "docs/contract.md has no such heading"),
    ("README.md", "\ndocs/contract.md, \"Absent\"\n", "docs/contract.md has no heading \"Absent\""),
    ("README.md", "\n" + "a word " * 20 + "\n", "characters in a line"),
    ("README.md", "\n- " + "a word " * 20 + "\n", "characters in a line"),
    ("README.md", "\n    " + "command " * 20 + "\n", "characters in a line"),
    ("README.md", "\n```\n" + "command " * 20 + "\n```\n", "characters in a line"),
]


class CheckCitations(unittest.TestCase):
    def check(self, files):
        return check_tree(SCRIPT, files)

    def test_what_is_sound_is_not_found(self):
        code, said = self.check(SOUND)
        self.assertEqual((code, said.splitlines()[:-1]), (0, []), said)

    def test_every_kind_of_broken_citation_is_found_where_it_is(self):
        for name, text, expected in BROKEN:
            with self.subTest(name=name, text=text):
                code, said = self.check({**SOUND, name: SOUND[name] + text})
                self.assertEqual(code, 1, said)
                found = [line for line in said.splitlines() if line.startswith(name + ":")]
                self.assertTrue(any(expected in line for line in found), said)
                first = SOUND[name].count("\n") + 1
                for line in found:
                    self.assertIn(int(line.split(":")[1]), range(first, first + text.count("\n") + 1), said)

    def test_a_file_that_goes_is_missed(self):
        without = {name: text for name, text in SOUND.items() if name != "impls/interface/problem.h"}
        code, said = self.check(without)
        self.assertEqual(code, 1, said)
        self.assertIn("impls/cpu/naive.cpp:1: there is no interface/problem.h", said)

    def test_bad_usage(self):
        done = subprocess.run([sys.executable, SCRIPT, "/absent"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is no folder", done.stderr)


if __name__ == "__main__":
    unittest.main()

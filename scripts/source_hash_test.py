#!/usr/bin/env python3
"""source_hash.py on made-up sources: what changes the hash of the GPU record, and what does not."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent

KERNEL = r'''// What it does.
#pragma once
#include "x.h"  // for y
#define SUM(a) \
  ((a) + 1)
#define VALUE (1)
/* Of several
   lines. */
__global__ void kernel(float* out, int n) {
  const char* marks = "// no \" comment /* here";  // a comment
  const char* raw = R"q(// text "/* )" more)q";
  const char quote = '"', slash = '\'';
  const int million = 1'000'000;  // it's
  out[0] = n + +million;
}
'''
RULES = '''# What it builds.
set(name "a # b")  # why
#[[ Of several
lines. ]]
set(text [=[
# kept ]] too
]=])
'''
SAME = [
    (KERNEL, [("// What it does.", "// What it really does."), ("// What it does.\n", ""), ("  // a comment", ""),
              ("// for y", "/* for\n y */"), ("   lines. */", "   lines, // or more. */\n/**/\n\n\n"),
              ("  out[0] = n + +million;", "\tout[ 0 ]\n    = n +   // a sum\n +million ;"),
              ("#include \"x.h\"", "  #include   \"x.h\""), ("SUM(a) \\\n  ((a)", "SUM(a)  ((a)"),
              ("float* out, int n", "float* out,\n    int n"), ("// it's", "// its \" and /*"),
              ("// a comment\n", "// a comment \\\nout[0] = 2;\n"), ("}\n", "}"), ("\n", "\r\n")]),
    (RULES, [("# What it builds.", "# Something else. \" ("), ("# why", ""), ("Of several", "Of many"),
             ("set(name \"a", "set( name\n   \"a")]),
]
OTHER = [
    (KERNEL, [("n + +million", "n + + +million"), ("n + +million", "n ++million"), ("1'000'000", "1'000'001"),
              ("// no ", "// "), ("/* here", "/* There"), ("// text", "//  text"), ("/* )\"", "/**/ )\""),
              ("'\"', slash", "'/', slash"), ("#define VALUE (1)", "#define VALUE(1)"), ("int n", "intn"),
              ("once\n", "once "), ("#pragma once\n", ""), ("'000;  //", "'000;;  //"),
              ("  out[0] = n", "//  out[0] = n"), ("out[0]", "out[1]")]),
    (RULES, [("a # b", "a # c"), ("# kept", "#  kept"), ("set(name", "set(other"), ("name \"a", "name\"a")]),
]


class SourceHash(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for place in ("scripts", "impls/cuda/tests", "impls/cuda/emulated", "impls/interface", "cmake", "harness",
                      "reference"):
            (self.tree / place).mkdir(parents=True)
        for script in ("source_hash.sh", "source_hash.py"):
            shutil.copy(SCRIPTS / script, self.tree / "scripts")
        self.places = {KERNEL: self.tree / "impls/cuda/kernel.cu", RULES: self.tree / "cmake/GdnCuda.cmake"}
        for text, path in self.places.items():
            path.write_bytes(text.encode())
        (self.tree / "impls/implementations.cmake").write_text("")

    def hash(self, part="kernels"):
        done = subprocess.run([self.tree / "scripts/source_hash.sh", part], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^[0-9a-f]{64}\n$")
        return done.stdout

    def changes(self, cases):
        """(what was replaced, the hash) for each case."""
        for text, replacements in cases:
            for old, new in replacements:
                self.assertIn(old, text)
                self.places[text].write_bytes(text.replace(old, new).encode())
                yield (old, new), self.hash()
            self.places[text].write_bytes(text.encode())

    def test_comments_and_white_space_keep_it(self):
        before = self.hash()
        for case, after in self.changes(SAME):
            self.assertEqual(before, after, case)

    def test_tokens_literals_and_directives_change_it(self):
        seen = {self.hash()}
        for case, after in self.changes(OTHER):
            self.assertNotIn(after, seen, case)
            seen.add(after)

    def test_a_file_that_is_renamed_added_or_removed_changes_it(self):
        before = self.hash()
        self.places[KERNEL].rename(self.tree / "impls/cuda/other.cu")
        renamed = self.hash()
        (self.tree / "impls/interface/empty.h").write_text("")
        added = self.hash()
        (self.tree / "impls/cuda/other.cu").unlink()
        self.assertEqual(len({before, renamed, added, self.hash()}), 4)

    def test_what_no_gpu_result_depends_on_is_left_out(self):
        before = self.hash()
        for path in ("impls/cuda/tests/x_test.cpp", "impls/cuda/emulated/grid.h", "impls/cuda/page.md",
                     "harness/x.cpp"):
            (self.tree / path).write_text("int x;\n")
        self.assertEqual(self.hash(), before)

    def test_of_the_implementations_those_of_cuda_count(self):
        listed = self.tree / "impls/implementations.cmake"
        cuda = "gdn_implementation(cuda/x.cpp SM90A\n  cuda/x/a.cu)\n"
        seen = set()
        for text in ("", cuda, cuda.replace("a.cu", "b.cu"), cuda.replace(" SM90A", "")):
            hashes = set()
            for others in ("", "# Of the CPU.\n", "gdn_implementation(cpu/x.cpp)\n",
                           "gdn_implementation(hip/x.cpp\n  hip/y.cpp)\ngdn_implementation(cpu/y.cpp)\n"):
                for whole in (others + text, text + others):
                    listed.write_text(whole)
                    hashes.add(self.hash())
            self.assertEqual(len(hashes), 1, text)
            self.assertFalse(hashes & seen, text)
            seen |= hashes

    def test_the_harness_has_a_hash_of_its_own(self):
        before = self.hash("harness")
        self.places[KERNEL].write_text("int x;\n")
        self.assertEqual(self.hash("harness"), before)
        (self.tree / "reference/x.h").write_text("int x;\n")
        self.assertNotEqual(self.hash("harness"), before)

    def test_the_peers_cases_have_a_hash_of_their_own(self):
        for place in ("scripts/peers/cases", "scripts/gdnbench"):
            (self.tree / place).mkdir(parents=True)
        hashed = [self.tree / "scripts" / name for name in ("peers/cases/x.py", "peers/thin_functions.py", "gdnbench/x.py",
                                                            "gdnbench_library.py")]
        for path in hashed:
            path.write_text("")
        seen = {self.hash("peers")}
        for path in hashed:
            path.write_text("# A comment is hashed, too.\n")
            self.assertNotIn(self.hash("peers"), seen, path)
            seen.add(self.hash("peers"))
        before, kernels = self.hash("peers"), self.hash()
        for name in ("peers/cases/x_test.py", "peers/run_cases.py", "gdnbench/x.pyc"):
            (self.tree / "scripts" / name).write_text("x = 1\n")
        self.places[KERNEL].write_text("int x;\n")
        self.assertEqual(self.hash("peers"), before)
        self.assertNotEqual(self.hash(), kernels)

    def test_bytes_that_are_no_utf8_are_read(self):
        before = self.hash()
        self.places[KERNEL].write_bytes(KERNEL.encode() + b"// \xff\n")
        self.assertEqual(self.hash(), before)


if __name__ == "__main__":
    unittest.main()

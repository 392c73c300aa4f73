#!/usr/bin/env python3
"""kernel_resources.py on made-up ptxas lines: what the build refuses, and what its table says."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "kernel_resources.py"
KERNEL = """ptxas info    : Compiling entry function '_Z3onePf' for 'sm_90a'
ptxas info    : Function properties for _Z3onePf
    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 256 bytes smem
"""
SERIALIZED = ("ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
              "insufficient register resources for the wgmma pipeline in the function '_Z3onePf'\n")


class KernelResources(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_on(self, text, declared=""):
        (self.folder / "one.cu.o.ptxas").write_text(text)
        (self.folder / "declared.txt").write_text(declared)
        return subprocess.run([sys.executable, SCRIPT, "--declared-spills", self.folder / "declared.txt",
                               self.folder / "one.cu.o"], capture_output=True, text=True)

    def test_the_table_gives_registers_shared_memory_stack_and_spills(self):
        result = self.run_on(KERNEL.format(stack=0, stores=0, loads=0))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines()[1].split(), ["one", "sm_90a", "168", "256", "0", "0"])

    def test_a_spill_that_is_not_declared_is_refused(self):
        result = self.run_on(KERNEL.format(stack=8, stores=4, loads=4))
        self.assertEqual(result.returncode, 1)
        self.assertIn("one spills registers and is not declared", result.stderr)

    def test_a_declared_spill_passes_and_a_declaration_without_one_does_not(self):
        spilling = KERNEL.format(stack=8, stores=4, loads=4)
        self.assertEqual(self.run_on(spilling, "one  # why\n").returncode, 0)
        result = self.run_on(spilling, "one\ntwo\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("two does not spill", result.stderr)

    def test_products_that_ptxas_serializes_are_refused(self):
        result = self.run_on(SERIALIZED + KERNEL.format(stack=0, stores=0, loads=0))
        self.assertEqual(result.returncode, 1)
        self.assertIn("one: Potential Performance Loss: wgmma.mma_async instructions are serialized", result.stderr)

    def test_a_file_without_a_line_of_ptxas_is_no_empty_table(self):
        result = self.run_on("nothing of the kind\n")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no line of ptxas", result.stderr)

    def test_a_register_limit_that_ptxas_ignores_is_refused(self):
        result = self.run_on("ptxas info    : (C7507) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum "
                             "register requirements.\n" + KERNEL.format(stack=0, stores=0, loads=0))
        self.assertEqual(result.returncode, 1)
        self.assertIn("a kernel: Potential Performance Loss: 'setmaxnreg' ignored", result.stderr)


if __name__ == "__main__":
    unittest.main()

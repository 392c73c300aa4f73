#!/usr/bin/env python3
"""compile_without_gpu.py on stand-ins of TileLang and FlashQLA: what it asks them for, and how it ends. Needs PyTorch, but
for what is said where something is missing; without it the rest is skipped."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
STAND_INS = {
    "tilelang/__init__.py": "__version__ = 'stand-in'\nfrom . import jit\n",
    "tilelang/jit.py": "class JITKernel:\n    def __call__(self):\n        raise RuntimeError('a kernel was launched')\n",
    "tilelang/cuda/__init__.py": "",
    "tilelang/cuda/target.py": """
class Target:
    entered = False
    def __enter__(self):
        Target.entered = True
    def __exit__(self, *_):
        Target.entered = False
    def __str__(self):
        return 'sm_90'
def _detect_cuda_target():
    return Target()
""",
    "flash_qla.py": """
import json, os, torch
from tilelang.cuda.target import Target
from tilelang.jit import JITKernel
was_entered = Target.entered
class Rule(torch.autograd.Function):
    @staticmethod
    def forward(context, *leaves):
        context.leaves = leaves
        return torch.zeros_like(leaves[2])
    @staticmethod
    def backward(context, gradient):
        print(json.dumps({'backward': list(gradient.shape)}))
        return tuple(torch.zeros_like(leaf) for leaf in context.leaves)
def chunk_gated_delta_rule(*leaves, scale, output_final_state, cu_seqlens):
    JITKernel()()
    properties = torch.cuda.get_device_properties(0)
    print(json.dumps({'shapes': [list(leaf.shape) for leaf in leaves], 'types': [str(leaf.dtype) for leaf in leaves],
                      'offsets': cu_seqlens.tolist(), 'capability': torch.cuda.get_device_capability(),
                      'multiprocessors': properties.multi_processor_count, 'available': torch.cuda.is_available(),
                      'folder': os.environ['TILELANG_CACHE_DIR'], 'target': was_entered}))
    if len(cu_seqlens) > 3:
        raise ValueError('three sequences\\nand more')
    return Rule.apply(*leaves), None
""",
}
NO_TORCH = importlib.util.find_spec("torch") is None


class CompileWithoutGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in STAND_INS.items():
            path = self.folder / "modules" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run_with(self, *arguments, modules="modules"):
        return subprocess.run([sys.executable, str(HERE / "compile_without_gpu.py"), *arguments],
                              env=os.environ | {"PYTHONPATH": str(self.folder / modules)}, cwd=self.folder,
                              capture_output=True, text=True)

    @unittest.skipIf(NO_TORCH, "PyTorch is not installed")
    def test_every_shape_goes_forward_and_backward_on_a_card_that_is_not_there(self):
        done = self.run_with("kernels", "--shapes", "2/4:1x40,1/1:1x7+1x3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual([line["shapes"] for line in lines[::2]],
                         [[[1, 40, 2, 128], [1, 40, 2, 128], [1, 40, 4, 128], [1, 40, 4], [1, 40, 4]],
                          [[1, 10, 1, 128], [1, 10, 1, 128], [1, 10, 1, 128], [1, 10, 1], [1, 10, 1]]])
        self.assertEqual([line["backward"] for line in lines[1::2]], [[1, 40, 4, 128], [1, 10, 1, 128]])
        self.assertEqual([line["offsets"] for line in lines[::2]], [[0, 40], [0, 7, 10]])
        for line in lines[::2]:
            self.assertEqual(line["types"], 3 * ["torch.bfloat16"] + 2 * ["torch.float32"])
            self.assertEqual((line["capability"], line["multiprocessors"], line["available"], line["target"]),
                             ([9, 0], 132, True, True))
            self.assertEqual(line["folder"], str((self.folder / "kernels").resolve()))
        self.assertRegex(done.stdout, r"2/4 1x40: [0-9.]+ s\n")

    @unittest.skipIf(NO_TORCH, "PyTorch is not installed")
    def test_a_shape_that_fails_is_named_and_the_others_are_compiled(self):
        done = self.run_with("kernels", "--shapes", "1/1:3x5,1/1:1x5")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^compile_without_gpu: 1/1 3x5: .*three sequences.*\n$")
        self.assertRegex(done.stdout, r"1/1 1x5: [0-9.]+ s\n$")

    def test_bad_shapes_and_missing_libraries_are_one_line(self):
        done = self.run_with("kernels", "--shapes", "3/4:1x40")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^compile_without_gpu: --shapes: .*3/4.*\n$")
        done = self.run_with()
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^compile_without_gpu: .*folder\n$")
        if importlib.util.find_spec("tilelang") is not None:
            return
        done = self.run_with("kernels", "--shapes", "1/1:1x5", modules="none")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^compile_without_gpu: PyTorch, tilelang and flash_qla are needed: .*\n$")


if __name__ == "__main__":
    unittest.main()

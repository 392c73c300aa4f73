#!/usr/bin/env python3
"""gated_delta_autograd and causal_conv1d_autograd of scripts/gdnbench_torch.py, on the CPU and on a CUDA device where there is one. Without PyTorch
a stand-in on NumPy arrays takes its place, of as much as the module calls; without either the test is skipped.
    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/gdnbench_torch_autograd_test.py"""
import collections
import contextlib
import sys
import types
import unittest

try:
    import torch
except ImportError:
    torch = None
try:
    import numpy as np
except ImportError:
    np = None
IS_PYTORCH = torch is not None

SEED = 5


# ---- the stand-in

def stand_in():
    """A module `torch` whose tensors are NumPy arrays, and whose autograd knows one Function deep."""
    made = types.ModuleType("torch")
    kinds = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "int64": np.int64, "int32": np.int32}
    for name in (*kinds, "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        setattr(made, name, f"torch.{name}")
    of_kind = {np.dtype(kind): f"torch.{name}" for name, kind in kinds.items()}
    to_kind = {f"torch.{name}": kind for name, kind in kinds.items()}
    host = collections.namedtuple("device", "type index")("cpu", None)

    class Tensor:
        def __init__(self, array, requires_grad=False):
            self.array, self.requires_grad, self.node, self.device = array, requires_grad, None, host

        dtype = property(lambda self: of_kind[self.array.dtype])
        shape = property(lambda self: self.array.shape)

        def stride(self):
            return tuple(step // self.array.itemsize for step in self.array.strides)

        def dim(self):
            return self.array.ndim

        def numel(self):
            return self.array.size

        def data_ptr(self):
            return self.array.ctypes.data

        def clone(self, memory_format=None):
            return Tensor(self.array.copy())

        def contiguous(self):
            return Tensor(np.ascontiguousarray(self.array))

        def to(self, dtype):
            return Tensor(self.array.astype(to_kind[dtype], copy=False))

        def tolist(self):
            return self.array.tolist()

        def numpy(self):
            return self.array

        def detach(self):
            return Tensor(self.array)

        def requires_grad_(self):
            self.requires_grad = True
            return self

    class Function:
        @classmethod
        def apply(cls, *arguments):
            needed = tuple(isinstance(x, Tensor) and x.requires_grad for x in arguments)
            context = types.SimpleNamespace(needs_input_grad=needed, set_materialize_grads=lambda _: None)
            context.save_for_backward = lambda *tensors: setattr(context, "saved_tensors", tensors)
            outputs = cls.forward(context, *arguments)
            for number, output in enumerate(outputs):
                if output is not None and any(needed):
                    output.node = cls, context, arguments, number, len(outputs)
            return outputs

    def grad(outputs, inputs, grad_outputs):
        """Outputs of one call."""
        cls, context, arguments, _, count = outputs[0].node
        into = [None] * count
        for output, gradient in zip(outputs, grad_outputs):
            into[output.node[3]] = gradient
        found = cls.backward(context, *into)
        return tuple(next(x for given, x in zip(arguments, found) if given is wanted) for wanted in inputs)

    made.Tensor = Tensor
    made.from_numpy = Tensor
    made.tensor = lambda values, dtype, device=None: Tensor(np.array(values, to_kind[dtype]))
    made.zeros = lambda shape, dtype, device=None: Tensor(np.zeros(shape, to_kind[dtype]))
    # What was never written shows.
    made.empty = lambda shape, dtype, device=None: Tensor(np.full(shape, np.nan, to_kind[dtype]))
    made.zeros_like = lambda x: Tensor(np.zeros_like(x.array))
    made.contiguous_format = None
    made.inference_mode = lambda _: contextlib.nullcontext()
    made.cuda = types.SimpleNamespace(is_available=lambda: False)
    made.autograd = types.SimpleNamespace(
        Function=Function, grad=grad, function=types.SimpleNamespace(once_differentiable=lambda method: method))
    return made


if np is not None:
    if torch is None:
        torch = sys.modules["torch"] = stand_in()
    import gdnbench_torch as gdn
    from gdnbench_library import GdnbenchError


# ---- the tests

def devices():
    return ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def arrays(lengths=(7, 0, 5), key_heads=1, value_heads=2, dim=16, logits=False, state=False, layout="kv"):
    """float32 NumPy arrays by gated_delta_autograd's names."""
    draw = np.random.default_rng(SEED)
    tokens, sequences = sum(lengths), len(lengths)

    def normal(*shape):
        return draw.standard_normal(shape).astype(np.float32)

    def unit(x):
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    value_dim = dim // 2
    made = {"query": unit(normal(tokens, key_heads, dim)), "key": unit(normal(tokens, key_heads, dim)),
            "value": normal(tokens, value_heads, value_dim), "log_decay": -np.abs(normal(tokens, value_heads)),
            "beta": 1 / (1 + np.exp(-normal(tokens, value_heads)))}
    if logits:
        made |= {"log_decay": normal(tokens, value_heads), "A_log": 0.3 * normal(value_heads),
                 "dt_bias": normal(value_heads)}
    if state:
        dims = (dim, value_dim) if layout == "kv" else (value_dim, dim)
        made["initial_state"] = 0.3 * normal(sequences, value_heads, *dims)
    return made, np.array([sum(lengths[:n]) for n in range(sequences + 1)])


def problem_of(made, fields, operation="gated_delta"):
    heads = f"{made['query'].shape[1]}/{made['value'].shape[1]}"
    dims = f"{made['query'].shape[2]}x{made['value'].shape[2]}"
    return f"{operation}:heads={heads},dim={dims},seq=1x{len(made['query'])},dtype=f32{fields}"


def operand_names(made):
    names = {"query": "q", "key": "k", "value": "v"}
    if "A_log" in made:
        names["log_decay"] = "decay_logit"
    return {name: names.get(name, name) for name in made}


# (what arrays() takes, what the call takes beside, fields of the problem)
CASES = [({}, {}, ""),
         ({"state": True}, {"final_state": True}, ",h0=normal"),
         ({"state": True, "layout": "vk"}, {"final_state": True, "state_layout": "vk", "scale": 0.7, "normalize_qk": True},
          ",h0=normal,layout=vk,norm=1,scale=0.7"),
         ({"logits": True}, {"final_state": True}, ",gate=logits"),
         ({"logits": True, "state": True}, {}, ",gate=logits,h0=normal")]


class Autograd(unittest.TestCase):
    def setUp(self):
        gdn.forget_plans()

    def tensors(self, made, device="cpu"):
        return {name: torch.from_numpy(x.copy()) if device == "cpu" else torch.from_numpy(x).to(device)
                for name, x in made.items()}

    def gradients_of(self, made, offsets, options, device="cpu", d_output=True):
        """({name: gradient}, d_output, d_final_state), of which those that are not handed in are None."""
        given = {name: x.requires_grad_() for name, x in self.tensors(made, device).items()}
        cuts = self.tensors({"offsets": offsets}, device)["offsets"]
        output, state = gdn.gated_delta_autograd(**given, sequence_offsets=cuts, **options)
        draw = np.random.default_rng(SEED + 1)
        into = [draw.standard_normal(x.shape).astype(np.float32) if x is not None else None for x in (output, state)]
        if not d_output:
            into[0] = None
        pairs = [(x, self.tensors({"d": d}, device)["d"]) for x, d in zip((output, state), into) if d is not None]
        found = torch.autograd.grad([x for x, _ in pairs], list(given.values()), [d for _, d in pairs])
        return {name: self.on_host(x) for name, x in zip(given, found)}, *into

    @staticmethod
    def on_host(x):
        return x.detach().cpu().numpy() if IS_PYTORCH else x.numpy()

    def direct(self, made, offsets, fields, d_output, d_final_state, device):
        """The operation's own gradients of what is differentiated, by a plan."""
        names = operand_names(made)
        tensors = self.tensors({names[name]: x for name, x in made.items()}, device)
        tensors |= self.tensors({"sequence_offsets": offsets, "d_output": d_output}, device)
        if d_final_state is None:
            fields += ",ht=0"
        else:
            tensors |= self.tensors({"d_final_state": d_final_state}, device)
        plan = gdn.Plan(problem_of(made, fields, "gated_delta_backward"), tensors)
        plan.run()
        return {name: self.on_host(plan.tensors[f"d_{operand}"]) for name, operand in names.items()}

    def test_gradients_are_those_of_the_operation_called_directly(self):
        for device in devices():
            for drawn, options, fields in CASES:
                with self.subTest(device=device, fields=fields, seed=SEED):
                    made, offsets = arrays(**drawn)
                    found, d_output, d_final_state = self.gradients_of(made, offsets, options, device)
                    exact = self.direct(made, offsets, fields, d_output, d_final_state, device)
                    for name in made:
                        np.testing.assert_array_equal(found[name], exact[name], err_msg=name)
                        self.assertGreater(float(np.abs(found[name]).max()), 0, name)

    def test_gradients_are_the_central_differences_of_the_float64_reference(self):
        for drawn, options, fields in CASES:
            with self.subTest(fields=fields, seed=SEED):
                made, offsets = arrays(**drawn)
                found, d_output, d_final_state = self.gradients_of(made, offsets, options)

                def loss(changed):
                    names = operand_names(changed)
                    tensors = self.tensors({names[name]: x for name, x in changed.items()})
                    tensors |= self.tensors({"sequence_offsets": offsets})
                    exact = gdn.plan_reference_float64(problem_of(made, fields), tensors)
                    total = (exact["output"].numpy() * d_output).sum()
                    if d_final_state is not None:
                        # A sequence without tokens: its row is nobody's where there is no initial state.
                        rows = np.diff(offsets) > 0 if "initial_state" not in changed else slice(None)
                        total += (exact["final_state"].numpy()[rows] * d_final_state[rows]).sum()
                    return total

                draw = np.random.default_rng(SEED + 2)
                for name, x in made.items():
                    direction = 3e-3 * draw.standard_normal(x.shape).astype(np.float32)
                    up, down = x + direction, x - direction
                    expected = loss(made | {name: up}) - loss(made | {name: down})
                    step = up.astype(np.float64) - down
                    along = (found[name] * step).sum()
                    # The size of a sum of as many terms of either sign.
                    size = np.linalg.norm(found[name].astype(np.float64) * step)
                    self.assertLess(abs(along - expected), 2e-3 * size, name)

    def test_a_loss_of_the_final_state_alone_has_gradients(self):
        made, offsets = arrays(state=True)
        found, _, d_final_state = self.gradients_of(made, offsets, {"final_state": True}, d_output=False)
        exact = self.direct(made, offsets, ",h0=normal", np.zeros_like(made["value"]), d_final_state, "cpu")
        for name in made:
            np.testing.assert_array_equal(found[name], exact[name], err_msg=name)
        self.assertEqual(float(np.abs(found["query"]).max()), 0)

    def test_the_initial_state_stays_as_it_is(self):
        made, offsets = arrays(state=True)
        given = self.tensors(made)
        cuts = self.tensors({"offsets": offsets})["offsets"]
        _, state = gdn.gated_delta_autograd(**given, sequence_offsets=cuts, final_state=True)
        np.testing.assert_array_equal(self.on_host(given["initial_state"]), made["initial_state"])
        self.assertFalse(np.array_equal(self.on_host(state), made["initial_state"]))
        np.testing.assert_array_equal(self.on_host(state)[1], made["initial_state"][1])  # no tokens

    def test_a_call_without_offsets_is_one_sequence(self):
        made, _ = arrays(lengths=(9,))
        output, state = gdn.gated_delta_autograd(**self.tensors(made))
        self.assertIsNone(state)
        cut, _ = gdn.gated_delta_autograd(**self.tensors(made),
                                          sequence_offsets=self.tensors({"offsets": np.array([0, 9])})["offsets"])
        np.testing.assert_array_equal(self.on_host(output), self.on_host(cut))

    def test_plans_are_found_again_by_tensors_and_keep_to_the_bounds(self):
        made, offsets = arrays()
        kept, before = gdn._kept, gdn._kept.planned
        given = self.tensors(made) | self.tensors({"sequence_offsets": offsets})
        output = torch.zeros(made["value"].shape, dtype=torch.float32)
        called = {operand: given[name] for name, operand in (operand_names(made) | {
            "sequence_offsets": "sequence_offsets"}).items()} | {"output": output}
        problem = problem_of(made, ",ht=0")
        for _ in range(3):
            kept.run(problem, called, None)
        self.assertEqual(kept.planned - before, 1)
        first = self.on_host(output).copy()
        # All alive at once, so that each has an address of its own.
        others = [torch.zeros(made["value"].shape, dtype=torch.float32) for _ in range(3)]
        kept.run(problem, called | {"output": others[0]}, None)
        self.assertEqual(kept.planned - before, 2)
        # The same memory with other contents is read anew.
        self.on_host(called["beta"])[:] = 0
        kept.run(problem, called, None)
        self.assertEqual(kept.planned - before, 2)
        self.assertFalse(np.array_equal(self.on_host(output), first))
        bounds = gdn.KEPT_PLANS, gdn.KEPT_WORKSPACE_BYTES
        self.addCleanup(lambda: (setattr(gdn, "KEPT_PLANS", bounds[0]), setattr(gdn, "KEPT_WORKSPACE_BYTES", bounds[1])))
        gdn.KEPT_PLANS = 2
        kept.run(problem, called | {"output": others[1]}, None)
        self.assertEqual(len(kept._plans), 2)
        # The one that was used least lately is the one that went.
        kept.run(problem, called, None)
        self.assertEqual(kept.planned - before, 3)
        gdn.KEPT_PLANS, gdn.KEPT_WORKSPACE_BYTES = bounds[0], -1
        kept.run(problem, called | {"output": others[2]}, None)
        self.assertEqual(len(kept._plans), 1)
        gdn.forget_plans()
        self.assertEqual((len(kept._plans), kept._workspace_bytes), (0, 0))

    def test_what_is_wrong_is_one_line_that_names_it(self):
        made, _ = arrays(lengths=(9,))
        given = self.tensors(made)
        for words, changed in (("dt_bias: without A_log", {"dt_bias": self.tensors({"x": np.zeros(2, np.float32)})["x"]}),
                               ("log_decay: expected a tensor", {"log_decay": None}),
                               ("key: expected a tensor", {"key": [1.0]}),
                               ("state_layout: 'kkv'", {"state_layout": "kkv"}),
                               ("no_such_form", {"implementation": "cpu/no_such_form"})):
            with self.assertRaises(GdnbenchError) as caught:
                gdn.gated_delta_autograd(**given | changed)
            self.assertIn(words, str(caught.exception))
            self.assertEqual(len(str(caught.exception).splitlines()), 1)

    @unittest.skipUnless(IS_PYTORCH, "PyTorch is not installed")
    def test_gradients_have_no_gradients(self):
        made, _ = arrays(lengths=(9,))
        given = {name: x.requires_grad_() for name, x in self.tensors(made).items()}
        output, _ = gdn.gated_delta_autograd(**given)
        first, = torch.autograd.grad(output.square().sum(), given["key"], create_graph=True)
        with self.assertRaises(RuntimeError) as caught:
            first.sum().backward()
        self.assertIn("differentiate twice", str(caught.exception))
        self.assertEqual(len(str(caught.exception).splitlines()), 1)

    @unittest.skipUnless(IS_PYTORCH, "PyTorch is not installed")
    def test_only_gradients_that_are_needed_and_of_any_layout_come_back(self):
        """sum() hands over a gradient whose strides are zero; a slice's gradient is of the whole."""
        for device in devices():
            with self.subTest(device=device, seed=SEED):
                made, _ = arrays(lengths=(9,))
                given = self.tensors(made, device)
                wide = torch.cat([given["query"], given["key"]], dim=-1).requires_grad_()
                query, key = wide.split(given["query"].shape[2], dim=-1)
                output, _ = gdn.gated_delta_autograd(**given | {"query": query, "key": key})
                output.sum().backward()
                latest = next(reversed(gdn._kept._plans.values()))
                self.assertNotIn("d_output", latest.info["conversions"])
                self.assertIsNone(given["beta"].grad)
                exact = self.direct(made, np.array([0, 9]), "", np.ones_like(made["value"]), None, device)
                parts = self.on_host(wide.grad)
                np.testing.assert_array_equal(parts, np.concatenate([exact["query"], exact["key"]], axis=-1))

    @unittest.skipUnless(IS_PYTORCH, "PyTorch is not installed")
    def test_gates_in_the_tokens_type_have_gradients_of_that_type(self):
        for device in devices():
            with self.subTest(device=device, seed=SEED):
                made, _ = arrays(lengths=(9,))
                given = self.tensors(made, device)
                given["beta"] = given["beta"].bfloat16().requires_grad_()
                output, _ = gdn.gated_delta_autograd(**given)
                output.sum().backward()
                self.assertEqual(given["beta"].grad.dtype, torch.bfloat16)
                self.assertGreater(float(given["beta"].grad.float().abs().max()), 0)

    @unittest.skipUnless(IS_PYTORCH and torch.cuda.is_available(), "there is no CUDA device")
    def test_bfloat16_heads_of_128_on_a_card_keep_to_the_float64_reference(self):
        made, offsets = arrays(lengths=(70, 3), key_heads=1, value_heads=2, dim=128)
        draw = np.random.default_rng(SEED)
        made["value"] = draw.standard_normal((73, 2, 128)).astype(np.float32)
        given = {name: x.bfloat16() if name in ("query", "key", "value") else x
                 for name, x in self.tensors(made, "cuda").items()}
        given = {name: x.requires_grad_() for name, x in given.items()}
        cuts = torch.from_numpy(offsets).cuda()
        output, _ = gdn.gated_delta_autograd(**given, sequence_offsets=cuts)
        d_output = torch.randn(output.shape, generator=torch.Generator().manual_seed(SEED)).bfloat16().cuda()
        found = torch.autograd.grad(output, list(given.values()), d_output)
        names = operand_names(made)
        tensors = {names[name]: x.detach().cpu() for name, x in given.items()}
        tensors |= {"sequence_offsets": cuts.cpu(), "d_output": d_output.cpu()}
        exact = gdn.plan_reference_float64(
            "gated_delta_backward:heads=1/2,dim=128,seq=1x1,dtype=bf16,ht=0", tensors)
        for name, x in zip(given, found):
            reference = exact[f"d_{names[name]}"]
            error = (x.double().cpu() - reference).norm() / reference.norm()
            self.assertLess(float(error), 2e-2, name)


class ConvolutionAutograd(unittest.TestCase):
    LENGTHS = (7, 0, 5, 2)
    CHANNELS, WIDTH = 6, 4

    def setUp(self):
        gdn.forget_plans()

    def arrays(self, bias, window):
        draw = np.random.default_rng(SEED)
        made = {"tokens": draw.standard_normal((sum(self.LENGTHS), self.CHANNELS)),
                "weight": draw.standard_normal((self.CHANNELS, self.WIDTH))}
        if bias:
            made["bias"] = draw.standard_normal(self.CHANNELS)
        if window:
            made["initial_window"] = draw.standard_normal((len(self.LENGTHS), self.CHANNELS, self.WIDTH - 1))
        return {name: x.astype(np.float32) for name, x in made.items()}

    def windows_before(self, made):
        """[N, channels, width - 1]."""
        zeros = np.zeros((len(self.LENGTHS), self.CHANNELS, self.WIDTH - 1), np.float32)
        return made.get("initial_window", zeros)

    def loss(self, made, options, d_output, d_window):
        """<output, d_output> + <final window, d_window> in float64, from the definition."""
        total, first = 0.0, 0
        for n, length in enumerate(self.LENGTHS):
            tokens = made["tokens"][first:first + length].astype(np.float64).T
            inputs = np.concatenate([self.windows_before(made)[n], tokens], 1)
            z = sum(made["weight"][:, [j]] * inputs[:, j:j + length] for j in range(self.WIDTH))
            z = z + made.get("bias", np.zeros(self.CHANNELS))[:, None]
            y = z if options.get("activation", "silu") is None else z / (1 + np.exp(-z))
            y = y + tokens if options.get("residual") else y
            total += (y * d_output[first:first + length].T).sum()
            if d_window is not None:
                total += (inputs[:, length:length + self.WIDTH - 1] * d_window[n]).sum()
            first += length
        return total

    def test_gradients_are_the_central_differences_of_the_definition(self):
        for device in devices():
            for bias, window, options in ((False, False, {}), (True, False, {"final_window": True}),
                                          (True, True, {"final_window": True, "residual": True}),
                                          (False, True, {"activation": None})):
                with self.subTest(device=device, bias=bias, window=window, options=options, seed=SEED):
                    made = self.arrays(bias, window)
                    given = {name: torch.from_numpy(x.copy()) if device == "cpu" else torch.from_numpy(x).to(device)
                             for name, x in made.items()}
                    given = {name: x.requires_grad_() for name, x in given.items()}
                    ends = torch.from_numpy(np.concatenate([[0], np.cumsum(self.LENGTHS)]))
                    ends = ends if device == "cpu" else ends.to(device)
                    outputs = gdn.causal_conv1d_autograd(**given, sequence_offsets=ends, **options)
                    draw = np.random.default_rng(SEED + 1)
                    into = [None if x is None else draw.standard_normal(x.shape).astype(np.float32) for x in outputs]
                    self.assertEqual(into[1] is not None, bool(options.get("final_window")))
                    pairs = [(x, torch.from_numpy(d) if device == "cpu" else torch.from_numpy(d).to(device))
                             for x, d in zip(outputs, into) if x is not None]
                    found = torch.autograd.grad([x for x, _ in pairs], list(given.values()), [d for _, d in pairs])
                    for (name, x), gradient in zip(made.items(), found):
                        step = 1e-3 * draw.standard_normal(x.shape)
                        wide = {key: value.astype(np.float64) for key, value in made.items()}
                        expected = (self.loss(wide | {name: x + step}, options, *into)
                                    - self.loss(wide | {name: x - step}, options, *into)) / 2
                        along = Autograd.on_host(gradient).astype(np.float64) * step
                        self.assertLessEqual(abs(along.sum() - expected), 1e-5 * np.linalg.norm(along), name)
                        if name == "initial_window":
                            np.testing.assert_array_equal(Autograd.on_host(given[name]), x)

    def test_what_is_wrong_is_one_line_that_names_it(self):
        made = {name: torch.from_numpy(x) for name, x in self.arrays(False, False).items()}
        for words, changed in (("activation: 'relu'", {"activation": "relu"}), ("bias: expected a tensor", {"bias": 1}),
                               ("weight: expected a tensor", {"weight": made["weight"].tolist()}),
                               ("no_such_form", {"backward_implementation": None, "implementation": "cpu/no_such_form"})):
            with self.subTest(words=words), self.assertRaises(GdnbenchError) as caught:
                gdn.causal_conv1d_autograd(**{**made, **changed})
            self.assertIn(words, str(caught.exception))
            self.assertEqual(len(str(caught.exception).splitlines()), 1)


if __name__ == "__main__":
    if np is None:
        print("NumPy is not installed")
        sys.exit(77)  # skipped
    if not IS_PYTORCH:
        print("PyTorch is not installed: a stand-in takes its place")
    unittest.main()

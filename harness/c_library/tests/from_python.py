"""The C library called from Python: implementations against a recurrence written here, and the errors."""
import ctypes
import math
import random
import struct
import unittest

from gdnbench_library import Array, GdnbenchError, Library

HK, HV, DK, DV = 1, 2, 16, 16
LENGTHS = (5, 0, 9, 70)
SHAPE = f"heads={HK}/{HV},dim={DK}x{DV},dtype=f32,h0=normal"
library = Library()


def array(values):
    return (ctypes.c_float * len(values))(*values)


class Inputs:
    def __init__(self, seed=7):
        draw = random.Random(seed)
        print(f"seed {seed}, gated_delta:{SHAPE}, lengths {LENGTHS}")
        self.offsets = [sum(LENGTHS[:n]) for n in range(len(LENGTHS) + 1)]
        tokens = self.offsets[-1]
        normal = lambda count, scale=1.0: array([draw.gauss(0, scale) for _ in range(count)])
        self.query, self.key = normal(tokens * HK * DK, DK ** -0.5), normal(tokens * HK * DK, DK ** -0.5)
        self.value, self.state = normal(tokens * HV * DV), normal(len(LENGTHS) * HV * DK * DV)
        self.gate = array([-0.2 * draw.random() for _ in range(tokens * HV)])
        self.beta = array([draw.random() for _ in range(tokens * HV)])
        self.output = array([math.nan] * (tokens * HV * DV))
        self.device_offsets = (ctypes.c_int64 * len(self.offsets))(*self.offsets)

    def arguments(self):
        address = ctypes.addressof
        return dict(q=address(self.query), k=address(self.key), v=address(self.value),
                    log_decay=address(self.gate), beta=address(self.beta),
                    sequence_offsets=address(self.device_offsets), initial_state=address(self.state),
                    output=address(self.output))

    def inputs(self):
        return {name: given for name, given in self.arguments().items() if name != "output"}

    def expected(self):
        """S <- exp(g) S; S <- S + beta k (v - S^T k)^T; o = S^T q / sqrt(Dk), in Python's double."""
        output, states = [0.0] * len(self.output), [float(x) for x in self.state]
        for n, begin in enumerate(self.offsets[:-1]):
            for head in range(HV):
                at = (n * HV + head) * DK * DV
                S = [[states[at + k * DV + v] for v in range(DV)] for k in range(DK)]
                for t in range(begin, self.offsets[n + 1]):
                    q, k = (x[(t * HK + head * HK // HV) * DK:][:DK] for x in (self.query, self.key))
                    value = self.value[(t * HV + head) * DV:][:DV]
                    decay, beta = math.exp(self.gate[t * HV + head]), self.beta[t * HV + head]
                    for v in range(DV):
                        column = [decay * S[d][v] for d in range(DK)]
                        correction = beta * (value[v] - sum(c * x for c, x in zip(column, k)))
                        column = [c + x * correction for c, x in zip(column, k)]
                        output[(t * HV + head) * DV + v] = sum(c * x for c, x in zip(column, q)) / math.sqrt(DK)
                        for d in range(DK):
                            S[d][v] = column[d]
                states[at:at + DK * DV] = [x for row in S for x in row]
        return output, states


def relative_error(values, expected):
    difference = sum((x - y) ** 2 for x, y in zip(values, expected))
    return math.sqrt(difference / sum(y * y for y in expected))


class CLibrary(unittest.TestCase):
    def assert_close(self, values, expected, bound):
        error = relative_error(values, expected)
        self.assertTrue(error <= bound, f"relative error {error}, at most {bound} expected")

    def test_implementations_agree_with_the_recurrence(self):
        expected_output, expected_state = Inputs().expected()
        places = [(name, "cpu") for name in library.implementations() if name.startswith("cpu/")]
        if "cuda/naive" in library.implementations():
            places.append(("cuda/naive", "cuda-emulated"))
        self.assertGreaterEqual(len(places), 3)
        for name, device in places:
            with self.subTest(implementation=name, device=device):
                inputs = Inputs()
                try:
                    # The lengths come from the offsets, not from the problem.
                    plan = library.plan(f"gated_delta:{SHAPE},seq=1x1", inputs.arguments(), device,
                                        sequence_offsets=inputs.offsets, implementation=name)
                except GdnbenchError as error:
                    if error.status == "device unavailable" and device != "cpu":
                        continue
                    raise
                with plan:
                    plan.run()
                self.assert_close(inputs.output, expected_output, 1e-6)
                self.assert_close(inputs.state, expected_state, 1e-6)

    def test_a_plan_reads_lengths_and_values_at_every_run(self):
        inputs = Inputs()
        before = list(inputs.state)
        with library.plan(f"gated_delta:{SHAPE},seq=5+0+9+70", inputs.arguments(), "cpu",
                          implementation="cpu/recurrent") as plan:
            plan.run()
            first = list(inputs.output)
            inputs.offsets[:] = [0, 40, 41, 60, 84]
            inputs.device_offsets[:] = inputs.offsets
            inputs.state[:] = before
            expected_output, expected_state = inputs.expected()
            plan.run()
        self.assertNotEqual(first, list(inputs.output))
        self.assert_close(inputs.output, expected_output, 1e-6)
        self.assert_close(inputs.state, expected_state, 1e-6)

    def test_the_float64_reference_agrees_with_the_recurrence(self):
        def transposed(states):
            return [states[at + k * DV + v] for at in range(0, len(states), DK * DV)
                    for v in range(DV) for k in range(DK)]

        for layout in ("", ",layout=vk"):
            inputs = Inputs()
            expected_output, expected_state = inputs.expected()
            output, state = (ctypes.c_double * len(inputs.output))(), (ctypes.c_double * len(inputs.state))()
            if layout:
                inputs.state[:], expected_state = transposed(list(inputs.state)), transposed(expected_state)
            library.reference_float64(f"gated_delta:{SHAPE},seq=1x1{layout}", inputs.inputs(),
                                      {"output": ctypes.addressof(output), "final_state": ctypes.addressof(state)},
                                      "cpu", sequence_offsets=inputs.offsets)
            self.assert_close(output, expected_output, 1e-13)
            self.assert_close(state, expected_state, 1e-13)

    def test_every_operation_runs_as_its_operands_are_described(self):
        """No operand is named here: arrays are made as the library describes them, drawn small, and what is written
        is compared with the float64 reference."""
        draw = random.Random(11)
        self.assertGreaterEqual(len(library.operations()), 3)
        problems = [f"{operation}:heads=1/2,dim=16,seq=5+3,dtype=f32" for operation in library.operations()]
        of_no_heads = "causal_conv1d:channels=5,seq=5+3,dtype=f32"
        self.assertIn((8, 5), [tuple(x.extents) for x in library.operands(of_no_heads) if x.name == "qkv"])
        for problem in [*problems, of_no_heads]:
            name, reason = library.select(problem, "cpu")
            with self.subTest(problem=problem, implementation=name, reason=reason):
                arrays, kept, exact = {}, {}, {}
                for operand in library.operands(problem):
                    if operand.is_optional:
                        continue
                    count = math.prod(operand.extents)
                    if operand.dtype == "int64":
                        counts = (0, 5, 8) if operand.name == "sequence_offsets" else (2,) * count
                        kept[operand.name] = (ctypes.c_int64 * count)(*counts)
                    else:
                        self.assertEqual(operand.dtype, "f32")
                        kept[operand.name] = array([-draw.random() for _ in range(count)]
                                                   if operand.name == "log_decay" else
                                                   [draw.random() for _ in range(count)])
                    if operand.is_written:
                        exact[operand] = (ctypes.c_double * count)()
                    arrays[operand.name] = ctypes.addressof(kept[operand.name])
                library.reference_float64(
                    problem, {x: a for x, a in arrays.items() if x not in [o.name for o in exact if not o.is_read]},
                    {operand.name_after: ctypes.addressof(values) for operand, values in exact.items()}, "cpu")
                with library.plan(problem, arrays, "cpu") as plan:
                    self.assertEqual(plan.implementation, name)
                    plan.run()
                self.assertTrue(exact)
                for operand, values in exact.items():
                    self.assert_close(kept[operand.name], values, 1e-5)

    def test_the_hopper_kernel_takes_bfloat16(self):
        """On the emulator, against the reference: the path a PyTorch caller takes on a card."""
        tokens, dim, draw = 70, 128, random.Random(3)
        problem = f"gated_delta:heads=1/1,dim={dim},seq={tokens},dtype=bf16,h0=normal"
        halves = lambda scale: (ctypes.c_uint16 * (tokens * dim))(  # bfloat16: the upper half of a float32
            *(struct.unpack("<I", struct.pack("<f", draw.gauss(0, scale)))[0] >> 16 for _ in range(tokens * dim)))
        query, key, value = halves(dim ** -0.5), halves(dim ** -0.5), halves(1)
        gate, beta = array([-0.1 * draw.random()] * tokens), array([draw.random() for _ in range(tokens)])
        state = array([draw.gauss(0, dim ** -0.5) for _ in range(dim * dim)])
        offsets, output = (ctypes.c_int64 * 2)(0, tokens), (ctypes.c_uint16 * (tokens * dim))()
        arguments = {name: ctypes.addressof(values) for name, values in (
            ("q", query), ("k", key), ("v", value), ("log_decay", gate), ("beta", beta),
            ("sequence_offsets", offsets), ("initial_state", state), ("output", output))}
        exact, exact_state = (ctypes.c_double * (tokens * dim))(), (ctypes.c_double * (dim * dim))()
        library.reference_float64(problem, {name: at for name, at in arguments.items() if name != "output"},
                                  {"output": ctypes.addressof(exact), "final_state": ctypes.addressof(exact_state)},
                                  "cpu")
        try:
            plan = library.plan(problem, arguments, "cuda-emulated", implementation="cuda/fused_sm90")
        except GdnbenchError as error:
            if error.status in ("bad input", "device unavailable"):  # a build without the emulator
                self.skipTest(str(error))
            raise
        self.assertEqual(plan.info["chunk"], 64)
        self.assertGreater(plan.info["launches"], 0)
        with plan:
            plan.run()
        widened = [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in output]
        self.assert_close(widened, exact, 6e-3)
        self.assert_close(state, exact_state, 6e-3)

    def test_padding_between_tokens_is_passed_over(self):
        """Every operand that takes a token stride as a slice of a wider array."""
        inputs = Inputs()
        expected_output, _ = inputs.expected()
        tokens, strided, kept = inputs.offsets[-1], {}, []
        values = {"q": inputs.query, "k": inputs.key, "v": inputs.value, "log_decay": inputs.gate, "beta": inputs.beta}
        taking = [x.name for x in library.operands(f"gated_delta:{SHAPE},seq=1x1") if x.takes_token_stride]
        self.assertEqual(sorted(taking), sorted(values))
        for name, dense in values.items():
            width = len(dense) // tokens
            stride = width + (8 if width % 8 == 0 else 3)
            kept.append(array([math.nan] * (tokens * stride)))
            for t in range(tokens):
                kept[-1][t * stride:t * stride + width] = dense[t * width:(t + 1) * width]
            strided[name] = Array(read=ctypes.addressof(kept[-1]), strides=(stride, *((16, 1) if width > HV else (1,))))
        output = (ctypes.c_double * len(inputs.output))()
        library.reference_float64(f"gated_delta:{SHAPE},seq=1x1", inputs.inputs() | strided,
                                  {"output": ctypes.addressof(output)}, "cpu", sequence_offsets=inputs.offsets)
        self.assert_close(output, expected_output, 1e-13)
        with library.plan(f"gated_delta:{SHAPE},seq=1x1", inputs.arguments() | strided, "cpu",
                          sequence_offsets=inputs.offsets, implementation="cpu/naive", strict=True) as plan:
            plan.run()
            self.assertEqual((plan.info["conversions"], plan.info["conversion_bytes"]), ("", 0))
        self.assert_close(inputs.output, expected_output, 1e-6)

    def test_arrays_in_other_forms_are_read_or_converted_by_name(self):
        """Values with tokens fastest, betas in bfloat16, offsets in int32: as other libraries hold them."""
        inputs = Inputs()
        tokens, width = inputs.offsets[-1], HV * DV
        bits = [struct.unpack("<I", struct.pack("<f", beta))[0] >> 16 for beta in inputs.beta]
        inputs.beta = array([struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in bits])
        expected_output, expected_state = inputs.expected()
        narrow, offsets = (ctypes.c_uint16 * len(bits))(*bits), (ctypes.c_int32 * len(inputs.offsets))(*inputs.offsets)
        turned = array([inputs.value[t * width + i] for i in range(width) for t in range(tokens)])
        output = array([math.nan] * len(inputs.output))
        held = {"v": Array(read=ctypes.addressof(turned), strides=(1, DV * tokens, tokens)),
                "beta": Array(read=ctypes.addressof(narrow), dtype="bf16"),
                "sequence_offsets": Array(read=ctypes.addressof(offsets), dtype="int32"),
                "output": Array(written=ctypes.addressof(output), extents=(1, tokens, HV, DV),
                                strides=(7, 1, DV * tokens, tokens))}
        exact = (ctypes.c_double * len(output))()
        library.reference_float64(f"gated_delta:{SHAPE},seq=1x1", inputs.inputs() | {
            name: given for name, given in held.items() if name != "output"}, {"output": ctypes.addressof(exact)}, "cpu",
                                  sequence_offsets=inputs.offsets)
        self.assert_close(exact, expected_output, 1e-13)
        arguments = inputs.arguments() | held
        with library.plan(f"gated_delta:{SHAPE},seq=1x1", arguments, "cpu", sequence_offsets=inputs.offsets) as plan:
            plan.run()
            self.assertEqual(plan.info["conversions"],
                             f"v: strides [1, {DV * tokens}, {tokens}]; "
                             f"output: strides [7, 1, {DV * tokens}, {tokens}]")
        self.assert_close([output[i * tokens + t] for t in range(tokens) for i in range(width)], expected_output, 1e-6)
        self.assert_close(inputs.state, expected_state, 1e-6)
        self.refused("unsupported", "would convert v", lambda: library.plan(
            f"gated_delta:{SHAPE},seq=1x1", arguments, "cpu", sequence_offsets=inputs.offsets, strict=True))

    def test_pools_have_the_callers_rows(self):
        """As many as the slots name, however many sequences there are: two rows for four sequences, two of padding."""
        inputs = Inputs()
        expected_output, expected_state = inputs.expected()
        slots, width = (ctypes.c_int64 * 4)(1, -1, -1, 0), HV * DK * DV
        pool = array(list(inputs.state[3 * width:]) + list(inputs.state[:width]))
        offsets = {"slot_index": ctypes.addressof(slots)}
        begin, end = (self.ends_of(expected_output, inputs, n) for n in (0, 3))
        exact, exact_pool = (ctypes.c_double * len(inputs.output))(), (ctypes.c_double * len(pool))()
        problem = f"gated_delta:{SHAPE},slots=padding,seq=1x1"
        library.reference_float64(problem, inputs.inputs() | offsets | {"initial_state": ctypes.addressof(pool)},
                                  {"output": ctypes.addressof(exact), "final_state": ctypes.addressof(exact_pool)},
                                  "cpu", sequence_offsets=inputs.offsets)
        for rows in ("", ",pool_rows=2"):
            arguments = inputs.arguments() | offsets
            written = array(list(pool))
            arguments["initial_state"] = ctypes.addressof(written)
            with library.plan(problem + rows, arguments, "cpu", sequence_offsets=inputs.offsets,
                              implementation="cpu/recurrent") as plan:
                plan.run()
            for values, bound in ((exact, 1e-13), (inputs.output, 1e-6)):
                self.assert_close(self.ends_of(values, inputs, 0), begin, bound)
                self.assert_close(self.ends_of(values, inputs, 3), end, bound)
            for values, bound in ((exact_pool, 1e-13), (written, 1e-6)):
                self.assert_close(values[:width], expected_state[3 * width:], bound)
                self.assert_close(values[width:], expected_state[:width], bound)
        self.refused("bad input", "slot_index", lambda: library.reference_float64(
            problem + ",pool_rows=1", inputs.inputs() | offsets, {"output": ctypes.addressof(exact)}, "cpu",
            sequence_offsets=inputs.offsets))

    def ends_of(self, output, inputs, n):
        width = HV * DV
        return list(output)[inputs.offsets[n] * width:inputs.offsets[n + 1] * width]

    def refused(self, status, words, call):
        with self.assertRaises(GdnbenchError) as caught:
            call()
        self.assertEqual(caught.exception.status, status, caught.exception)
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_errors_name_what_is_wrong(self):
        inputs = Inputs()
        problem = f"gated_delta:{SHAPE},seq=5+0+9+70"
        arguments = inputs.arguments()

        def plan(name="cpu/naive", text=problem, device="cpu", offsets=None, **changed):
            return lambda: library.plan(text, arguments | changed, device, sequence_offsets=offsets,
                                        implementation=name)

        self.refused("bad input", "did you mean 'cpu/naive'", plan(name="cpu/nave"))
        self.refused("bad input", "did you mean 'dtype'", plan(text="gated_delta:heads=1/1,dtyp=f32"))
        self.refused("bad input", "did you mean 'gated_delta'", plan(text="gated_dela:heads=1/1,dim=16,seq=1x8"))
        self.refused("bad input", "q is no operand of causal_conv1d",
                     plan(name=None, text="causal_conv1d:heads=1/1,dim=16,seq=1x8,dtype=f32"))
        self.refused("bad input", "log_decay: the problem has no such operand; its gate is decay_logit",
                     plan(text=problem + ",gate=logits"))
        self.refused("unsupported", "chunk=512",
                     lambda: library.require_supported("cpu/chunkwise", problem + ",chunk=512"))
        self.refused("unsupported", "chunk=512", plan(name="cpu/chunkwise", text=problem + ",chunk=512"))
        self.refused("bad input", "did you mean", plan(device="cpv"))
        if "cuda/fused_sm90" in library.implementations():
            self.refused("unsupported", "", plan(name="cuda/fused_sm90", text=problem.replace("f32", "bf16")))
        self.refused("bad input", "output", plan(output=None))
        self.assertEqual(library.phases("gated_delta"), [])
        with library.plan(problem, arguments, "cpu", implementation="cpu/naive") as whole:
            self.refused("unsupported", "group: gated_delta has no phases", lambda: library.group([whole], 0))
        self.refused("bad input", "num_plans: 0", lambda: library.group([], 0))
        with library.plan(problem, arguments, "cpu", implementation="cpu/naive") as whole:
            self.refused("unsupported", "has no phases", lambda: whole.run_phase(0))
        address = ctypes.addressof(inputs.query)
        self.refused("bad input", "q: 'f64' is no element type", plan(q=Array(read=address, dtype="f64")))
        self.refused("bad input", "q: shape [84, 1, 17], expected [T = 84, Hk = 1, Dk = 16]",
                     plan(q=Array(read=address, extents=(84, 1, 17))))
        self.refused("bad input", "q: strides [-16, 16, 1]", plan(q=Array(read=address, strides=(-16, 16, 1))))
        self.refused("bad input", "q: 2 strides, expected one for each of its 3 dimensions",
                     plan(q=Array(read=address, strides=(16, 1))))
        self.refused("bad input", "offsets", plan(offsets=[0, 5, 4]))
        self.refused("bad input", "offsets", plan(offsets=[]))
        self.refused("bad input", "slot_index", lambda: library.reference_float64(
            problem + ",slots=permuted", inputs.inputs(), {"output": ctypes.addressof(inputs.output)}, "cpu"))

    def test_plans_commit_together(self):
        accepted = (ctypes.c_int64 * len(LENGTHS))(*(length // 2 for length in LENGTHS))
        problem = f"gated_delta_verify:{SHAPE},seq=5+0+9+70"
        expected, plans, states = [], [], []
        for seed in (7, 8, 9):
            alone, together = Inputs(seed), Inputs(seed)
            extra = {"accepted": ctypes.addressof(accepted)}
            with library.plan(problem, alone.arguments() | extra, "cpu", implementation="cpu/records") as plan:
                plan.run()
            expected.append(list(alone.state))
            states.append(together)
            plans.append(library.plan(problem, together.arguments() | extra, "cpu", implementation="cpu/records"))
        with library.group(plans, library.phases("gated_delta_verify").index("commit")) as commit:
            self.assertEqual(commit.info, {"launches": 0, "workspace_bytes": 0})
            for plan in plans:
                plan.run_phase(0)
            for inputs, state in zip(states, expected):
                self.assertNotEqual(list(inputs.state), state)
            commit.run()
        for inputs, state in zip(states, expected):
            self.assertEqual(list(inputs.state), state)


if __name__ == "__main__":
    unittest.main()

"""Suites, cases and verdicts of the C library called from Python: what passes, what fails, and the errors."""
import ctypes
import unittest

from gdnbench_library import Array, GdnbenchError, Library

SMALL = "gated_delta:heads=1/2,dim=16x24,seq=1x9+1x0+1x5,dtype=f32,gates=mid"
POOL = SMALL + ",h0=normal,slots=padding,pool_pad=8,state=f16"
library = Library()


def floats(values):
    return (ctypes.c_float * len(values))(*values)


def outputs_of(case, problem):
    """The reference of every output in float32: name -> ctypes array."""
    return {operand.name_after: floats(case.reference(operand.name_after))
            for operand in library.operands(problem) if operand.is_written and not operand.is_optional}


def given(values):
    return {name: Array(read=ctypes.addressof(array), dtype="f32") for name, array in values.items()}


class Judging(unittest.TestCase):
    def test_the_reference_passes_and_one_wrong_value_fails(self):
        for problem in (SMALL, POOL):
            with self.subTest(problem=problem):
                case = library.case(problem)
                values = outputs_of(case, problem)
                passed, reason, coverage, errors = case.judge(given(values))
                self.assertEqual((passed, reason), (True, ""))
                self.assertRegex(coverage, "^all [0-9]+ pairs$")
                self.assertEqual([error.output for error in errors], ["output", "final_state"])
                for error in errors:
                    self.assertTrue(error.limit_ratio <= 1)
                for name, wrong in (("output", 1.0), ("final_state", float("nan"))):
                    # The last row of a pool may be nobody's: of a state the first value, whoever has it.
                    place = -1 if name == "output" else 0
                    kept, values[name][place] = values[name][place], wrong
                    self.assertFalse(case.judge(given(values))[0])
                    values[name][place] = kept
                self.assertTrue(case.judge(given(values))[0])

    def test_inputs_are_those_that_the_operands_tell(self):
        case = library.case(POOL)
        for operand in library.operands(POOL):
            if operand.is_read:
                count = 1
                for extent in operand.extents:
                    count *= extent
                self.assertEqual(len(case.input(operand)), count, operand.name)
        offsets = next(x for x in library.operands(POOL) if x.name == "sequence_offsets")
        self.assertEqual(list(case.input(offsets)), [0, 9, 9, 14])

    def test_a_row_of_padding_that_changed_fails(self):
        case = library.case(POOL)
        slots = list(case.input(next(x for x in library.operands(POOL) if x.name == "slot_index")))
        state = next(x for x in library.operands(POOL) if x.name == "initial_state")
        free = next(row for row in range(state.extents[0]) if row not in slots)
        values = outputs_of(case, POOL)
        width = len(values["final_state"]) // state.extents[0]
        values["final_state"][free * width] += 1
        passed, reason, _, _ = case.judge(given(values))
        self.assertFalse(passed)
        self.assertIn("no sequence may write", reason)

    def test_explain_says_where_and_what(self):
        case = library.case(SMALL)
        values = outputs_of(case, SMALL)
        self.assertEqual(case.explain(given(values)), "within the limits")
        values["output"] = floats([2 * x for x in values["output"]])
        text = case.explain(given(values), chunk=4)
        self.assertIn("wrong output: 4 of 6 units", text)
        self.assertIn("pattern consistent with: scale", text)

    def test_suites_have_problems_of_every_operation(self):
        self.assertEqual(library.suites()[0], "quick")
        quick = library.suite("quick")
        self.assertEqual({problem.partition(":")[0] for problem, _, _ in quick}, set(library.operations()))
        self.assertTrue(any(origin != "-" for _, origin, _ in library.suite("full")))
        self.assertTrue(all(protects != "-" for _, _, protects in library.suite("stress")))

    def test_fields_are_told_whether_the_string_has_them_or_not(self):
        fields = library.fields(SMALL)
        self.assertEqual((fields["heads"], fields["gates"], fields["norm"]), ("1/2", "mid", "0"))
        self.assertNotIn("width", fields)

    def test_known_limits_are_those_of_the_project_or_of_a_table(self):
        problem = "gated_delta:heads=1/2,dim=128,seq=1x300,dtype=bf16,gates=near_one,keys=equal,betas=two"
        cause, is_witness = library.known_limit("cuda/fused", problem)
        self.assertTrue(cause and is_witness)
        self.assertFalse(library.known_limit("cuda/fused", problem + ",seed=2")[1])
        self.assertIsNone(library.known_limit("cpu/naive", problem))
        table = f"implementation\tproblems\twitness\tcause\tseen\ncpu/naive\tbetas=two\t{problem}\ta\tb\n"
        self.assertEqual(library.known_limit("cpu/naive", problem, table), ("a", True))
        self.assertIsNone(library.known_limit("cuda/fused", problem, table))

    def refused(self, status, words, call):
        with self.assertRaises(GdnbenchError) as caught:
            call()
        self.assertEqual(caught.exception.status, status, caught.exception)
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_errors_name_what_is_wrong(self):
        case = library.case(SMALL)
        values = given(outputs_of(case, SMALL))
        address = values["output"].read
        judge = lambda **changed: lambda: case.judge({**values, **changed})
        without = {name: array for name, array in values.items() if name != "final_state"}
        self.refused("bad input", "final_state: is missing", lambda: case.judge(without))
        self.refused("bad input", "outputs: final_state is given twice", judge(initial_state=values["final_state"]))
        self.refused("bad input", "q: gated_delta:", judge(q=values["output"]))
        self.refused("bad input", "expected [T, Hv, Dv]",
                     judge(output=Array(read=address, dtype="f32", extents=(14, 2, 23))))
        self.refused("bad input", "output: has strides",
                     judge(output=Array(read=address, dtype="f32", extents=(14, 2, 24), strides=(48, 24, 1))))
        self.refused("bad input", "output: 'int64', expected 'f32'", judge(output=Array(read=address, dtype="int64")))
        self.refused("bad input", "output: read: is null", judge(output=Array(dtype="f32")))
        self.refused("bad input", "did you mean 'quick'", lambda: library.suite("quik"))
        self.refused("bad input", "did you mean 'dtype'", lambda: library.case("gated_delta:heads=1/1,dtyp=f32"))
        self.refused("unsupported", "norm=1 is not honoured",
                     lambda: library.require_honoured(SMALL + ",norm=1", ["scale"]))
        self.refused("bad input", "'nrom' is no field", lambda: library.require_honoured(SMALL, ["nrom"]))
        output = next(x for x in library.operands(SMALL) if x.name == "output")
        self.refused("bad input", "does not read it", lambda: case.input(output))
        self.refused("bad input", "does not write it", lambda: case.reference("q"))
        self.refused("bad input", "chunk: -1", lambda: case.explain(values, chunk=-1))
        library.require_honoured(SMALL + ",norm=1", ["norm"])


if __name__ == "__main__":
    unittest.main()

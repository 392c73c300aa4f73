#!/usr/bin/env python3
"""docs/peers_interfaces.md says what is: its tables are those of data/peers/interfaces.tsv and of the functions'
signatures, and cases planned anew end as that file says. Exit 77 without NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/peers/interfaces_test.py
"""
import collections
import pathlib
import random
import sys
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    print("interfaces_test: no numpy here")
    sys.exit(77)

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]
import interfaces  # noqa: E402: found by the line above
from gdnbench import calls, fla, fla_convolution, ggml, vllm  # noqa: E402

PLANNED = 40  # cases of each function
AGAIN = "run scripts/peers/interfaces.py"
EVERY = interfaces.run_cases.EVERY


class Interfaces(unittest.TestCase):
    def test_the_page_has_the_tables_of_the_stored_file(self):
        text = interfaces.PAGE.read_text(encoding="utf-8")
        wanted = interfaces.page_with(text, interfaces.read())
        for number, (line, other) in enumerate(zip(text.splitlines(), wanted.splitlines()), 1):
            self.assertEqual(line, other, f"{interfaces.PAGE.name}:{number}: {AGAIN} --tables")
        self.assertEqual(text, wanted, f"{interfaces.PAGE.name}: {AGAIN} --tables")

    def test_the_stored_file_counts_every_case(self):
        stored = collections.Counter()
        for line in interfaces.read():
            stored[line.peer, line.function] += line.cases
        self.assertEqual(stored, collections.Counter((case.peer, case.function) for case in EVERY), AGAIN)

    def test_cases_end_as_the_stored_file_says(self):
        lines = interfaces.read()
        said = {line.example: (line.outcome, line.detail) for line in lines}
        possible = collections.defaultdict(set)
        for line in lines:
            possible[line.peer, line.function].add((line.outcome, line.detail))
        by_function = collections.defaultdict(list)
        for case in EVERY:
            by_function[case.peer, case.function].append(case)
        draw = random.Random(1)
        for key, cases in by_function.items():
            examples = [case for case in cases if case.name in said]
            for case in examples + draw.sample(cases, min(PLANNED, len(cases))):
                with self.subTest(case=case.name):
                    outcome = interfaces.found(case)
                    self.assertIn(outcome, possible[key], f"{case.name}: {AGAIN}")
                    if case.name in said:
                        self.assertEqual(outcome, said[case.name], f"{case.name}: {AGAIN}")
            calls.forget()
        self.assertEqual(set(said) - {case.name for case in EVERY}, set(), "examples that are no case")

    def test_nothing_fails(self):
        self.assertEqual([line for line in interfaces.read() if line.outcome == "failed"], [])

    def test_functions_are_found_by_the_peers_names(self):
        self.assertIs(interfaces.function_of("ggml", "ggml_ssm_conv+ggml_silu"), ggml.ggml_ssm_conv)
        self.assertIs(interfaces.function_of("fla", "ShortConvolution.step"), fla_convolution.step)
        self.assertIs(interfaces.function_of("vllm", "causal_conv1d_fn"), vllm.causal_conv1d_fn)
        self.assertIsNone(interfaces.function_of("fla", "fused_gdn_gate"))

    def test_refused_arguments_are_those_of_the_source_and_of_what_it_calls(self):
        self.assertEqual(interfaces.refused_arguments(fla.fused_recurrent_gated_delta_rule), ["gk", "gv"])
        # One that is refused beside certain others only is not among them; one that is passed on is.
        self.assertEqual(interfaces.refused_arguments(fla.causal_conv1d), ["cp_context"])
        self.assertEqual(interfaces.refused_arguments(fla_convolution.forward), ["mask", "cp_context"])


if __name__ == "__main__":
    try:
        calls.library()
    except OSError as error:
        sys.exit(f"interfaces_test: {error}")
    unittest.main()

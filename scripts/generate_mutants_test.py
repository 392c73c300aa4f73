#!/usr/bin/env python3
"""generate_mutants.py: what is code, what operators make of it, what a seed draws, what is kept. Plants nothing."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import generate_mutants as generate  # noqa: E402: found by the line above
import mutants  # noqa: E402

SOURCE = """// a < b in a comment
#include <x>
int count(int n) {
  const int limit = std::min(n + 1, 7);
  std::string text = "a < b && c" + name + "d";
  total += limit;
  call(text, [](int i) {
    return !done(i);
  });
  if (n <= limit && !text.empty()) return 2.5f * n;
  return true;
}
"""


def changes(operator):
    lines = SOURCE.split("\n")
    return {(lines[number].strip(), changed.strip()) for number, name, changed in generate.places_of(SOURCE) if name == operator}


class Operators(unittest.TestCase):
    def test_comments_strings_and_directives_are_no_code(self):
        code = generate.code_only(SOURCE)
        self.assertEqual(len(code), len(SOURCE))
        self.assertEqual(code.count("\n"), SOURCE.count("\n"))
        self.assertNotIn("comment", code)
        self.assertNotIn("a < b", code)
        self.assertTrue(all(number not in (0, 1) for number, _, _ in generate.places_of(SOURCE)))

    def test_each_makes_of_a_line_what_it_says(self):
        line = "if (n <= limit && !text.empty()) return 2.5f * n;"
        self.assertEqual(changes("relation"), {(line, line.replace("<=", "<"))})
        self.assertEqual(changes("condition"), {(line, line.replace("&&", "||"))})
        self.assertEqual(changes("product"), {(line, line.replace("*", "/"))})
        self.assertEqual(changes("doubled"), {(line, line.replace("2.5f", "5.0f"))})
        self.assertIn((line, line.replace("!", "")), changes("not"))
        least = "const int limit = std::min(n + 1, 7);"
        self.assertEqual(changes("extreme"), {(least, least.replace("min", "max"))})
        self.assertEqual(changes("sign"), {(least, least.replace("+", "-"))})
        self.assertEqual(changes("one more"), {(least, least.replace("1", "2"))})
        self.assertEqual(changes("one less"), {(least, least.replace("1", "0"))})
        self.assertEqual(changes("truth"), {("return true;", "return false;")})

    def test_only_whole_statements_are_dropped(self):
        self.assertEqual(changes("dropped"), {("total += limit;", ";")})


class Rooms(unittest.TestCase):
    def test_every_source_has_one_and_tests_have_none(self):
        sources = [file for file in mutants.source_files() if file.startswith(("impls/", "reference/", "harness/"))]
        self.assertIsNone(generate.room_of("reference/tests/errors_test.cpp"))
        self.assertIsNone(generate.room_of("harness/gfx906/analysis/main.cpp"))
        self.assertIsNone(generate.room_of("impls/CMakeLists.txt"))
        without = [file for file in sources if file.endswith((".cpp", ".cu", ".cuh", ".h", ".hip")) and "/tests/" not in file
                   and not file.startswith("harness/gfx906/") and generate.room_of(file) is None]
        self.assertEqual(without, [])
        for _, target, tests in generate.ROOMS:
            self.assertIn(target, mutants.TARGETS)
            self.assertTrue(tests)


class Drawings(unittest.TestCase):
    FILES = ["reference/errors.cpp", "reference/recurrence.cpp"]

    def drawn(self, seed, count=30):
        return [(fault["file"], fault["line"], fault["operator"], fault["after"])
                for (_, fault), _ in zip(generate.Drawing(seed, [], self.FILES), range(count))]

    def test_a_seed_draws_the_same_and_none_twice(self):
        first = self.drawn("a")
        self.assertEqual(first, self.drawn("a"))
        self.assertNotEqual(first, self.drawn("b"))
        self.assertEqual(len(set(first)), len(first))

    def test_a_mutant_changes_one_line_of_its_file(self):
        for (mutant, fault), _ in zip(generate.Drawing("c", [], self.FILES), range(30)):
            sound = (mutants.ROOT / fault["file"]).read_text().split("\n")
            changed = mutants.mutated(mutant, mutants.ROOT)[fault["file"]].split("\n")
            self.assertEqual([i + 1 for i, (a, b) in enumerate(zip(sound, changed)) if a != b], [fault["line"]], fault)

    def test_words_choose_targets_and_paths(self):
        self.assertTrue(all(fault["file"].startswith("impls/cpu/") for (_, fault), _ in
                            zip(generate.Drawing("d", ["cpu"]), range(20))))
        self.assertTrue(all(fault["file"].startswith("harness/rows/") for (_, fault), _ in
                            zip(generate.Drawing("d", ["harness/rows/"]), range(20))))
        with self.assertRaises(mutants.MutantError):
            generate.Drawing("d", ["nowhere"])


class Results(unittest.TestCase):
    def test_are_read_as_they_were_written(self):
        row = dict.fromkeys(generate.FIELDS, "x") | {"outcome": mutants.KILLED, "by": "a\ttab"}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "results.tsv")
            self.assertEqual(generate.read_results(path), [])
            generate.write_results(path, [row])
            self.assertEqual(generate.read_results(path), [row | {"by": "a tab"}])
            path.write_text("other\n")
            with self.assertRaises(mutants.MutantError):
                generate.read_results(path)

    def test_stand_for_the_fault_that_was_drawn_alone(self):
        fault = {"file": "a.cpp", "line": 3, "operator": "sign", "before": "x =  a + b;", "after": "x =  a - b;"}
        row = {"seed": "7", "number": "1", "line": "2"} | {field: " ".join(fault[field].split())
                                                          for field in ("file", "operator", "before", "after")}
        self.assertTrue(generate.stands(row, fault))  # of an earlier line: something was put in before it
        for field in ("file", "operator", "before", "after"):
            with self.assertRaisesRegex(mutants.MutantError, "another seed"):
                generate.stands(row | {field: "other"}, fault)

    def test_words_are_part_of_the_seed(self):
        self.assertEqual(generate.name_of("7", []), "7")
        self.assertEqual(generate.name_of("7", ["reference", "cpu"]), "7 cpu reference")

    def test_equal_ones_count_for_nothing(self):
        rows = [{"outcome": outcome} for outcome in (mutants.KILLED, mutants.KILLED, mutants.KILLED, mutants.SURVIVED,
                                                     generate.EQUAL, generate.NOT_COMPILED)]
        self.assertIn("75 % of 4 killed", generate.counts(rows))

    def test_a_summary_counts_by_part_and_leaves_what_is_equal_or_was_cut_out_of_the_share(self):
        def row(file, outcome, judgement=""):
            return {"file": file, "outcome": outcome, "judgement": judgement}

        lines = generate.summary([
            row("reference/operations/a.cpp", mutants.KILLED), row("reference/b.cpp", mutants.KILLED),
            row("reference/b.cpp", mutants.SURVIVED, "equal: it is never zero"), row("reference/b.cpp", generate.EQUAL),
            row("reference/b.cpp", generate.DEAR), row("reference/b.cpp", generate.NOT_COMPILED),
            row("harness/verify/c.cpp", mutants.SURVIVED, "a test now: Suite.Name"), row("harness/verify/d.cpp", mutants.KILLED),
        ])
        self.assertEqual([line for line in lines if line.startswith(("| reference", "| harness", "| all"))], [
            "| harness/verify | 2 | 0 | 0 | 1 | 1 | 1 | 50 % |",
            "| reference | 5 | 2 | 1 | 2 | 0 | 0 | 100 % |",
            "| all | 7 | 2 | 1 | 3 | 1 | 1 | 75 % |",
        ])


class Page(unittest.TestCase):
    def test_is_that_of_the_stored_results(self):
        path = mutants.CATALOGUE / "generated.tsv"
        self.assertEqual(path.with_suffix(".md").read_text(encoding="utf-8"),
                         generate.page(generate.read_results(path)))

    def test_names_survivors_and_no_others(self):
        def row(line, outcome, judgement=""):
            return {"file": "reference/a.cpp", "line": str(line), "operator": "x", "before": "a | b", "after": "b",
                    "outcome": outcome, "judgement": judgement}
        text = generate.page([row(12, "SURVIVED"), row(3, "SURVIVED", "equal: why"), row(4, mutants.KILLED),
                                      row(5, generate.EQUAL), row(6, generate.NOT_COMPILED)])
        lines = text.splitlines()
        self.assertEqual(lines[-2:], ["| reference/a.cpp | 3 | x | `a \\| b` | `b` | equal: why |",
                                      "| reference/a.cpp | 12 | x | `a \\| b` | `b` | not judged yet |"])
        self.assertNotIn("a.cpp | 4", text)


class FakeBuild:
    """A build of two programs that is no compiler's: objects are what the source says, a test fails where it says so."""

    def __init__(self, folder, source):
        self.folder, self.source = folder, source
        self.made, self.ran = [], []

    def make(self, targets, limit_s=None):
        text = self.source.read_text()
        if limit_s is not None and "dear" in text:
            return mutants.CUT
        if "broken" in text:
            return "error: broken"
        for target in targets:
            self.made.append(target)
            path = self.folder / f"{target}.o"
            if not path.is_file() or path.stat().st_mtime_ns < self.source.stat().st_mtime_ns:
                path.write_text(text.replace("same", "sound"))
        return ""

    def run(self, test, limit_s=None):
        self.ran.append(test[0])
        return ("Suite.Name", 0) if f"fails {test[0]}" in (self.folder / f"{test[0]}.o").read_text() else ("", 1)


class Examining(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        root = pathlib.Path(scratch.name)
        (root / "build").mkdir()
        self.file = root / "a.cpp"
        self.file.write_text("sound")
        self.laboratory = generate.GeneratedLaboratory.__new__(generate.GeneratedLaboratory)
        self.laboratory.source, self.laboratory.build = root, FakeBuild(root / "build", self.file)
        self.laboratory.sound, self.laboratory.took_s, self.laboratory.sound_objects = {}, {}, {}
        self.laboratory.dear_s = 100

    def examine(self, text):
        """The outcome, and what was built and run with the fault."""
        build = self.laboratory.build
        for test in (["near"], ["far"]):
            self.laboratory.require_sound(test)
        build.made, build.ran = [], []
        outcome, _ = self.laboratory.examine(
            mutants.Mutant("", "", "harness", [["near"], ["far"]], "", [mutants.Hunk("a.cpp", ["sound"], [text])], ""))
        self.assertEqual(self.file.read_text(), "sound")
        return outcome, build.made, build.ran

    def test_a_program_is_built_where_the_fault_survived_those_before_it_alone(self):
        self.assertEqual(self.examine("fails near"), (mutants.KILLED, ["near"], ["near"]))
        self.assertEqual(self.examine("fails far"), (mutants.KILLED, ["near", "far"], ["near", "far"]))
        self.assertEqual(self.examine("other"), (mutants.SURVIVED, ["near", "far"], ["near", "far"]))

    def test_the_same_objects_are_equal_and_run_nothing(self):
        self.assertEqual(self.examine("same"), (generate.EQUAL, ["near", "far"], []))

    def test_what_does_not_compile_and_what_is_cut_are_told_apart(self):
        self.assertEqual(self.examine("broken")[0], generate.NOT_COMPILED)
        self.assertEqual(self.examine("dear")[0], generate.DEAR)

    def test_nothing_made_with_a_fault_is_left_for_the_next(self):
        self.assertEqual(self.examine("fails far")[0], mutants.KILLED)
        self.assertEqual(self.examine("other")[0], mutants.SURVIVED)
        self.assertFalse(any(path.read_text() != "sound" for path in self.laboratory.build.folder.rglob("*.o")))

    def test_a_hanging_test_is_known_by_what_it_took_on_the_sound_copy(self):
        self.laboratory.took_s = {("near",): 1.0, ("far",): 12.0, ("farther",): 200.0}
        self.assertEqual([self.laboratory.limit_s([name]) for name in ("near", "far", "farther")],
                         [generate.HANGING_AT_LEAST_S, 12.0 * generate.HANGING, mutants.TEST_TIMEOUT_S])


if __name__ == "__main__":
    unittest.main()

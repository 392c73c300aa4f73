#!/usr/bin/env python3
"""time_peers.py and table.py without a GPU and without PyTorch: usage, resuming, and the table of a made-up file."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import rows  # noqa: E402
import stated_times  # noqa: E402
import table  # noqa: E402
from inputs import parse_heads, parse_lengths  # noqa: E402
from gdnbench.turns import order_in_round  # noqa: E402

NO_TORCH = "import sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; " \
           "import runpy; sys.path.insert(0, '{here}'); runpy.run_path(sys.argv[0], run_name='__main__')"


def run(script, *arguments):
    """Of a Python that has no PyTorch."""
    return subprocess.run([sys.executable, "-c", NO_TORCH.format(here=HERE), os.path.join(HERE, script), *arguments],
                          capture_output=True, text=True)


def line(contender, time_ms, seq="1x64", gates="weak", at="1", error=2e-3, status=rows.OK, heads="2/8", mode="graph"):
    known = {"measured_at": at, "heads": heads, "seq": seq, "gates": gates, "contender": contender, "status": status,
             "output_floor": 1.66e-3}
    if status == rows.OK:
        known |= {"time_ms": time_ms, "output_error": error, "state_error": error, "mode": mode}
    else:
        known["reason"] = "it broke"
    return known


class StatedTimes(unittest.TestCase):
    def test_a_ratio_is_of_the_same_library_shape_and_gates(self):
        stated = {("FLA", "2/4", "1x64"): 2.0, ("FLA", "2/4", "1x128"): 1.0, ("FlashInfer", "2/4", "1x64"): 1.0}
        measured = {("fla", "2/4", "1x64", "weak"): 3.0, ("fla", "2/4", "1x64", "none"): 1.0,
                    ("fla", "2/4", "1x128", "weak"): 6.0, ("fla", "4/4", "1x64", "weak"): 9.0,
                    ("flashinfer-cp", "2/4", "1x64", "weak"): 9.0}
        self.assertEqual(stated_times.table(stated_times.ratios(stated, measured)).splitlines()[2:],
                         ["| FLA | none | 1 | 0.50 | 0.50 at 2/4 1x64 | 0.50 at 2/4 1x64 |",
                          "| FLA | weak | 2 | 3.00 | 1.50 at 2/4 1x64 | 6.00 at 2/4 1x128 |"])

    def test_the_page_has_the_table_of_every_stated_shape(self):
        found = stated_times.ratios(stated_times.read_stated(), stated_times.read_measured())
        self.assertEqual({len(each) for each in found.values()}, {171})
        text = stated_times.PAGE.read_text(encoding="utf-8")
        self.assertEqual(text, stated_times.page_with(text, found))


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "rows.csv")

    def write(self, *lines):
        with rows.Writer(self.path, ["a card, a day"]) as writer:
            writer.write(lines)


class Turns(unittest.TestCase):
    def test_everyone_runs_once_a_round_and_is_first_equally_often(self):
        names = ["ours", "a", "b"]
        rounds = [order_in_round(names, number) for number in range(6)]
        for place in range(3):
            self.assertEqual(sorted(each[place] for each in rounds), sorted(2 * names))
        for each in rounds:
            self.assertEqual(sorted(each), sorted(names))


class Usage(InAFolder):
    def refused(self, words, *arguments, script="time_peers.py"):
        done = run(script, *arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_bad_arguments_are_one_line_and_exit_2(self):
        row = ("--heads", "2/8", "--seq", "1x64")
        self.refused("nothing to do")
        self.refused("--out is missing", *row)
        self.refused("--seq: is missing", "--heads", "2/8", "--out", self.path)
        self.refused("a multiple of Hk", "--heads", "3/8", "--seq", "1x64", "--out", self.path)
        self.refused("expected lengths", "--heads", "2/8", "--seq", "64x", "--out", self.path)
        self.refused("expected one of none, weak", *row, "--gates", "week", "--out", self.path)
        self.refused("expected one of ours, fla", *row, "--who", "ours,flo", "--out", self.path)
        self.refused("--runs 1", *row, "--runs", "1", "--out", self.path)
        self.refused("--limit", *row, "--limit", "nan", "--out", self.path)
        self.refused("no_such_file", *row, "--case", "no_such_file.npz", "--out", self.path)
        self.refused("expected one of forward", "--grid", "backward", "--out", self.path)
        self.refused("no_such_file", "--grid", "forward", "--presets", "no_such_file", "--out", self.path)
        with open(self.path + ".json", "w") as file:
            file.write('[{"name": "forward"}]')
        self.refused("of another version", "--grid", "forward", "--presets", self.path + ".json", "--out", self.path)
        self.refused("no_such_file", "no_such_file.csv", script="table.py")

    def test_without_pytorch_it_says_so(self):
        self.refused("PyTorch is needed", "--heads", "2/8", "--seq", "1x64", "--out", self.path)

    def test_a_file_of_another_kind_is_not_appended_to(self):
        with open(self.path, "w") as file:
            file.write("name,value\na,1\n")
        self.refused("columns are", "--heads", "2/8", "--seq", "1x64", "--dry-run", "--out", self.path)
        self.refused("columns are", self.path, script="table.py")


class Grids(InAFolder):
    def listed(self, *arguments):
        done = run("time_peers.py", "--dry-run", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_the_grid_is_the_presets(self):
        self.assertEqual(self.listed("--grid", "flashqla-grid")[-1], f"{9 * 19 * 3} rows")
        weak = self.listed("--grid", "flashqla", "--gates", "weak", "--who", "ours,fla")
        self.assertEqual(len(weak), 9 * 19 + 1)
        self.assertIn("16/48 1x24576+1x8192 weak ours,fla", weak)
        self.assertEqual(self.listed("--grid", "forward", "--heads", "2/8")[-1], "15 rows")
        self.assertEqual(self.listed("--grid", "serving", "--gates", "strong")[-1], f"{5 * 16} rows")

    def test_lengths_and_heads_are_read_as_gdnbench_writes_them(self):
        self.assertEqual(parse_lengths("4x8192"), [8192] * 4)
        self.assertEqual(parse_lengths("1x28672+2x4096"), [28672, 4096, 4096])
        self.assertEqual(parse_heads("16/48"), (16, 48))

    def test_a_run_goes_on_with_the_rows_that_are_missing(self):
        asked = ("--heads", "2/8", "--seq", "1x64,1x65,1x66", "--who", "ours,fla", "--out", self.path)
        self.write(line("ours", 1.0), line("fla", 2.0),
                   line("ours", 1.0, seq="1x65"), line("fla", 0, seq="1x65", status=rows.FAILED),
                   line("fla", 0, seq="1x66", status=rows.FAILED))
        self.assertEqual(self.listed(*asked), ["2/8 1x66 weak ours", "1 rows"])
        # A contender more: all that are well are measured again beside it, in the same run.
        self.assertEqual(self.listed(*asked[:4], "--who", "ours,fla,flashqla", "--out", self.path),
                         ["2/8 1x64 weak ours,fla,flashqla", "2/8 1x65 weak ours,flashqla",
                          "2/8 1x66 weak ours,flashqla", "3 rows"])
        self.assertEqual(self.listed(*asked, "--retry-failed"),
                         ["2/8 1x65 weak ours,fla", "2/8 1x66 weak ours,fla", "2 rows"])

    def test_a_line_cut_short_is_not_a_row(self):
        self.write(line("ours", 1.0), line("fla", 2.0))
        with open(self.path, "a") as file:
            file.write("2026,2/8,1x65,weak,ours,o")
        self.assertEqual(len(rows.read(self.path)[1]), 2)
        self.write(line("ours", 1.0, seq="1x66"))
        self.assertEqual([kept["seq"] for kept in rows.read(self.path)[1]], ["1x64", "1x64", "1x66"])


class Table(InAFolder):
    def made(self, *arguments):
        done = run("table.py", self.path, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_number_that_is_none_is_one_line_and_exit_2(self):
        self.write(line("ours", 1.0), line("fla", 2.0, seq="1x65"))
        with open(self.path) as file:
            text = file.read()
        with open(self.path, "w") as file:
            file.write(text.replace("ok,2.0", "ok,quick").replace("ok,2,", "ok,quick,"))
        done = run("table.py", self.path)
        self.assertEqual((done.returncode, len(done.stderr.strip().splitlines())), (2, 1), done.stderr)
        self.assertIn("2/8 1x65", done.stderr)
        self.assertIn("time_ms is 'quick", done.stderr)

    def test_won_lost_and_the_geometric_mean(self):
        self.write(line("ours", 1.0), line("fla", 4.0), line("flashqla", 2.0),       # 2 times
                   line("ours", 2.0, seq="1x65"), line("fla", 1.0, seq="1x65"),      # lost: 0.5
                   line("ours", 1.0, seq="1x66"), line("fla", 8.0, seq="1x66"),      # 8 times
                   line("ours", 1.0, seq="1x67"),                                    # nobody beside it
                   line("ours", 0, seq="1x68", status=rows.WRONG), line("fla", 1.0, seq="1x68"))
        text = self.made()
        self.assertIn("5 rows; 2 won, 2 lost, 1 without a peer; geometric mean of best peer / ours 2.00, least 0.50;",
                      text)
        lost = text.split("Lost:")[1].split("All rows:")[0]
        self.assertIn("| 2/8 | 1x65 | 2.0000 | 1.0000 |", lost)
        self.assertIn("| 2/8 | 1x68 |", lost)
        self.assertNotIn("1x66", lost)
        self.assertIn("| 2/8 | 1x64 | 1.0000 | 4.0000 | 2.0000 | flashqla | 2.00 | 1.00 |", text)
        self.assertIn("- ours wrong on 1 rows (2/8 1x68): it broke", text)
        self.assertIn("a card, a day", text)

    def test_ratios_are_of_one_run(self):
        """A peer measured later beside another time of ours is held against that."""
        self.write(line("ours", 1.0, at="1"), line("fla", 3.0, at="1"), line("ours", 2.0, at="2"),
                   line("flashqla", 5.0, at="2"), line("cudnn-kda", 1.0, at="3"))
        row = table.read_rows([self.path])[0]["2/8", "1x64", "weak"]
        self.assertEqual(row.ratio("fla"), 3.0)
        self.assertEqual(row.ratio("flashqla"), 2.5)
        self.assertIsNone(row.ratio("cudnn-kda"))
        self.assertEqual(row.best_peer(), ("flashqla", 2.5))

    def test_errors_are_held_against_the_best_peers(self):
        self.write(line("ours", 1.0, error=3e-3), line("fla", 2.0, error=2e-3), line("flashqla", 2.0, error=4e-3))
        self.assertIn("output error above the best peer's on 1 rows", self.made())
        self.assertIn("| 2/8 | 1x64 | 1.66e-03 | 3.00e-03 (3.00e-03) | 2.00e-03 (2.00e-03) | 4.00e-03 (4.00e-03) | "
                      "1.500 | 1.500 |", self.made("--errors"))

    def test_regimes_stand_apart_and_eager_rows_say_so(self):
        self.write(line("ours", 1.0), line("fla", 2.0, mode="eager"), line("ours", 1.0, gates="strong"),
                   line("fla", 0.5, gates="strong"), line("ours", 1.0, gates="layer0", heads="2/4"))
        text = self.made()
        self.assertIn("2.0000 eager", text)
        self.assertIn("## Gates: weak\n\n1 rows; 1 won, 0 lost", text)
        self.assertIn("## Gates: strong\n\n1 rows; 0 won, 1 lost", text)
        self.assertIn("## Cases", text)
        self.assertIn("| layer0, 2/4 |", text)
        self.assertNotIn("strong", self.made("--gates", "weak"))


if __name__ == "__main__":
    unittest.main()

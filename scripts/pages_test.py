#!/usr/bin/env python3
"""The pages of docs/ list what the program has: problem fields with their defaults and values, operations, commands,
columns of rows, table forms, checks, suites, and the functions of the C library. GDNBENCH names the program,
GDNBENCH_LIBRARY the library."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from gdnbench_library import Library

TREE = pathlib.Path(__file__).resolve().parents[1]
OLD_ROWS = TREE / "data/fixtures/rows_of_0.1.h5"
NAME = re.compile(r"`([^`]+)`")


def says(*arguments):
    return subprocess.run([os.environ["GDNBENCH"], *map(str, arguments)], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def tables(page):
    """The tables of a page, in order: [(heading above it, header, rows of cells)]."""
    found, heading, header, rows = [], "", None, None
    for line in (TREE / "docs" / page).read_text().split("\n"):
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if header is None:
            header, rows = cells, []
            found.append((heading, header, rows))
        elif not re.fullmatch(r":?-+:?", cells[0]):
            rows.append(cells)
    return found


def table(page, *header):
    """Rows of the only table of a page whose header begins so."""
    [rows] = [rows for _, head, rows in tables(page) if tuple(head[:len(header)]) == header]
    return rows


def names(cells):
    return [name for cell in cells for name in NAME.findall(cell)]


def axes():
    """Of --help of a command that takes a grid: field -> what it says of it."""
    help_text = says("verify", "--help")
    axis = re.compile(r"^  --(\S+) TEXT +(.*)$", re.M)
    found = axis.findall(help_text[help_text.index("Axes"):help_text.index("How to verify")])
    return {"out" if flag == "output-dtype" else flag: text for flag, text in found}


class ProblemStrings(unittest.TestCase):
    PAGE = "problem-strings.md"
    maxDiff = None

    def setUp(self):
        self.rows = {names(row[:1])[0]: row for row in table(self.PAGE, "field", "default", "values")}
        self.library = Library()

    def test_every_field_in_the_programs_order(self):
        self.assertEqual(list(self.rows), [*axes(), "case"])

    def test_values_are_the_programs(self):
        distributions = {NAME.findall(heading)[0]: names(row[0] for row in rows)
                         for heading, _, rows in tables(self.PAGE) if heading.startswith("`")}
        for field, text in axes().items():
            values = re.search(r"(?:^|: )(\w+(?:\|[\w.]+)+)$", text)
            if values is None:
                continue
            expected = [value for value in values[1].split("|") if not re.match(r"LOW|NUMBER", value)]
            with self.subTest(field):
                self.assertIn(field, self.rows)
                self.assertEqual(distributions.get(field) or names([self.rows[field][2]]), expected)

    def test_values_are_looked_at(self):  # a help text of another form would leave nothing to compare
        self.assertGreater(sum("|" in text for text in axes().values()), 25)

    def test_defaults_are_the_librarys(self):
        for operation in self.library.operations():
            for field, value in self.library.fields(f"{operation}:seq=1x64").items():
                with self.subTest(operation, field=field):
                    self.assertIn(field, self.rows)
                    self.assertEqual(self.rows[field][1], value or "none")

    def test_operations_look_at_these_fields(self):
        said = {names(row[:1])[0]: names(row[1:]) for row in table(self.PAGE, "operation", "fields")}
        looked_at = {operation: list(self.library.fields(f"{operation}:seq=1x64"))
                     for operation in self.library.operations()}
        common = [field for field in self.rows if all(field in fields for fields in looked_at.values())]
        text = (TREE / "docs" / self.PAGE).read_text()
        self.assertEqual(NAME.findall(re.search(r"^(.*) belong to every operation", text, re.M)[1]), common)
        self.assertEqual(said, {operation: [field for field in fields if field not in common]
                                for operation, fields in looked_at.items()})


class Commands(unittest.TestCase):
    def test_every_command(self):
        listed = re.findall(r"^  ([a-z]+) {2,}", says("--help").split("Subcommands:")[1], re.M)
        self.assertEqual(names(row[0] for row in table("commands.md", "command")), listed)


class TablesAndReport(unittest.TestCase):
    PAGE = "tables-and-report.md"
    maxDiff = None

    def test_every_column_of_rows(self):
        listed = [column["name"] for column in json.loads(says("rows", OLD_ROWS, "--list-columns", "--json"))]
        columns, errors = [[name for row in rows for name in names(row[:1])]
                           for _, header, rows in tables(self.PAGE) if header[0] == "column"]
        of_fields = [name for row in table("problem-strings.md", "field", "default") for name in names(row[4:])]
        metrics = [name.replace("OUTPUT", "") for name in errors]
        of_outputs = [name for name in listed if name.endswith(tuple(metrics))]
        self.assertEqual(sorted(columns + of_fields), sorted(set(listed) - set(of_outputs)))
        self.assertEqual([name for name in listed if name.startswith("final_state_")],
                         ["final_state" + metric for metric in metrics])

    def test_every_header_of_the_summary(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = pathlib.Path(folder) / "rows.h5"
            says("sweep", "--device", "cpu", "--impl", "cpu/naive", "--dim", 8, "--seq", "1x9", "--dtype", "f32,bf16",
                 "--no-time", "--quiet", "--out", rows)
            shown = says("table", rows) + says("table", OLD_ROWS)
        headers = {cell.strip() for line in shown.split("\n") if line.startswith("| implementation")
                   for cell in line.strip("|").split("|")}
        general = {re.sub(r"^(output|final_state) ", "OUTPUT ", header) for header in headers}
        self.assertEqual(general - {row[0] for row in table(self.PAGE, "header")}, set())
        self.assertGreater(len(general), 9)

    def test_every_form_and_preset(self):
        forms = re.search(r"--form TEXT +(.*?) \(", says("table", "--help"))[1].split(" | ")
        self.assertEqual(names(row[0] for row in table(self.PAGE, "form")), forms)
        presets = re.findall(r"^table +(\S+)", says("list", "--presets"), re.M)
        text = (TREE / "docs" / self.PAGE).read_text()
        self.assertEqual(NAME.findall(re.search(r"for these names: ([^.]+)\.", text)[1]), presets)

    def test_every_label_and_quantity_is_taken(self):
        for label in names(row[0] for row in table(self.PAGE, "label")):
            says("table", OLD_ROWS, "--rows", "implementation,chunk", "--columns", label, "--cell", "time_ms")
        for quantity in names(row[0] for row in table(self.PAGE, "quantity")):
            says("table", OLD_ROWS, "--rows", "implementation,chunk", "--columns", "shape", "--cell", quantity)

    def test_every_plot(self):
        titles = re.findall(r'\{ id: "[\w-]+", title: "([^"]+)"', (TREE / "harness/report/page.js").read_text())
        self.assertEqual([row[0] for row in table(self.PAGE, "plot")], titles)


class Verification(unittest.TestCase):
    PAGE = "verification.md"

    def test_every_check(self):
        [result] = json.loads(says("verify", "--device", "cpu", "--impl", "cpu/naive", "--json", "--problem",
                                   "gated_delta:heads=1/2,dim=8,seq=2x9,dtype=f32"))
        on_request = ["every_split", "token_by_token"]
        self.assertEqual(names(row[0] for row in table(self.PAGE, "check")), [*result["checks"], *on_request])

    def test_every_suite(self):
        suites = re.search(r"--suite TEXT +(.*?) \(", says("verify", "--help"))[1].split(" | ")
        self.assertEqual(names(row[0] for row in table(self.PAGE, "suite")), suites)

    def test_what_is_said_of_conditioning(self):
        said = says("verify", "--device", "cpu", "--impl", "cpu/naive", "--errors-only", "-v", "--problem",
                    "gated_delta_layer:heads=1/2,dim=8,seq=1x9,dtype=bf16,gated_norm=1")
        words = re.findall(r"([a-z ]+?) [\d.]+(?: tokens)?(?:, |$)", re.search(r"conditioning: (.*)", said)[1])
        self.assertEqual([row[0] for row in table(self.PAGE, "word")], words)


class Functions(unittest.TestCase):
    def test_every_function_of_the_c_library(self):
        header = re.sub(r"/\*.*?\*/", "", (TREE / "harness/c_library/gdnbench.h").read_text(), flags=re.S)
        declared = set(re.findall(r"^(?:[a-z].*[ *])?(gdnbench_\w+)\(", header, re.M))
        self.assertGreater(len(declared), 20)
        self.assertEqual(set(names(row[0] for row in table("c-and-python-api.md", "functions"))), declared)


if __name__ == "__main__":
    unittest.main()

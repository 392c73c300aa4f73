#!/usr/bin/env python3
"""The JSON schemas that gdnbench prints are schemas, what it prints as JSON is of them, and what is not is told. Exit 77
without jsonschema.

    GDNBENCH=build/gdnbench scripts/json_schema_test.py
"""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    print("json_schema_test: no jsonschema here")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROWS = ROOT / "data/fixtures/rows_of_0.1.h5"
VERIFY = ("verify", "--device", "cpu", "--problem", "gated_delta:heads=1/2,dim=16,seq=9,dtype=bf16,h0=normal")


def gdnbench(*arguments, codes=(0,)):
    done = subprocess.run([os.environ["GDNBENCH"], *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode in codes, done.stderr
    return done.stdout


def validator(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


class JsonSchemas(unittest.TestCase):
    def refuses(self, against, value, change):
        """A value that `change` spoils, or the schema would hold nothing."""
        spoiled = copy.deepcopy(value)
        change(spoiled)
        self.assertTrue(list(against.iter_errors(spoiled)))

    def test_rows(self):
        schema = json.loads(gdnbench("rows", "--json-schema"))
        self.assertEqual(schema["$id"], "urn:gdnbench:gdn-rows:2")
        columns = {column["name"] for column in json.loads(gdnbench("rows", ROWS, "--list-columns", "--json"))}
        self.assertEqual(set(schema["items"]["properties"]) - columns, set())
        rows, against = json.loads(gdnbench("rows", ROWS, "--json")), validator(schema)
        against.validate(rows)
        self.refuses(against, rows, lambda them: them[0].pop("problem"))
        self.refuses(against, rows, lambda them: them[-1].update(num_key_heads="two"))
        self.refuses(against, rows, lambda them: them[0].update(time_ms="1.5"))
        against.validate([{**rows[0], "a_later_column": 1}])

    def test_verdicts_that_passed_failed_and_were_not_run(self):
        schema = json.loads(gdnbench("verify", "--json-schema"))
        self.assertEqual(schema["$id"], "urn:gdnbench:gdn-verdicts:1")
        against = validator(schema)
        passed = json.loads(gdnbench(*VERIFY, "--json"))
        against.validate(passed)
        self.assertIn("passed", {result["verdict"] for result in passed})
        variant = json.loads(gdnbench("verify", "--device", "cpu", "--json", "--problem",
                                      "gated_delta:heads=1/2,dim=16,seq=9,dtype=f32,decay=channel,steps=2"))
        against.validate(variant)
        with tempfile.TemporaryDirectory() as folder:
            case, outputs = pathlib.Path(folder, "case.h5"), pathlib.Path(folder, "outputs.h5")
            gdnbench("gen", *VERIFY[3:], "--out", case, "--quiet")
            gdnbench("run", "--case", case, "--impl", "cpu/naive", "--out", outputs, "--quiet")
            told = json.loads(gdnbench("verify", "--case", case, "--outputs", outputs, "--json"))
            against.validate(told)
            self.assertIn("not_told", told[0])
            other = pathlib.Path(folder, "other.h5")
            gdnbench("gen", "--problem", VERIFY[4] + ",seed=2", "--out", other, "--quiet")
            failed = json.loads(gdnbench("verify", "--case", other, "--outputs", outputs, "--json", codes=(1,)))
            against.validate(failed)
            self.assertEqual(failed[0]["verdict"], "failed")
        self.refuses(against, passed, lambda them: them[0].update(verdict="well"))
        self.refuses(against, passed, lambda them: them[0].pop("checks"))
        self.refuses(against, passed, lambda them: them[0]["errors"]["output"].pop("limit"))
        self.refuses(against, passed, lambda them: them[0]["checks"].update(errors="perhaps"))

    def test_lines(self):
        schema = json.loads(gdnbench("verify", "--json-schema"))
        against = validator({**schema["$defs"]["line"], "$defs": schema["$defs"]})
        lines = [json.loads(line) for line in gdnbench(*VERIFY, "--json-lines").splitlines()]
        self.assertGreater(len(lines), 1)
        for line in lines:
            against.validate(line)
        self.refuses(against, lines[0], lambda line: line.clear())
        self.refuses(against, lines[1], lambda line: line.pop("reason"))


if __name__ == "__main__":
    unittest.main()

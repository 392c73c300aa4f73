#!/usr/bin/env python3
"""CMakePresets.json: warnings are errors in what scripts/test.sh and CI build, and in nothing a user builds."""
import json
import pathlib
import re
import unittest

TREE = pathlib.Path(__file__).resolve().parents[1]


def text_of(path):
    return (TREE / path).read_text()


class Presets(unittest.TestCase):
    def setUp(self):
        self.file = json.loads(text_of("CMakePresets.json"))
        self.presets = {preset["name"]: preset for preset in self.file["configurePresets"]}

    def variables(self, name):
        preset = self.presets[name]
        inherited = self.variables(preset["inherits"]) if "inherits" in preset else {}
        return {**inherited, **preset.get("cacheVariables", {})}

    def test_warnings_are_errors_where_developers_and_ci_build(self):
        tested = re.findall(r"\bpreset=([\w+-]+)", text_of("scripts/test.sh"))
        self.assertGreaterEqual(len(tested), 2)
        for name in (*tested, "dev"):
            self.assertEqual(self.variables(name).get("GDN_WERROR"), "ON", name)
        self.assertNotIn("cmake", text_of(".ci/run"))  # which builds by these scripts alone

    def test_warnings_are_warnings_where_users_build(self):
        used = re.findall(r"cmake --preset (\w+)", text_of("scripts/quickstart.sh"))
        self.assertTrue(used)
        for name in (*used, "release", "cpu-only", "cuda"):
            self.assertNotIn("GDN_WERROR", self.variables(name), name)
        self.assertRegex(text_of("CMakeLists.txt"), r'option\(GDN_WERROR "[^"]*" OFF\)')

    def test_every_preset_can_be_built_and_tested(self):
        names = {name for name, preset in self.presets.items() if not preset.get("hidden")}
        for kind in ("buildPresets", "testPresets"):
            self.assertEqual({preset["configurePreset"] for preset in self.file[kind]}, names)


if __name__ == "__main__":
    unittest.main()

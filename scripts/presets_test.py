#!/usr/bin/env python3
"""CMakePresets.json: warnings are errors in what CI builds, and in nothing a user builds; the README's two commands
build the same objects."""
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
        options = dict(re.findall(r"^  (--\w+)\) preset=([\w+-]+)", text_of("scripts/test.sh"), re.M))
        used = re.findall(r"^scripts/test\.sh ?(.*)$", text_of(".ci/run"), re.M)
        self.assertGreaterEqual(len(used), 2)
        for name in (*(options[option] for option in used), "dev"):
            self.assertEqual(self.variables(name).get("GDN_WERROR"), "ON", name)
        self.assertNotIn("cmake", text_of(".ci/run"))  # which builds by these scripts alone

    def test_warnings_are_warnings_where_users_build(self):
        used = re.findall(r"cmake --preset (\w+)", text_of("scripts/quickstart.sh"))
        self.assertTrue(used)
        for name in (*used, "release", "cpu-only", "cuda"):
            self.assertNotIn("GDN_WERROR", self.variables(name), name)
        self.assertRegex(text_of("CMakeLists.txt"), r'option\(GDN_WERROR "[^"]*" OFF\)')

    def test_the_two_commands_share_what_they_build(self):
        first = re.search(r"cmake --preset (\w+)", text_of("scripts/quickstart.sh")).group(1)
        second = re.search(r"^preset=(\w+)$", text_of("scripts/test.sh"), re.M).group(1)
        self.assertEqual(first, second)

    def test_every_preset_can_be_built_and_tested(self):
        names = {name for name, preset in self.presets.items() if not preset.get("hidden")}
        for kind in ("buildPresets", "testPresets"):
            self.assertEqual({preset["configurePreset"] for preset in self.file[kind]}, names)


if __name__ == "__main__":
    unittest.main()

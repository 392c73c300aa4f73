#!/usr/bin/env python3
"""install_dependencies.sh on stand-ins for apt-get and dpkg-query: what it asks for, and that it waits for another apt."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "install_dependencies.sh"
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"


class InstallDependencies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.put("sudo", 'exec "$@"')
        self.installed("g++ cmake")

    def put(self, name, text):
        (self.folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (self.folder / name).chmod(0o755)

    def installed(self, packages):
        """dpkg-query -W -f FORMAT PACKAGE"""
        self.put("dpkg-query", f'case " {packages} " in *" $4 "*) echo -n installed ;; *) exit 1 ;; esac')

    def apt(self, failures, message, only="update"):
        """apt-get that fails so often, at update or install, and keeps what it was asked for."""
        self.put("apt-get", f"""echo "$*" >>{self.folder}/asked
if [ "$1" = {only} ] && [ "$(grep -c '^{only}' {self.folder}/asked)" -le {failures} ]; then
  echo "{message}" >&2
  exit 100
fi""")

    def run_script(self, *arguments, wait_s=60):
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "GDN_APT_WAIT_S": str(wait_s)}
        return subprocess.run([SCRIPT, *arguments], env=environment, text=True, capture_output=True, check=False)

    def asked(self):
        file = self.folder / "asked"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def test_what_is_missing_is_installed_and_nothing_else(self):
        self.apt(0, "")
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stderr)
        update, install = self.asked()
        self.assertTrue(update.startswith("update"), update)
        self.assertIn("libhdf5-dev", install)
        self.assertNotIn(" g++ ", f"{install} ")
        self.assertNotIn("rocm-device-libs", install)

    def test_the_gfx906_compiler_is_asked_for_by_name(self):
        self.apt(0, "")
        self.run_script("--hip")
        self.assertIn("rocm-device-libs", self.asked()[1])

    def test_another_apt_is_waited_for(self):
        for step in ("update", "install"):
            with self.subTest(step=step):
                (self.folder / "asked").unlink(missing_ok=True)
                self.apt(2, LOCKED, step)
                done = self.run_script()
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sum(line.startswith(step) for line in self.asked()), 3)
                self.assertEqual(done.stdout.count("Waiting for another apt"), 1, done.stdout)

    def test_one_that_never_ends_is_no_success(self):
        self.apt(99, LOCKED)
        done = self.run_script(wait_s=0)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Could not get lock", done.stderr)
        self.assertEqual(len(self.asked()), 1)

    def test_any_other_failure_is_told_at_once(self):
        self.apt(99, "E: Unable to locate package libhdf5-dev", "install")
        done = self.run_script()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Unable to locate package", done.stderr)
        self.assertEqual(len(self.asked()), 2)

    def test_an_unknown_option_is_named(self):
        done = self.run_script("--hpi")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown option '--hpi'", done.stderr)


if __name__ == "__main__":
    unittest.main()

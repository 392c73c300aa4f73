#!/usr/bin/env python3
"""What cmake --install and cpack leave can be used: by CMake and pkg-config, from the command line, from Python.

    GDNBENCH_BUILD=build GDNBENCH_VERSION=0.1.0 scripts/install_test.py

NVCC names the CUDA compiler, HIP_COMPILE a command that compiles HIP: without them the plug-ins of theirs are left out.

The build is installed into one folder, which is then renamed, and everything is done in the second and from a third:
what remembers where it was installed, or where it was built, fails. Nothing is rebuilt.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TREE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ["GDNBENCH_BUILD"]).resolve()
VERSION = os.environ["GDNBENCH_VERSION"]
CMAKE = os.environ.get("CMAKE_COMMAND", "cmake")
COMPILER = os.environ.get("CC", "cc")
USER = TREE / "harness/c_library/tests/installed"
PLUGINS = TREE / "impls/plugin/examples"
NVCC = os.environ.get("NVCC") or shutil.which("nvcc")
HIP_COMPILE = os.environ.get("HIP_COMPILE", "").split() or [path for path in [shutil.which("hipcc")] if path]
EXPECTED_OF_USER = "interface {0} of {0}, output 1.6250\n"
CLEAN = {name: value for name, value in os.environ.items()
         if name not in ("GDNBENCH_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "DESTDIR")}


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gdnbench-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.elsewhere = cls.folder / "elsewhere"
        cls.elsewhere.mkdir()
        first, cls.prefix = cls.folder / "first", cls.folder / "second"
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", first, "--component", "gdnbench"], env=CLEAN,
                       check=True, stdout=subprocess.DEVNULL)
        first.rename(cls.prefix)
        found = sorted(cls.prefix.glob("lib*/**/libgdnbench.so"))
        assert len(found) == 1, f"libgdnbench.so: {found}, expected one below {cls.prefix}/lib*"
        cls.libraries = found[0].parent
        cls.abi = re.search(r"GDNBENCH_ABI_VERSION (\d+)", (TREE / "harness/c_library/gdnbench.h").read_text()).group(1)

    def output_of(self, *command, status=0, **environment):
        done = subprocess.run(command, cwd=self.elsewhere, env=CLEAN | environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, status, f"{command}:\n{done.stdout}")
        return done.stdout

    def program(self, *arguments, **environment):
        return self.output_of(self.prefix / "bin/gdnbench", *arguments, **environment)

    def configure_user(self, wanted, status=0):
        return self.output_of(CMAKE, "-S", USER, "-B", self.folder / "user", "-G", "Ninja",
                              f"-DCMAKE_C_COMPILER={COMPILER}", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                              f"-DGDNBENCH_WANTED={wanted}", status=status)

    def test_a_project_finds_the_library_by_find_package(self):
        self.assertIn(f"found gdnbench {VERSION}\n", self.configure_user(VERSION))
        self.output_of(CMAKE, "--build", self.folder / "user")
        self.assertEqual(self.output_of(self.folder / "user/uses_gdnbench"), EXPECTED_OF_USER.format(self.abi))
        # While the major version is 0 another minor one is another interface, later another major one.
        major, minor, _ = (int(part) for part in VERSION.split("."))
        refused = f"{major}.{minor + 1}" if major else f"0.{minor - 1}" if minor else "1.0"
        self.assertIn("compatible", self.configure_user(refused, status=1))

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_a_program_finds_the_library_by_pkg_config(self):
        path = {"PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        self.assertEqual(self.output_of("pkg-config", "--modversion", "gdnbench", **path), VERSION + "\n")
        flags = self.output_of("pkg-config", "--cflags", "--libs", "gdnbench", **path).split()
        program = self.folder / "by_pkg_config"
        self.output_of(COMPILER, USER / "uses_gdnbench.c", "-o", program, *flags)
        self.assertEqual(self.output_of(program, LD_LIBRARY_PATH=str(self.libraries)),
                         EXPECTED_OF_USER.format(self.abi))

    def plugin(self, name, *compiler, libraries=()):
        """A plug-in's library, of a copy of its source, so that no header beside it serves."""
        for source in PLUGINS.iterdir():
            shutil.copy(source, self.elsewhere)
        library = self.folder / f"{name}.so"
        self.output_of(*compiler, self.elsewhere / name, "-O2", "-shared", f"-I{self.prefix}/include", "-o", library,
                       *libraries)
        return library

    def test_a_plugin_in_c_needs_the_installed_headers_alone_and_passes_the_suite(self):
        library = self.plugin("recurrence.c", COMPILER, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fPIC",
                              libraries=["-lm"])
        said = self.program("verify", "--device", "cpu", "--suite", "quick", "--plugin", library)
        self.assertIn("PASS cpu/recurrence_in_c", said)
        self.assertIn(" 0 failed", said)

    @unittest.skipUnless(NVCC, "no nvcc")
    def test_a_plugin_in_cuda_needs_the_installed_headers_alone(self):
        library = self.plugin("recurrence.cu", NVCC, "-std=c++17", "-Xcompiler", "-fPIC,-Wall,-Wextra")
        self.assertIn("cuda/recurrence_of_a_plugin", self.program("list", "--plugin", library))
        if re.search(r'"backend": "cuda", "available": true', self.program("info", "--json")):
            said = self.program("verify", "--device", "cuda", "--suite", "quick", "--plugin", library)
            self.assertIn("PASS cuda/recurrence_of_a_plugin", said)

    @unittest.skipUnless(HIP_COMPILE, "nothing that compiles HIP")
    def test_a_plugin_in_hip_needs_the_installed_headers_alone(self):
        library = self.plugin("recurrence.hip", *HIP_COMPILE, "-fPIC", "-Wall", "-Wextra", libraries=["-lamdhip64"])
        self.assertIn("hip/recurrence_of_a_plugin", self.program("list", "--plugin", library))

    def test_the_soname_is_the_version_of_the_interface(self):
        name = f"libgdnbench.so.{self.abi}"
        self.assertIn(f"Library soname: [{name}]", self.output_of("readelf", "-d", self.libraries / name))
        self.assertEqual((self.libraries / name).resolve().name, f"{name}.{VERSION}")

    def test_the_library_shows_nothing_but_its_functions(self):
        symbols = self.output_of("nm", "-D", "--defined-only", "--format=posix", self.libraries / "libgdnbench.so")
        names = [line.split()[0] for line in symbols.splitlines()]
        self.assertIn("gdnbench_plan_create", names)
        self.assertEqual([name for name in names if not name.startswith("gdnbench_")], [])

    def test_the_program_runs_from_anywhere(self):
        self.assertIn(VERSION, self.program("--version"))
        self.assertIn("cpu/naive", self.program("list"))
        self.program("verify", "--impl", "cpu/naive", "--device", "cpu", "--problem",
                     "gated_delta:heads=1/2,dim=16,seq=1x8+1x3,dtype=f32")

    def test_the_program_finds_its_data(self):
        self.program("baseline", "check", "--device", "cpu", "--impl", "cpu/states")  # a few of them
        self.assertTrue((self.prefix / "share/gdnbench/data/gdn_lm_trace.h5").exists())

    def test_manual_page_completions_and_licence_lie_where_they_are_looked_for(self):
        for path, words in (("man/man1/gdnbench.1", ".TH"), ("bash-completion/completions/gdnbench", "complete -"),
                            ("zsh/site-functions/_gdnbench", "#compdef gdnbench"),
                            ("fish/vendor_completions.d/gdnbench.fish", "complete -c gdnbench"),
                            ("doc/gdnbench/LICENSE", "Apache License")):
            self.assertIn(words, (self.prefix / "share" / path).read_text(), path)

    def test_the_python_modules_find_the_library(self):
        modules = self.prefix / "share/gdnbench/python"
        code = ("import gdnbench, gdnbench_library; library = gdnbench_library.Library(); "
                "print(library.path, 'cpu/naive' in library.implementations(), gdnbench.__file__)")
        said = self.output_of(sys.executable, "-B", "-c", code, PYTHONPATH=str(modules))
        self.assertEqual(said, f"{self.libraries}/libgdnbench.so.{self.abi} True {modules}/gdnbench/__init__.py\n")
        self.assertTrue((modules / "gdnbench_torch.py").exists())
        self.assertEqual(sorted(modules.glob("**/*_test.py")), [])

    def test_what_a_wheel_holds_is_used_from_its_own_place(self):
        modules = self.folder / "wheel"
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", modules, "--component", "gdnbench_wheel"], env=CLEAN,
                       check=True, stdout=subprocess.DEVNULL)
        code = "import gdnbench, gdnbench_library; print(gdnbench_library.Library().path, gdnbench.__file__)"
        said = self.output_of(sys.executable, "-B", "-c", code, PYTHONPATH=str(modules))
        self.assertEqual(said, f"{modules}/gdnbench/installed/libgdnbench.so {modules}/gdnbench/__init__.py\n")
        self.assertIn("--baseline", self.output_of(sys.executable, "-B", "-m", "gdnbench", "judge", "--help",
                                                   PYTHONPATH=str(modules)))
        for module in ("timing", "clocks", "turns"):
            self.assertTrue((modules / f"gdnbench/{module}.py").exists(), module)
        command = (sys.executable, "-B", "-m", "gdnbench.program")
        self.assertIn(VERSION, self.output_of(*command, "--version", PYTHONPATH=str(modules)))
        self.output_of(*command, "baseline", "check", "--device", "cpu", "--impl", "cpu/states", PYTHONPATH=str(modules))
        self.assertEqual(sorted(modules.glob("**/*_test.py")), [])
        self.assertFalse((self.prefix / "gdnbench").exists(), "a wheel's files beside an installation's")
        include = self.output_of(sys.executable, "-B", "-m", "gdnbench", "include", PYTHONPATH=str(modules)).strip()
        self.assertEqual(sorted(path.name for path in pathlib.Path(include).iterdir()), ["gdnbench.h", "gdnbench_plugin.h"])
        of_installation = self.output_of(sys.executable, "-B", "-m", "gdnbench", "include",
                                         PYTHONPATH=str(self.prefix / "share/gdnbench/python"))
        self.assertEqual(of_installation, f"{self.prefix}/include\n")
        # On a machine without them: what is loaded but the C and C++ runtimes is the wheel's.
        code = ("import os, subprocess; from gdnbench import program; path = program.find_program(); "
                "subprocess.run(['ldd', path], env={**program.environment_for(path)}, check=True)")
        loaded = re.findall(r"^\s*(\S+) => (\S+)", self.output_of(sys.executable, "-B", "-c", code,
                                                                 PYTHONPATH=str(modules)), re.MULTILINE)
        others = [name for name, path in loaded if not path.startswith(f"{modules}/gdnbench/installed/lib/")]
        self.assertGreater(len(loaded) - len(others), 2)
        for name in others:
            self.assertRegex(name, r"^lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so|^lib(cuda|cublas|cudart|nvidia)")

    def test_nothing_remembers_where_it_was_built_or_installed(self):
        texts = [path for path in self.prefix.glob("**/*") if path.suffix in (".cmake", ".pc", ".py", ".1")]
        self.assertGreater(len(texts), 5)
        for path in texts:
            for place in (BUILD, TREE, self.folder, "/usr/local"):
                self.assertNotIn(str(place), path.read_text(), path)
        for binary in (self.prefix / "bin/gdnbench", self.libraries / "libgdnbench.so"):
            self.assertNotRegex(self.output_of("readelf", "-d", binary), r"\((RPATH|RUNPATH)\)")


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "no dpkg-shlibdeps")
class DebianPackage(unittest.TestCase):
    def test_it_names_what_it_needs_and_runs_no_script(self):
        with tempfile.TemporaryDirectory(prefix="gdnbench-deb-") as name:
            folder = pathlib.Path(name)
            cpack = pathlib.Path(CMAKE).with_name("cpack") if os.path.isabs(CMAKE) else "cpack"
            said = subprocess.run([cpack, "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", folder,
                                   "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none"], env=CLEAN, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(said.returncode, 0, said.stdout)
            package, = folder.glob("*.deb")

            def of_package(*arguments):
                return subprocess.run(["dpkg-deb", *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout

            self.assertEqual(of_package("--field", package, "Version"), VERSION + "\n")
            self.assertRegex(of_package("--field", package, "Depends"), r"libc6 .*libhdf5")
            of_package("--control", package, folder / "control")
            self.assertEqual(sorted(path.name for path in (folder / "control").iterdir()),
                             ["control", "md5sums", "triggers"])
            paths = re.findall(r" (\./\S+)", of_package("--contents", package))
            self.assertIn("./usr/bin/gdnbench", paths)
            self.assertEqual([path for path in paths if not path.startswith("./usr/")], [])
            for staged in (*folder.glob("_CPack_Packages/**/usr/bin/gdnbench"),
                           *folder.glob("_CPack_Packages/**/usr/lib/**/libgdnbench.so")):
                sections = subprocess.run(["readelf", "-SW", staged], check=True, text=True, stdout=subprocess.PIPE)
                self.assertNotIn(".symtab", sections.stdout, staged)


if __name__ == "__main__":
    unittest.main()

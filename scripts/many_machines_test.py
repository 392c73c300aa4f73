#!/usr/bin/env python3
"""docs/many-machines.md: its commands are run in turn, with stand-ins for Slurm, for other machines and for GNU
parallel, and one shard is killed on the way; and scripts/shard.sh by itself.

    GDNBENCH=build/gdnbench scripts/many_machines_test.py
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TREE = pathlib.Path(__file__).resolve().parents[1]
PAGE = TREE / "docs/many-machines.md"
SHARD = TREE / "scripts/shard.sh"
PROGRAM = os.path.abspath(os.environ.get("GDNBENCH", TREE / "build/gdnbench"))

SBATCH = '''#!PYTHON
"""An array, a task after the other, as sbatch --wait runs it. A task gets the count of those that were sent."""
import os, re, subprocess, sys
*options, path = sys.argv[1:]
assert open(path).readline() == "#!/bin/bash\\n"
options = " ".join([*re.findall("^#SBATCH (.*)", open(path).read(), re.M), *options])
assert "--wait" in options and "--open-mode=append" in options
tasks = []
for part in re.findall(r"--array=(\\S*)", options)[-1].split(","):
    first, _, last = part.partition("-")
    tasks += range(int(first), int(last or first) + 1)
worst = 0
for task in tasks:
    scratch = f"{os.environ['STATE']}/node{task % 2}"
    os.makedirs(scratch, exist_ok=True)
    with open(re.search(r"--output=(\\S+)", options)[1].replace("%a", str(task)), "a") as log:
        code = subprocess.run(["bash", path], stdout=log, stderr=log, env=os.environ | {
            "SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": str(len(tasks)), "SCRATCH": scratch}).returncode
    worst = max(worst, code & 255)
sys.exit(worst)
'''
PARALLEL = '''#!PYTHON
"""Jobs one after the other; those for other machines in a folder each, whose files come back."""
import os, pathlib, shutil, subprocess, sys
arguments, options, returned = sys.argv[1:], {}, []
while arguments[0].startswith("--"):
    name, value = arguments.pop(0), arguments.pop(0)
    returned += [value] if name == "--return" else []
    options[name] = value
assert set(options) <= {"--jobs", "--sshlogin", "--workdir", "--return"}, options
split = arguments.index(":::")
failed = 0
for number, value in enumerate(arguments[split + 1:]):
    machines, place = options.get("--sshlogin", "").split(","), pathlib.Path()
    if machines[0]:
        place = pathlib.Path(os.environ["STATE"], machines[number % len(machines)], options["--workdir"])
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "scripts").exists():
            (place / "scripts").symlink_to(os.path.realpath("scripts"))
    command = " ".join(arguments[:split]).replace("{}", value)
    failed += subprocess.run(["bash", "-c", command], cwd=place).returncode != 0
    for name in returned:
        name = name.replace("{}", value)
        pathlib.Path(name).parent.mkdir(exist_ok=True)
        if (place / name).exists():
            shutil.copy(place / name, name)
sys.exit(failed)
'''
# Of the shard that is to be killed, once: a sweep has stored the rows of 3/8, which is half of 3/4; a verification has
# printed two lines.
GDNBENCH = '''#!/usr/bin/env bash
case " $* " in
  *" --merge "*) ;;
  *" --shard $KILLED "*)
    if mkdir "$STATE/killed" 2>/dev/null; then
      case "$1" in
        sweep) "$PROGRAM" "${@/#$KILLED/$HALF}" ;;
        verify) "$PROGRAM" "$@" | head -n 2 ;;
      esac
      kill -9 "$PPID"
      exit 137
    fi ;;
esac
exec "$PROGRAM" "$@"
'''


def commands_of(heading):
    """The indented blocks below a heading of the page."""
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)[1]
    return [re.sub("^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n)+", section, re.M)]


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gdnbench-shards-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.work, self.state, self.bin = (self.folder / name for name in ("work", "state", "bin"))
        for each in (self.work, self.state, self.bin):
            each.mkdir()
        (self.work / "scripts").symlink_to(TREE / "scripts")

    def program(self, name, text):
        (self.bin / name).write_text(text.replace("PYTHON", sys.executable, 1) if "!PYTHON" in text else text)
        (self.bin / name).chmod(0o755)

    def run_in(self, command, **environment):
        return subprocess.run(["bash", "-c", command] if isinstance(command, str) else command, cwd=self.work,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | {
                                  "PATH": f"{self.bin}:{os.environ['PATH']}", "STATE": str(self.state),
                                  "PROGRAM": PROGRAM, "KILLED": "none", "HALF": "none"} | environment)


class Page(InAFolder):
    GRID = ("--device cpu --heads 1/2 --dim 16 --seq 1x9,1x20,1x33,1x40 --dtype f32,bf16 --no-time").split()

    def setUp(self):
        super().setUp()
        for name, text in (("sbatch", SBATCH), ("parallel", PARALLEL), ("gdnbench", GDNBENCH)):
            self.program(name, text)

    def killed(self, command, shard, half="none"):
        """The command, of which one shard is killed; it must say that something failed."""
        done = self.run_in(command, KILLED=shard, HALF=half, GDNBENCH="")
        self.assertTrue((self.state / "killed").exists(), done.stdout)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def done(self, command):
        done = self.run_in(command, GDNBENCH="")
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}")
        return done.stdout

    def rows(self, path):
        return sorted(self.done(f"'{PROGRAM}' rows {path} --columns problem,implementation,status").splitlines())

    def assertWhole(self, path):
        self.run_in([PROGRAM, "sweep", "--quiet", *self.GRID, "--out", "whole.h5"])
        expected = self.rows("whole.h5")
        self.assertGreater(len(expected), 8)
        self.assertEqual(self.rows(path), expected)

    def test_every_block_of_the_page_is_run_here(self):
        self.assertEqual([len(commands_of(heading)) for heading in re.findall("^## (.*)", PAGE.read_text(), re.M)],
                         [4, 1, 3])

    def test_an_array_on_a_shared_disk_goes_on_where_it_was_killed(self):
        send, again, merge, verify = commands_of("Slurm, a shared disk")
        self.killed(send, "3/4", "3/8")
        self.assertEqual(self.run_in("scripts/shard.sh missing 4 parts").stdout, "3\n")
        self.assertEqual(self.run_in(merge).returncode, 1)
        self.assertFalse((self.work / "rows.h5").exists(), "an incomplete sweep was merged")
        self.done(again)
        self.assertRegex((self.work / "log.3.txt").read_text(), r"; 3 were there already; parts/3-of-4\.h5\n$")
        self.assertNotIn("is done", (self.work / "log.2.txt").read_text())  # was not sent again
        self.done(merge)
        self.assertWhole("rows.h5")

    def test_a_suite_whose_shard_was_killed_is_whole_in_the_end(self):
        verify = commands_of("Slurm, a shared disk")[3]
        self.killed(verify, "4/6")
        self.assertEqual(self.run_in("scripts/shard.sh missing 6 verified").stdout, "4\n")
        self.assertTrue((self.work / "verified/4-of-6.jsonl.partial").exists())
        self.assertFalse((self.work / "verified.json").exists())
        said = self.done(verify)
        self.assertRegex(said, r"verified\.json: [1-9]\d+ results, 0 not reached \(0 of 6 shards were cut\)\n")
        self.assertEqual((self.work / "log.2.txt").read_text().count("verified/2-of-6 is done\n"), 1)

    def test_disks_of_their_own_are_collected(self):
        block, = commands_of("Slurm, disks of their own")
        self.killed(block, "2/4", "2/8")
        self.assertEqual(sorted(path.name for path in (self.work / "collected").glob("2-*")), [])
        self.assertEqual(len(list((self.work / "collected").glob("*-of-4.h5"))), 3)
        self.done(block)
        self.assertEqual(sorted(path.name for path in (self.work / "collected").iterdir()),
                         sorted(f"{index}-of-4.{kind}" for index in range(1, 5) for kind in ("h5", "done")))
        self.assertWhole("collected.h5")

    def test_parallel_goes_on_with_the_same_command(self):
        send, merge, _ = commands_of("GNU parallel")
        self.killed(send, "3/4", "3/8")
        said = self.done(send)
        self.assertEqual(said.count(" is done\n"), 3)
        self.assertIn("3 were there already", said)
        self.done(merge)
        self.assertWhole("by_parallel.h5")

    def test_parallel_brings_parts_back_from_other_machines(self):
        block = commands_of("GNU parallel")[2]
        self.killed(block, "3/4", "3/8")
        self.assertFalse((self.work / "ended.h5").exists())
        self.done(block)
        self.assertEqual(sorted(path.name for path in (self.state / "two/gdnbench/ended").glob("*.h5")),
                         ["2-of-4.h5", "4-of-4.h5"])
        self.assertWhole("ended.h5")


class Shard(InAFolder):
    def shard(self, *arguments, program="exit 0"):
        # As gdnbench, verify makes the file that it is given, here the last argument.
        made = 'if [ "$1" = verify ]; then for file; do :; done; : >>"$file"; fi'
        self.program("program", f"#!/bin/sh\n{made}\n{program}\n")
        return self.run_in([SHARD, *map(str, arguments)], GDNBENCH=str(self.bin / "program"))

    def test_a_failed_check_is_an_end_and_anything_else_is_none(self):
        for code, is_done in ((0, True), (1, True), (2, False), (3, False), (137, False)):
            with self.subTest(code=code):
                for verb in ("sweep", "verify"):
                    folder = self.work / f"{verb}{code}"
                    self.assertEqual(self.shard("1/2", folder, verb, "--x", program=f"exit {code}").returncode, code)
                    self.assertEqual((folder / "1-of-2.done").exists(), is_done)
                    again = self.shard("1/2", folder, verb, "--x", program="echo ran; exit 0")
                    self.assertEqual(again.returncode, code if is_done else 0)
                    self.assertEqual("is done" in again.stdout, is_done)

    def test_the_program_gets_the_shard_and_its_file(self):
        self.shard("2/3", "p", "sweep", "--keys", "a b", program='printf "<%s>" "$@" >said')
        self.assertEqual((self.work / "said").read_text(), "<sweep><--keys><a b><--shard><2/3><--out><p/2-of-3.h5>")
        self.shard("2/3", "q", "verify", program='printf "<%s>" "$@" >"$file"')
        self.assertEqual((self.work / "q/2-of-3.jsonl").read_text(),
                         "<verify><--shard><2/3><--json-lines><--out><q/2-of-3.jsonl.partial>")
        self.assertFalse((self.work / "q/2-of-3.jsonl.partial").exists())

    def test_what_is_missing_is_told_as_an_array(self):
        (self.work / "p").mkdir()
        for done, said in (((), "1-9"), ((1, 3, 4, 8), "2,5-7,9"), ((9, 2), "5-7"), ((5, 6, 7), "")):
            for index in done:
                (self.work / f"p/{index}-of-9.done").touch()
            told = self.shard("missing", 9, "p")
            self.assertEqual((told.stdout, told.returncode), (f"{said}\n" if said else "", 1 if said else 0))

    def test_shards_of_something_else_are_refused(self):
        self.shard("1/2", "p", "sweep", "--seq", "1x9")
        for arguments in (("2/2", "p", "sweep", "--seq", "1x10"), ("1/3", "p", "sweep", "--seq", "1x9"),
                          ("1/2", "p", "verify", "--seq", "1x9"), ("1/2", "p", "sweep", "--seq 1x9")):
            with self.subTest(arguments=arguments):
                refused = self.shard(*arguments, program="touch ran")
                self.assertEqual(refused.returncode, 2)
                self.assertRegex(refused.stdout, r"^shard\.sh: p holds shards of 'sweep --seq 1x9 in 2 shards', "
                                                 r"expected '.*'; name another folder\n$")
        self.assertFalse((self.work / "ran").exists())

    def test_one_process_makes_a_shard_at_a_time(self):
        self.program("program", "#!/bin/sh\ntouch begun\nexec sleep 20\n")
        first = subprocess.Popen([SHARD, "1/2", "p", "sweep"], cwd=self.work, start_new_session=True,
                                 env=os.environ | {"GDNBENCH": str(self.bin / "program")})
        try:
            while not (self.work / "begun").exists():
                time.sleep(0.01)
            second = self.run_in([SHARD, "1/2", "p", "sweep"], GDNBENCH="true")
            self.assertEqual((second.returncode, second.stdout),
                             (2, "shard.sh: p/1-of-2: another process makes this shard\n"))
            self.assertEqual(self.run_in([SHARD, "2/2", "p", "sweep"], GDNBENCH="true").returncode, 0)
        finally:
            os.killpg(first.pid, signal.SIGKILL)  # the program with it
            first.wait()

    def test_bad_input_is_one_line_that_names_it(self):
        for words, arguments in (("usage: ", ()), ("usage: ", ("missing", 3)), ("COUNT '0'", ("missing", 0, ".")),
                                 ("'nix': expected the folder", ("missing", 3, "nix")),
                                 ("'3': expected", ("missing", 3, "3")),
                                 ("'3', expected INDEX/COUNT", ("3", "p", "sweep")),
                                 ("'4/3', expected an INDEX", ("4/3", "p", "sweep")),
                                 ("'bench', expected sweep or verify", ("1/3", "p", "bench")),
                                 ("--out: expected options", ("1/3", "p", "sweep", "--out", "x.h5")),
                                 ("--shard=2/3: expected options", ("1/3", "p", "verify", "--shard=2/3"))):
            with self.subTest(words=words):
                refused = self.shard(*arguments)
                self.assertEqual(refused.returncode, 2)
                self.assertRegex(refused.stdout, r"^shard\.sh: .*\n$")
                self.assertIn(words, refused.stdout)
        self.assertFalse((self.work / "p").exists())


if __name__ == "__main__":
    unittest.main()

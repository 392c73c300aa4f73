#!/usr/bin/env python3
"""Plant each fault of data/mutants/ in a scratch copy, build what it touches, run the tests it names.

    scripts/mutants.py                          the whole catalogue: killed or survived, and by which test
    scripts/mutants.py --only cpu               one target; or a part of a name, or a test program
    scripts/mutants.py --sample 4 --seed 7      the same four for the same seed
    scripts/mutants.py --resume                 go on: a result stands while patch and patched file do
    scripts/mutants.py --table                  and keep the results: data/mutants/README.md and results.tsv
    scripts/mutants.py --check                  only: does every patch apply to this tree?
    scripts/mutants.py --list                   only: names, targets and faults

A mutant is one file NAME.patch: a header, then a unified diff (paths as git writes them).

    fault:    what is wrong, in words
    target:   cpu | gfx906 | cuda | planner | harness | reference (the name starts with it)
    tests:    a test program and its arguments; the line may be repeated, the first failure ends the run
    survives: only where no test can tell: the reason

The diff's removed and context lines must occur exactly once in the file, wherever that is now: code
that moved is found, code that changed is an error. Needs no git and no patch program.

A test that fails before the fault is planted proves nothing: every command first runs on the sound
copy and must pass there, with at least one test that was not skipped. CUDA mutants run on the emulated
device. Exit 0: no unexplained survivor; 1: one, or an error; 2: usage.
"""
import argparse
import collections
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "data" / "mutants"
TARGETS = ("cpu", "gfx906", "cuda", "planner", "harness", "reference")
TEST_TIMEOUT_S = 300

KILLED, SURVIVED, EXPLAINED = "killed", "SURVIVED", "survived (reason given)"
NEEDS_TOOLS, ERROR = "not built here", "ERROR"
CUT = "cut"  # of a build that took too long


class MutantError(Exception):
    """A fault of the catalogue or of the machine, in one line."""


# ---- the catalogue -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Hunk:
    file: str
    before: list  # context and removed lines
    after: list  # context and added lines


@dataclasses.dataclass
class Mutant:
    name: str
    fault: str
    target: str
    tests: list  # of [program, argument...]
    survives: str
    hunks: list
    digest: str  # of the patch file

    def files(self):
        return sorted({hunk.file for hunk in self.hunks})

    def needs(self, folder):
        return any(file.startswith(folder) for file in self.files())


def parse_hunks(name, lines):
    hunks, file = [], None
    for line in lines:
        if line.startswith("--- "):
            file = None
        elif line.startswith("+++ "):
            file = line[4:].split("\t")[0].removeprefix("b/")
        elif line.startswith("@@"):
            if file is None:
                raise MutantError(f"{name}: a hunk without a file")
            hunks.append(Hunk(file, [], []))
        elif hunks and line[:1] in ("", " ", "-", "+"):
            text = line[1:]
            if line[:1] != "+":
                hunks[-1].before.append(text)
            if line[:1] != "-":
                hunks[-1].after.append(text)
        elif hunks:
            raise MutantError(f"{name}: '{line}' is no line of a unified diff")
    return hunks


def read_mutant(path):
    name = path.stem
    text = path.read_text()
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("--- ")), len(lines))
    header = collections.defaultdict(list)
    for line in lines[:start]:
        key, colon, value = line.partition(":")
        if not colon or key not in ("fault", "target", "tests", "survives"):
            raise MutantError(f"{name}: '{line}' is no header line")
        header[key].append(value.strip())
    for key in ("fault", "target", "tests"):
        if not header[key]:
            raise MutantError(f"{name}: the header has no '{key}:'")
    target = header["target"][0]
    if target not in TARGETS or not name.startswith(target + "-"):
        raise MutantError(f"{name}: expected a target of {', '.join(TARGETS)} that starts the name, got '{target}'")
    hunks = parse_hunks(name, lines[start:])
    if not hunks or all(hunk.before == hunk.after for hunk in hunks):
        raise MutantError(f"{name}: the diff changes nothing")
    return Mutant(name, " ".join(header["fault"]), target, [shlex.split(test) for test in header["tests"]],
                  " ".join(header["survives"]), hunks, hashlib.sha256(text.encode()).hexdigest())


def read_catalogue():
    mutants = [read_mutant(path) for path in sorted(CATALOGUE.glob("*.patch"))]
    if not mutants:
        raise MutantError(f"no patches in {CATALOGUE}")
    return mutants


def mutated(mutant, root):
    """{file: text with the fault planted}. Fails unless every hunk has exactly one place."""
    texts = {}
    for hunk in mutant.hunks:
        if hunk.file not in texts:
            path = root / hunk.file
            if not path.is_file():
                raise MutantError(f"{mutant.name}: there is no {hunk.file}")
            texts[hunk.file] = path.read_text().split("\n")
        lines, size = texts[hunk.file], len(hunk.before)
        places = [i for i in range(len(lines) - size + 1) if lines[i:i + size] == hunk.before]
        if len(places) != 1:
            raise MutantError(f"{mutant.name}: its lines occur {len(places)} times in {hunk.file}, expected once: "
                              f"'{hunk.before[0].strip()}' ...")
        texts[hunk.file] = lines[:places[0]] + hunk.after + lines[places[0] + size:]
    return {file: "\n".join(lines) for file, lines in texts.items()}


def select(mutants, arguments):
    def wanted(mutant):
        programs = {test[0] for test in mutant.tests}
        return any(word == mutant.target or word in mutant.name or word in programs for word in arguments.only)

    chosen = [mutant for mutant in mutants if not arguments.only or wanted(mutant)]
    if not chosen:
        raise MutantError(f"no mutant is meant by --only {' '.join(arguments.only)}")
    if arguments.sample:
        chosen = random.Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    # Mutants of one file after another: what the one had rebuilt, the next rebuilds anyway.
    return sorted(chosen, key=lambda mutant: (mutant.files(), mutant.name))


# ---- the scratch copy --------------------------------------------------------------------------------


def source_files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True)
    if listed.returncode == 0:
        files = [name for name in listed.stdout.decode().split("\0") if name]
    else:  # an exported tree
        files = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    skipped = re.compile(r"build|\.git/|data/mutants/")
    return sorted(name for name in set(files) if not skipped.match(name) and (ROOT / name).is_file())


def copy_sources(files, scratch):
    """Makes scratch/source equal to the tree; files that are equal keep their time, for ninja."""
    source = scratch / "source"
    for name in files:
        content, to = (ROOT / name).read_bytes(), source / name
        if to.is_file() and to.read_bytes() == content:
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)
        shutil.copymode(ROOT / name, to)
    known = set(files)
    for path in list(source.rglob("*")):
        relative = str(path.relative_to(source))
        if path.is_file() and not relative.startswith("build") and relative not in known:
            path.unlink()
    return source


def digest_of(mutant, root):
    """Of the files the fault is planted in: a result is kept while they and the patch are the same."""
    digest = hashlib.sha256()
    for name in mutant.files():
        digest.update((root / name).read_bytes() if (root / name).is_file() else b"")
    return digest.hexdigest()


class Build:
    """The scratch copy's build folder: the backends that the mutants at hand are of, and the CPU's. CUDA kernels are
    built for the emulated device, without the CUDA Toolkit."""

    def __init__(self, source, jobs, mutants):
        self.source = source
        self.folder = source / "build"
        self.jobs = jobs
        self.environment = dict(os.environ)
        # Objects equal to those of any other copy under the same base come from the compiler cache.
        self.environment.setdefault("CCACHE_BASEDIR", str(source.parent))
        self.environment.setdefault("CCACHE_NOHASHDIR", "1")
        gfx906 = any(mutant.needs("impls/hip/") for mutant in mutants)
        cuda = any(mutant.needs("impls/cuda/") for mutant in mutants)
        done = self.execute(["cmake", "--preset", "release", "-DGDN_CUDA=OFF", f"-DGDN_HIP={'AUTO' if gfx906 else 'OFF'}",
                             f"-DGDN_CUDA_EMULATED={'ON' if cuda else 'OFF'}", "-DGDN_UNITY=OFF"], source)
        if done.returncode != 0:
            raise MutantError("configuring failed: " + first_line(done.stderr))
        self.has_gfx906 = "gfx906 HIP backend: ON" in done.stdout + done.stderr

    def execute(self, command, folder):
        return subprocess.run(command, cwd=folder, env=self.environment, capture_output=True, text=True)

    def make(self, targets, limit_s=None):
        """'' or what went wrong; CUT where it took longer than the limit."""
        ninja = subprocess.Popen(["ninja", "-j", str(self.jobs), *sorted(set(targets))], cwd=self.folder, env=self.environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            said, _ = ninja.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            ninja.send_signal(signal.SIGINT)  # upon which it stops its compilers and removes what they left
            ninja.communicate()
            return CUT
        if ninja.returncode == 0:
            return ""
        errors = [line for line in said.splitlines() if "error: " in line]
        return first_line("\n".join(errors) or said)

    def run(self, test, limit_s=TEST_TIMEOUT_S):
        """('', tests that passed) or (what failed, 0): a test's name, else the program and how it ended."""
        command = [str(self.folder / test[0]), *test[1:]]
        gtest = any(argument.startswith("--gtest") for argument in test)
        if gtest:
            command.append("--gtest_fail_fast")
        try:
            done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True,
                                  errors="replace", timeout=limit_s)
        except subprocess.TimeoutExpired:
            return f"{test[0]} ran past {limit_s:.0f} s", 0
        if done.returncode == 0:
            passed = re.search(r"^\[  PASSED  \] (\d+) test", done.stdout, re.MULTILINE)  # without those skipped
            return "", int(passed[1]) if passed else 0 if gtest else 1
        failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", done.stdout, re.MULTILINE)
        if failed:
            return failed[1], 0
        running = re.findall(r"^\[ RUN      \] (\S+)", done.stdout, re.MULTILINE)
        ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
        return f"{running[-1] if running else test[0]} ({ended})", 0


def first_line(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")[:300]


# ---- running -----------------------------------------------------------------------------------------


class Laboratory:
    """A scratch copy of the tree, and its build."""

    def __init__(self, scratch, jobs, mutants):
        self.source = copy_sources(source_files(), scratch)
        self.build = Build(self.source, jobs, mutants)
        self.sound = {}  # command -> '' or why it proves nothing

    def require_sound(self, test):
        key = tuple(test)
        if key not in self.sound:
            wrong = self.build.make([test[0]])
            if wrong:
                wrong = "the sound copy does not build: " + wrong
            else:
                failed, passed = self.build.run(test)
                wrong = f"fails without the fault: {failed}" if failed else "" if passed else f"'{' '.join(test)}': no test ran"
            self.sound[key] = wrong
        if self.sound[key]:
            raise MutantError(self.sound[key])

    def examine(self, mutant):
        """(outcome, by whom)"""
        if mutant.needs("impls/hip/") and not self.build.has_gfx906:
            return NEEDS_TOOLS, "no compiler for gfx906"
        for test in mutant.tests:
            self.require_sound(test)
        changed = mutated(mutant, self.source)
        sound = {file: (self.source / file).read_text() for file in changed}
        try:
            for file, text in changed.items():
                (self.source / file).write_text(text)
            for test in mutant.tests:
                wrong = self.build.make([test[0]])
                if wrong:
                    return ERROR, "does not build: " + wrong
                failed, _ = self.build.run(test)
                if failed:
                    return KILLED, f"{test[0]}: {failed}"
        finally:
            for file, text in sound.items():
                (self.source / file).write_text(text)
        return (EXPLAINED, mutant.survives) if mutant.survives else (SURVIVED, "")


# ---- results -----------------------------------------------------------------------------------------


def summary(mutants, results):
    lines = ["| target | mutants | killed | survived | not run |", "|---|---|---|---|---|"]
    for target in (*TARGETS, "all"):
        of = [m for m in mutants if target in (m.target, "all")]
        outcomes = [results[m.name]["outcome"] if m.name in results else None for m in of]
        killed = outcomes.count(KILLED)
        survived = outcomes.count(SURVIVED) + outcomes.count(EXPLAINED)
        if of:
            lines.append(f"| {target} | {len(of)} | {killed} | {survived} | {len(of) - killed - survived} |")
    return lines


KEPT = CATALOGUE / "results.tsv"
FIELDS = ("name", "outcome", "seconds", "patch", "files", "date", "by")
DIGITS = 16  # of a digest that is kept


def read_kept():
    """What --table has kept, by name: another machine goes on from there."""
    if not KEPT.is_file():
        return {}
    lines = [line.split("\t") for line in KEPT.read_text().splitlines()]
    if not lines or tuple(lines[0]) != FIELDS:
        raise MutantError(f"{KEPT}: expected the columns {' '.join(FIELDS)}")
    rows = [dict(zip(FIELDS, line)) for line in lines[1:]]
    return {row.pop("name"): row | {"seconds": float(row["seconds"])} for row in rows}


def write_kept(mutants, results):
    lines = ["\t".join(FIELDS)]
    for mutant in mutants:
        if mutant.name in results:
            row = results[mutant.name] | {"name": mutant.name}
            lines.append("\t".join(str(row[field])[:DIGITS] if field in ("patch", "files") else str(row[field]).replace("\t", " ")
                                   for field in FIELDS))
    KEPT.write_text("\n".join(lines) + "\n")


def write_table(mutants, results):
    """data/mutants/README.md, from results of the patches and the files they change as they are."""
    dates = sorted({result["date"] for result in results.values()}) or ["no date"]
    lines = [
        "# Mutants", "",
        "A mutant is a small fault, kept as a patch. A test-suite that cannot tell it from the sound program has a hole.",
        "", "`scripts/mutants.py --table` writes this page. It plants every mutant in a scratch copy and runs the tests that the",
        "patch's header names; the format is in that script's help. A result stands as long as the patch and the file it",
        f"changes are the same; `results.tsv` keeps it. These results are of {' to '.join(dates[::max(1, len(dates) - 1)])}.",
        "\"Not run\" means that there is no such result yet; `scripts/mutants.py --resume --table` runs those.", "",
        *summary(mutants, results), ""
    ]
    for target in TARGETS:
        of = [mutant for mutant in mutants if mutant.target == target]
        if not of:
            continue
        lines += [f"## {target}", "", "| mutant | fault | outcome | by |", "|---|---|---|---|"]
        for mutant in of:
            result = results.get(mutant.name, {"outcome": "not run", "by": ""})
            cells = [mutant.name.removeprefix(target + "-"), mutant.fault, result["outcome"], result["by"]]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    (CATALOGUE / "README.md").write_text("\n".join(lines))


def run_all(mutants, chosen, arguments):
    scratch = pathlib.Path(arguments.scratch).resolve()
    store = scratch / "results.json"
    scratch.mkdir(parents=True, exist_ok=True)
    results = read_kept() | (json.loads(store.read_text()) if store.is_file() else {})
    laboratory = None

    def is_known(mutant):
        result = results.get(mutant.name, {"outcome": ERROR})
        return (result["outcome"] != ERROR and result["patch"][:DIGITS] == mutant.digest[:DIGITS] and
                result["files"][:DIGITS] == digest_of(mutant, ROOT)[:DIGITS])

    counts = collections.Counter()
    to_run = [mutant for mutant in chosen if not arguments.resume or not is_known(mutant)]
    for mutant in chosen:
        if mutant in to_run:
            laboratory = laboratory or Laboratory(scratch, arguments.jobs, to_run)
            begin = time.monotonic()
            try:
                outcome, by = laboratory.examine(mutant)
            except MutantError as error:
                outcome, by = ERROR, str(error)
            results[mutant.name] = {
                "outcome": outcome, "by": by, "seconds": round(time.monotonic() - begin, 1), "patch": mutant.digest,
                "files": digest_of(mutant, laboratory.source), "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat()
            }
            store.write_text(json.dumps(results, indent=1))
        result = results[mutant.name]
        counts[result["outcome"]] += 1
        print(f"{result['outcome']:<24} {mutant.name:<44} {result['seconds']:6.1f} s  {result['by']}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    if arguments.table:
        known = {mutant.name: results[mutant.name] for mutant in mutants if is_known(mutant)}
        write_kept(mutants, known)
        write_table(mutants, known)
    return 1 if counts[SURVIVED] or counts[ERROR] else 0


def check(mutants):
    wrong = 0
    for mutant in mutants:
        try:
            mutated(mutant, ROOT)
        except MutantError as error:
            print(error, file=sys.stderr)
            wrong += 1
    print(f"{len(mutants) - wrong} of {len(mutants)} patches apply")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="targets, parts of names, test programs")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many of them, drawn by --seed")
    parser.add_argument("--seed", default="0", help="any text")
    parser.add_argument("--resume", action="store_true", help="keep results of the same patch and patched file")
    parser.add_argument("--table", action="store_true", help="write data/mutants/README.md")
    parser.add_argument("--check", action="store_true", help="only see whether every patch applies")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--scratch", default=ROOT / "build-mutants", metavar="DIR", help="kept for the next time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="of ninja")
    arguments = parser.parse_args()
    try:
        mutants = read_catalogue()
        if arguments.check:
            return check(mutants)
        chosen = select(mutants, arguments)
        if arguments.list:
            for mutant in chosen:
                print(f"{mutant.name:<44} {mutant.fault}")
            return 0
        return run_all(mutants, chosen, arguments)
    except MutantError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

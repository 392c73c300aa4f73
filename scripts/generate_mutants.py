#!/usr/bin/env python3
"""Plants faults that nobody chose: an operator at a place in the sources, both drawn by a seed.

    scripts/generate_mutants.py --seed 7 --count 20 --only cpu reference     draw, plant, build, run the tests
    scripts/generate_mutants.py --seed 7 --count 20 --list                   only say what would be planted
    scripts/generate_mutants.py --summary                                    what came of all of them, by part
    scripts/generate_mutants.py --page                                       that, and every survivor, into a page

What mutants.py does with faults that were written, in the same scratch copy. A place is drawn from a file, a file by its
lines of code; of what stands there one operator is drawn (OPERATORS). Tests are those of the file's room (ROOMS), the
nearest first: a program is built and run once the fault has survived those before it. A fault that does not compile is
drawn again. One that compiles to the same objects is `equal`. One whose build is cut after --dear seconds, as in a header
that everything includes, is `too dear`: nobody knows what the tests would say, and it is counted as that.
A result is a line of --out: seed (and the words of --only behind it, which decide too what is drawn), number, file, line,
operator, the line before and after, outcome, by whom, seconds, and the commit whose sources drew it, - where that was not
kept. Sources that have changed since draw others: they need another seed. So a large run is made of sittings, each with
a seed of its own and at one commit, and --summary counts them together. To go on with a sitting, check its commit out.
Whoever judges a survivor says so in the last column: why it is equal, why no test is worth it, or which test there is now.
A judgement that begins with "equal" or "a test now" is what --summary counts by; it changes no outcome.
Exit 0: no survivor without a judgement; 1: one; 2: usage.
"""
import argparse
import collections
import contextlib
import hashlib
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutants  # noqa: E402: found by the line above

EQUAL, NOT_COMPILED, DEAR = "equal", "does not compile", "too dear"
FIELDS = ("seed", "number", "file", "line", "operator", "before", "after", "outcome", "by", "seconds", "commit", "judgement")
JUDGED_EQUAL, TEST_NOW = "equal", "a test now"  # how a judgement begins that --summary knows

# A test that takes so many times what it took on the sound copy, and so many seconds at least, is hanging.
HANGING, HANGING_AT_LEAST_S = 10, 20

# What is asked of the CPU's implementations, and of none in particular.
CPU = "implementation_tests --gtest_filter=-*cuda_*:*hip_*"
# Folders of an operation, and the suite of implementation_tests that is about it.
OF_OPERATION = {
    "gated_delta_backward": "GatedDeltaBackward",
    "gated_delta_verify": "GatedDeltaVerify",
    "gated_delta_ring": "GatedDeltaRing",
    "gated_delta_layer_backward": "GatedDeltaLayerBackward",
    "gated_delta_layer": "GatedDeltaLayer",
    "gated_delta_training": "GatedDeltaTraining",
    "causal_conv1d_backward": "CausalConv1dBackward",
    "causal_conv1d": "CausalConv1d",
    "gated_rms_norm_backward": "GatedRmsNormBackward",
    "gated_rms_norm": "GatedRmsNorm",
}
# Sources by the start of their path, the first that fits: target, and the tests that stand nearest.
ROOMS = (
    ("impls/cpu/", "cpu", (CPU, "cpu_backend_tests")),
    # What a planner decides is asked of it alone: the emulated kernels take minutes for a fault, and most plans are right.
    ("impls/cuda/gated_delta/fused_sm90/planner", "planner", ("fused_sm90_planner_tests",)),
    ("impls/cuda/gated_delta/channel_sm90/planner", "planner", ("channel_sm90_planner_tests",)),
    ("impls/cuda/gated_delta/fused_sm90/", "cuda", ("fused_sm90_tests", "implementation_tests --gtest_filter=*/cuda_fused_sm90*")),
    ("impls/cuda/gated_delta/channel_sm90/", "cuda", ("channel_sm90_tests",
                                                      "implementation_tests --gtest_filter=*/cuda_channel_sm90*")),
    ("impls/cuda/gated_delta/chunk_sm90/", "cuda", ("fused_sm90_tests", "channel_sm90_tests", "backward_sm90_tests")),
    ("impls/cuda/hopper/", "cuda", ("fused_sm90_tests", "channel_sm90_tests", "backward_sm90_tests")),
    ("impls/cuda/gated_delta_backward/chunkwise_sm90", "cuda", (
        "backward_sm90_tests", "implementation_tests --gtest_filter=*Backward*/cuda_chunkwise_sm90")),
    ("impls/cuda/gated_delta_backward/", "cuda", ("implementation_tests --gtest_filter=*GatedDeltaBackward*/cuda_*",)),
    ("impls/cuda/gated_delta_verify/", "cuda", ("implementation_tests --gtest_filter=*GatedDeltaVerify*/cuda_*",)),
    ("impls/cuda/gated_delta_ring/", "cuda", ("implementation_tests --gtest_filter=*GatedDeltaRing*/cuda_*",)),
    ("impls/cuda/causal_conv1d/", "cuda", ("implementation_tests --gtest_filter=*/cuda_direct",)),
    ("impls/cuda/gated_rms_norm/", "cuda", ("implementation_tests --gtest_filter=*/cuda_rows",)),
    ("impls/cuda/emulated/", "cuda", ("cuda_emulated_tests", "implementation_tests --gtest_filter=*/cuda_naive")),
    ("impls/cuda/", "cuda", ("implementation_tests --gtest_filter=*/cuda_*", "held_tests")),
    *((f"impls/hip/{folder}/", "gfx906", (f"implementation_tests --gtest_filter=*/{suite}.*/hip_*", "hip_tests"))
      for folder, suite in OF_OPERATION.items()),
    ("impls/hip/gated_delta/", "gfx906", ("implementation_tests --gtest_filter=*/GatedDelta*/hip_*:*/RecurrenceVariants.*/hip_*",
                                          "hip_tests")),
    ("impls/hip/emulator/", "gfx906", ("gfx906_emulator_tests", "gfx906_fuzz_tests", "hip_tests")),
    ("impls/hip/", "gfx906", ("hip_tests", "implementation_tests --gtest_filter=*/hip_*")),
    ("impls/held/", "harness", ("held_tests", "implementation_tests --gtest_filter=*Held*-*cuda_*:*hip_*")),
    ("impls/plugin/", "harness", ("plugin_tests", "harness_plugin_tests")),
    ("impls/", "harness", ("interface_tests", CPU, "every_feature_tests", "held_tests")),
    ("reference/", "reference", ("reference_tests", "numpy_fixture_tests", "harness_verify_tests", CPU)),
    ("harness/verify/", "harness", ("harness_verify_tests", "every_feature_tests", "harness_rows_tests",
                                    "harness_command_line_tests")),
    ("harness/run/", "harness", ("harness_verify_tests", "every_feature_tests", CPU)),
    ("harness/files/", "harness", ("harness_verify_tests", "harness_rows_tests", "harness_bad_input_tests",
                                   "harness_full_disk_tests")),
    ("harness/measure/", "harness", ("harness_rows_tests", "harness_measure_tests", "harness_sweep_command_tests",
                                     "harness_command_line_tests")),
    ("harness/sweep/", "harness", ("harness_measure_tests", "harness_sweep_command_tests", "harness_command_line_tests")),
    ("harness/explain/", "harness", ("harness_explain_tests", "harness_command_line_tests")),
    ("harness/conventions/", "harness", ("harness_conventions_tests",)),
    ("harness/report/", "harness", ("harness_report_tests",)),
    ("harness/rows/", "harness", ("harness_rows_tests", "harness_sweep_command_tests", "harness_measure_tests",
                                  "harness_full_disk_tests")),
    ("harness/tables/", "harness", ("harness_rows_tests", "harness_command_line_tests")),
    ("harness/plugin/", "harness", ("harness_plugin_tests",)),
    ("harness/inputs/", "harness", ("harness_verify_tests", "every_feature_tests")),
    ("harness/operations/", "harness", ("harness_rows_tests", "harness_verify_tests", "every_feature_tests",
                                        "harness_measure_tests", "harness_conventions_tests")),
    ("harness/problems/", "harness", ("harness_rows_tests", "harness_measure_tests", "harness_verify_tests",
                                      "harness_command_line_tests", "harness_sweep_command_tests")),
    ("harness/c_library/", "harness", ("c_library_in_c", "c_library_phases_tests")),
    ("harness/cli/plugin", "harness", ("harness_plugin_tests", "harness_command_line_tests")),
    ("harness/cli/suite_folder", "harness", ("harness_suite_folder_tests", "harness_command_line_tests")),
    ("harness/cli/", "harness", ("harness_command_line_tests", "harness_sweep_command_tests", "harness_bad_input_tests",
                                 "harness_suite_folder_tests")),
    ("harness/", "harness", ("harness_verify_tests", "harness_command_line_tests", "harness_conventions_tests",
                             "every_feature_tests")),
)


def room_of(file):
    """(target, tests) of a source that faults are planted in, or None."""
    if not re.search(r"\.(cpp|h|cu|cuh|hip)$", file) or "/tests/" in file or file.startswith("harness/gfx906/"):
        return None
    return next(((target, [shlex.split(test) for test in tests]) for start, target, tests in ROOMS if file.startswith(start)),
                None)


# ---- what is code --------------------------------------------------------------------------------------


def code_only(text):
    """The text with comments and strings blank, in as many characters and lines."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', blank, text, flags=re.DOTALL)


# Lines whose change is no fault of what the program does, or seldom compiles.
NOT_MUTATED = re.compile(r"^\s*(#|template\b|static_assert\b|using\b|namespace\b|friend\b|asm\b|class\b|struct\b|\}|$)|operator|"
                         r"noexcept|GDN_")
DECLARES = re.compile(r"^\s*(return|const|constexpr|auto|static|using|break|continue|throw|delete|goto|case|default|extern|"
                      r"explicit|virtual|inline|typename|typedef|struct|class|enum|public|private|unsigned|signed|void|bool|int|"
                      r"float|double|char|std::\w+[ <]|u?int\d+_t|[A-Z]\w+(<.*>)? \w+|else|if|for|while|do|switch|__\w+__)\b")

SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*",
           "&&": "||", "||": "&&", "true": "false", "false": "true"}
EXTREMES = {"std::min": "std::max", "std::max": "std::min", "fminf": "fmaxf", "fmaxf": "fminf", "min": "max", "max": "min"}


def doubled(match):
    number, suffix = re.fullmatch(r"([\d.]+)(f?)", match[0]).groups()
    return f"{2 * float(number)!r}{suffix}"


def dropped(match):
    """Of a statement nothing but the space before it."""
    return re.match(r"\s*", match[0])[0] + ";"


# name, what it finds in a line, what it makes of that.
OPERATORS = (
    ("relation", re.compile(r"(?<= )(<=|>=|==|!=|<|>)(?= )"), lambda m: SWAPPED[m[0]]),
    ("sign", re.compile(r"(?<= )[+-](?= )"), lambda m: SWAPPED[m[0]]),
    ("product", re.compile(r"(?<= )[*/](?= )"), lambda m: SWAPPED[m[0]]),
    ("condition", re.compile(r"(?<= )(&&|\|\|)(?= )"), lambda m: SWAPPED[m[0]]),
    ("extreme", re.compile(r"(std::min|std::max|\bfminf|\bfmaxf|(?<![\w:.])min|(?<![\w:.])max)(?=\()"), lambda m: EXTREMES[m[0]]),
    ("one more", re.compile(r"(?<= [+-] )1\b(?![.\w])"), lambda m: "2"),
    ("one less", re.compile(r"(?<= [+-] )1\b(?![.\w])"), lambda m: "0"),
    ("doubled", re.compile(r"(?<![\w.])\d+\.\d+f?\b(?!p)"), doubled),
    ("not", re.compile(r"(?<=[( ])!(?=[a-z(])"), lambda m: ""),
    ("truth", re.compile(r"\b(true|false)\b"), lambda m: SWAPPED[m[0]]),
    ("dropped", re.compile(r"^\s+[A-Za-z_][^=;{}]*(\(.*\)|\+\+|--| [-+*/|&]?= [^;]*);$"), dropped),
)


def places_of(text):
    """[(line number from 0, operator, changed line)] of a source."""
    places = []
    lines, code = text.split("\n"), code_only(text).split("\n")
    for number, (line, bare) in enumerate(zip(lines, code)):
        if NOT_MUTATED.search(bare):
            continue
        ends_statement = number > 0 and re.search(r"[;{}:]\s*$|^\s*$", code[number - 1])
        for name, pattern, change in OPERATORS:
            if name == "dropped" and (DECLARES.match(bare) or not ends_statement or bare.count("(") != bare.count(")")):
                continue
            for match in pattern.finditer(bare):
                if name == "sign" and '"' in (line[:match.start()].rstrip()[-1:], line[match.end():].lstrip()[:1]):
                    continue  # of text, which has no minus
                changed = line[:match.start()] + change(match) + line[match.end():]
                if name == "dropped":
                    changed = change(match)
                if changed != line:
                    places.append((number, name, changed))
    return places


# ---- drawing -------------------------------------------------------------------------------------------


def unique_hunk(file, lines, number, changed):
    """The line with as much before it as makes it the only such place."""
    for above in range(0, number + 1):
        before = lines[number - above:number + 1]
        if sum(lines[i:i + len(before)] == before for i in range(len(lines) - len(before) + 1)) == 1:
            return mutants.Hunk(file, before, before[:-1] + [changed])
    raise mutants.MutantError(f"{file}: line {number + 1} cannot be told from others")


class Drawing:
    """Mutants in the order in which a seed has them, without end."""

    def __init__(self, seed, only, files=None):
        self.random = random.Random(f"{seed}")
        self.texts = {}
        for file in files if files is not None else mutants.source_files():
            room = room_of(file)
            if room and (not only or room[0] in only or any(file.startswith(word) for word in only)):
                self.texts[file] = (mutants.ROOT / file).read_text()
        self.places = {file: places for file, text in self.texts.items() if (places := places_of(text))}
        if not self.places:
            raise mutants.MutantError(f"no source is meant by --only {' '.join(only)}")
        self.drawn = set()

    def __iter__(self):
        names = sorted(self.places)
        sizes = [sum(1 for line in code_only(self.texts[name]).split("\n") if line.strip()) for name in names]
        number = 0
        while len(self.drawn) < sum(len(places) for places in self.places.values()):
            file = self.random.choices(names, sizes)[0]
            by_operator = collections.defaultdict(list)
            for place in self.places[file]:
                by_operator[place[1]].append(place)
            line, operator, changed = self.random.choice(by_operator[self.random.choice(sorted(by_operator))])
            if (file, line, operator, changed) in self.drawn:
                continue
            self.drawn.add((file, line, operator, changed))
            number += 1
            lines = self.texts[file].split("\n")
            target, tests = room_of(file)
            hunk = unique_hunk(file, lines, line, changed)
            fault = {"number": number, "file": file, "line": line + 1, "operator": operator, "before": lines[line].strip(),
                     "after": changed.strip() or ";"}
            yield mutants.Mutant(f"{target}-{number}", f"{operator} in line {line + 1}", target, tests, "", [hunk], ""), fault


# ---- running -------------------------------------------------------------------------------------------


class GeneratedLaboratory(mutants.Laboratory):
    """Knows the sound objects too, and so what compiles to the same."""

    def __init__(self, scratch, jobs, chosen, dear_s):
        super().__init__(scratch, jobs, chosen)
        self.dear_s = dear_s
        self.took_s = {}  # command -> seconds on the sound copy
        self.sound_objects = {}  # path -> digest

    def require_sound(self, test):
        key = tuple(test)
        if key in self.took_s:
            return
        if self.build.make([test[0]]):  # before the test is timed
            super().require_sound(test)
        begin = time.monotonic()
        super().require_sound(test)
        self.took_s[key] = time.monotonic() - begin
        for path in self.build.folder.rglob("*.o"):
            if path not in self.sound_objects:
                self.sound_objects[path] = hashlib.sha256(path.read_bytes()).hexdigest()

    def limit_s(self, test):
        return min(mutants.TEST_TIMEOUT_S, max(HANGING_AT_LEAST_S, HANGING * self.took_s[tuple(test)]))

    def made(self, before):
        """What is in the build folder that is not as old as before."""
        return [path for path, when in self.times().items() if before.get(path) != when]

    def times(self):
        return {path: path.stat().st_mtime_ns for path in self.build.folder.rglob("*")
                if path.is_file() and not path.is_symlink() and not path.name.startswith(".ninja")}

    def differs(self, path):
        return (path.suffix == ".o" and "build_info" not in path.name and
                self.sound_objects.get(path) != hashlib.sha256(path.read_bytes()).hexdigest())

    def examine(self, mutant):
        """(outcome, by whom)"""
        changes, left_s = False, self.dear_s
        for test in mutant.tests:
            self.require_sound(test)  # only now: most faults do not live to see the tests behind the first
            begin = time.monotonic()
            with self.planted(mutant) as made:
                wrong = self.build.make([test[0]], left_s)
                left_s -= time.monotonic() - begin
                if wrong == mutants.CUT:
                    return DEAR, f"{test[0]}: its build was cut after {self.dear_s:.0f} s"
                if wrong:
                    return NOT_COMPILED, ""
                changes = changes or any(self.differs(one) for one in made())
                failed = changes and self.build.run(test, self.limit_s(test))[0]
                if failed:
                    return mutants.KILLED, f"{test[0]}: {failed}"
        return (mutants.SURVIVED if changes else EQUAL), ""

    @contextlib.contextmanager
    def planted(self, mutant):
        """The copy with the fault; gives what says which files were made with it. After it the source is as it was and as
        old as it was, so that only what was made with the fault is made again, most of it by the compiler cache."""
        file, text = next(iter(mutants.mutated(mutant, self.source).items()))
        path = self.source / file
        kept, when = path.read_text(), path.stat().st_mtime_ns
        before = self.times()
        try:
            path.write_text(text)
            os.utime(path)
            yield lambda: self.made(before)
        finally:
            path.write_text(kept)
            os.utime(path, ns=(when, when))
            for one in self.made(before):
                one.unlink(missing_ok=True)


def read_results(path):
    if not path.is_file():
        return []
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    if not lines or tuple(lines[0]) != FIELDS:
        raise mutants.MutantError(f"{path}: expected the columns {' '.join(FIELDS)}")
    return [dict(zip(FIELDS, line)) for line in lines[1:]]


def write_results(path, rows):
    text = "\n".join("\t".join(re.sub(r"\s+", " ", str(row[field])) for field in FIELDS) for row in rows)
    aside = path.with_suffix(".new")
    aside.write_text("\t".join(FIELDS) + "\n" + text + ("\n" if text else ""))
    aside.replace(path)


def counts(rows):
    """ "12 killed, 1 equal"; and the share of those that are not equal. """
    outcomes = collections.Counter(row["outcome"] for row in rows)
    told = outcomes[mutants.KILLED] + outcomes[mutants.SURVIVED]
    share = f"; {100 * outcomes[mutants.KILLED] / told:.0f} % of {told} killed" if told else ""
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())) + share


def part_of(file):
    """harness/verify, impls/cpu, reference: what a table by parts has a line for."""
    folders = file.split("/")[:-1]
    return "/".join(folders[:1 if folders[0] == "reference" else 2])


def summary(rows):
    """A line for each part, of all rows. Those judged equal or cut say nothing of the tests and are not of the share."""
    lines = ["| part | mutants | equal | too dear | killed | survived | a test now | killed of those that are not equal |",
             "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for part in [*sorted({part_of(row["file"]) for row in rows}), "all"]:
        of = [row for row in rows if part in (part_of(row["file"]), "all") and row["outcome"] != NOT_COMPILED]
        equal = sum(row["outcome"] == EQUAL or row["judgement"].startswith(JUDGED_EQUAL) for row in of)
        dear, killed = (sum(row["outcome"] == outcome for row in of) for outcome in (DEAR, mutants.KILLED))
        survived = len(of) - equal - dear - killed
        tests = sum(row["judgement"].startswith(TEST_NOW) for row in of)
        share = f"{100 * killed / (killed + survived):.0f} %" if killed + survived else ""
        lines.append(f"| {part} | {len(of)} | {equal} | {dear} | {killed} | {survived} | {tests} | {share} |")
    return lines


def page(rows):
    """What came of all of them, for readers."""
    made = [row for row in rows if row["outcome"] != NOT_COMPILED]
    survivors = [row for row in made if row["outcome"] not in (mutants.KILLED, EQUAL, DEAR)]

    def code(text):
        return "`" + text.strip().replace("|", "\\|").replace("`", "'") + "`"
    lines = ["# Faults that nobody chose", "",
             "Operators applied to places of the sources, both drawn by a seed, and what the tests said that run without a GPU.",
             "`scripts/generate_mutants.py --page` writes this page out of `generated.tsv`, which has every mutant with its",
             "commit; that script's `--help` says how they are drawn and judged. Counts are of the tests as they were when a",
             "mutant was drawn. Survivors that have a test now were seen to fail it.", "",
             *summary(rows), "",
             f"Of the {len(survivors)} survivors each has been judged:", "",
             "| file | line | operator | before | after | judgement |", "|---|--:|---|---|---|---|"]
    for row in sorted(survivors, key=lambda row: (row["file"], int(row["line"]))):
        lines.append(f"| {row['file']} | {row['line']} | {row['operator']} | {code(row['before'])} | {code(row['after'])} "
                     f"| {row['judgement'] or 'not judged yet'} |")
    return "\n".join(lines) + "\n"


def commit_of_sources():
    """The commit whose sources these are; with a + where they are not quite."""
    def git(*words):
        return subprocess.run(["git", "-C", mutants.ROOT, *words], capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short=10", "HEAD") + ("+" if git("status", "--porcelain", "impls", "reference", "harness") else "")


def name_of(seed, only):
    return " ".join([seed, *sorted(only)])


def stands(row, fault):
    """Whether the result is of this fault; raises where the sources have drawn another by the same number."""
    if all(row[field] == " ".join(str(fault[field]).split()) for field in ("file", "operator", "before", "after")):
        return True
    raise mutants.MutantError(f"seed '{row['seed']}': result {row['number']} is of {row['file']}:{row['line']}, and these sources "
                              f"draw {fault['file']}:{fault['line']}; take another seed")


def run(arguments):
    out = pathlib.Path(arguments.out)
    rows = read_results(out)
    seed = name_of(arguments.seed, arguments.only)
    done = {row["number"]: row for row in rows if row["seed"] == seed}
    drawing, laboratory = Drawing(arguments.seed, arguments.only), None
    commit = commit_of_sources()
    for mutant, fault in drawing:
        if str(fault["number"]) in done and stands(done[str(fault["number"])], fault):
            continue
        if sum(row["outcome"] != NOT_COMPILED for row in done.values()) >= arguments.count:
            break
        laboratory = laboratory or GeneratedLaboratory(pathlib.Path(arguments.scratch).resolve(), arguments.jobs,
                                                       [mutants.Mutant("", "", "", [], "", [mutants.Hunk(file, [], [])], "")
                                                        for file in drawing.places], arguments.dear)
        begin = time.monotonic()
        outcome, by = laboratory.examine(mutant)
        row = {"seed": seed, "outcome": outcome, "by": by, "seconds": round(time.monotonic() - begin, 1),
               "commit": commit, "judgement": ""} | fault
        done[str(fault["number"])] = row
        rows.append(row)
        write_results(out, rows)
        print(f"{outcome:<18} {fault['file']}:{fault['line']} {fault['operator']}: {fault['after']}  {row['seconds']} s  {by}",
              flush=True)
    print(counts(list(done.values())))
    return 1 if any(row["outcome"] == mutants.SURVIVED and not row["judgement"] for row in rows) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", help="any text; a sitting has one of its own")
    parser.add_argument("--count", type=int, default=20, help="mutants that compile, with those that --out has of the seed")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help=f"targets ({', '.join(mutants.TARGETS)}) or paths")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--summary", action="store_true", help="only count what --out has, by part")
    parser.add_argument("--page", action="store_true", help="write generated.md beside --out")
    parser.add_argument("--dear", type=float, default=240, metavar="S", help="seconds after which a mutant's build is cut")
    parser.add_argument("--out", default=mutants.CATALOGUE / "generated.tsv", help="results, of which those of the seed stand")
    parser.add_argument("--scratch", default=mutants.ROOT / "build-mutants", metavar="DIR", help="kept for the next time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="of ninja")
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error(f"--count {arguments.count}: expected 1 or more")
    if not arguments.summary and not arguments.page and not arguments.seed:
        parser.error("--seed is missing: the draw has to have a name")
    try:
        if arguments.summary:
            print("\n".join(summary(read_results(pathlib.Path(arguments.out)))))
            return 0
        if arguments.page:
            path = pathlib.Path(arguments.out)
            path.with_suffix(".md").write_text(page(read_results(path)), encoding="utf-8")
            return 0
        if arguments.list:
            for (_, fault), _ in zip(Drawing(arguments.seed, arguments.only), range(arguments.count)):
                print(f"{fault['file']}:{fault['line']}  {fault['operator']}\n  - {fault['before']}\n  + {fault['after']}")
            return 0
        return run(arguments)
    except mutants.MutantError as error:
        print(f"generate_mutants: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

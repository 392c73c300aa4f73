#!/usr/bin/env python3
"""gpu-check.sh and write_gpu_record.py on made-up programs: what a record counts, and when there is none."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent
SANITIZERS = ("memcheck", "racecheck", "synccheck")
STEPS = ("tests", "verify", "sanitizer", "table")
TESTS = ("implementation_tests", "cuda_backend_tests", "fused_sm90_tests", "channel_sm90_tests",
         "backward_sm90_tests", "chunk_stages_tests", "held_tests")

# What goes wrong in them is said by the environment.
TEST_PROGRAM = r"""#!/bin/sh
name=$(basename "$0")
result=$name.$GTEST_SHARD_INDEX
[ "$result" != "$CRASHES" ] || kill -SEGV $$
for argument; do
  case "$argument" in --gtest_output=json:*) file=${argument#--gtest_output=json:} ;; esac
done
[ "$result" != "$FAILS" ] || failures=', "failures": [{"failure": "wrong"}]'
cat >"$file" <<END
{"testsuites": [{"name": "$name", "testsuite": [
  {"name": "${GTEST_SHARD_INDEX}of$GTEST_TOTAL_SHARDS", "result": "COMPLETED"$failures},
  {"name": "Skips", "result": "SKIPPED"}]}]}
END
"""
GDNBENCH = r"""#!/bin/sh
errors='{"output": {"relative_l2": 1e-3, "floor_ratio": 1.5, "limit": 2e-3, "limit_ratio": 0.5}, '
errors="$errors"'"final_state": {"relative_l2": 1e-3, "floor_ratio": null, "limit": 4e-3, "limit_ratio": 0.25}}'
name=cuda/x other=cuda/naive
case "$*" in *"--impl "*) name=${*#*--impl }; name=${name%% *} other=$name ;; esac
result() {
  echo "{\"implementation\": \"$name\", \"problem\": \"gated_delta:seq=1,dtype=bf16\"," \
    "\"verdict\": \"$1\", \"reason\": \"\", \"errors\": $errors}"
}
case "$*" in
  "info --json")
    sources=${STALE:-$(cmake -P "$(dirname "$0")/../cmake/GdnSourceHash.cmake" 2>&1)}
    echo "{\"sources\": \"$sources\", \"backends\": [{\"backend\": \"cuda\", \"available\": true, \"detail\": \"${CAPABILITY:-}\","
    echo "\"device\": \"${CARD:-x}\", \"driver\": \"1\", \"toolkit\": \"2\"}]}" ;;
  *--json-lines*)
    # Goes on with its file, as gdnbench does.
    file=${*##*--out } head="{\"results_ahead\": 3, \"of\": \"$name $other\"}"
    file=${file%% *}
    [ -s "$file" ] || echo "$head" >"$file"
    if [ "$(head -n 1 "$file")" != "$head" ]; then echo "gdnbench: --out: was begun by another run" >&2; exit 2; fi
    lines=$(wc -l <"$file")
    [ "$lines" -gt 1 ] || result passed >>"$file"
    [ -z "$CUT" ] || exit 1
    [ "$lines" -gt 2 ] || result "${VERDICT:-passed}" >>"$file"
    name=$other
    [ "$lines" -gt 3 ] || result unsupported >>"$file" ;;
  table*) echo "| a table |" ;;
esac
"""
SANITIZER = """#!/bin/sh
case "$*" in *"--tool ${DIRTY:-none} "*"${OF:-}"*) exit 9 ;; esac
"""
# Reads and writes the file of results as run_cases.py does.
RUN_CASES = r"""
import os, pathlib, sys
here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent)]
import case_results, source_hash
arguments = dict(zip(sys.argv[1:-1:2], sys.argv[2::2]))
assert sys.argv[-1] == "--resume" and 1 <= int(arguments["--jobs"]) <= 14 and "GDNBENCH_LIBRARY" in os.environ
head = {"cases": {"a": 4, "b": 2}, "cases_sha256": source_hash.hash_of(here.parents[1], "peers"),
        "device": arguments["--device"], "plan_only": "PLAN_ONLY" in os.environ, "strict": False}
try:
    file, known = case_results.begin(arguments["--json-lines"], head, True)
except case_results.Unreadable as error:
    sys.exit(f"run_cases: {error}")
every = [("a:test[n=1]:f", "passed", ""), ("b:test[]:g", "refused", "x: 3 (of 4)"), ("a:test[n=2]:f", "passed",
         "converted k, v"), ("a:test[n=3]:f", os.environ.get("PEER", "passed"), "out is wrong"),
         ("b:test[n=1]:g", "refused", "x: 3 (of 5)"), ("a:test[n=4]:h", "no function", "")]
left = [each for each in every if each[0] not in {name for name, *_ in known}]
with open("ran", "a") as ran:
    for name, outcome, detail in left[:int(os.environ.get("REACHED", len(left)))]:
        ran.write(f"{arguments['--seconds']} {name}\n")
        case_results.append(file, [name, outcome, detail, 0.5])
if "REACHED" in os.environ:
    file.write('["a:test[n=')  # as where it is killed
print("| a table |")
"""
# Modules that gpu-check.sh asks for.
MODULE = "import os\nif 'NO_TORCH' in os.environ: raise ImportError"


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.out = self.tree / "out"
        self.record = self.tree / "data/gpu-record.json"
        for place in ("scripts/gdnbench", "scripts/peers/cases", "build", "data", "tools", "impls/cuda",
                      "impls/interface", "cmake", "harness", "reference"):
            (self.tree / place).mkdir(parents=True)
        for hashed in ("impls/cuda/x.cu", "impls/implementations.cmake", "cmake/GdnCuda.cmake", "harness/x.cpp",
                       "scripts/peers/cases/x.py", "scripts/peers/thin_functions.py", "scripts/gdnbench_library.py",
                       "scripts/gdnbench_torch_test.py", "scripts/gdnbench_torch_autograd_test.py"):
            (self.tree / hashed).write_text("")
        for script in ("gpu-check.sh", "write_gpu_record.py", "merge_verify_shards.py", "source_hash.sh",
                       "source_hash.py", "peers/case_results.py"):
            shutil.copy(SCRIPTS / script, self.tree / "scripts" / script)
        (self.tree / "scripts/peers/run_cases.py").write_text(RUN_CASES)
        for module in ("numpy.py", "torch.py"):
            (self.tree / "tools" / module).write_text(MODULE)
        shutil.copy(SCRIPTS.parent / "cmake/GdnSourceHash.cmake", self.tree / "cmake")
        for test in TESTS:
            self.program(f"build/{test}", TEST_PROGRAM)
        self.program("build/gdnbench", GDNBENCH)
        self.program("tools/compute-sanitizer", SANITIZER)

    def program(self, path, text):
        (self.tree / path).write_text(text)
        (self.tree / path).chmod(stat.S_IRWXU)

    def check(self, *steps, **environment):
        """(exit status, standard error, the record or None)"""
        path = f"{self.tree / 'tools'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run([self.tree / "scripts/gpu-check.sh", "--out", self.out, *steps], capture_output=True,
                              text=True,
                              env={**os.environ, "PATH": path, "PYTHONPATH": str(self.tree / "tools"), **environment})
        record = self.record
        return done.returncode, done.stderr, json.loads(record.read_text()) if record.exists() else None

    def said(self):
        """(exit status, standard output) of check_gpu_record.sh"""
        shutil.copy(SCRIPTS / "check_gpu_record.sh", self.tree / "scripts")
        done = subprocess.run([self.tree / "scripts/check_gpu_record.sh"], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_a_record_counts_every_shard_of_every_program(self):
        status, errors, record = self.check()
        self.assertEqual(status, 0, errors)
        ran = {}
        for path in self.out.glob("*_tests.*.json"):
            suite = json.loads(path.read_text())["testsuites"][0]
            shard, shards = suite["testsuite"][0]["name"].split("of")
            ran.setdefault((suite["name"], int(shards)), set()).add(int(shard))
        self.assertEqual({name for name, _ in ran}, set(TESTS))
        for (name, shards), seen in ran.items():
            self.assertEqual(seen, set(range(shards)), name)
        tests = sum(len(seen) for seen in ran.values())
        self.assertEqual(record["tests"],
                         {"passed": tests, "failed": 0, "skipped": tests, "failures": [], "run_again": []})
        # the suites gpu and stress, and two seeds of drawn problems
        self.assertEqual(record["suites"]["drawn"]["passed"], 2 * record["suites"]["gpu"]["passed"])
        results = 4 * record["suites"]["gpu"]["passed"]
        self.assertGreater(results, 0)
        passed = tests + results + record["peers"]["passed"]
        self.assertEqual((record["passed"], record["failed"], record["not_reached"]), (passed, 0, 0))
        self.assertEqual(record["suites"]["gpu"]["worst"]["cuda/x bf16"],
                         {"output_floor_ratio": 1.5, "output_limit_ratio": 0.5, "final_state_limit_ratio": 0.25})

    @unittest.skipUnless("GDNBENCH" in os.environ, "GDNBENCH names no program")
    def test_what_the_program_itself_prints_is_counted(self):
        # The made-up results above agree with the reader; these say whether the program does.
        verify = [os.environ["GDNBENCH"], "verify", "--device", "cpu", "--heads", "1/2", "--dim", "8", "--seq", "1x9",
                  "--dtype", "bf16", "--errors-only", "--json-lines"]
        self.out.mkdir()
        for number, arguments in enumerate((["--impl", "cpu/naive"], ["--op", "causal_conv1d"])):
            (self.out / f"verify.{number}.part").write_text(subprocess.check_output([*verify, *arguments], text=True))
        for result in (*SANITIZERS, "table.md", "tests.json", *(f"{s}.date" for s in STEPS), "origin"):
            (self.out / result).write_text('{"kernels_sha256": "", "testsuites": []}')
        merge = [sys.executable, self.tree / "scripts/merge_verify_shards.py", self.out / "verify.json"]
        subprocess.check_call([*merge, *sorted(self.out.glob("*.part"))], stdout=subprocess.DEVNULL)
        path = self.tree / "record.json"
        write = [sys.executable, self.tree / "scripts/write_gpu_record.py", self.out, path, "tests.json"]
        subprocess.check_call(write, stdout=subprocess.DEVNULL)
        worst = json.loads(path.read_text())["suites"]["gpu"]["worst"]
        expected = {"cpu/naive bf16": ("output", "final_state"), "cpu/direct bf16": ("conv_output", "conv_state")}
        self.assertEqual(set(worst), set(expected))
        for name, operands in expected.items():
            self.assertGreater(worst[name][f"{operands[0]}_floor_ratio"], 0)
            for operand in operands:
                self.assertIn(f"{operand}_limit_ratio", worst[name])

    def test_without_a_shard_that_crashed_there_is_no_record(self):
        self.assertEqual(self.check()[0], 0)  # whose results must not stand for it
        (self.tree / "data/gpu-record.json").unlink()
        for shard in (f"{TESTS[0]}.0", f"{TESTS[-1]}.1"):
            status, errors, record = self.check("tests", "record", CRASHES=shard)
            self.assertEqual(status, 1, errors)
            self.assertIn(f"lacks {shard}.json;", errors)
            self.assertIsNone(record)

    def test_without_a_step_there_is_no_record(self):
        status, errors, record = self.check("tests", "verify", "table", "record")
        self.assertEqual(status, 1)
        self.assertIn("lacks memcheck, racecheck, synccheck;", errors)
        self.assertIsNone(record)

    def test_sanitizers_and_suites_of_some_implementations_say_so(self):
        _, _, record = self.check("--only", "cuda/naive", "tests", "verify", "stress", "full", "sanitizer", "table",
                                  "record")
        self.assertEqual(record["compute_sanitizer"]["memcheck"], "clean (cuda/naive)")
        self.assertEqual(record["failed"], 0)
        self.assertEqual({name: suite["implementations"] for name, suite in record["suites"].items()},
                         {"gpu": ["cuda/naive", "cuda/x"], "stress": ["cuda/naive"], "full": ["cuda/naive"]})
        shutil.copy(SCRIPTS / "check_gpu_record.sh", self.tree / "scripts")
        said = subprocess.run([self.tree / "scripts/check_gpu_record.sh"], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("stress of 1 of 2 implementations, full of 1 of 2 implementations, "
                      "compute-sanitizer of cuda/naive\n", said.stdout)

    def test_an_operation_by_itself_is_said_beside_what_was_clean(self):
        def memcheck(*arguments, **environment):
            self.check(*arguments, "sanitizer", **environment)
            return (self.out / "memcheck").read_text().strip()

        drafts = ("--op", "gated_delta_verify", "--only", "cuda/x,cuda/y")
        of_drafts = "gated_delta_verify: cuda/x,cuda/y"
        self.assertEqual(memcheck(*drafts), f"clean ({of_drafts})")
        self.assertEqual(memcheck("--only", "cuda/naive"), "clean (cuda/naive)")
        self.assertEqual(memcheck(*drafts), f"clean (cuda/naive; {of_drafts})")
        self.assertEqual(memcheck("--op", "causal_conv1d"),
                         f"clean (cuda/naive; {of_drafts}; causal_conv1d: all)")
        self.assertEqual(memcheck(*drafts, DIRTY="memcheck"), "failed, see memcheck.log")
        self.assertEqual(memcheck(*drafts), "failed, see memcheck.log", "what was found is still there")
        self.assertEqual(memcheck(), "clean")
        self.assertEqual(memcheck(*drafts), "clean", "of all")

    def test_an_operation_by_itself_has_no_sequences_of_another(self):
        pieces = {"DIRTY": "memcheck", "OF": "--errors-only", "CAPABILITY": "x, compute capability 9.0"}
        self.check("--op", "gated_delta_verify", "sanitizer", **pieces)
        self.assertEqual((self.out / "memcheck").read_text().strip(), "clean (gated_delta_verify: all)")

    def test_a_suite_of_fewer_implementations_does_not_replace_one_of_more(self):
        self.assertEqual(self.check()[0], 0)
        status, errors, _ = self.check("--only", "cuda/x", "stress")
        self.assertEqual((status, errors), (2, "gpu-check: suite stress: gdnbench: --out: was begun by another run\n"))
        (self.out / "stress.1.part").unlink()
        self.assertEqual(self.check("--only", "cuda/x", "stress")[0], 0)
        status, errors, record = self.check("add")
        self.assertEqual(status, 1)
        self.assertIn("lacks cuda/naive, which the record has", errors)
        self.assertEqual(record["suites"]["stress"]["implementations"], ["cuda/naive", "cuda/x"])

    def test_what_failed_is_counted_and_named(self):
        _, _, record = self.check(FAILS="cuda_backend_tests.1", VERDICT="failed", DIRTY="racecheck")
        self.assertEqual(record["tests"]["failed"], 1)
        suites = record["suites"]
        failed = sum(suites[name]["failed"] for name in ("gpu", "stress", "drawn"))
        self.assertGreater(suites["drawn"]["failed"], suites["gpu"]["failed"])
        self.assertGreater(suites["gpu"]["failed"], 0)
        self.assertEqual(record["failed"], 1 + failed + 1)
        self.assertEqual(len(record["tests"]["failures"]), 1)
        self.assertEqual(sum(len(suite["failures"]) for suite in record["suites"].values()), failed)
        self.assertEqual(record["compute_sanitizer"], {"memcheck": "clean", "racecheck": "failed, see racecheck.log",
                                                       "synccheck": "clean"})

    def test_drawn_problems_keep_the_seed_that_they_were_begun_with(self):
        self.assertEqual(self.check("fuzz", CUT="1")[0], 0)
        seed = (self.out / "fuzz.seed").read_text()
        self.assertGreaterEqual(int(seed), 0)
        self.assertEqual(self.check("fuzz")[0], 0)
        self.assertEqual((self.out / "fuzz.seed").read_text(), seed)
        self.assertEqual(json.loads((self.out / "fuzz.json").read_text())["not_reached"], 0)

    def test_a_record_with_a_failure_passes_with_a_reason_alone(self):
        _, _, record = self.check(VERDICT="failed")
        self.assertEqual(self.said()[0], 1)
        self.record.write_text(json.dumps({**record, "pending": "its reason"}))
        status, said = self.said()
        self.assertEqual(status, 0, said)
        self.assertIn("marked pending: its reason", said)

    def test_what_failed_and_was_run_again_is_named(self):
        _, _, record = self.check(FAILS="cuda_backend_tests.1")
        passed, failed = record["tests"]["passed"], record["tests"]["failures"]
        self.assertEqual(len(failed), 1)
        suite, name = failed[0].split(".", 1)
        again = {"testsuites": [{"name": suite, "testsuite": [{"name": name, "result": "COMPLETED"},
                                                              {"name": "Another", "result": "COMPLETED"}]}]}
        (self.out / "cuda_backend_tests.again.json").write_text(json.dumps(again))
        _, _, record = self.check("record")
        self.assertEqual((record["tests"]["passed"], record["tests"]["failed"]), (passed + 1, 0))
        self.assertEqual((record["tests"]["failures"], record["tests"]["run_again"]), ([], failed))
        again["testsuites"][0]["testsuite"][0]["failures"] = [{"failure": "again"}]
        (self.out / "cuda_backend_tests.again.json").write_text(json.dumps(again))
        _, _, record = self.check("record")
        self.assertEqual((record["tests"]["failed"], record["tests"]["failures"]), (1, failed))

    def test_sequences_in_pieces_count_where_the_card_runs_the_form_that_splits(self):
        hopper = "x, compute capability 9.0"
        for splits in ("cuda/fused_sm90", "cuda/channel_sm90"):
            dirty = {"DIRTY": "memcheck", "OF": f"--impl {splits} --errors-only"}
            for capability, only, expected in (
                (hopper, (), "failed, see memcheck.log"),
                (hopper, ("--only", f"cuda/naive,{splits}"), "failed, see memcheck.log"),
                (hopper, ("--only", "cuda/naive"), "clean (cuda/naive)"),
                ("x, compute capability 8.0", (), "clean"),
            ):
                with self.subTest(splits=splits, capability=capability, only=only):
                    self.check(*only, "sanitizer", CAPABILITY=capability, **dirty)
                    self.assertEqual((self.out / "memcheck").read_text().strip(), expected)

    def test_results_that_a_cut_shard_did_not_reach_are_counted(self):
        _, _, record = self.check(CUT="1")
        passed = sum(suite["passed"] for suite in record["suites"].values())
        self.assertEqual(record["not_reached"], 2 * passed)
        self.assertGreater(record["not_reached"], 0)

    def test_a_suite_that_was_cut_goes_on(self):
        self.assertEqual(self.check("tests", "verify", "stress", "sanitizer", "record", CUT="1")[2]["not_reached"], 4)
        first = (self.out / "stress.1.part").read_text()
        _, _, record = self.check("stress", "record", VERDICT="failed")
        self.assertTrue((self.out / "stress.1.part").read_text().startswith(first))
        self.assertEqual((record["suites"]["stress"]["not_reached"], record["suites"]["stress"]["failed"]), (0, 1))
        self.assertEqual(record["not_reached"], 2)

    def test_what_a_cut_shard_did_not_reach_may_be_run_again_by_name(self):
        self.assertEqual(self.check(CUT="1")[0], 0)

        def result(problem, implementation):
            return json.dumps({"problem": f"gated_delta:seq={problem},dtype=bf16", "implementation": implementation,
                               "verdict": "unsupported", "reason": ""})

        part, again = self.out / "stress.1.part", self.out / "stress.1.again"
        part.write_text("\n".join(['{"results_ahead": 4}', result(1, "cuda/x"), result(1, "cuda/y"), result(2, "cuda/x")]))
        again.write_text("\n".join(['{"results_ahead": 2}', result(2, "cuda/x"), result(2, "cuda/y")]))
        _, _, record = self.check("record")
        stress = record["suites"]["stress"]
        self.assertEqual((stress["unsupported"], stress["not_reached"]), (4, 0))  # the one reached counts once
        for foreign in (result(3, "cuda/x"), result(2, "cpu/x")):
            again.write_text("\n".join(['{"results_ahead": 1}', foreign]))
            status, errors, _ = self.check("record")
            self.assertEqual(status, 1)
            self.assertIn("is it of another suite?", errors)

    def test_parts_that_are_none_are_refused_in_a_line(self):
        self.assertEqual(self.check("stress")[0], 0)
        merge = [sys.executable, self.tree / "scripts/merge_verify_shards.py"]
        good, bad = self.out / "stress.1.part", self.tree / "bad.part"
        texts = [b"3\n", b"\xff\xfe", b'{"results_ahead": "many"}\n', b'{"results_ahead": 1}\n{"problem": "p"}\n', b""]
        for text in texts:
            bad.write_bytes(text)
            done = subprocess.run([*merge, self.tree / "merged.json", bad], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertEqual((done.stderr.count("\n"), done.stderr.count("bad.part")), (1, 1), done.stderr)
        for arguments, said in (([self.tree / "m.json", self.tree / "none.part"], "none.part"),
                                ([self.tree / "m.json", good, good], "named twice"),
                                ([self.tree / "no/m.json", good], "m.json")):
            done = subprocess.run([*merge, *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn(said, done.stderr)

    def test_flags_without_a_value_and_help(self):
        for flags, said in ((["--out"], "--out needs a value"), (["--seconds", "abc"], "expected a whole number"),
                            (["--nope"], "'--nope' is unknown")):
            done = subprocess.run([self.tree / "scripts/gpu-check.sh", *flags], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        done = subprocess.run([self.tree / "scripts/gpu-check.sh", "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("sanitizer", done.stdout)
        self.assertNotIn("set -euo", done.stdout)

    def test_a_folder_is_of_one_state_of_the_sources_and_one_card(self):
        self.assertEqual(self.check("verify")[0], 0)
        status, errors, _ = self.check("stress", CARD="y")
        self.assertEqual(status, 2)
        self.assertIn("another card", errors)
        (self.out / "origin").unlink()
        status, errors, _ = self.check("stress")
        self.assertEqual(status, 2)
        self.assertIn("does not say whose results", errors)

    def test_programs_of_other_sources_are_refused(self):
        status, errors, record = self.check(STALE="0123")
        self.assertEqual(status, 2)
        self.assertIn("built of other sources", errors)
        self.assertIsNone(record)

    def test_a_suite_that_was_run_later_joins_the_record_of_the_same_kernels(self):
        self.assertEqual(self.check("tests", "verify", "sanitizer", "table", "record")[0], 0)
        (self.tree / "harness/x.cpp").write_text("changed")
        status, errors, _ = self.check("full")
        self.assertEqual(status, 2)
        self.assertIn("holds results of other sources", errors)
        shutil.rmtree(self.out)
        status, errors, record = self.check("full", "add", VERDICT="failed")
        self.assertEqual(status, 0, errors)
        self.assertEqual(set(record["suites"]), {"gpu", "full"})
        self.assertNotEqual(record["suites"]["full"]["harness_sha256"], record["harness_sha256"])
        self.assertEqual(record["suites"]["gpu"]["harness_sha256"], record["harness_sha256"])
        self.assertEqual(record["failed"], record["suites"]["full"]["failed"])
        self.assertGreater(record["failed"], 0)

    def test_the_suite_gpu_run_again_takes_the_place_of_what_failed(self):
        _, _, record = self.check("tests", "verify", "sanitizer", "record", FAILS="cuda_backend_tests.1",
                                  VERDICT="failed")
        self.assertGreater(record["suites"]["gpu"]["failed"], 0)
        shutil.rmtree(self.out)
        (self.tree / "harness/x.cpp").write_text("changed")
        for test in TESTS:  # which belong to another step
            (self.tree / f"build/{test}").unlink()
        status, errors, record = self.check("verify", "add")
        self.assertEqual(status, 0, errors)
        self.assertEqual((record["suites"]["gpu"]["failed"], record["suites"]["gpu"]["failures"]), (0, []))
        self.assertEqual(record["failed"], 1)  # the test's, which was not run again
        self.assertNotEqual(record["suites"]["gpu"]["harness_sha256"], record["harness_sha256"])
        self.assertEqual(self.check("tests")[0], 2)

    def test_a_suite_of_other_kernels_does_not_join(self):
        self.assertEqual(self.check("tests", "verify", "sanitizer", "table", "record")[0], 0)
        shutil.rmtree(self.out)
        (self.tree / "impls/cuda/x.cu").write_text("changed")
        status, errors, record = self.check("full", "add")
        self.assertEqual(status, 1)
        self.assertIn("speaks of other kernel sources", errors)
        self.assertEqual(set(record["suites"]), {"gpu"})

    def test_a_record_can_be_written_where_there_is_no_gpu(self):
        self.assertEqual(self.check("tests", "verify", "stress", "sanitizer", "table")[0], 0)
        shutil.rmtree(self.tree / "build")
        status, errors, record = self.check("record", "add")
        self.assertEqual(status, 0, errors)
        self.assertEqual((record["device"], record["driver"]), ("x", "1"))
        self.assertEqual(self.check("verify")[0], 2)
        for program in ("gdnbench", *TESTS):
            (self.tree / "build").mkdir(exist_ok=True)
            self.program(f"build/{program}", "#!/bin/sh\necho 'cuda  absent: no driver'\n")
        status, errors, _ = self.check("verify")
        self.assertEqual(status, 3)
        self.assertIn("no driver", errors)

    def test_a_suite_that_reached_less_does_not_replace_one_that_reached_more(self):
        self.assertEqual(self.check()[0], 0)
        (self.out / "stress.1.part").unlink()
        self.assertEqual(self.check("stress", CUT="1")[0], 0)
        status, errors, record = self.check("add")
        self.assertEqual(status, 1)
        self.assertIn("reached less", errors)
        self.assertEqual(record["not_reached"], 0)

    def test_what_is_said_of_a_record(self):
        shutil.copy(SCRIPTS / "check_gpu_record.sh", self.tree / "scripts")
        check = [self.tree / "scripts/check_gpu_record.sh"]
        self.assertEqual(self.check("tests", "verify", "sanitizer", "table", "record")[0], 0)
        (self.tree / "impls/cuda/x.cu").write_text("// A comment costs no run.\n")
        said = subprocess.run(check, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stdout)
        self.assertIn("kernel and harness sources at hand were checked on x", said.stdout)
        self.assertNotIn("implementations", said.stdout)
        (self.tree / "harness/x.cpp").write_text("changed")
        shutil.rmtree(self.out)
        self.assertEqual(self.check("full", "add", CARD="y")[0], 0)
        said = subprocess.run(check, capture_output=True, text=True)
        self.assertIn("of these full on y", said.stdout)
        self.assertIn("changed since these were run: tests, compute-sanitizer, gpu", said.stdout)
        (self.tree / "impls/cuda/x.cu").write_text("changed")
        said = subprocess.run(check, capture_output=True, text=True)
        self.assertEqual(said.returncode, 1)
        self.assertIn("stale", said.stderr)

    def test_the_peers_cases_are_counted_by_peer(self):
        status, errors, record = self.check("--seconds", "70")
        self.assertEqual(status, 0, errors)
        peers = record["peers"]
        kinds = ("cases", "passed", "converted", "failed", "refused", "no_function", "not_reached")
        self.assertEqual(peers["by_peer"], {"a": dict(zip(kinds, (4, 3, 1, 0, 0, 1, 0))),
                                            "b": dict(zip(kinds, (2, 0, 0, 0, 2, 0, 0)))})
        self.assertEqual([peers[kind] for kind in kinds], [6, 3, 1, 0, 2, 1, 0])
        self.assertEqual((peers["refused_because"], peers["failures"]), ({"b g x: 3": 2}, []))
        self.assertEqual((peers["device"], peers["date"], peers["harness_sha256"]),
                         (record["device"], record["date"], record["harness_sha256"]))
        self.assertEqual({line.split()[0] for line in (self.tree / "ran").read_text().splitlines()}, {"70"})
        status, said = self.said()
        self.assertEqual(status, 0, said)
        self.assertIn(", the peers' cases)", said)
        self.assertNotIn("not run", said)

    def test_a_peers_case_that_failed_is_counted_and_named(self):
        _, _, record = self.check(PEER="failed")
        self.assertEqual((record["failed"], record["peers"]["failed"], record["peers"]["by_peer"]["a"]["failed"]),
                         (1, 1, 1))
        self.assertEqual(record["peers"]["failures"], ["a:test[n=3]:f: out is wrong"])
        self.assertEqual(self.said()[0], 1)

    def test_peers_cases_that_a_cut_run_did_not_reach_are_counted_and_run_later(self):
        _, _, record = self.check(REACHED="2")
        self.assertEqual((record["not_reached"], record["peers"]["not_reached"]), (4, 4))
        self.assertEqual({peer: counts["not_reached"] for peer, counts in record["peers"]["by_peer"].items()},
                         {"a": 3, "b": 1})
        self.assertEqual(self.said()[0], 1)
        _, _, record = self.check("peers", "record")
        self.assertEqual((record["not_reached"], record["peers"]["passed"], record["peers"]["cases"]), (0, 3, 6))
        ran = (self.tree / "ran").read_text().splitlines()
        self.assertEqual((len(ran), len(set(ran))), (6, 6))

    def test_where_pytorch_is_absent_the_record_says_so(self):
        _, _, record = self.check(NO_TORCH="1")
        self.assertEqual(record["peers"], {"not_run": "python3 finds no PyTorch or no NumPy"})
        self.assertEqual(record["failed"], 0)
        status, said = self.said()
        self.assertEqual(status, 0, said)
        self.assertIn("the peers' cases were not run: python3 finds no PyTorch", said)
        _, _, record = self.check("peers", "add")
        self.assertEqual(record["peers"]["cases"], 6)
        (self.out / "peers.jsonl").unlink()
        _, _, record = self.check("stress", "peers", "add", NO_TORCH="1")
        self.assertEqual(record["peers"]["cases"], 6)

    def test_a_record_that_says_nothing_of_the_peers_still_reads(self):
        self.assertEqual(self.check()[0], 0)
        record = json.loads(self.record.read_text())
        passed = record["passed"] - record.pop("peers")["passed"]
        self.record.write_text(json.dumps({**record, "passed": passed}))
        status, said = self.said()
        self.assertEqual(status, 0, said)
        self.assertIn("the record says nothing of them", said)
        shutil.rmtree(self.out)
        self.assertEqual(self.check("stress", "add")[2]["passed"], passed)
        self.assertNotIn("peers", json.loads(self.record.read_text()))
        status, errors, record = self.check("peers", "add")
        self.assertEqual((status, record["passed"]), (0, passed + 3), errors)

    def test_peers_results_of_other_cases_are_said_and_not_mixed(self):
        self.assertEqual(self.check()[0], 0)
        for changed in ("scripts/peers/cases/x.py", "scripts/peers/thin_functions.py", "scripts/gdnbench_library.py"):
            (self.tree / changed).write_text("x = 1\n")
            status, said = self.said()
            self.assertEqual(status, 0, said)
            self.assertIn("the peers' cases, or the functions that they call, changed since", said)
            status, errors, _ = self.check("peers", "record")
            self.assertEqual(status, 2)
            self.assertIn("peers.jsonl: was begun with other cases_sha256; remove it", errors)
            (self.tree / changed).write_text("")
        self.assertNotIn("changed", self.said()[1])

    def test_peers_results_that_are_none_are_refused_in_a_line(self):
        self.assertEqual(self.check()[0], 0)
        path = self.out / "peers.jsonl"
        head, *results = path.read_text().splitlines()
        refused = {"was cut before it began": "", "expected what run_cases.py": "3\n",
                   "named twice": "\n".join([head, results[0], results[0], ""]),
                   "none of the head's": head + '\n["c:test[]:f", "passed", "", 1]\n',
                   "outcome 'well'": head + '\n["a:test[]:f", "well", "", 1]\n',
                   "another kind of run": head.replace('"strict": false', '"strict": true') + "\n"}
        for said, text in refused.items():
            path.write_text(text)
            status, errors, _ = self.check("record")
            self.assertEqual((status, errors.count("\n")), (1, 1), errors)
            self.assertIn(said, errors)
        path.unlink()
        self.assertIn("lacks peers.jsonl", self.check("record")[1])

    def test_peers_results_that_reached_less_do_not_replace_those_that_reached_more(self):
        self.assertEqual(self.check()[0], 0)
        (self.out / "peers.jsonl").unlink()
        self.assertEqual(self.check("peers", REACHED="5")[0], 0)
        status, errors, record = self.check("add")
        self.assertEqual((status, record["peers"]["not_reached"]), (1, 0))
        self.assertIn("peers in", errors)


if __name__ == "__main__":
    unittest.main()

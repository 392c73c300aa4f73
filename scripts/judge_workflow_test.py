#!/usr/bin/env python3
"""docs/judge-kernel.yml: its steps are run, with a stand-in for each action, for pip and for gh, in a stand-in for a
kernel's repository. Exit 77 without PyYAML and NumPy.

    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/judge_workflow_test.py
"""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

for needed in ("numpy", "yaml"):
    if importlib.util.find_spec(needed) is None:
        print(f"judge_workflow_test: no {needed} here")
        sys.exit(77)
import yaml  # noqa: E402

TREE = pathlib.Path(__file__).resolve().parents[1]
WORKFLOW = TREE / "docs/judge-kernel.yml"
KERNELS = f"""
import sys
sys.path.insert(0, {str(TREE / 'scripts/gdnbench')!r})
from judging_test import decay_after_the_update, right

def gated_delta(x):
    if x.fields["dtype"] != "f32":
        raise NotImplementedError("float32 alone")
    output, state = {{what}}(x)
    return output * {{factor}}, state
gated_delta.__name__ = "gated_delta"
"""
RIGHT, COARSER = KERNELS.format(what="right", factor=1), KERNELS.format(what="right", factor="(1 + 1e-6)")
WRONG = KERNELS.format(what="decay_after_the_update", factor=1)
PROGRAMS = {
    "pip": '''#!/usr/bin/env bash
set -eu
echo "pip $*" >>"$STATE/log"
verb=$1; shift
if [ "$verb" = wheel ]; then
  [ -e "$1/pyproject.toml" ]
  [ "$2 $3" = "--no-deps -w" ] && mkdir -p "$4" && : >"$4/gdnbench-0.1.0-py3-none-linux.whl"
else
  [ "$verb" = install ]
  for file in "$@"; do case "$file" in -r) ;; *) [ -e "$file" ] ;; esac; done
  case "$1" in *.whl) : >installed ;; esac
fi
''',
    # What was not installed cannot be imported.
    "python": '''#!/usr/bin/env bash
if [ -e installed ]; then export PYTHONPATH="$MODULES"; fi
exec "$PYTHON" "$@"
''',
    "gh": '''#!/usr/bin/env bash
set -eu
echo "gh $*" >>"$STATE/log"
[ -n "$GH_TOKEN" ] && [ "$1" = api ]
all="$*"
case "$all" in
  *"--method POST repos/me/kernels/issues/7/comments --field body=@"*) cp "${all##*@}" "$STATE/comment.7001" ;;
  *"--method PATCH repos/me/kernels/issues/comments/7001 --field body=@"*) cp "${all##*@}" "$STATE/comment.7001" ;;
  *"repos/me/kernels/issues/7/comments --paginate --jq "*'startswith("'*)
    mark=${all##*startswith(\\"}; mark=${mark%%\\"*}
    for file in "$STATE"/comment.*; do
      if [ -e "$file" ] && [ "$(head -n 1 "$file")" = "$mark" ]; then echo "${file##*.}"; fi
    done ;;
  *) exit 1 ;;
esac
''',
}


def value_of(expression, context):
    """Of an expression of a workflow, as far as this one has them; a name that there is not is an error."""
    def python(token):
        text = token[0]
        if text.startswith("'"):
            return repr(text[1:-1])
        if text in ("&&", "||"):
            return {"&&": " and ", "||": " or "}[text]
        if text == "always()":
            return "True"
        value = context
        for part in text.split("."):
            value = value[part]
        return repr(value)
    return eval(re.sub(r"'[^']*'|&&|\|\||always\(\)|[A-Za-z_][\w-]*(?:\.[\w-]+)*", python, expression))  # noqa: S307


def filled(text, context):
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(value_of(found[1].strip(), context)), str(text))


class Repository:
    """The kernel's repository at a forge: what is kept between runs of its workflow."""

    def __init__(self, folder):
        self.folder, self.runs, self.caches, self.log = folder, 0, folder / "caches", ""
        self.caches.mkdir()
        (folder / "bin").mkdir()
        for name, text in PROGRAMS.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)

    def run(self, kernels, event="push", ref="refs/heads/main", fork=False, accept_errors=False, requirements=None):
        """{job: Job} of one run of the workflow."""
        workflow = yaml.safe_load(WORKFLOW.read_text())
        triggers = workflow[True]  # "on", to YAML
        assert event in triggers, f"{event} starts nothing"
        self.runs += 1
        (self.folder / "log").write_text("")
        artifacts = self.folder / f"artifacts-{self.runs}"
        artifacts.mkdir()
        github = {"event_name": event, "ref": ref, "run_id": str(self.runs), "repository": "me/kernels",
                  "token": "t0ken", "event": {"pull_request": {"number": 7, "head": {"repo": {
                      "full_name": "else/kernels" if fork else "me/kernels"}}}}}
        jobs = {}
        for name, job in workflow["jobs"].items():
            for entry in job.get("strategy", {}).get("matrix", {}).get("include", [{}]):
                context = {"github": github, "matrix": entry, "steps": {}, "inputs": {
                    "accept_errors": str(accept_errors).lower() if event == "workflow_dispatch" else ""}}
                filled(job["runs-on"], context)
                done_before = [jobs[needed] for needed in [job.get("needs")] if needed]
                assert "always()" in job.get("if", "always()") or all(each.passed for each in done_before)
                if "if" in job and not value_of(job["if"], context):
                    continue
                place = self.folder / f"run-{self.runs}-{name}"
                place.mkdir()
                jobs[name] = Job(self, place, artifacts, kernels, requirements, workflow, job, context)
        self.log = (self.folder / "log").read_text()
        return jobs


class Job:
    def __init__(self, repository, place, artifacts, kernels, requirements, workflow, job, context):
        self._of, self.place, self._artifacts, self._context = repository, place, artifacts, context
        self._kernels, self._requirements = kernels, requirements
        self.passed, self.said, self.ran, self._to_save = True, "", [], []
        self.summary_file, outputs = place.parent / f"{place.name}.summary", place.parent / f"{place.name}.outputs"
        self.summary_file.touch()
        environment = {"PATH": f"{repository.folder / 'bin'}:{os.environ['PATH']}", "STATE": str(repository.folder),
                       "HOME": str(repository.folder), "MODULES": str(TREE / "scripts"), "PYTHON": sys.executable,
                       "PYTHONDONTWRITEBYTECODE": "1", "GDNBENCH_LIBRARY": os.environ.get("GDNBENCH_LIBRARY", ""),
                       "GITHUB_STEP_SUMMARY": str(self.summary_file), "GITHUB_OUTPUT": str(outputs)}
        for given in (workflow["env"], job.get("env", {})):
            environment |= {key: filled(value, context) for key, value in given.items()}
        for step in job["steps"]:
            wanted = step.get("if", "True")
            if not (self.passed or "always()" in wanted) or not value_of(wanted, context | {"True": True}):
                continue
            outputs.write_text("")
            self.ran.append(step.get("name", step.get("uses")))
            own, given = ({key: filled(value, context) for key, value in step.get(word, {}).items()}
                          for word in ("env", "with"))
            if "uses" in step:
                made = self._use(step["uses"], given)
            else:
                shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", filled(step["run"], context)]
                done = subprocess.run(shell, cwd=place, env=environment | own, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT)
                self.said += done.stdout
                self.passed = self.passed and done.returncode == 0
                made = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
            if "id" in step:
                context["steps"][step["id"]] = {"outputs": made or {}}
        if self.passed:
            for key, path in self._to_save:
                self._save(key, path)

    @property
    def summary(self):
        return self.summary_file.read_text()

    def _use(self, action, given):
        name, _, version = action.partition("@")
        assert re.fullmatch(r"v\d+", version), f"{action} names no version"
        return {"actions/checkout": self._checkout, "actions/setup-python": lambda python_version=None, **_: None,
                "actions/cache": self._cache, "actions/cache/restore": self._restore, "actions/cache/save": self._save,
                "actions/upload-artifact": lambda name, path: shutil.copytree(self.place / path, self._artifacts / name),
                "actions/download-artifact": self._download}[name](**{key.replace("-", "_"): value
                                                                      for key, value in given.items()})

    def _checkout(self, repository=None, path=None):
        if repository is None:
            (self.place / "my_kernels.py").write_text(self._kernels)
            if self._requirements is not None:
                (self.place / "requirements.txt").write_text(self._requirements)
            return
        assert repository.endswith("/gdnbench")
        copy = self.place / path
        copy.mkdir()
        (copy / "pyproject.toml").touch()
        (copy / "scripts").mkdir()
        for script in (TREE / "scripts").glob("*.sh"):  # of the same names; none is run
            (copy / "scripts" / script.name).write_text(f'#!/bin/sh\necho "{script.name} $*" >>"$STATE/log"\n')
            (copy / "scripts" / script.name).chmod(0o755)
        always_the_same = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
            ("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2026-01-01T00:00:00Z"))}
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "a"]):
            subprocess.run(["git", "-C", copy, *command], check=True, env=os.environ | always_the_same)

    def _restore(self, path, key, restore_keys=None):
        found = [cache for cache in sorted(self._of.caches.iterdir(), key=os.path.getmtime, reverse=True)
                 if cache.name == key or restore_keys and cache.name.startswith(restore_keys)]
        if found:
            shutil.copytree(found[0], self.place / path)
        return {"cache-hit": str(bool(found) and found[0].name == key).lower()}

    def _save(self, key, path):
        shutil.copytree(self.place / path, self._of.caches / key)

    def _cache(self, path, key):
        made = self._restore(path, key)
        if made["cache-hit"] != "true":
            self._to_save.append((key, path))
        return made

    def _download(self, pattern, merge_multiple, path):
        assert merge_multiple == "True"
        for artifact in self._artifacts.glob(pattern):
            shutil.copytree(artifact, self.place / path, dirs_exist_ok=True)


class Workflow(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gdnbench-workflow-")
        self.addCleanup(folder.cleanup)
        self.repository = Repository(pathlib.Path(folder.name))

    def judged(self, kernels, passed, **how):
        jobs = self.repository.run(kernels, **how)
        self.assertEqual(jobs["judge"].passed, passed, jobs["judge"].said)
        return jobs

    def baselines(self):
        return sorted(path.name for path in self.repository.caches.glob("gdnbench-baseline-*"))

    def comment(self):
        path = self.repository.folder / "comment.7001"
        return path.read_text() if path.exists() else None

    def test_a_repository_lives_with_it(self):
        pull = {"event": "pull_request", "ref": "refs/pull/7/merge"}
        # The first push: everything is built, and becomes the baseline.
        jobs = self.judged(RIGHT, True, requirements="torch\n")
        self.assertEqual(list(jobs), ["judge"])
        self.assertIn("### `gated_delta` on cpu: passed", jobs["judge"].summary)
        self.assertRegex(jobs["judge"].summary, r"\| passed \| gated_delta \| gated_delta:heads=2/4")
        self.assertRegex(self.repository.log, r"^install_dependencies.sh \npip wheel \./gdnbench-source .*\n"
                                              r"pip install wheels/gdnbench-\S+\.whl\npip install -r \S+\.txt\n$")
        self.assertEqual(self.baselines(), ["gdnbench-baseline-cpu-1"])

        # A pull request that breaks the kernel: the wheel is there, the comment says what is wrong.
        jobs = self.judged(WRONG, False, **pull)
        self.assertNotIn("wheel ./", self.repository.log)
        self.assertTrue(jobs["comment"].passed, jobs["comment"].said)
        for text in (jobs["judge"].summary, self.comment()):
            self.assertIn("### `gated_delta` on cpu: FAILED", text)
            self.assertRegex(text, r"\| failed \| gated_delta \| .* \| final_state of sequence 0, head 0: relative L2 ")
        self.assertEqual(self.baselines(), ["gdnbench-baseline-cpu-1"])

        # Mended, but with errors that have grown: the same comment says so.
        jobs = self.judged(COARSER, False, **pull)
        self.assertIn("--method PATCH", self.repository.log)
        self.assertRegex(self.comment(), r"Worse than the baseline:\n\n- gated_delta:.*: output error 1e-06, stored ")
        self.assertIn("2 passed, 0 failed", self.comment())

        # Merged all the same, it fails on main until somebody accepts the errors.
        self.judged(COARSER, False)
        self.assertEqual(self.baselines(), ["gdnbench-baseline-cpu-1"])
        self.judged(COARSER, True, event="workflow_dispatch", accept_errors=True)
        self.assertEqual(self.baselines(), ["gdnbench-baseline-cpu-1", "gdnbench-baseline-cpu-5"])
        self.judged(COARSER, True, **pull)
        self.assertIn("on cpu: passed", self.comment())
        self.assertEqual(self.baselines(), ["gdnbench-baseline-cpu-1", "gdnbench-baseline-cpu-5"])

    def test_a_kernel_that_cannot_be_imported_is_said_so(self):
        jobs = self.judged("import nothing_of_this_name\n", False, event="pull_request", ref="refs/pull/7/merge")
        self.assertIn("my_kernels cannot be imported: ModuleNotFoundError", jobs["judge"].said)
        self.assertEqual(jobs["judge"].summary, "### my_kernels:gated_delta on cpu: not judged, see the log\n")
        self.assertIn("not judged", self.comment())
        self.assertEqual(self.baselines(), [])

    def test_a_forks_pull_request_is_judged_and_not_commented(self):
        jobs = self.judged(RIGHT, True, event="pull_request", ref="refs/pull/7/merge", fork=True)
        self.assertEqual(list(jobs), ["judge"])
        self.assertIsNone(self.comment())


if __name__ == "__main__":
    unittest.main()

"""Compiles and tunes what the libraries keep on disk, before anything is timed."""
import subprocess
import sys
import tempfile
import time

import torch

import contenders
import inputs as inputs_of
from measure import Loaded
from progress import say
from timing import first_line


def warm(options, script):
    """One process per head count for what compiles per head count, side by side; then, one at a time, what tunes
    itself by timing. The rest compiles in the process that times."""
    if len(options.heads) == 1 and options.jobs == 1:
        return run_once(options)
    for names, most in ((contenders.COMPILED_PER_HEADS, options.jobs), (contenders.TUNED_BY_TIME, 1)):
        who = [name for name in options.who if name in names]
        waiting, running = list(options.heads) if who else [], []
        while waiting or running:
            while waiting and len(running) < most:
                running.append(Process(script, waiting.pop(0), options.seq, who))
            ended = [process for process in running if process.has_ended()]
            for process in ended:
                running.remove(process)
                process.report()
            if not ended:
                time.sleep(0.2)
    return 0


class Process:
    """The same script on one head count, alone."""

    def __init__(self, script, heads, seqs, who):
        self._what, self._begin = f"warm {heads} {','.join(who)}", time.monotonic()
        self._said = tempfile.TemporaryFile("w+", errors="replace")  # not a pipe: compilers say much
        self._child = subprocess.Popen(
            [sys.executable, script, "--warm", "--jobs", "1", "--heads", heads, "--seq", ",".join(seqs), "--who",
             ",".join(who)], stdout=self._said, stderr=subprocess.STDOUT)

    def has_ended(self):
        return self._child.poll() is not None

    def report(self):
        code = self._child.returncode
        say(f"{self._what}: {time.monotonic() - self._begin:.1f} s, exit {code}")
        self._said.seek(0)
        lines = [line.rstrip() for line in self._said if code or line.startswith("[")]
        for line in lines[-8:]:
            print(f"    {line}", flush=True)


def run_once(options):
    """Every row of one head count once; what goes wrong is said and passed over."""
    loaded = Loaded()
    with torch.no_grad():
        for seq in options.seq:
            inputs = inputs_of.with_gates(inputs_of.random_inputs(options.heads[0], seq), "weak")
            for who in options.who:
                try:
                    call = loaded.make(who, inputs)
                    call.prepare()
                    call.run()
                    torch.cuda.synchronize()
                    call.close()
                except Exception as error:  # noqa: BLE001 - a peer may raise anything
                    say(f"{who} {options.heads[0]} {seq}: {first_line(error)}")
    return 0

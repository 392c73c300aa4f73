"""A process per head count. First all of them run every contender once, side by side: that is when libraries compile,
some of them for this process alone. Then, when all are done with it, they measure one after the other, each alone on
the GPU."""
import multiprocessing
import sys
import time

import progress
from contenders import TUNED_BY_TIME
from progress import say


def run(options, todo, cases, comments):
    """Measures `todo` ([(key, contenders)]); with --warm only compiles. Returns the exit code."""
    groups = {}
    for key, who in todo:
        groups.setdefault(key[0], []).append((key, who))
    if options.warm:
        code = run_batches(list(groups.values()), without_tuned, options, cases, None, options.jobs)
        # Who tunes itself by timing does so alone.
        return run_batches(list(groups.values()), only_tuned, options, cases, None, 1) or code
    if len(groups) < 2 or options.jobs == 1:
        import measure
        return measure.measure(options, todo, cases, comments)
    return run_batches(list(groups.values()), without_tuned, options, cases, comments, options.jobs)


def without_tuned(who):
    return [name for name in who if name not in TUNED_BY_TIME]


def only_tuned(who):
    return [name for name in who if name in TUNED_BY_TIME]


def run_batches(groups, compiled, options, cases, comments, most):
    """`comments` None: nothing is measured."""
    groups = [todo for todo in groups if comments is not None or any(compiled(who) for _, who in todo)]
    code = 0
    for first in range(0, len(groups), most):
        workers = [Worker(todo, compiled, options, cases, comments) for todo in groups[first:first + most]]
        while any(worker.is_compiling() for worker in workers):
            time.sleep(0.1)
            if options.time_limit and progress.elapsed_s() > options.time_limit:
                for worker in workers:
                    worker.stop()
                say("stopped by --time-limit while compiling; what is kept on disk is kept")
                return 0
        for worker in workers:
            code = worker.finish() or code
    return code


class Worker:
    def __init__(self, todo, compiled, options, cases, comments):
        context = multiprocessing.get_context("spawn")  # CUDA does not go through a fork
        self._heads = todo[0][0][0]
        self._ready, self._go = context.Event(), context.Event()
        own = {key: cases[key] for key, _ in todo if key in cases}
        self._process = context.Process(target=work, args=(
            self._ready, self._go, todo, compiled, options, own, comments, progress.STARTED))
        self._process.start()

    def is_compiling(self):
        return self._process.is_alive() and not self._ready.is_set()

    def stop(self):
        self._process.terminate()

    def finish(self):
        """Lets it measure, and waits."""
        self._go.set()
        self._process.join()
        if self._process.exitcode:
            say(f"{self._heads}: the process ended with {self._process.exitcode}")
        return 1 if self._process.exitcode else 0


def work(ready, go, todo, compiled, options, cases, comments, started):
    """The process of a head count."""
    progress.STARTED = started
    compile_rows(todo, compiled, cases)
    ready.set()
    if comments is None:
        return
    go.wait()
    import measure
    sys.exit(measure.measure(options, todo, cases, comments))


def compile_rows(todo, compiled, cases):
    """Every set of lengths once; the gates change no kernel."""
    import torch
    from measure import Loaded
    loaded, begin, seen = Loaded(), time.monotonic(), set()
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        for key, who in todo:
            names = tuple(compiled(who))
            if (key[1], names) not in seen:
                seen.add((key[1], names))
                run_once(key, names, cases, loaded)
    torch.cuda.empty_cache()
    say(f"{todo[0][0][0]}: everyone has run once, {time.monotonic() - begin:.1f} s")


def run_once(key, names, cases, loaded):
    """What goes wrong is said and passed over: measuring will record it."""
    import torch
    import inputs as inputs_of
    from timing import first_line
    heads, seq, gates = key
    inputs = inputs_of.case_inputs(cases[key]) if key in cases else \
        inputs_of.with_gates(inputs_of.random_inputs(heads, seq), gates)
    for name in names:
        try:
            call = loaded.make(name, inputs)
            call.prepare()
            call.run()
            torch.cuda.synchronize()
            call.close()
        except Exception as error:  # noqa: BLE001 - a peer may raise anything
            say(f"compiling {name} {heads} {seq}: {first_line(error)}")

"""Cases one after another in processes of their own, several side by side: one that dies, or leaves the card in an error,
takes no other case with it. Needs no package."""
import collections
import contextlib
import math
import multiprocessing.connection
import time


def serve(pipe, work):
    """Sends work(item) for each item that comes through the pipe, until it is closed or who holds its other end is
    killed."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(work(pipe.recv()))


class Worker:
    """A process that runs `serving` with its end of a pipe. It begins anew: a card's context does not survive a fork."""

    def __init__(self, serving):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serving, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()  # so that its end is seen
        self.stopped = False

    def begin(self, item):
        self.item, self.began = item, time.monotonic()
        with contextlib.suppress(OSError):  # it has ended: result() says so
            self.pipe.send(item)

    def overdue(self, seconds):
        return time.monotonic() - self.began > seconds

    def stop(self):
        """result() then says that the item took too long."""
        self.stopped = True
        self.process.kill()

    def result(self, died):
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            why = "it took too long" if self.stopped else f"its process ended with status {self.process.exitcode}"
            return died(self.item, why, round(time.monotonic() - self.began, 3))

    def end(self):
        self.pipe.close()
        self.process.join()


def run(items, serving, died, is_spoilt, jobs, deadline=math.inf, item_seconds=math.inf):
    """The results of these items as they end, of which none is begun after the deadline, and each ends with its process
    after `item_seconds`. `serving` is serve() with a
    function of an item; died(item, why, seconds) is the result of one whose process ended. A process is not used again
    behind a result of which is_spoilt(result) is true, for a card may answer every later call with the same error."""
    waiting, busy = collections.deque(items), {}

    def goes_on():
        return waiting and time.monotonic() < deadline

    def begin(worker):
        worker.begin(waiting.popleft())
        busy[worker.pipe] = worker

    while len(busy) < jobs and goes_on():
        begin(Worker(serving))
    while busy:
        for worker in busy.values():
            if not worker.stopped and worker.overdue(item_seconds):
                worker.stop()
        for pipe in multiprocessing.connection.wait(list(busy), timeout=None if item_seconds == math.inf else 0.2):
            worker = busy.pop(pipe)
            result = worker.result(died)
            yield result
            spoilt = is_spoilt(result)
            if spoilt or not goes_on():
                worker.end()
            if goes_on():
                begin(Worker(serving) if spoilt else worker)

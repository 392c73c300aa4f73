"""Contenders in turns within one run: A B C, B C A, C A B, ... Whoever comes first in a round finds the device idle,
and what changes over the minutes of a run, as a clock does, meets all alike."""
import statistics

WARM_ROUNDS = 2


def order_in_round(names, number):
    """All of `names`, those of round `number` (from 0) first that were second in the round before."""
    first = number % len(names)
    return names[first:] + names[:first]


def time_in_turns(launches, runs, clock, failed=None):
    """Milliseconds of every run: {name: [...]} for launches {name: (prepare, launch)}. Each run is prepared and the
    cache emptied before it is timed by `clock` (gdnbench.clocks). WARM_ROUNDS rounds are not counted. A contender that raises
    leaves the turns where `failed(name, error)` takes the error."""
    times, left = {name: [] for name in launches}, list(launches)
    for number in range(WARM_ROUNDS + runs):
        taken = {}
        for name in order_in_round(left, number) if left else ():
            prepare, launch = launches[name]
            try:
                prepare()
                clock.flush()
                taken[name] = clock.take(launch)
            except Exception as error:  # whatever somebody's function raises
                if failed is None:
                    raise
                failed(name, error)
                left.remove(name)
        taken = clock.read(taken)
        if number >= WARM_ROUNDS:
            for name, time_ms in taken.items():
                times[name].append(time_ms)
    return times


def quartiles(times):
    """(first, median, third) by linear interpolation between samples, as harness/measure/statistics.h has them."""
    return tuple(statistics.quantiles(times, n=4, method="inclusive")) if len(times) > 1 else (times[0],) * 3


def one_line(error):
    """What an exception says, its first line that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def first_line(error):
    """One line of an exception, fit for a table."""
    return f"{type(error).__name__}: {one_line(error)}".rstrip(": ")[:300]

"""What scripts that time contenders ask of them and of their results, whatever is timed: who can be imported, how far a
result is from another, whether it is the same after timing, and what becomes of one that raises."""
import math

from gdnbench.turns import first_line


class Lost(Exception):
    """The GPU reports an error that a contender left; nothing more can be done in this process."""


def say_not_timed(who, error):
    print(f"# {who}: not timed: {first_line(error)}", flush=True)


def loaded(names, contenders):
    """{name: contenders[name]()} of those that can be imported; a line of each that cannot."""
    found = {}
    for name in names:
        try:
            found[name] = contenders[name]()
        except Exception as error:  # noqa: BLE001 - a library may fail to import in any way
            say_not_timed(name, error)
    return found


def relative(found, exact):
    """||found - exact|| / ||exact||, NaN if any element is."""
    exact = exact.double()
    return float((found.double() - exact).norm()) / float(exact.norm())


def worst(errors):
    """The largest; NaN if any is."""
    errors = list(errors)
    return math.nan if any(math.isnan(error) for error in errors) else max(errors)


def require_finite(results):
    """Raises where one is not, before it is timed."""
    for what, x in results.items():
        if not math.isfinite(float(x.double().norm())):
            raise ArithmeticError(f"{what}: not finite before timing")


def require_same_again(first, prepare, launch, results, machine, limit):
    """One more run, as those that were timed, on results filled with NaN; raises where one is not what it was first.
    `results`: those that a launch of a graph writes, None of a call that returns its own."""
    for x in (results or {}).values():
        x.fill_(math.nan)
    prepare()
    returned = launch()
    machine.wait()
    results = results or returned
    for what, x in first.items():
        difference = relative(results[what], x)
        if not difference <= limit:
            raise ArithmeticError(f"{what}: {difference:.3g} from what it was before timing, limit {limit:g}")


def guarded(who, machine, step, tell):
    """What the step returns. What a contender raises is told, and None returned."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - a library may raise anything
        tell(error)
    try:
        machine.wait()
    except Exception as error:  # noqa: BLE001 - what a broken context raises has no type of its own
        raise Lost(f"{who} left the GPU in an error: {first_line(error)}") from None
    return None

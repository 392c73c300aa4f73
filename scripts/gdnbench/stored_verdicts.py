"""Verdicts in a file, to be compared with those of another day: which errors have grown, and what is no longer done."""
import json
import math
import os
import tempfile

from .judged_case import case

SCHEMA = "gdn-verdicts/1"
UNIT_ROUNDOFF = {"f32": 2.0 ** -24, "bf16": 2.0 ** -8, "f16": 2.0 ** -11, "i8": 1 / 254}


class StoredVerdictsError(ValueError):
    """A file that cannot be compared with; one line that names it."""


def write_whole(path, text):
    """Beside the file and renamed over it, so that a process that is killed leaves the earlier one."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, partial = tempfile.mkstemp(prefix=os.path.basename(path) + ".partial.", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)  # mkstemp's files are for their owner alone
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def write(path, verdicts, device):
    told = lambda value: None if isinstance(value, float) and not math.isfinite(value) else value  # JSON has no NaN
    rows = [{key: told(value) for key, value in row.items()} for row in verdicts.rows()]
    write_whole(path, json.dumps({"schema": SCHEMA, "device": device, "rows": rows}, indent=1) + "\n")


def read(path):
    """(problem, implementation) -> row."""
    try:
        with open(path, encoding="utf-8") as file:
            stored = json.load(file)
        if stored["schema"] != SCHEMA:
            raise StoredVerdictsError(f"{path}: schema {stored['schema']!r}, expected {SCHEMA!r}")
        return {(row["problem"], row["implementation"]): row for row in stored["rows"]}
    except OSError as error:
        raise StoredVerdictsError(f"{path}: {error.strerror}; expected what --json wrote") from None
    except StoredVerdictsError:
        raise
    except (ValueError, KeyError, TypeError):
        raise StoredVerdictsError(f"{path}: expected what --json wrote, of schema {SCHEMA!r}") from None


def worse(verdicts, stored, growth):
    """Lines: errors above `growth` times the stored one, and above a quarter of the output's unit roundoff, below which
    no growth matters; and problems that passed and are not done any longer. StoredVerdictsError where `stored` has
    nothing to compare with."""
    lines, compared = [], 0
    for now in verdicts.rows():
        before = stored.get((now["problem"], now["implementation"]))
        if before is None:
            continue
        compared += 1
        if before["verdict"] == "passed" and now["verdict"] == "unsupported":
            lines.append(f"{now['problem']}: passed before, and is not supported now: {now['reason']}")
        if not before["verdict"] == now["verdict"] == "passed":
            continue
        for operand in case(now["problem"]).operands:
            name = f"{operand.name_after}_relative_l2"
            if None in (now.get(name), before.get(name)):
                continue
            allowed = max(growth * before[name], UNIT_ROUNDOFF.get(operand.dtype, 0) / 4)
            if not now[name] <= allowed:
                lines.append(f"{now['problem']}: {operand.name_after} error {now[name]:.3g}, stored {before[name]:.3g}, "
                             f"limit {allowed:.3g} ({growth:g} x the stored error)")
    if not compared:
        raise StoredVerdictsError("nothing in it is of these problems and this name; expected the verdicts of an "
                                  "earlier run with the same name")
    return lines

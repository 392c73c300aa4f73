"""Rows on disk: CSV with comment lines (#) that say on what and how they were measured. A line per row and contender,
written when the row is done, so that a run that was cut off is taken up where it ended."""
import csv
import os

KEY = ("heads", "seq", "gates")
COLUMNS = ("measured_at", *KEY, "contender", "status", "time_ms", "q1_ms", "q3_ms", "min_ms", "runs", "mode", "choice",
           "output_error", "output_worst_head", "state_error", "state_worst_head", "output_floor", "first_call_s",
           "reason")
TIMED = ("time_ms", "output_error", "state_error", "output_floor")  # numbers in every row that is ok
OK, WRONG, FAILED = "ok", "wrong", "failed"  # timed; outputs over the limit; threw


def key_of(line):
    return tuple(line[name] for name in KEY)


def read(path):
    """(comments, lines). Raises ValueError for a file of other columns, or where a number of a timed row is none. A last
    line cut short is left out."""
    comments, content = [], []
    with open(path, newline="") as file:
        for text in file:
            if text.startswith("#"):
                comments.append(text[1:].strip())
            elif text.endswith("\n"):
                content.append(text)
    reader = csv.DictReader(content)
    lines = list(reader)
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ValueError(f"'{path}': columns are {reader.fieldnames}, expected {list(COLUMNS)}")
    for line in lines:
        for name in TIMED if line["status"] == OK else ():
            try:
                float(line[name])
            except (TypeError, ValueError):
                where = " ".join(str(line[each]) for each in (*KEY, "contender"))
                raise ValueError(f"'{path}': {where}: {name} is '{line[name]}', expected a number") from None
    return comments, lines


class Writer:
    """Appends; what write() was given is on disk when it returns."""

    def __init__(self, path, comments):
        fresh = not os.path.exists(path) or os.path.getsize(path) == 0
        if not fresh:
            said, _ = read(path)  # refuses another kind of file
            comments = [comment for comment in comments if comment not in said]
            _drop_cut_line(path)
        self._file = open(path, "a", newline="")
        for comment in comments:
            self._file.write(f"# {comment}\n")
        self._writer = csv.DictWriter(self._file, COLUMNS, lineterminator="\n")
        if fresh:
            self._writer.writeheader()
        self._file.flush()

    def write(self, lines):
        for line in lines:
            self._writer.writerow({name: _text(line.get(name, "")) for name in COLUMNS})
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def _drop_cut_line(path):
    """What a process that was stopped while it wrote left behind the last end of line."""
    with open(path, "r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)


def _text(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", " ").replace("\r", " ")

#!/usr/bin/env python3
"""A Markdown table of what time_peers.py measured.

    table.py ROWS.csv [MORE.csv ...] [--gates weak] [--errors] > table.md

Per gate regime: rows won and lost, geometric mean of best peer / ours, the rows lost first, then every row. A ratio
above 1 says that ours took less time. A peer is held against the time of ours in the same run alone; of a contender
measured several times in a row, the last counts. --errors: output and state errors instead of times.
Exit 0 done, 2 bad usage or input.
"""
import argparse
import math
import sys

import rows
from contenders import OURS
from inputs import GATES


def fail(message):
    print(f"table: {message}", file=sys.stderr)
    sys.exit(2)


class Row:
    """What is known of one row: the last line of every contender, and ratios to ours of the same run."""

    def __init__(self, key):
        self.heads, self.seq, self.gates = key
        self.lines, self._runs = {}, {}
        self.section = f"Gates: {self.gates}" if self.gates in GATES else "Cases"
        self.name = self.heads if self.gates in GATES else f"{self.gates}, {self.heads}"

    def add(self, line):
        self.lines[line["contender"]] = line
        self._runs.setdefault(line["measured_at"], {})[line["contender"]] = line

    def time_ms(self, who):
        line = self.lines.get(who)
        return float(line["time_ms"]) if line and line["status"] == rows.OK else None

    def error(self, who, what="output_error"):
        line = self.lines.get(who)
        return float(line[what]) if line and line["status"] == rows.OK else None

    def ratio(self, who):
        """Peer's time over ours, in the run the peer was last measured in; None where one of them is missing."""
        if self.time_ms(who) is None:
            return None
        ours = self._runs[self.lines[who]["measured_at"]].get(OURS)
        return self.time_ms(who) / float(ours["time_ms"]) if ours and ours["status"] == rows.OK else None

    def best_peer(self):
        """(name, ratio) of the quickest peer; (None, None) if there is none."""
        ratios = {who: ratio for who in self.lines if who != OURS and (ratio := self.ratio(who)) is not None}
        return min(ratios.items(), key=lambda item: item[1]) if ratios else (None, None)

    def has_peer(self):
        return any(self.time_ms(who) is not None for who in self.lines if who != OURS)

    def error_ratio(self, what="output_error"):
        """Our error over the smallest of the peers'."""
        ours = self.error(OURS, what)
        peers = [error for who in self.lines if who != OURS and (error := self.error(who, what)) is not None]
        return ours / min(peers) if ours is not None and peers and min(peers) > 0 else None


def read_rows(paths):
    """({key: Row}, comments). Raises ValueError, OSError."""
    found, comments = {}, []
    for path in paths:
        said, lines = rows.read(path)
        comments += [comment for comment in said if comment not in comments]
        for line in lines:
            found.setdefault(rows.key_of(line), Row(rows.key_of(line))).add(line)
    return found, comments


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def number(value, form):
    return "" if value is None else format(value, form)


def markdown(header, body):
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join([":--"] * 2 + ["--:"] * (len(header) - 2)) + "|"]
    return lines + ["| " + " | ".join(cells) + " |" for cells in body]


def time_cells(row, peers):
    best, ratio = row.best_peer()
    cells = [row.name, row.seq, number(row.time_ms(OURS), ".4f")]
    for who in peers:
        line = row.lines.get(who)
        mark = "" if not line or line["status"] == rows.OK and line["mode"] == "graph" else \
            f" {line['mode'] if line['status'] == rows.OK else line['status']}"
        cells.append((number(row.time_ms(who), ".4f") + mark).strip())
    return cells + [best or "", number(ratio, ".2f"), number(row.error_ratio(), ".2f")]


def summary(members):
    """(rows lost, worst first; a sentence). A row where ours was not timed and a peer was is lost."""
    ratios = {row: ratio for row in members if (ratio := row.best_peer()[1]) is not None}
    lost = [row for row in members if row not in ratios and row.time_ms(OURS) is None and row.has_peer()]
    lost += sorted((row for row in ratios if not ratios[row] > 1), key=lambda row: ratios[row])
    if not ratios:
        return lost, f"{len(members)} rows, {len(lost)} lost."
    compared = len(ratios) + sum(1 for row in lost if row not in ratios)
    worse = sum(1 for row in members if (row.error_ratio() or 0) > 1)
    return lost, (f"{len(members)} rows; {compared - len(lost)} won, {len(lost)} lost, {len(members) - compared} without "
                  f"a peer; geometric mean of best peer / ours {geometric_mean(ratios.values()):.2f}, least "
                  f"{min(ratios.values()):.2f}; output error above the best peer's on {worse} rows.")


def times_table(title, members, peers):
    lost, sentence = summary(members)
    header = ["heads", "seq", "ours ms", *(f"{who} ms" for who in peers), "best peer", "best / ours",
              "error / best peer's"]
    lines = [f"## {title}", "", sentence, ""]
    if lost:
        lines += ["Lost:", "", *markdown(header, [time_cells(row, peers) for row in lost]), "", "All rows:", ""]
    return lines + [*markdown(header, [time_cells(row, peers) for row in members]), ""]


def errors_table(title, members, who):
    """Relative L2 of the output (of the final state), and what rounding the exact output costs."""
    header = ["heads", "seq", "rounding", *who, "output / best peer's", "state / best peer's"]
    body = []
    for row in members:
        floor = next(float(line["output_floor"]) for line in row.lines.values() if line["output_floor"])
        cells = [row.name, row.seq, f"{floor:.2e}"]
        for name in who:
            output, state = row.error(name), row.error(name, "state_error")
            refused = row.lines[name]["status"] if name in row.lines else ""
            cells.append(refused if output is None else f"{output:.2e} ({state:.2e})")
        body.append(cells + [number(row.error_ratio(), ".3f"), number(row.error_ratio("state_error"), ".3f")])
    return [f"## {title}", "", *markdown(header, body), ""]


def troubles(found):
    """What is not ok: contender, reason, on how many rows."""
    reasons = {}
    for row in found.values():
        for who, line in row.lines.items():
            if line["status"] != rows.OK:
                reasons.setdefault((who, line["status"], line["reason"]), []).append(row)
    lines = [f"- {who} {status} on {len(on)} rows ({on[0].name} {on[0].seq}{', ...' if len(on) > 1 else ''}): {reason}"
             for (who, status, reason), on in reasons.items()]
    return ["## Not timed", "", *lines, ""] if lines else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", nargs="+", metavar="ROWS.csv")
    parser.add_argument("--gates", help="comma list: only these regimes")
    parser.add_argument("--errors", action="store_true", help="errors instead of times")
    options = parser.parse_args()
    try:
        found, comments = read_rows(options.rows)
    except (OSError, ValueError, KeyError) as error:
        fail(str(error))
    regimes = list(dict.fromkeys(row.gates for row in found.values()))
    if options.gates:
        unknown = [name for name in options.gates.split(",") if name not in regimes]
        if unknown:
            fail(f"--gates '{unknown[0]}': expected some of {', '.join(regimes)}")
        regimes = options.gates.split(",")
        found = {key: row for key, row in found.items() if row.gates in regimes}
    if not found:
        fail("no rows")
    who = contenders_in_order(found)
    print("\n".join([*(f"{comment}  " for comment in comments), ""]))
    for section in dict.fromkeys(row.section for row in found.values()):
        members = [row for row in found.values() if row.section == section]
        lines = errors_table(section, members, who) if options.errors else \
            times_table(section, members, [name for name in who if name != OURS])
        print("\n".join(lines))
    print("\n".join(troubles(found)))
    return 0


def contenders_in_order(found):
    names = list(dict.fromkeys(name for row in found.values() for name in row.lines))
    return sorted(names, key=lambda name: name != OURS)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Do includes go in the direction that docs/architecture.md says? Prints FILE:LINE: what does not, one a line.

    scripts/check_includes.py            this tree
    scripts/check_includes.py FOLDER     another one

The rules are the two tables of that page, so that page and sources cannot come to differ:

    folders   "| folder | what it holds | includes |": what stands under a folder, or a file, of the first column may
              include itself and what the third column names. Of several rows that fit, the longest name counts.
    rooms     "| room | what it does |": the rooms of harness/ from the ground up. One that may include harness/ may
              include itself and the rooms before it.

A quoted include must name a file of the tree, from the root, from impls/, from the emulator's headers or from its own
folder. Files under a tests/ folder may include anything, and are included by others of that kind alone. Exit 0: every
include is allowed; 1: one is not, or a table is missing; 2: usage.
"""
import argparse
import pathlib
import re
import sys

PAGE = "docs/architecture.md"
ROOTS = ("impls", "reference", "harness")
SOURCES = {".h", ".cuh", ".cpp", ".cu", ".hip", ".c"}
EMULATED = "impls/cuda/emulated/include"  # stands in the place of the CUDA Toolkit's headers
GENERATED = {"source_hash.h"}             # written at every build
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
NAME = re.compile(r"`([^`]+)`")


class PageError(Exception):
    """What the page lacks, in one line."""


def table(text, head):
    """Cells of the rows below the line that starts with `head`."""
    lines = iter(text.splitlines())
    rows = []
    for line in lines:
        if line.startswith(head):
            next(lines, None)  # the line of dashes
            for row in lines:
                if not row.startswith("|"):
                    break
                rows.append([cell.strip() for cell in row.strip().strip("|").split("|")])
    if not rows:
        raise PageError(f"{PAGE}: there is no table '{head}'")
    return rows


class Rules:
    def __init__(self, text):
        self.allowed = {}  # a folder's name with its slash, or a file's: what it may include
        for first, _, includes in table(text, "| folder | what it holds | includes |"):
            for name in NAME.findall(first):
                self.allowed[name] = [name, *NAME.findall(includes)]
        self.rooms = [room for first, *_ in table(text, "| room | what it does |") for room in NAME.findall(first)]

    def folder_of(self, path):
        """The row that a path falls under."""
        return max((name for name in self.allowed if path.startswith(name)), key=len, default=None)

    def objection(self, path, included):
        """Why `path` may not include `included`, or None."""
        folder = self.folder_of(path)
        if folder is None:
            return f"no row of the folders of {PAGE} says what {path} may include"
        if not any(included.startswith(name) for name in self.allowed[folder]):
            others = ", ".join(self.allowed[folder])
            return f"{folder} may include {others}"
        rooms = [name.split("/")[1] for name in (path, included) if name.startswith("harness/")]
        for room in rooms:
            if room not in self.rooms:
                return f"{room} is no room of {PAGE}"
        if len(rooms) == 2 and self.rooms.index(rooms[1]) > self.rooms.index(rooms[0]):
            return f"the room {rooms[0]} is below {rooms[1]}"
        return None


def of_tests(path):
    return "/tests/" in path


def find(root, path, name):
    """The file of the tree that `name` means in `path`, from the root, or None."""
    for start in (path.rpartition("/")[0], "", "impls", EMULATED):
        found = (root / start / name).resolve()
        if found.is_file():
            return found.relative_to(root).as_posix()
    return None


def findings(root):
    """Pairs: how many includes there are, and what is wrong, one a line."""
    rules = Rules((root / PAGE).read_text())
    count, wrong = 0, []
    files = sorted(p for top in ROOTS for p in (root / top).rglob("*") if p.suffix in SOURCES and p.is_file())
    for file in files:
        path = file.relative_to(root).as_posix()
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            count += 1
            name = match.group(1)
            if of_tests(path) or name in GENERATED:
                continue
            included = find(root, path, name)
            if included is None:
                reason = "there is no such file"
            elif of_tests(included):
                reason = "tests alone include what is of tests"
            else:
                reason = rules.objection(path, included)
            if reason:
                wrong.append(f"{path}:{number}: includes {name}: {reason}")
    return count, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().folder.resolve()
    if not (root / PAGE).is_file():
        parser.error(f"{root} has no {PAGE}")
    try:
        count, wrong = findings(root)
    except PageError as error:
        print(error)
        return 1
    for line in wrong:
        print(line)
    print(f"{count} includes, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The SHA-256 of a part of the sources: of the sorted list of (path, hash of what the compiler reads there).

    scripts/source_hash.py kernels|harness|peers [--list]    of the parts that scripts/source_hash.sh names
    scripts/source_hash.py --text FILE                 what of a file is hashed

Comments are left out, and white space that means nothing, so that the result of a GPU run stays that of sources of
which only those changed. Line breaks mean nothing outside preprocessor directives; a space does not beside a bracket,
a comma or a semicolon. Of Python the whole text is hashed. Of the list of implementations those of the CPU and of HIP
are left out, on which no result of an NVIDIA GPU depends. Needs Python 3.6 and nothing else: what is hashed must be the
same on every machine.
"""
import hashlib
import pathlib
import re
import sys

ROOTS = {"kernels": ("impls/cuda", "impls/interface", "impls/implementations.cmake", "cmake/GdnCuda.cmake"),
         "harness": ("harness", "reference"),
         "peers": ("scripts/peers/cases", "scripts/peers/thin_functions.py", "scripts/gdnbench",
                   "scripts/gdnbench_library.py")}
CPP = (".h", ".cpp", ".cu", ".cuh")

# In this order: a comment's mark in a literal begins none, nor does a quote in a number a literal.
CPP_TOKEN = re.compile(r"""
    (?P<comment> //(?:\\\n|[^\n])* | /\*.*?\*/ )
  | (?P<literal> (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"
               | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<splice> \\\n )
  | (?P<newline> \n )
  | (?P<space> [^\S\n]+ )
  | (?P<word> \.?\d(?:[eEpP][+-]|'?\w|\.)* | [^\W\d]\w* | . )
""", re.VERBOSE | re.DOTALL)
CMAKE_TOKEN = re.compile(r"""
    (?P<comment> \#\[(?P<level>=*)\[.*?\](?P=level)\] | \#[^\n]* )
  | (?P<literal> \[(?P<equals>=*)\[.*?\](?P=equals)\] | "(?:\\.|[^"\\])*" )
  | (?P<space> \s+ )
  | (?P<word> \\. | . )
""", re.VERBOSE | re.DOTALL)
OTHER_BACKENDS = re.compile(r"gdn_implementation\((?:cpu|hip)/[^()]*\)")
ALONE = "()[]{},;"  # joins nothing beside it, with or without a space


def cpp_text(text):
    """Tokens, a space between two that had any; a preprocessor directive on a line of its own."""
    written = []
    directive = gap = False
    starts_line = True
    for match in CPP_TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "newline":
            starts_line = True
            if directive:
                written.append("\n")
            gap = not directive
            directive = False
        elif kind in ("comment", "splice", "space"):
            gap = True
        else:
            if starts_line and token == "#":
                directive = True
                if written and written[-1] != "\n":
                    written.append("\n")
            elif gap and written and written[-1] != "\n":
                # In a directive every space stays: #define F(x) is not #define F (x).
                if directive or (written[-1] not in ALONE and token not in ALONE):
                    written.append(" ")
            written.append(token)
            starts_line = gap = False
    return "".join(written).strip("\n")


def cmake_text(text):
    written = []
    gap = False
    for match in CMAKE_TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind in ("comment", "space"):
            gap = True
        else:
            if gap and written and written[-1] not in "()" and token not in "()":
                written.append(" ")
            written.append(token)
            gap = False
    return "".join(written)


def hashed_text(path):
    """What of a file is hashed. Bytes are read as they are, whatever a machine's encoding."""
    text = path.read_bytes().replace(b"\r\n", b"\n").decode("latin-1")
    if path.suffix == ".py":
        return text
    if path.suffix in CPP:
        return cpp_text(text)
    text = cmake_text(text)
    return OTHER_BACKENDS.sub("", text) if path.name == "implementations.cmake" else text


def is_hashed(path, relative, part):
    if not path.is_file() or path.is_symlink():
        return False
    if part == "peers":
        return path.suffix == ".py" and not path.name.endswith("_test.py")
    return ((path.suffix in (*CPP, ".cmake") or path.name == "CMakeLists.txt") and
            "/tests/" not in relative and not relative.startswith("impls/cuda/emulated/"))


def listing(tree, part):
    """A line for each file, by path."""
    lines = []
    for root in ROOTS[part]:
        root = tree / root
        if not root.exists():
            sys.exit("source_hash: there is no {}".format(root))
        for path in [root] if root.is_file() else root.rglob("*"):
            relative = path.relative_to(tree).as_posix()
            if is_hashed(path, relative, part):
                digest = hashlib.sha256(hashed_text(path).encode("latin-1")).hexdigest()
                lines.append((relative, digest))
    return "".join("{}  {}\n".format(digest, relative) for relative, digest in sorted(lines))


def hash_of(tree, part):
    return hashlib.sha256(listing(tree, part).encode()).hexdigest()


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--text":
        sys.stdout.buffer.write(hashed_text(pathlib.Path(arguments[1])).encode("latin-1") + b"\n")
        return
    if not arguments or arguments[0] not in ROOTS or arguments[1:] not in ([], ["--list"]):
        sys.exit(__doc__)
    tree = pathlib.Path(__file__).resolve().parents[1]
    if arguments[1:]:
        print(listing(tree, arguments[0]), end="")
    else:
        print(hash_of(tree, arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])

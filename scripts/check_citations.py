#!/usr/bin/env python3
"""Does everything that a comment or a Markdown page cites exist? Prints FILE:LINE: what does not, one a line.

    scripts/check_citations.py            this tree
    scripts/check_citations.py FOLDER     another one

What is held, in the comments of sources and scripts, in docstrings and in whole Markdown pages:

    files     "harness/rows/row.h" from the root, "interface/problem.h" as it is included, "./mutants.py" from where
              it is cited, "row.h" alone: some file of the tree. {a,b}, * and placeholders in capitals
              ("harness/operations/NAME.cpp") stand for what fits: at least one file must.
    sections  "docs/contract.md, section 1.2" and "contract section 1.2": a heading of that page with that number;
              'CONTRIBUTING.md, "Add a kernel"': a heading of that text.
    tests     "Suite.Name" and "Suite.*": a TEST of the tree; "mutants.EveryPatchApplies": a ctest of that name;
              "harness_rows_tests": a test program.
    links     of Markdown: the file, and the heading after '#'.
    lines     of Markdown: at most 120 characters outside of tables (their titles and notes too).

Left alone: addresses on the web, build outputs (build/...), variables and <...>, and the files of other projects that
OTHERS names. Exit 0: everything exists; 1: something does not; 2: usage.
"""
import argparse
import fnmatch
import io
import pathlib
import re
import subprocess
import sys
import tokenize

LONGEST_LINE = 120
SOURCES = {".h", ".cuh", ".cpp", ".cu", ".hip", ".c", ".js", ".css"}
HASH_COMMENTS = {".sh", ".cmake", ".tsv", ".txt", ".map"}
# A name without a folder is a citation where it ends in one of these.
CITED_ENDINGS = "h|cuh|cpp|cu|hip|py|sh|cmake|md|tsv"

# Files of other projects, of toolkits and of examples: named in comments, and not in this tree.
OTHERS = {
    "ISA-NOTES.md", "gfx906-latency-hiding-ops.md", "mem_latency.md",  # measurements on gfx906 by others
    "Eigen.h", "hdf5.h", "benchmark.h",
    "hip_runtime.h", "hip_runtime_api.h", "hip_fp16.h", "cooperative_groups.h", "cuda_fp8.h",
    "ocml.bc",
    "source_hash.h",  # written at every build
}
# Pages made by programs, whose lines are as long as the commands they hold.
GENERATED_PAGES = ("data/measured/*/[!R]*.md",)

WEB = re.compile(r"https?://\S+|\barXiv[: ]\d+\.\d+")
PATH = re.compile(r"(?<![\w/.$>~-])(?:\.{1,2}/)*[\w.{}*-][\w.{},*-]*(?:/[\w.{},*-]+)*/?")
NAMED = re.compile(rf"\w\.(?:{CITED_ENDINGS})$")
PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_-]+|\bmine\b")
EXAMPLE = re.compile(r"(?:[a-z]|out|source|table|mine)\.\w+$")  # names that stand for any
PAGE_SECTION = re.compile(r"([\w./-]+\.md)`?,?\s+sections?\s+(\d+(?:\.\d+)*)(?:\s+(?:to|and)\s+(\d+(?:\.\d+)*))?")
CONTRACT_SECTION = re.compile(r"\bcontract,?\s+(?:sections?\s+)?(\d+(?:\.\d+)*)(?:\s+(?:to|and)\s+(\d+(?:\.\d+)*))?")
PAGE_HEADING = re.compile(r"([\w./-]+\.md)`?,?\s+\"([^\"]+)\"")
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
TEST = re.compile(r"(?<![\w.:])(?:\w+/)*(?:(\w+_tests)[.:]\s?)?(?:\w+/)*([A-Z]\w*)(?:/\d+)?\.([A-Z]\w*\*?|\*)(?![\w(])")
CTEST = re.compile(r"(?<![\w./])([a-z]\w*\.[A-Z]\w+)(?![\w(/])")
TEST_PROGRAM = re.compile(r"(?<![\w/.-])([a-z]\w*_tests)\b(?![\w/])")


# ---- text that may cite: blocks of (first line, text) -------------------------------------------------


def joined(lines):
    """Blocks of lines that follow one another: {line number: text} -> [(first line, text)]."""
    blocks = []
    for number in sorted(lines):
        if blocks and blocks[-1][0] + len(blocks[-1][1]) == number:
            blocks[-1][1].append(lines[number])
        else:
            blocks.append((number, [lines[number]]))
    return [(first, "\n".join(texts)) for first, texts in blocks]


def c_comments(text):
    """Of C++, CUDA, HIP and the like; strings are passed over."""
    lines, i, line = {}, 0, 1

    def keep(comment):
        for offset, part in enumerate(comment.split("\n")):
            part = re.sub(r"^\s*(?:/\*+|//[/!]*<?|\*+(?!/))?|\*+/\s*$", "", part)
            lines[line + offset] = (lines.get(line + offset, "") + " " + part).strip()

    while i < len(text):
        two = text[i:i + 2]
        if two in ("//", "/*"):
            end = text.find("\n", i) if two == "//" else text.find("*/", i + 2) + 2
            end = len(text) if end < i + 2 else end
            keep(text[i:end])
        elif text[i] == '"':
            raw = re.compile(r'R"([^\s()\\]{0,16})\(').match(text, i - 1) if i and text[i - 1] == "R" else None
            if raw:
                end = text.find(f"){raw[1]}\"", raw.end()) + len(raw[1]) + 2
            else:
                end = re.compile(r'"(?:[^"\\\n]|\\.)*"?', re.DOTALL).match(text, i).end()
        elif text[i] == "'" and not (i and (text[i - 1].isalnum() or text[i - 1] == "_")):
            end = re.compile(r"'(?:[^'\\\n]|\\.)*'?", re.DOTALL).match(text, i).end()
        else:
            end = i + 1
        end = max(end, i + 1)
        line += text.count("\n", i, end)
        i = end
    return joined(lines)


def hash_comments(text):
    lines = {}
    for number, line in enumerate(text.split("\n"), 1):
        comment = re.search(r"(?:^|\s)#+(?!!)\s?(.*)", line)
        if comment:
            lines[number] = comment[1]
    return joined(lines)


def python_comments(text):
    """Comments, and strings that are statements of their own."""
    lines, statement_begins = {}, True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                lines[token.start[0]] = token.string.lstrip("#")
            elif token.type == tokenize.STRING and statement_begins:
                for offset, part in enumerate(token.string.split("\n")):
                    lines[token.start[0] + offset] = part
            if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING):
                statement_begins = True
            elif token.type not in (tokenize.NL, tokenize.COMMENT):
                statement_begins = False
    except (tokenize.TokenError, SyntaxError):
        return hash_comments(text)
    return joined(lines)


def blocks_of(name, text):
    ending = pathlib.PurePath(name).suffix
    if ending == ".md":
        return [(1, text)]
    if ending in SOURCES:
        return c_comments(text)
    if ending == ".py":
        return python_comments(text)
    if ending in HASH_COMMENTS or text.startswith("#!"):
        return hash_comments(text)
    return []


# ---- the tree -----------------------------------------------------------------------------------------


def tracked_files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True)
    inside = subprocess.run(["git", "-C", root, "rev-parse", "--show-toplevel"], capture_output=True, text=True)
    if listed.returncode == 0 and pathlib.Path(inside.stdout.strip()).resolve() == root.resolve():
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:  # an exported tree
        names = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return sorted(name for name in set(names) if not re.match(r"build|results/|\.git/", name) and (root / name).is_file())


def slug(heading):
    """The anchor that web pages of repositories give a heading."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower()).strip())


def alternatives(path):
    """{a,b} as each of its parts."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [one for part in braces[1].split(",")
            for one in alternatives(path[:braces.start()] + part + path[braces.end():])]


class Tree:
    """The files there are, the headings of pages, and the tests."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = tracked_files(self.root)
        self.texts = {}
        for name in self.files:
            try:
                self.texts[name] = (self.root / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                pass  # no text: nothing is cited there
        self.folders = {parent.as_posix() for name in self.files for parent in pathlib.PurePosixPath(name).parents}
        self.top = {name.split("/")[0] for name in self.files if "/" in name}
        self.endings = {}  # "row.h" and "rows/row.h" -> that there is such a file
        for name in [*self.files, *self.folders]:
            parts = name.split("/")
            for i in range(len(parts)):
                self.endings.setdefault("/".join(parts[i:]), name)
        self.headings = {name: re.findall(r"^#+\s+(.+?)\s*$", text, re.MULTILINE)
                         for name, text in self.texts.items() if name.endswith(".md")}
        self.tests, self.ctests, self.programs = {}, set(), set()
        for name, text in self.texts.items():
            if pathlib.PurePath(name).suffix in (".cpp", ".cu", ".h"):
                for suite, test in re.findall(r"\b(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", text):
                    self.tests.setdefault(suite, set()).add(test)
            elif name.endswith("CMakeLists.txt"):
                self.ctests.update(re.findall(r"add_test\(\s*NAME\s+([\w.]+)", text))
                self.programs.update(re.sub(r"\$\{\w+\}", "*", program) for program in
                                     re.findall(r"(?:gdn_test|add_executable)\(\s*([\w${}]+_tests)\b", text))
        self.ctest_groups = {name.split(".")[0] for name in self.ctests if "." in name}

    def is_there(self, path):
        path = path.rstrip("/")
        return path in self.folders or path in self.texts or path in self.files

    def exists(self, path, citing):
        """Whether some file or folder is what `path`, cited in the file `citing`, means."""
        wildcards = PLACEHOLDER.sub("*", path)
        if path.startswith("."):
            base = pathlib.PurePosixPath(citing).parent
            parts = []
            for part in (*base.parts, *pathlib.PurePosixPath(path).parts):
                if part == ".." and parts:
                    parts.pop()
                elif part not in (".", ".."):
                    parts.append(part)
            path = wildcards = "/".join(parts)
            return path == "" or self.is_there(path) or self.fits(path)
        if self.is_there(path) or path.rstrip("/") in self.endings:
            return True
        for candidate in (path, wildcards):
            if "*" in candidate and self.fits(candidate):
                return True
        return False

    def fits(self, pattern):
        pattern = pattern.rstrip("/")
        return any(fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name, "*/" + pattern)
                   for name in (*self.files, *self.folders))

    def page(self, path, citing):
        """The Markdown page that is meant, or None."""
        here = (pathlib.PurePosixPath(citing).parent / path).as_posix()
        for name in (path, here, self.endings.get(path, "")):
            if name in self.headings:
                return name
        return None


# ---- what is cited ------------------------------------------------------------------------------------


class Checker:
    def __init__(self, tree):
        self.tree = tree
        self.findings = []
        self.checked = 0

    def find(self, name, line, what):
        self.findings.append((name, line, what))

    def check(self):
        for name, text in self.tree.texts.items():
            if fnmatch.fnmatch(name, "data/mutants/*.patch"):
                continue
            for first, block in blocks_of(name, text):
                self.check_block(name, first, block)
            if name.endswith(".md"):
                self.check_links(name, text)
                self.check_lengths(name, text)
        return sorted(set(self.findings))

    def check_block(self, name, first, block):
        block = WEB.sub(lambda address: " " * len(address[0]), block)

        def line_of(match):
            return first + block.count("\n", 0, match.start())

        for match in PATH.finditer(block):
            for path in self.paths_in(match[0], block, match):
                self.checked += 1
                if not self.tree.exists(path, name):
                    self.find(name, line_of(match), f"there is no {path}")
        self.check_sections(name, block, line_of)
        self.check_tests(name, block, line_of)

    def paths_in(self, text, block, match):
        """Those of a word that must exist."""
        if "..." in text or block[match.end():match.end() + 1] in ("<", "$", "("):
            return []
        found = []
        for part in re.split(r",(?![^{]*\})", text.rstrip(".,-")):
            for path in alternatives(part.rstrip(".,")):
                if path.count("{") or path.count("}") or pathlib.PurePosixPath(path).name in OTHERS:
                    continue
                if EXAMPLE.fullmatch(path) or re.match(r"[A-Z]+/", path):  # OUT/...: the caller's own
                    continue
                rooted = path.split("/")[0] in self.tree.top and "/" in path
                relative = path.startswith(("../", "./"))
                named = NAMED.search(path) and not path.startswith(("build", "*."))
                if rooted or relative or named:
                    found.append(path)
        return found

    def check_sections(self, name, block, line_of):
        for pattern in (PAGE_SECTION, CONTRACT_SECTION):
            for match in pattern.finditer(block):
                cited, *numbers = match.groups() if pattern is PAGE_SECTION else ("docs/contract.md", *match.groups())
                page = self.tree.page(cited, name)
                for number in filter(None, numbers):
                    self.checked += 1
                    if page is None:
                        self.find(name, line_of(match), f"section {number}: there is no {cited}")
                    elif not any(re.match(re.escape(number) + r"(?![\w.]*\d)", heading)
                                 for heading in self.tree.headings[page]):
                        self.find(name, line_of(match), f"{page} has no section {number}")
        for match in PAGE_HEADING.finditer(block):
            page, heading = self.tree.page(match[1], name), re.sub(r"\s+", " ", match[2])
            self.checked += 1
            if page is not None and heading.lower() not in (known.lower() for known in self.tree.headings[page]):
                self.find(name, line_of(match), f"{page} has no heading \"{heading}\"")

    def check_tests(self, name, block, line_of):
        tests = self.tree.tests
        for match in TEST.finditer(block):
            program, suite, test = match.groups()
            humps = len(re.findall(r"[A-Z][a-z0-9]+", test))
            if suite not in tests and not program and humps < 2:
                continue  # "README.Md" and the like
            self.checked += 1
            if suite not in tests or not fnmatch.filter(tests[suite], test):
                self.find(name, line_of(match), f"there is no test {suite}.{test}")
        for match in CTEST.finditer(block):
            if match[1].split(".")[0] not in self.tree.ctest_groups:
                continue
            self.checked += 1
            if match[1] not in self.tree.ctests:
                self.find(name, line_of(match), f"there is no ctest {match[1]}")
        for match in TEST_PROGRAM.finditer(block):
            self.checked += 1
            if not any(fnmatch.fnmatch(match[1], program) for program in self.tree.programs):
                self.find(name, line_of(match), f"there is no test program {match[1]}")

    def check_links(self, name, text):
        for match in LINK.finditer(re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), text)):
            target, line = match[1], 1 + text.count("\n", 0, match.start())
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = target.partition("#")
            page = name
            self.checked += 1
            if path:
                relative = "./" + path
                if not self.tree.exists(relative, name):
                    self.find(name, line, f"the link {target} leads nowhere")
                    continue
                page = self.tree.page(path, name)
            if anchor and anchor not in [slug(heading) for heading in self.tree.headings.get(page, [])]:
                self.find(name, line, f"the link {target}: {page} has no such heading")

    def check_lengths(self, name, text):
        if any(fnmatch.fnmatch(name, pages) for pages in GENERATED_PAGES):
            return
        for number, line in enumerate(text.split("\n"), 1):
            # Titles and notes of tables, as `gdnbench table` prints them.
            of_table = line.startswith("|") or line.endswith("  ") or re.fullmatch(r"\*\*.*\*\*", line)
            if not of_table and len(line) > LONGEST_LINE:
                self.find(name, number, f"{len(line)} characters in a line, at most {LONGEST_LINE}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=here)
    folder = parser.parse_args().folder
    if not folder.is_dir():
        print(f"check_citations: {folder} is no folder", file=sys.stderr)
        return 2
    checker = Checker(Tree(folder))
    findings = checker.check()
    for name, line, what in findings:
        print(f"{name}:{line}: {what}")
    print(f"{checker.checked} citations in {len(checker.tree.texts)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Table of what every CUDA kernel uses, from the lines ptxas printed while it was built.

    kernel_resources.py --declared-spills FILE [--output TABLE] OBJECT.cu.o [OBJECT.cu.o ...]

keep_ptxas_output.sh leaves OBJECT.cu.o.ptxas beside each object; objects of other languages are
passed over. Prints, per kernel: registers a thread, static shared memory, stack and spilled bytes.
Exit status 1 when a kernel spills and no line of FILE names it, when a line of FILE names no kernel
that spills, or when ptxas gave up speed in a kernel (matrix products one after the other, a register
limit ignored) where the source asks for it; 2 when a file cannot be read. Lines of FILE are kernel
names as printed here, '#' starts a comment.
"""
import argparse
import re
import subprocess
import sys

COMPILING = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
PROPERTIES = re.compile(r"Function properties for (\S+)")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
# As C7510 to C7514: wgmma products are serialized when registers run short or when products of
# different shapes share accumulators. The results stay right, so no test would notice.
LOSS = re.compile(r"(Potential Performance Loss: .*?)(?: (?:in|for) the function '(\S+)')?\.?$")


def read_kernels(path):
    """Entry functions of one .ptxas file: dicts with mangled name, architecture and figures."""
    kernels = []
    current = None
    in_entry = False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if match := COMPILING.search(line):
                current = {"mangled": match[1], "architecture": match[2], "registers": 0,
                           "shared": 0, "stack": 0, "spill_stores": 0, "spill_loads": 0}
                kernels.append(current)
            elif match := PROPERTIES.search(line):
                # Device functions that were not inlined are listed too; their spills count for the
                # kernel they follow.
                in_entry = current is not None and match[1] == current["mangled"]
            elif current is not None and (match := STACK.search(line)):
                if in_entry:
                    current["stack"] = int(match[1])
                current["spill_stores"] += int(match[2])
                current["spill_loads"] += int(match[3])
            elif current is not None and (match := REGISTERS.search(line)):
                current["registers"] = int(match[1])
                shared = SHARED.search(line)
                current["shared"] = int(shared[1]) if shared else 0
    return kernels


def read_losses(path):
    """(what ptxas says, mangled name or empty) of one .ptxas file."""
    with open(path, encoding="utf-8", errors="replace") as lines:
        return [(match[1], match[2] or "") for line in lines if (match := LOSS.search(line.rstrip()))]


def matching_angle(text, at):
    """Index behind the '>' that closes the '<' at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "<") - (text[i] == ">")
        if depth == 0:
            return i + 1
    return len(text)


def short_name(demangled):
    """'void gdn::cuda::(anonymous namespace)::f<__half, 64>(P)' -> 'f<half, 64>'."""
    name = demangled.replace("(anonymous namespace)::", "").removeprefix("void ")
    # Cut the parameters: the first parenthesis outside template arguments. '(int)64' inside them is
    # how c++filt writes a constant's type.
    i = 0
    while i < len(name):
        if name[i] == "<":
            i = matching_angle(name, i)
        elif name[i] == "(":
            name = name[:i]
        else:
            i += 1
    name = re.sub(r"\((?:int|bool|unsigned int|long)\)", "", name)
    name = re.sub(r"_GLOBAL__N__[0-9a-z_]+::", "", name)
    name = re.sub(r"\b(?:\w+::)+", "", name)
    name = re.sub(r"\bfloat\b", "f32", name)
    return name.replace("__nv_bfloat16", "bf16").replace("__half", "f16")


def demangle(names):
    try:
        result = subprocess.run(["c++filt"], input="\n".join(names), text=True,
                                capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return names  # without c++filt the mangled names do
    return result.stdout.split("\n")[:len(names)]


def read_declared(path):
    with open(path, encoding="utf-8") as lines:
        return {line.split("#")[0].strip() for line in lines} - {""}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--declared-spills", required=True, metavar="FILE")
    parser.add_argument("--output", metavar="TABLE", help="write the table here, not to stdout")
    parser.add_argument("objects", nargs="+", metavar="OBJECT.cu.o")
    arguments = parser.parse_args()
    try:
        declared = read_declared(arguments.declared_spills)
        printed = [path + ".ptxas" for path in arguments.objects if path.endswith(".cu.o")]
        kernels = [kernel for path in printed for kernel in read_kernels(path)]
        losses = sorted({loss for path in printed for loss in read_losses(path)})
    except OSError as error:
        print(f"kernel_resources: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    empty = [path for path in printed if not any(COMPILING.search(line) or "ptxas info" in line
                                                 for line in open(path, encoding="utf-8", errors="replace"))]
    for path in empty:
        print(f"kernel_resources: {path}: no line of ptxas; build the object again", file=sys.stderr)
    if empty:
        return 2
    for kernel, demangled in zip(kernels, demangle([k["mangled"] for k in kernels])):
        kernel["name"] = short_name(demangled)

    width = max([len(k["name"]) for k in kernels], default=6)
    table = [f"{'kernel':{width}}  {'for':8} registers  shared B  stack B  spilled B"]
    for k in sorted(kernels, key=lambda k: (k["name"], k["architecture"])):
        spilled = k["spill_stores"] + k["spill_loads"]
        table.append(f"{k['name']:{width}}  {k['architecture']:8} {k['registers']:9}"
                     f"  {k['shared']:8}  {k['stack']:7}  {spilled:9}")

    spilling = {k["name"] for k in kernels if k["spill_stores"] + k["spill_loads"] > 0}
    undeclared = sorted(spilling - declared)
    stale = sorted(declared - spilling)
    for name in undeclared:
        print(f"kernel_resources: {name} spills registers and is not declared in "
              f"{arguments.declared_spills}", file=sys.stderr)
    for name in stale:
        print(f"kernel_resources: {arguments.declared_spills}: {name} does not spill (or is not "
              "built); remove the line", file=sys.stderr)
    for (text, _), demangled in zip(losses, demangle([mangled for _, mangled in losses])):
        print(f"kernel_resources: {short_name(demangled) or 'a kernel'}: {text}", file=sys.stderr)
    if undeclared or stale or losses:
        print("\n".join(table))
        return 1
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write("\n".join(table) + "\n")
    else:
        print("\n".join(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The command `gdnbench` of a wheel: the program that lies in it."""
import os
import sys

import gdnbench_library


def find_program():
    """$GDNBENCH; else, of an installed module, the program that was installed with it; else that in build/."""
    here = os.path.dirname(os.path.abspath(gdnbench_library.__file__))
    place = getattr(gdnbench_library.gdnbench_place, "PROGRAM", os.path.join(os.pardir, "build", "gdnbench"))
    path = os.environ.get("GDNBENCH") or os.path.normpath(os.path.join(here, place))
    if not os.path.exists(path):
        raise FileNotFoundError(f"the program gdnbench is not at {path}: build it, or set GDNBENCH")
    return path


def headers():
    """The folder of gdnbench_plugin.h and gdnbench.h that was installed with this module; None in the sources, where
    they lie apart."""
    place = getattr(gdnbench_library.gdnbench_place, "HEADERS", None)
    here = os.path.dirname(os.path.abspath(gdnbench_library.__file__))
    return place and os.path.normpath(os.path.join(here, place))


def environment_for(path):
    """This one, and with a program of a wheel the shared libraries that came with it."""
    libraries = os.path.join(os.path.dirname(path), "lib")
    if os.environ.get("GDNBENCH") or not os.path.isdir(libraries):
        return os.environ
    others = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": libraries + (os.pathsep + others if others else "")}


def main():
    try:
        path = find_program()
        os.execve(path, ["gdnbench", *sys.argv[1:]], environment_for(path))
    except OSError as error:
        sys.exit(f"gdnbench: {error}")


if __name__ == "__main__":
    main()

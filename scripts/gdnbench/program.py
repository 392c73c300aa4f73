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


def main():
    try:
        path = find_program()
        os.execv(path, ["gdnbench", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"gdnbench: {error}")


if __name__ == "__main__":
    main()

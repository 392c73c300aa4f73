"""`python -m gdnbench judge MODULE:FUNCTION`: see judge_command.py. The program is the command `gdnbench`."""
import sys

from .judge_command import main

if __name__ == "__main__":
    sys.exit(main())

"""Lines that say when."""
import time

STARTED = time.monotonic()


def elapsed_s():
    return time.monotonic() - STARTED


def say(text):
    print(f"[{elapsed_s():6.1f} s] {text}", flush=True)

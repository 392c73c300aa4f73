#!/usr/bin/env python3
"""Cases of gated_delta, or the recurrence inside layers, as one NumPy file for time_peers.py --case on a machine
without HDF5.

    export_case.py data/gdn_lm_trace.h5:/layer0 data/gdn_lm_trace.h5:/layer1 ... --out trace.npz

`gdnbench convert` does the convolution, normalisation and gates of a layer ($GDNBENCH, build/ or the PATH has the
program). A case's name is its group, else its file's. Needs h5py and numpy. Exit 0 done, 2 bad usage or input.
"""
import argparse
import os
import subprocess
import sys
import tempfile


def fail(message):
    print(f"export_case: {message}", file=sys.stderr)
    sys.exit(2)


def converted(case, path):
    """The case in the conventions of FLA: log decay, q and k as the kernel takes them, [1, T, heads, dim]."""
    from time_peers import find_gdnbench
    done = subprocess.run([find_gdnbench(), "convert", "--op", "gated_delta", "--to", "fla", case, path],
                          capture_output=True, text=True)
    if done.returncode:
        fail(done.stderr.strip().splitlines()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="+", metavar="FILE.h5[:/group]")
    parser.add_argument("--out", required=True, metavar="CASES.npz")
    options = parser.parse_args()
    try:
        import h5py
        import numpy
    except ImportError as error:
        fail(str(error))
    arrays = {}
    for case in options.cases:
        name = case.rsplit(":/", 1)[1] if ":/" in case else os.path.splitext(os.path.basename(case))[0]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "case.h5")
            converted(case, path)
            with h5py.File(path) as file:
                for part in ("q", "k", "v", "g", "beta"):
                    if part not in file:
                        fail(f"{case}: converted without '{part}'")
                    # FLA's batch of sequences one after the other; bfloat16 values in float32 pack well
                    arrays[f"{name}.{part}"] = file[part][()].reshape(-1, *file[part].shape[2:])
                if "initial_state" in file:
                    fail(f"{case}: has an initial state, which the file does not carry")
                arrays[f"{name}.cu_seqlens"] = (
                    file["cu_seqlens"][()].astype(numpy.int64) if "cu_seqlens" in file else
                    numpy.arange(file["q"].shape[0] + 1, dtype=numpy.int64) * file["q"].shape[1])
    numpy.savez_compressed(options.out, **arrays)
    print(f"{options.out}: {len(options.cases)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())

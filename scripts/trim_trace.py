#!/usr/bin/env python3
"""Trim a gdn-case/1 trace to its first tokens, and to the smallest lossless file.

    scripts/trim_trace.py FULL_TRACE.h5 data/gdn_lm_trace.h5 --tokens 1536

Every case keeps all heads and channels; sequence_offsets becomes [0, tokens]. qkv holds
bfloat16-representable float32 values, so byte shuffling before deflate makes half of it vanish.
"""
import argparse

import h5py
import numpy as np

PER_TOKEN = ("qkv", "decay_logit", "beta_logit")


def trim(source, destination, tokens):
    with h5py.File(source, "r") as full, h5py.File(destination, "w") as short:
        for name, value in full.attrs.items():
            short.attrs[name] = value
        short.attrs["trimmed_to_tokens"] = tokens
        for group_name, group in full.items():
            target = short.create_group(group_name)
            for name, value in group.attrs.items():
                target.attrs[name] = value
            for name, dataset in group.items():
                values = dataset[...]
                if name == "sequence_offsets":
                    values = np.array([0, tokens], dtype=np.int64)
                elif name in PER_TOKEN:
                    values = values[:tokens]
                target.create_dataset(name, data=values, compression="gzip", compression_opts=9,
                                      shuffle=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("destination")
    parser.add_argument("--tokens", type=int, default=1536)
    arguments = parser.parse_args()
    trim(arguments.source, arguments.destination, arguments.tokens)

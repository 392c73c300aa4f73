#!/usr/bin/env bash
# Prints the SHA-256 of a part of the sources, comments and white space that means nothing left out (source_hash.py).
#   scripts/source_hash.sh kernels    what GPU results depend on: impls/cuda and impls/interface
#   scripts/source_hash.sh harness    inputs, reference, verification and measurement
#   scripts/source_hash.sh peers      the peers' cases, and the functions of scripts/gdnbench/ that they call
set -euo pipefail
case "${1:-}" in
  kernels | harness | peers) exec python3 "$(dirname "$0")/source_hash.py" "$1" ;;
  *) echo "usage: scripts/source_hash.sh kernels|harness|peers" >&2; exit 2 ;;
esac

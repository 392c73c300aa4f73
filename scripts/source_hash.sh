#!/usr/bin/env bash
# Prints the SHA-256 of a part of the sources: of the sorted list of (path, content hash).
#   scripts/source_hash.sh kernels    what GPU results depend on: impls/cuda and impls/interface
#   scripts/source_hash.sh harness    inputs, reference, verification and measurement
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  kernels) roots=(impls/cuda impls/interface impls/implementations.cmake cmake/GdnCuda.cmake) ;;
  harness) roots=(harness reference) ;;
  *) echo "usage: scripts/source_hash.sh kernels|harness" >&2; exit 2 ;;
esac
find "${roots[@]}" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cmake' -o -name CMakeLists.txt \) \
  -not -path '*/tests/*' -not -path 'impls/cuda/emulated/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1

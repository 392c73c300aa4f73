#!/usr/bin/env bash
# All tests: installs what is missing, builds, runs ctest, says whether the GPU record is current.
#   scripts/test.sh              the release build (build/), warnings being errors, with CUDA and gfx906 when their compilers are there
#   scripts/test.sh --sanitize   the same tests under AddressSanitizer and UndefinedBehaviorSanitizer, CPU code
# Needs no GPU; tests of GPU kernels say "skipped" without one. Exit 0 when everything passed.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=developer  # release, and warnings are errors
case "${1:-}" in
  "") ;;
  --sanitize) preset=asan+ubsan ;;
  *) echo "usage: scripts/test.sh [--sanitize]" >&2; exit 2 ;;
esac

scripts/install_dependencies.sh --hip --browser
jobs=$(nproc)
cmake --preset "$preset" >/dev/null || { cmake --preset "$preset"; exit 1; }
cmake --build --preset "$preset" -j "$jobs"
ctest --preset "$preset" -j "$jobs" --output-on-failure
[ "$preset" != developer ] || scripts/check_gpu_record.sh

#!/usr/bin/env bash
# All tests: installs what is missing, builds, runs ctest, says whether the GPU record is current.
#   scripts/test.sh              the release build (build/), with CUDA and gfx906 when their compilers are there; what
#                                scripts/quickstart.sh has built is not built again
#   scripts/test.sh --developer  the same, warnings being errors: what CI runs
#   scripts/test.sh --sanitize   the same tests under AddressSanitizer and UndefinedBehaviorSanitizer, CPU code
# Needs no GPU; tests of GPU kernels say "skipped" without one. Exit 0 when everything passed.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
case "${1:-}" in
  "") ;;
  --developer) preset=developer ;;
  --sanitize) preset=asan+ubsan ;;
  *) echo "usage: scripts/test.sh [--developer | --sanitize]" >&2; exit 2 ;;
esac

scripts/install_dependencies.sh --hip --browser
jobs=$(nproc)
cmake --preset "$preset" >/dev/null || { cmake --preset "$preset"; exit 1; }
cmake --build --preset "$preset" -j "$jobs"
ctest --preset "$preset" -j "$jobs" --output-on-failure
[ "$preset" = asan+ubsan ] || scripts/check_gpu_record.sh

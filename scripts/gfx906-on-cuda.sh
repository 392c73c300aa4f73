#!/usr/bin/env bash
# The gfx906 kernels on an NVIDIA card: builds them with the CUDA compiler, with waves of 64 lanes (two
# warps each) and of 32, and verifies every one against the float64 reference, up to 32768 tokens.
#   scripts/gfx906-on-cuda.sh                 builds in build-on-cuda/ and runs
#   scripts/gfx906-on-cuda.sh --quick         sequences of up to 257 tokens only
#   scripts/gfx906-on-cuda.sh --build-only    for a card elsewhere: then scripts/bundle.sh OUT build-on-cuda,
#                                             and on that machine OUT/gfx906_on_cuda
# Needs nvcc 12.8 or later, the gfx906 compiler (scripts/install_dependencies.sh --hip) and a Hopper card
# or later; for an earlier one set GDN_ON_CUDA_ARCHITECTURE=80. Exit 0: all agree; 1: one does not; 3: no
# card.
#
# Run on an H200 on 2026-11-22 for 110 s: 119 results, all within the limits, in waves of 64 and of 32: short and ragged
# batches of every dtype, the convolution and a short layer in float16, and 32768 tokens in float16, float32 and
# bfloat16. Not reached: the layer of 32768 tokens, and 4x8192, which in float32 had passed the day before.
# gfx906_on_cuda_64_tests and gfx906_on_cuda_32_tests execute the same sources on the host, with a fibre for each thread.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build-on-cuda
arguments=()
targets=(gfx906_on_cuda)
run=1
case "${1:-}" in
  "") ;;
  --quick) arguments=(--quick) ;;
  --build-only) run=0; targets+=(gdnbench) ;;
  *) echo "usage: scripts/gfx906-on-cuda.sh [--quick | --build-only]" >&2; exit 2 ;;
esac
cmake --preset release -B "$build" -DGDN_CUDA=ON -DGDN_HIP=ON -DGDN_TESTS=OFF -DGDN_GFX906_ON_CUDA=ON \
  -DGDN_ON_CUDA_ARCHITECTURE="${GDN_ON_CUDA_ARCHITECTURE:-90}"
cmake --build "$build" --target "${targets[@]}" -j "$(nproc)"
[ "$run" = 0 ] || "$build/gfx906_on_cuda" "${arguments[@]}"

#!/usr/bin/env bash
# The tables of harness/gfx906/analysis/README.md: instructions, bytes and modelled times of the gfx906
# kernels at the dimensions of the page, from the emulator. Needs no card; a few CPU minutes.
#   scripts/gfx906_analysis.sh             print them
#   scripts/gfx906_analysis.sh --update    write them into the page
#   scripts/gfx906_analysis.sh --check     exit 1 where the page says something else
#   scripts/gfx906_analysis.sh --speed     wave instructions per second of the emulator on one core
set -euo pipefail
cd "$(dirname "$0")/.."
page=harness/gfx906/analysis/README.md

scripts/install_dependencies.sh --hip
cmake --preset release >/dev/null || { cmake --preset release; exit 1; }
cmake --build --preset release -j "$(nproc)" --target gfx906_analysis
case "${1:-}" in
  "") build/gfx906_analysis ;;
  --update|--check) build/gfx906_analysis "$1" "$page" ;;
  --speed) build/gfx906_analysis --speed ;;
  *) echo "usage: scripts/gfx906_analysis.sh [--update|--check|--speed]" >&2; exit 2 ;;
esac

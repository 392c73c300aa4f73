#!/usr/bin/env bash
# From a clean clone to a table: installs the distribution packages that are missing, builds for the devices
# that this machine has, verifies every implementation on the real trace, times the default sweep on the best
# device present, prints the tables and says where the rows are.
#   scripts/quickstart.sh [ROWS.h5]      rows go to results/quickstart.h5 unless named
# Run on Debian 12 and 13 and on Ubuntu 24.04; docs/install.md says with what, and how long it took.
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${1:-results/quickstart.h5}

# /dev/kfd is there where an AMD GPU's driver is.
if [ -e /dev/kfd ]; then
  scripts/install_dependencies.sh --hip
else
  scripts/install_dependencies.sh
  if ! find /opt/rocm /usr/lib -name ocml.bc 2>/dev/null | grep -q .; then
    echo "No AMD GPU here: the gfx906 kernels are left out (scripts/install_dependencies.sh --hip brings their compiler)."
  fi
fi
# Tests and the device that they run CUDA kernels on are scripts/test.sh's: it adds them to this build.
options=(-DGDN_TESTS=OFF -DGDN_CUDA_EMULATED=OFF)
# Kernels that no device here could run, more than half of what there is to compile, are left to test.sh too;
# a build that has them keeps them.
if [ ! -e /dev/nvidiactl ] && ! nvidia-smi -L >/dev/null 2>&1 && ! grep -qs '^GDN_CUDA:.*=\(AUTO\|ON\)$' build/CMakeCache.txt; then
  echo "No NVIDIA GPU here: the CUDA kernels are left out (scripts/test.sh compiles them)."
  options+=(-DGDN_CUDA=OFF)
fi
cmake --preset release "${options[@]}" >/dev/null || { cmake --preset release "${options[@]}"; exit 1; }
cmake --build --preset release -j "$(nproc)" --target gdnbench gdnbench_c
mkdir -p "$(dirname "$rows")"

echo
build/gdnbench info
echo
echo "== Verification on the real trace (float64 reference) =="
build/gdnbench verify --case data/gdn_lm_trace.h5:/layer0 --case data/gdn_lm_trace.h5:/layer1 \
  --case data/gdn_lm_trace.h5:/layer2 --case data/gdn_lm_trace.h5:/layer3 --device best
echo
echo "== Default sweep: verified, then timed until the spread is 2 %, for at most 0.7 s a row =="
build/gdnbench sweep --preset default --device best --noise 0.02 --max-time 0.7 --out "$rows"
echo
build/gdnbench table "$rows"
echo
echo "Rows: $rows (HDF5; read it with pandas, or make other tables with build/gdnbench table --help)"

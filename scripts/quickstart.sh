#!/usr/bin/env bash
# From a clean clone to a table: installs the distribution packages that are missing, builds, verifies
# every implementation on the real trace, times the default sweep on the best device present, prints
# the tables and says where the rows are.
#   scripts/quickstart.sh [ROWS.h5]      rows go to results/quickstart.h5 unless named
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${1:-results/quickstart.h5}

scripts/install_dependencies.sh
cmake --preset release -DGDN_TESTS=OFF >/dev/null || { cmake --preset release -DGDN_TESTS=OFF; exit 1; }
cmake --build --preset release -j "$(nproc)" --target gdnbench gdnbench_c
mkdir -p "$(dirname "$rows")"

echo
build/gdnbench info
echo
echo "== Verification on the real trace (float64 reference) =="
build/gdnbench verify --case data/gdn_lm_trace.h5:/layer0 --case data/gdn_lm_trace.h5:/layer1 \
  --case data/gdn_lm_trace.h5:/layer2 --case data/gdn_lm_trace.h5:/layer3 --device best
echo
echo "== Default sweep: verified, then timed =="
build/gdnbench sweep --preset default --device best --out "$rows"
echo
build/gdnbench table "$rows"
echo
echo "Rows: $rows (HDF5; read it with pandas, or make other tables with build/gdnbench table --help)"

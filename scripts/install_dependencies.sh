#!/usr/bin/env bash
# Installs the distribution packages the build needs and this machine lacks (Debian 12, Ubuntu 24.04).
# Nothing is done, and no privileges are needed, when everything is there. CUDA is never installed:
# it is used when nvcc is found.
#   scripts/install_dependencies.sh          what the build and the tests need
#   scripts/install_dependencies.sh --hip    the gfx906 compiler and device libraries besides
set -euo pipefail

packages=(g++ cmake ninja-build git pkg-config libeigen3-dev libfmt-dev libcli11-dev libhdf5-dev
          libbenchmark-dev libgtest-dev python3 python3-numpy python3-h5py)
if [ "${1:-}" = "--hip" ]; then
  packages+=(clang-15 clang-tools-15 lld-15 llvm-15 rocm-device-libs libamdhip64-dev)
fi

if ! command -v dpkg-query >/dev/null; then
  echo "install_dependencies: not a Debian or Ubuntu system; install by hand: ${packages[*]}" >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_dependencies: missing packages and neither root nor sudo: ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

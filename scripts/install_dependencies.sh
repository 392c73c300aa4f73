#!/usr/bin/env bash
# Installs the distribution packages the build needs and this machine lacks (tried on Debian 12, and without options on
# Debian 13 and Ubuntu 24.04).
# Nothing is done, and no privileges are needed, when everything is there. CUDA is never installed:
# it is used when nvcc is found.
#   scripts/install_dependencies.sh            what the build and the tests need
#   scripts/install_dependencies.sh --hip      the gfx906 compiler and device libraries besides
#   scripts/install_dependencies.sh --browser  chromium besides, where the distribution packages it (Debian; 80 MB);
#                                              without it the tests of the report page in a browser are skipped
# Where another apt or dpkg is at work it waits until that has ended, for GDN_APT_WAIT_S seconds at most (1800).
set -euo pipefail

packages=(g++ cmake ninja-build git pkg-config libeigen3-dev libfmt-dev libcli11-dev libhdf5-dev
          libbenchmark-dev libgtest-dev python3 python3-numpy python3-h5py python3-pytest python3-yaml python3-jsonschema)
optional=()
for wanted in "$@"; do
  case "$wanted" in
    --hip) packages+=(clang-15 clang-tools-15 lld-15 llvm-15 rocm-device-libs libamdhip64-dev) ;;
    --browser) if grep -qs '^ID=debian' /etc/os-release; then optional+=(chromium); fi ;;
    *) echo "install_dependencies: unknown option '$wanted'; expected --hip or --browser" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "install_dependencies: not a Debian or Ubuntu system; install by hand: ${packages[*]}" >&2
  exit 2
fi

# Those of the packages named that are not installed.
missing_of() {
  local package state
  for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || echo "$package"
  done
}

as_root=()
# apt-get, once whatever other apt or dpkg is at work has ended: it gives up at once where another one holds its lock.
apt_wait_s=${GDN_APT_WAIT_S:-1800}
apt_get() {
  local said status waited=0
  said=$(mktemp)
  while status=0; ! DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get "$@" >/dev/null 2>"$said"; do
    status=1
    grep -q "Could not get lock\|Unable to acquire the dpkg frontend lock\|Unable to lock" "$said" || break
    if [ "$waited" -eq 0 ]; then echo "Waiting for another apt or dpkg: $(sed -n 's/^E: //p' "$said" | head -n 1)"; fi
    if [ "$waited" -ge "$apt_wait_s" ]; then break; fi
    sleep 1
    waited=$((waited + 1))
  done
  cat "$said" >&2
  rm -f "$said"
  return "$status"
}
install_packages() {
  echo "Installing: $*"
  apt_get update -qq && apt_get install -y -qq --no-install-recommends "$@"
}

mapfile -t missing < <(missing_of "${packages[@]}")
mapfile -t missing_optional < <(missing_of "${optional[@]}")
[ ${#missing[@]} -eq 0 ] && [ ${#missing_optional[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null; then
    as_root=(sudo)
  elif [ ${#missing[@]} -gt 0 ]; then
    echo "install_dependencies: missing packages and neither root nor sudo: ${missing[*]}" >&2
    exit 2
  else
    exit 0
  fi
fi
if [ ${#missing[@]} -gt 0 ]; then install_packages "${missing[@]}"; fi
if [ ${#missing_optional[@]} -gt 0 ] && ! install_packages "${missing_optional[@]}"; then
  echo "install_dependencies: ${missing_optional[*]} could not be installed; what needs it is skipped" >&2
fi

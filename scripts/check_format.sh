#!/usr/bin/env bash
# Checks every C++ and CUDA source against .clang-format; prints the files that differ.
# Formatting depends on the version: 14 is the one that counts (Debian 12).
set -euo pipefail
cd "$(dirname "$0")/.."
formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$formatter" ]; then
  echo "check_format: clang-format-14 is not installed" >&2
  exit 2
fi
files=$(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' '*.hip')
bad=0
for file in $files; do
  if ! "$formatter" "$file" | cmp -s - "$file"; then
    echo "not formatted: $file"
    bad=1
  fi
done
[ "$bad" = 0 ] && echo "formatting: $(wc -w <<<"$files") files as .clang-format says"
exit "$bad"

#!/usr/bin/env bash
# Every table preset, the whole-model estimate, a build compared with itself and the report of it all,
# measured on one device and written as one folder: README.md with each table above the command that made
# it, the rows (HDF5) and report.html. data/measured/ holds such folders.
#   scripts/measure-tables.sh [--programs DIR] [--device DEVICE] [--max-time S] OUT [PRESET...]
# DIR holds gdnbench (default build/); a PRESET is one of `gdnbench table --help`, estimate, repeats or
# report; without any all run. A preset whose rows are there already resumes.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=build
device=best
max_time=1.5
while [ $# -gt 0 ]; do
  case "$1" in
    --programs) programs=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    --max-time) max_time=$2; shift 2 ;;
    -*) echo "measure-tables: '$1' is unknown; see the head of $0" >&2; exit 2 ;;
    *) break ;;
  esac
done
out=${1:?usage: scripts/measure-tables.sh [--programs DIR] [--device DEVICE] [--max-time S] OUT [PRESET...]}
shift
wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(throughput speedup chunk updates steps errors estimate repeats report)
mkdir -p "$out"
gdnbench=$(cd "$programs" && pwd)/gdnbench
cd "$out"
how=(--device "$device" --max-time "$max_time")

# part NAME COMMAND...: what the command prints; a row that failed is in the table, with its reason.
part() {
  local name=$1 begin=$SECONDS
  shift
  "$gdnbench" "$@" >"$name.md" || true
  printf '%s: %d s\n' "$name" $((SECONDS - begin)) >&2
}

for name in "${wanted[@]}"; do
  case "$name" in
    throughput | speedup | chunk | updates | steps | errors)
      part "$name" table --preset "$name" "${how[@]}" --out "rows-$name.h5" --quiet ;;
    estimate) part estimate estimate "${how[@]}" --quiet ;;
    repeats)
      sweep="${how[*]} --min-samples 20 --heads 16/16 --dim 128 --seq 1x2048,4x1024 --dtype bf16 --h0 normal"
      rm -rf pairs && mkdir pairs
      part repeats compare --paired 8 "$gdnbench" "$gdnbench" --quiet --keep pairs --sweep "$sweep"
      printf '\nCommand: gdnbench compare --paired 8 build/gdnbench build/gdnbench --keep pairs --sweep "%s"\n' "$sweep" >>repeats.md
      part planted compare "$(printf '%s\n' pairs/a-*.h5 | paste -sd,)" "$(printf '%s\n' pairs/b-*.h5 | paste -sd,)" --planted 3 ;;
    report)
      "$gdnbench" rows rows-*.h5 --out rows.h5 --quiet
      "$gdnbench" report rows.h5 --out report.html --quiet ;;
    *) echo "measure-tables: preset '$name' is unknown; see the head of $0" >&2; exit 2 ;;
  esac
done

title() {
  case "$1" in
    throughput) echo "Throughput at constant tokens" ;;
    speedup) echo "Chunkwise over recurrent" ;;
    chunk) echo "Chunk size" ;;
    updates) echo "What the delta rule and the decay cost" ;;
    steps) echo "DeltaProduct: Householder steps per token" ;;
    errors) echo "Numeric error in units of the rounding floor" ;;
    estimate) echo "A whole model, estimated" ;;
    repeats) echo "One build compared with itself" ;;
    planted) echo "The same measurements with a slowdown of 3 % planted" ;;
  esac
}
{
  echo "# Measured"
  echo
  for name in throughput speedup chunk updates steps errors estimate repeats planted; do
    [ -f "$name.md" ] || continue
    printf '## %s\n\n' "$(title "$name")"
    cat "$name.md"
    echo
  done
} >README.md

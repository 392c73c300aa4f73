#!/usr/bin/env bash
# One shard of a sweep or a verification, for the jobs of a cluster: docs/many-machines.md.
#   scripts/shard.sh INDEX/COUNT FOLDER sweep|verify OPTIONS...   makes it, or goes on where it was cut
#   scripts/shard.sh missing COUNT FOLDER                         says which are not done, as sbatch takes them: "2,5-7"
# $GDNBENCH names the program (gdnbench). A shard leaves in FOLDER
#   INDEX-of-COUNT.h5      the rows of a sweep, each stored as it is made
#   INDEX-of-COUNT.jsonl   the results of a verification, each stored as it is made; INDEX-of-COUNT.jsonl.partial until
#                          it is whole
#   INDEX-of-COUNT.done    its exit code, once it has ended by itself: it is then not made again
#   command                what all shards of the folder are of
# Exit code: that of the program, 0 or 1 (a check failed), also where the shard was done before; of "missing" 0 where
# none is, else 1. 2: bad usage, a folder of something else, or another process makes the shard; 3 and others: the shard
# has not ended, and is to be run again.
set -euo pipefail

fail() {
  echo "shard.sh: $*" >&2
  exit 2
}

require_count() {
  [[ $1 =~ ^[1-9][0-9]{0,5}$ ]] || fail "COUNT '$1', expected a number of shards"
}

missing() {  # COUNT FOLDER
  require_count "$1"
  [ -d "$2" ] || fail "'$2': expected the folder of the shards"
  local index first="" list=""
  for ((index = 1; index <= $1 + 1; ++index)); do
    if [ "$index" -le "$1" ] && [ ! -e "$2/$index-of-$1.done" ]; then
      first=${first:-$index}
    elif [ -n "$first" ]; then
      list+=${list:+,}$first
      [ "$first" -eq $((index - 1)) ] || list+=-$((index - 1))
      first=""
    fi
  done
  [ -z "$list" ] && return 0
  echo "$list"
  return 1
}

if [ "${1:-}" = missing ]; then
  [ $# -eq 3 ] || fail "usage: shard.sh missing COUNT FOLDER"
  missing "$2" "$3"
  exit
fi
[ $# -ge 3 ] || fail "usage: shard.sh INDEX/COUNT FOLDER sweep|verify OPTIONS..., or shard.sh missing COUNT FOLDER"
shard=$1 folder=$2 verb=$3
shift 3
[[ $shard =~ ^[1-9][0-9]*/[1-9][0-9]*$ ]] || fail "'$shard', expected INDEX/COUNT, as 3/8"
index=${shard%/*} count=${shard#*/}
require_count "$count"
[ "$index" -le "$count" ] || fail "'$shard', expected an INDEX of at most COUNT"
case "$verb" in sweep | verify) ;; *) fail "'$verb', expected sweep or verify" ;; esac
for option in "$@"; do
  case "$option" in
    --shard | --shard=* | --out | --out=* | --json | --json-lines | --merge | --merge=*)
      fail "$option: expected options that say what to $verb; the shard and its file are given by this script" ;;
  esac
done
mkdir -p "$folder" || exit 2
part=$folder/$index-of-$count

# Shards of two grids, or of two ways to cut one, must not be merged. Whoever is first writes the file whole.
command="$verb$(printf ' %q' "$@") in $count shards"
if [ ! -e "$folder/command" ]; then
  echo "$command" >"$folder/command.$index.$$"
  ln "$folder/command.$index.$$" "$folder/command" 2>/dev/null || true
  rm -f "$folder/command.$index.$$"
fi
there=$(cat "$folder/command")
[ "$there" = "$command" ] || fail "$folder holds shards of '$there', expected '$command'; name another folder"

# A job that was queued again may meet the one before it. The lock ends with the program, which inherits it.
exec 9>"$part.lock"
flock --nonblock 9 || fail "$part: another process makes this shard"
if [ -e "$part.done" ]; then
  echo "$part is done"
  exit "$(cat "$part.done")"
fi

code=0
if [ "$verb" = sweep ]; then
  "${GDNBENCH:-gdnbench}" sweep "$@" --shard "$shard" --out "$part.h5" || code=$?
else
  "${GDNBENCH:-gdnbench}" verify "$@" --shard "$shard" --json-lines --out "$part.jsonl.partial" || code=$?
fi
[ "$code" -le 1 ] || exit "$code"
[ "$verb" = sweep ] || mv "$part.jsonl.partial" "$part.jsonl"
echo "$code" >"$part.done.partial"
mv "$part.done.partial" "$part.done"
exit "$code"

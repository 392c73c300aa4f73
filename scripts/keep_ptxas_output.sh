#!/usr/bin/env bash
# Compiler launcher for nvcc: runs the command and keeps the lines `ptxas -v` prints (registers,
# shared memory, spills per kernel) beside the object file, as OBJECT.ptxas. Other output passes.
set -u
object=""
previous=""
for argument in "$@"; do
  [ "$previous" = "-o" ] && object=$argument
  previous=$argument
done
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
"$@" 2>"$errors"
status=$?
case "$object" in
  *.o) grep -E "^ptxas info|bytes stack frame" "$errors" >"$object.ptxas" ;;
esac
grep -vE "^ptxas info|bytes stack frame" "$errors" >&2
exit $status

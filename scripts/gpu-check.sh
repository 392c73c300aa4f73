#!/usr/bin/env bash
# GPU truth without GPU CI: checks the CUDA implementations on this machine's GPU and writes what
# passed to data/gpu-record.json, with the hash of the sources it speaks of.
#   scripts/gpu-check.sh [--programs DIR] [--out DIR] [--seconds S] [--largest OPERATIONS] [--only LIST] [--op NAME]
#                        [--jobs N] [STEP...]
# With --seconds the steps peers, verify, stress, fuzz and full end after S seconds each; the record then says how many
# results were not reached. With --largest the steps verify and stress leave out larger problems; they count them. With
# --only the steps stress, fuzz, full and sanitizer take these implementations only (a comma list); the record names
# them. With --op the step sanitizer takes this operation only, beside what it has found clean before in the same --out.
# With --jobs the steps verify, stress, fuzz and full have so many problems under way at once, not half the processors.
# DIR holds gdnbench and the tests' programs, which the step tests alone needs: the build folder (default build/), or a
# folder made by scripts/bundle.sh. Steps (default: all), each resumable by itself:
#   tests      the implementation tests on the GPU (grid against float64, invariances), and the Python
#              module's where PyTorch is installed
#   peers      other projects' own test cases on the functions of scripts/gdnbench/, where PyTorch and NumPy are
#              installed; else the record says that they were not run. Started again, it goes on where it was cut
#   verify     gdnbench verify over the GPU grid: ragged batches, every dtype, head ratio and option
#   stress     gdnbench verify --suite stress, whole
#   fuzz       gdnbench verify --fuzz: 300 problems that nobody wrote of a seed that is always the same, and 300 of one
#              that --out keeps; each failure is shrunk in fuzz.1.log and fuzz.2.log
#   full       gdnbench verify --suite full, whole: not by default. Like peers, these four go on where they were cut;
#              without STEP.1.part in --out they begin anew
#   sanitizer  compute-sanitizer memcheck and racecheck on a small grid, synccheck on the Hopper kernels;
#              all three on sequences that cuda/fused_sm90 splits
#   table      every implementation, verified and timed, at 16/32 heads: for the reader, no part of the record
#   record     writes gpu-record.json from what the steps above left in --out
#   add        puts the suites (of verify, stress, fuzz, full) and the peers' cases that --out has into the record that
#              is there, of the same kernel sources: not by default
# The last two need neither GPU nor programs: --out may have come from another machine. An --out is of one
# state of the sources and one card, kept in its file `origin`; for others another is asked for. Of stress and
# full (and verify), results that a cut run did not reach may be made by name (gdnbench verify --device cuda
# --problem P --impl I --json-lines) and put into --out as stress.ANY.again. Likewise a test that failed by no fault of
# a kernel, and was mended, may be run by name with --gtest_output=json:OUT/PROGRAM.again.json; the record names it.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=build
out=results/gpu-check
seconds=0  # no limit
largest=()
jobs=()
only=
operation=
steps=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --programs|--out|--seconds|--largest|--only|--op|--jobs)
      [ $# -gt 1 ] || { echo "gpu-check: $1 needs a value; see the head of $0" >&2; exit 2; } ;;
  esac
  case "$1" in
    --programs) programs=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --largest) largest=(--largest "$2"); shift 2 ;;
    --only) only=$2; shift 2 ;;
    --op) operation=$2; shift 2 ;;
    --jobs) jobs=(--jobs "$2"); shift 2 ;;
    tests|peers|verify|stress|fuzz|full|sanitizer|table|record|add) steps+=("$1"); shift ;;
    *) echo "gpu-check: '$1' is unknown; see the head of $0" >&2; exit 2 ;;
  esac
done
case "$seconds" in
  '' | *[!0-9]*) echo "gpu-check: --seconds '$seconds': expected a whole number" >&2; exit 2 ;;
esac
[ ${#steps[@]} -gt 0 ] || steps=(tests peers verify stress fuzz sanitizer table record)
tests=(implementation_tests cuda_backend_tests fused_sm90_tests channel_sm90_tests backward_sm90_tests chunk_stages_tests held_tests)
test_shards=8  # of each of them, which share the card: their references are the CPU's

# What the results are of. Without a GPU the tests would run the kernels on the CPU, which is no GPU check.
begin_gpu_steps() {
  local program absent kernels harness built here origin
  local programs_needed=(gdnbench)
  if [[ " ${steps[*]} " == *" tests "* ]]; then programs_needed+=("${tests[@]}"); fi
  for program in "${programs_needed[@]}"; do
    [ -x "$programs/$program" ] || { echo "gpu-check: $programs/$program is missing; build first" >&2; exit 2; }
  done
  absent=$("$programs/gdnbench" info | sed -n 's/^cuda  *absent: //p')
  if [ -n "$absent" ]; then
    echo "gpu-check: no CUDA device: $absent" >&2
    exit 3
  fi
  if command -v cmake >/dev/null; then
    built=$("$programs/gdnbench" info --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["sources"])')
    here=$(cmake -P cmake/GdnSourceHash.cmake 2>&1)
    if [ "$built" != "$here" ]; then
      echo "gpu-check: $programs/gdnbench is built of other sources than are here; build again" >&2
      exit 2
    fi
  fi
  kernels=$(scripts/source_hash.sh kernels)
  harness=$(scripts/source_hash.sh harness)
  origin=$("$programs/gdnbench" info --json | python3 scripts/write_gpu_record.py --origin "$kernels" "$harness")
  if [ -f "$out/origin" ]; then
    if [ "$(cat "$out/origin")" != "$origin" ]; then
      echo "gpu-check: $out holds results of other sources or another card; remove it, or name another --out" >&2
      exit 2
    fi
  elif [ -n "$(ls -A "$out" 2>/dev/null)" ]; then
    echo "gpu-check: $out is not empty and does not say whose results it holds; name another --out" >&2
    exit 2
  else
    mkdir -p "$out"
    echo "$origin" >"$out/origin"
  fi
}
gpu_steps=no
for step in "${steps[@]}"; do
  case "$step" in
    record | add) ;;
    *) gpu_steps=yes ;;
  esac
done
if [ "$gpu_steps" = yes ]; then begin_gpu_steps; fi  # not as a condition: that would switch off set -e in it

peers_jobs=14  # at most: processes that share the card

library() {
  if [ -e "$programs/libgdnbench.so" ]; then echo "$programs/libgdnbench.so"; else echo "$programs/lib/libgdnbench.so"; fi
}

run_tests() {
  local test shard
  rm -f "$out"/*_tests.*.json
  for test in "${tests[@]}"; do
    for ((shard = 0; shard < test_shards; ++shard)); do
      GTEST_TOTAL_SHARDS=$test_shards GTEST_SHARD_INDEX=$shard "$programs/$test" --gtest_brief=1 \
        --gtest_filter='-*/cpu_*:*/hip_*' --gtest_output="json:$out/$test.$shard.json" \
        >"$out/$test.$shard.log" 2>&1 &
    done
    wait
  done
  tail -q -n 2 "$out"/*_tests.*.log
  if python3 -c 'import torch' 2>/dev/null; then
    GDNBENCH_LIBRARY=$(library) python3 scripts/gdnbench_torch_test.py
  fi
  if python3 -c 'import numpy, torch' 2>/dev/null; then
    GDNBENCH_LIBRARY=$(library) python3 scripts/gdnbench_torch_autograd_test.py
  fi
}

run_peers() {
  local processes status=0
  rm -f "$out/peers.not_run"
  if ! python3 -c 'import numpy, torch' 2>/dev/null; then
    echo "python3 finds no PyTorch or no NumPy" >"$out/peers.not_run"
    echo "peers: not run: $(cat "$out/peers.not_run")"
    return
  fi
  processes=$(nproc)
  GDNBENCH_LIBRARY=$(library) python3 scripts/peers/run_cases.py --device cuda --seconds "$seconds" \
    --jobs $((processes < peers_jobs ? processes : peers_jobs)) --json-lines "$out/peers.jsonl" --resume \
    >"$out/peers.md" 2>"$out/peers.log" || status=$?
  if [ ! -s "$out/peers.md" ]; then
    echo "gpu-check: the peers' cases ended with status $status: $(tail -n 1 "$out/peers.log")" >&2
    exit 2
  fi
  cat "$out/peers.md"  # what failed is in the record
}

# One process, whose jobs share the GPU (processes would take turns on it). What is cut leaves what it
# had, and is gone on with the next time; merge_shards counts what it lacks.
verify_suite() {
  local suite=$1 result=$2 status=0
  shift 2
  rm -f "$out/$result.json"
  timeout "$seconds" "$programs/gdnbench" verify --device cuda --suite "$suite" --json-lines "${jobs[@]}" \
    --out "$out/$result.1.part" "$@" 2>"$out/$result.1.log" || status=$?  # what failed is in the record
  if [ $status = 2 ]; then
    echo "gpu-check: suite $suite: $(tail -n 1 "$out/$result.1.log")" >&2
    exit 2
  fi
  merge_shards "$result"
}
merge_shards() {
  local again=()
  if compgen -G "$out/$1.*.again" >/dev/null; then again=(--again "$out/$1".*.again); fi
  python3 scripts/merge_verify_shards.py "$out/$1.json" "$out/$1".*.part "${again[@]}"
}
run_verify() { verify_suite gpu verify "${largest[@]}"; }
run_full() { verify_suite full full ${only:+--impl "$only"}; }
run_fuzz() {
  local part=0 seed status
  rm -f "$out/fuzz.json"
  [ -s "$out/fuzz.seed" ] || od -An -N4 -tu4 /dev/urandom | tr -d ' ' >"$out/fuzz.seed"
  for seed in 1 "$(cat "$out/fuzz.seed")"; do
    part=$((part + 1)) status=0
    timeout "$seconds" "$programs/gdnbench" verify --device cuda --fuzz 300 --fuzz-seed "$seed" --json-lines "${jobs[@]}" \
      --out "$out/fuzz.$part.part" ${only:+--impl "$only"} 2>"$out/fuzz.$part.log" || status=$?
    if [ $status = 2 ]; then
      echo "gpu-check: fuzz: $(tail -n 1 "$out/fuzz.$part.log")" >&2
      exit 2
    fi
    grep 'fails from here on' "$out/fuzz.$part.log" || true
  done
  merge_shards fuzz
}
run_stress() { verify_suite stress stress "${largest[@]}" ${only:+--impl "$only"}; }

run_sanitizer() {
  # compute-sanitizer wants the program itself, not the bundle's wrapper.
  local tool binary=$programs/gdnbench piece=gated_delta:dim=128,dtype=bf16,h0=normal
  # The suite's sequences are short. Of these cuda/fused_sm90 splits the first, and launches its chain
  # twice for the others, of which the gates decide which works. Once each: the tools take long.
  local pieces=(--impl cuda/fused_sm90 --errors-only --problem "$piece,gates=none,heads=1/2,seq=2500")
  pieces+=(--problem "$piece,gates=none,heads=8/32,seq=4000+0+70+26")
  pieces+=(--problem "$piece,gates=weak,heads=8/32,seq=4000+0+70+26")
  # cuda/channel_sm90 cuts this one.
  local channel=(--impl cuda/channel_sm90 --errors-only)
  channel+=(--problem "$piece,decay=channel,gates=none,heads=1/2,seq=2500")
  # cuda/chunkwise_sm90 cuts these, of two head dims.
  local gradients=(--impl cuda/chunkwise_sm90 --errors-only)
  gradients+=(--problem "gated_delta_training:dim=128,dtype=bf16,h0=normal,gates=weak,heads=1/2,seq=700+0+70")
  gradients+=(--problem "gated_delta_backward:dim=96x192,dtype=bf16,h0=normal,gates=weak,heads=1/2,seq=700+0+70")
  local with_pieces=no with_channel=no with_gradients=no
  if [[ ,${only:-cuda/fused_sm90}, == *,cuda/fused_sm90,* ]] &&
      [[ $("$programs/gdnbench" info --json) =~ '"backend": "cuda",'[^}]*'compute capability 9.0' ]]; then
    with_pieces=yes
  fi
  if [[ ,${only:-cuda/channel_sm90}, == *,cuda/channel_sm90,* ]] &&
      [[ $("$programs/gdnbench" info --json) =~ '"backend": "cuda",'[^}]*'compute capability 9.0' ]]; then
    with_channel=yes
  fi
  if [[ ,${only:-cuda/chunkwise_sm90}, == *,cuda/chunkwise_sm90,* ]] &&
      [[ $("$programs/gdnbench" info --json) =~ '"backend": "cuda",'[^}]*'compute capability 9.0' ]]; then
    with_gradients=yes
  fi
  [ "${operation:-gated_delta}" = gated_delta ] || with_pieces=no with_channel=no
  [[ ${operation:-gated_delta_backward} =~ ^gated_delta_(backward|training)$ ]] || with_gradients=no
  if [ -x "$programs/bin/gdnbench" ]; then
    binary=$programs/bin/gdnbench
    export LD_LIBRARY_PATH=$programs/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
  for tool in memcheck racecheck synccheck; do
    (
      # Of the others synccheck takes what cuda/ptx.cuh says of block_barrier() for an error.
      kernels=() of=
      [ "$tool" != synccheck ] || kernels=(--impl cuda/fused_sm90,cuda/fused_sm90_one_launch,cuda/fused_sm90_invariant)
      [ -z "$only" ] || kernels=(--impl "$only") of=" ($only)"
      local before=
      if [ -n "$operation" ]; then
        before=$(cat "$out/$tool" 2>/dev/null || true)
        of=" ($operation: ${only:-${kernels[1]:-all}})"
        kernels+=(--op "$operation")
      fi
      check() {
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$binary" verify --device cuda \
          --exact-buffers --jobs 1 "$@" >>"$out/$tool.log" 2>&1
      }
      [ -n "$before" ] || : >"$out/$tool.log"
      if check --suite sanitizer "${kernels[@]}" && { [ $with_pieces = no ] || check "${pieces[@]}"; } &&
          { [ $with_channel = no ] || check "${channel[@]}"; } &&
          { [ $with_gradients = no ] || check "${gradients[@]}"; }; then
        # Of an operation by itself: beside what was clean before, and not in the place of what was not.
        case "$before" in
          clean" ("*) echo "${before%)}; ${of:2}" ;;
          ?*) echo "$before" ;;
          *) echo "clean$of" ;;
        esac >"$out/$tool"
      else
        echo "failed, see $tool.log" >"$out/$tool"
      fi
    ) &
  done
  wait
  for tool in memcheck racecheck synccheck; do printf '%s: ' "$tool"; cat "$out/$tool"; done
}

run_table() {
  local gdnbench
  gdnbench=$(cd "$programs" && pwd)/gdnbench
  # In the folder itself: the rows hold the command, which must not name a machine's paths.
  (
    cd "$out"
    rm -f table.h5
    "$gdnbench" sweep --device cuda --heads 16/32 --dim 128 --seq 4x8192,1x32768 --dtype bf16 \
      --h0 normal --gates weak --out table.h5 || true  # a failed row is in the table
    "$gdnbench" table table.h5 | tee table.md
  )
}

merge_all() {  # of a step that was itself cut, too
  local result
  for result in "$@"; do
    if compgen -G "$out/$result.*.part" >/dev/null; then merge_shards "$result"; fi
  done
}
write_record() {
  local test shard test_results=()
  merge_all verify stress fuzz full
  for test in "${tests[@]}"; do
    for ((shard = 0; shard < test_shards; ++shard)); do test_results+=("$test.$shard.json"); done
  done
  python3 scripts/write_gpu_record.py "$out" data/gpu-record.json "${test_results[@]}"
}
add_to_record() {
  merge_all verify stress fuzz full
  python3 scripts/write_gpu_record.py --add "$out" data/gpu-record.json
}

for step in "${steps[@]}"; do
  case "$step" in
    record) write_record ;;
    add) add_to_record ;;
    *)
      date -u +%F >"$out/$step.date"
      "run_$step"
      ;;
  esac
done

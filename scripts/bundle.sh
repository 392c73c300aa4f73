#!/usr/bin/env bash
# Makes a folder that runs on another x86-64 Linux machine with nothing but a GPU driver: the built
# programs, the shared libraries they need, libgdnbench.so with its Python modules, the data.
#   scripts/bundle.sh OUT [BUILD_DIR]     then, on the other machine: OUT/gdnbench info
#                                         or PYTHONPATH=OUT/scripts python3 -c 'import gdnbench_torch'
# The C library travels too and is used where the machine's own is older than this one's.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/bundle.sh OUT [BUILD_DIR]}
build=${2:-build}
[ -x "$build/gdnbench" ] || { echo "bundle: $build/gdnbench is missing; build first (scripts/quickstart.sh)" >&2; exit 2; }

mkdir -p "$out/bin" "$out/lib" "$out/libc" "$out/data" "$out/scripts/peers"
programs=("$build/gdnbench")
for test in implementation_tests cuda_backend_tests fused_sm90_tests channel_sm90_tests backward_sm90_tests chunk_stages_tests held_tests gfx906_on_cuda; do
  [ -x "$build/$test" ] && programs+=("$build/$test")
done
cp "${programs[@]}" "$out/bin/"
strip "$out"/bin/* 2>/dev/null || true
# Needs nothing but the C library of the process that loads it: this machine's version or later.
if [ -e "$build/libgdnbench.so" ]; then
  cp "$build/libgdnbench.so" "$out/lib/"
  strip --strip-unneeded "$out/lib/libgdnbench.so"
  cp scripts/gdnbench_library.py scripts/gdnbench_torch.py scripts/gdnbench_torch_test.py \
     scripts/gdnbench_torch_autograd_test.py "$out/scripts/"
  cp -r scripts/gdnbench "$out/scripts/"
  cp scripts/peers/*.* "$out/scripts/peers/"
fi

# Everything ldd names goes to lib/, except the C library's own parts, which go to libc/.
for program in "${programs[@]}"; do ldd "$program"; done | awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\// {print $1}' |
  sort -u | while read -r library; do
  name=$(basename "$library")
  case "$name" in
    libc.so.*|libm.so.*|libdl.so.*|libpthread.so.*|librt.so.*|libresolv.so.*|ld-linux*) cp -L "$library" "$out/libc/" ;;
    *) cp -L "$library" "$out/lib/" ;;
  esac
done
ldd --version | awk 'NR==1 {print $NF}' >"$out/libc/version"
cp data/*.h5 "$out/data/"
for folder in data/baselines data/fixtures; do
  [ -d "$folder" ] && cp -r "$folder" "$out/data/"
done

for program in "${programs[@]}"; do
  name=$(basename "$program")
  cat >"$out/$name" <<'W'
#!/bin/sh
# Runs bin/NAME with the libraries beside it; with its own C library where this machine's is older.
here=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$0")
built=$(cat "$here/libc/version")
own=$(ldd --version 2>/dev/null | awk 'NR==1 {print $NF}')
newest=$(printf '%s\n%s\n' "$built" "${own:-0}" | sort -V | tail -n 1)
if [ "$newest" = "${own:-0}" ]; then
  LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/bin/$name" "$@"
fi
drivers=/usr/lib/x86_64-linux-gnu:/usr/lib64:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$here/libc/ld-linux-x86-64.so.2" --library-path "$here/libc:$here/lib:$drivers" "$here/bin/$name" "$@"
W
  chmod +x "$out/$name"
done
du -sh "$out" | awk '{print "bundle: " $2 ", " $1}'

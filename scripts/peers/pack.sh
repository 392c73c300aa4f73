#!/usr/bin/env bash
# Packs the libraries of requirements.txt for a GPU machine without a network.
#   scripts/peers/pack.sh OUT [PYTHON]     PYTHON needs pip; the wheels are for CPython 3.12 on x86-64 whatever it is
# Writes OUT/peers.0 .. peers.2 (36 MiB each, one tar.xz in three parts) and OUT/peers-cudnn.tar.xz.
# README.md says how to unpack them. XZ_LEVEL (6) trades time for size.
set -euo pipefail
out=${1:?usage: scripts/peers/pack.sh OUT [PYTHON]}
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/wheels" "$work/site" "$work/cudnn"
out=$(cd "$out" && pwd)

platforms=(--platform manylinux2014_x86_64 --platform manylinux1_x86_64)
for minor in 17 24 27 28 31 34 35 39; do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
grep -v '^causal-conv1d' "$here/requirements.txt" >"$work/wheels.txt"
"$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
  "${platforms[@]}" -d "$work/wheels" -r "$work/wheels.txt"
# causal-conv1d comes as sources alone, and its setup asks PyTorch for a version before it can be downloaded: a PyTorch
# that knows nothing else answers. The extension is built on the GPU machine (build_causal_conv1d.py).
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install -q packaging wheel setuptools
mkdir -p "$work/fake/torch/utils"
printf '%s\n' "__version__ = '2.11.0'" "class version: cuda, hip = '13.0', None" >"$work/fake/torch/__init__.py"
: >"$work/fake/torch/utils/__init__.py"
printf '%s\n' "CUDA_HOME = HIP_HOME = None" "BuildExtension = object" "def CppExtension(*a, **k): pass" \
  "def CUDAExtension(*a, **k): pass" >"$work/fake/torch/utils/cpp_extension.py"
PYTHONPATH="$work/fake" CAUSAL_CONV1D_SKIP_CUDA_BUILD=TRUE "$work/venv/bin/pip" download -q --no-deps \
  --no-binary=:all: --no-build-isolation -d "$work/wheels" "$(grep '^causal-conv1d' "$here/requirements.txt")"

for wheel in "$work"/wheels/*.whl; do
  case "$wheel" in
    */nvidia_cudnn_frontend-*) unzip -qo "$wheel" -d "$work/cudnn" ;;
    *) unzip -qo "$wheel" -d "$work/site" ;;
  esac
done

cd "$work/site"
tar xzf "$work"/wheels/causal_conv1d-*.tar.gz
mv causal_conv1d-* causal_conv1d_source
ln -s causal_conv1d_source/causal_conv1d causal_conv1d
cp "$here/build_causal_conv1d.py" .
# What the kernels do not need: z3's programs, link-time stubs, a profiler.
rm -rf z3_solver-*.data nvidia_cutlass_dsl/cu13/lib/stubs nvidia_cutlass_dsl/dsl_packages/iket/profiler build_backend.py
if [ -e z3/lib/libz3.so.4.15 ]; then ln -sf libz3.so.4.15 z3/lib/libz3.so; fi
# FlashInfer: its package imports all of itself, with 258 MB of other kernels. The delta rule's modules alone stay,
# under a package that imports nothing.
find flashinfer/data -mindepth 1 -maxdepth 1 ! -name include ! -name '*.py' -exec rm -rf {} +
rm -rf flashinfer/experimental
manifest=flashinfer/data/csrc/gdn/cake/manifest.json
mkdir -p "$(dirname "$manifest")"
unzip -qp "$work"/wheels/flashinfer_python-*.whl "$manifest" >"$manifest"
echo 'from .version import __version__ as __version__' >flashinfer/__init__.py
: >flashinfer/cute_dsl/__init__.py

tar cf - -C "$work/site" . | xz -T0 "-${XZ_LEVEL:-6}" >"$work/site.tar.xz"
split -n 3 -d -a 1 "$work/site.tar.xz" "$out/peers."
tar cf - -C "$work/cudnn" . | xz -T0 "-${XZ_LEVEL:-6}" >"$out/peers-cudnn.tar.xz"
ls -l "$out"

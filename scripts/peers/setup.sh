#!/usr/bin/env bash
# Fetch and build one of the programs that scripts/bench.sh compares with, and
# print shell assignments that say where it is.
#
#   scripts/peers/setup.sh jax         JAX in an environment of its own:
#                                      JAX_PYTHON
#   scripts/peers/setup.sh llama.cpp   llama.cpp for this processor, and the
#                                      checkpoint in its format, float32:
#                                      LLAMA_BENCH, LLAMA_BATCHED_BENCH, LLAMA_GGUF
#   scripts/peers/setup.sh torch       PyTorch in an environment of its own:
#                                      TORCH_PYTHON, TORCH_LIBRARIES
#   scripts/peers/setup.sh python-backend
#                                      Triton's Python backend, and JAX for it:
#                                      PYTHON_BACKEND_DIR, PYTHON_BACKEND_PACKAGES
#
# Everything is pinned by version and SHA-256 and lands in the cache folder of
# scripts/setup.sh, about 4 GB. Needs what that needs, Python 3.11 and, but for
# JAX alone, a C++ compiler. Running it again does only what is missing.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

PEERS=$SCRIPTS/peers
# The archive carries llama.cpp's own sources.
LLAMA=(llama-cpp-python 0.3.36 832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e)
LLAMA_OPTIONS=(
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON
  -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
  -DLLAMA_BUILD_SERVER=OFF
)

export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# fingerprint FILE...: eight hex digits that change with the files' contents.
fingerprint() {
  cat "$@" | sha256sum | cut -c1-8
}

find_python() {
  local candidate
  for candidate in "$TLALOC_PYTHON" python3 python3.{14,13,12,11}; do
    if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  die "Python 3.11 or newer with venv is missing"
}

# environment NAME REQUIREMENTS: sets VENV to where these packages are.
environment() {
  VENV=$CACHE/$1-python-$PYTHON_VERSION-$(fingerprint "$2")
  [[ -e $VENV/.complete ]] && return
  say "Python environment in $VENV"
  rm -rf "$VENV"
  "$BASE_PYTHON" -m venv "$VENV"
  "$VENV/bin/python" -m pip install --require-hashes --no-deps --only-binary :all: -r "$2" |
    sed -un 's/^Collecting \([^ ]*\).*/  \1/p' >&2 ||
    die "could not install the pinned packages (pip's message is above)"
  touch "$VENV/.complete"
}

# packages: where those of VENV are.
packages() {
  "$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

# build_llama FOLDER: of the unpacked archive.
build_llama() {
  local PATH=$VENV/bin:$PATH
  cmake -S "$1/vendor/llama.cpp" -B "$1/build" -G Ninja "${LLAMA_OPTIONS[@]}" &&
    cmake --build "$1/build" --target llama-bench llama-batched-bench
}

setup_llama() {
  [[ -x $LLAMA_HOME/llama-batched-bench ]] && return
  say "building llama.cpp, which takes minutes, in $LLAMA_HOME"
  command -v c++ >/dev/null || die "a C++ compiler (c++) is missing; install the package g++"
  local partial
  partial=$(mktemp -d "$CACHE/.peer.XXXXXX")
  printf '%s==%s --hash=sha256:%s\n' "${LLAMA[@]}" >"$partial/archive.txt"
  # pip prepares a source archive even to download it, hence the tools on the path.
  PATH=$VENV/bin:$PATH "$VENV/bin/python" -m pip download --quiet --require-hashes --no-deps \
    --no-binary "${LLAMA[0]}" --no-build-isolation --dest "$partial" -r "$partial/archive.txt" >&2 ||
    die "could not fetch ${LLAMA[0]} ${LLAMA[1]} with the expected SHA-256 (pip's message is above)"
  tar -xzf "$partial"/*.tar.gz -C "$partial" --strip-components 1
  if ! build_llama "$partial" >"$partial/build.log" 2>&1; then
    tail -n 20 "$partial/build.log" >&2
    die "llama.cpp does not build; the end of $partial/build.log is above"
  fi
  mkdir -p "$LLAMA_HOME"
  mv "$partial"/build/bin/llama-{bench,batched-bench} "$LLAMA_HOME/"
  rm -rf "$partial"
}

setup_gguf() {
  [[ -f $GGUF ]] && return
  say "writing the checkpoint as $GGUF"
  mkdir -p "$(dirname "$GGUF")"
  "$VENV/bin/python" "$PEERS/llama_gguf.py" "$TLALOC_SMOLLM2" "$GGUF.partial" >&2
  mv "$GGUF.partial" "$GGUF"
}

# PyTorch's libraries for GPUs are 3 GB, of which the processor needs nothing.
setup_gpu_stubs() {
  [[ -d $STUBS ]] && return
  local partial
  partial=$(mktemp -d "$CACHE/.peer.XXXXXX")
  "$VENV/bin/python" "$PEERS/gpu_stubs.py" "$(packages)/torch/lib" "$partial" \
    --but libcudart.so.13 libcupti.so.13 >&2 ||
    die "could not stand in for PyTorch's GPU libraries; a C compiler and binutils are needed"
  mv -T "$partial" "$STUBS"
}

# The backend's interpreter must be of the version that the packages are for.
setup_python_backend() {
  local home=$BACKEND/server/pytriton/tritonserver
  PYTHON_BACKENDS=$home/backends
  [[ -e $PYTHON_BACKENDS/python/triton_python_backend_stub ]] && return
  say "Triton's Python backend in $BACKEND"
  "$SCRIPTS/setup.sh" --python-backend "$BACKEND" >&2
  local stub=$home/python_backend_stubs/$PYTHON_VERSION/triton_python_backend_stub
  [[ -e $stub ]] || die "the Python backend has no interpreter of version $PYTHON_VERSION"
  chmod +x "$stub"
  ! ldd "$stub" | grep 'libpython.*not found' >&2 ||
    die "the Python backend needs the library above; install the package libpython$PYTHON_VERSION"
  mv "$stub" "$PYTHON_BACKENDS/python/"
}

[[ $# -eq 1 ]] || die "name one peer; see --help"
case $1 in
  -h | --help)
    usage
    exit
    ;;
  jax | llama.cpp | torch | python-backend) ;;
  *) die "unknown peer '$1'; see --help" ;;
esac

load_environment
BASE_PYTHON=$(find_python)
PYTHON_VERSION=$("$BASE_PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# Code is generated for the processor at hand.
LLAMA_HOME=$CACHE/llama.cpp-${LLAMA[1]}-$({
  printf '%s ' "${LLAMA[@]}" "${LLAMA_OPTIONS[@]}"
  grep -m 2 -E '^(model name|flags)' /proc/cpuinfo
} | sha256sum | cut -c1-8)
GGUF=$CACHE/gguf-$(fingerprint "$PEERS/llama_gguf.py" <(realpath "$TLALOC_SMOLLM2"))/model-f32.gguf
STUBS=$CACHE/torch-gpu-stubs-$(fingerprint "$PEERS/gpu_stubs.py" "$PEERS/torch/requirements.txt")
BACKEND=$CACHE/python-backend-$PYTHON_VERSION-$(fingerprint <(grep '^SERVER=' "$SCRIPTS/setup.sh"))

exec {lock}>"$CACHE/.peers.lock"
flock "$lock"
case $1 in
  jax)
    environment peers "$PEERS/requirements.txt"
    printf '%s=%q\n' JAX_PYTHON "$VENV/bin/python"
    ;;
  llama.cpp)
    environment peers "$PEERS/requirements.txt"
    setup_llama
    setup_gguf
    printf '%s=%q\n' LLAMA_BENCH "$LLAMA_HOME/llama-bench" \
      LLAMA_BATCHED_BENCH "$LLAMA_HOME/llama-batched-bench" LLAMA_GGUF "$GGUF"
    ;;
  torch)
    environment torch "$PEERS/torch/requirements.txt"
    setup_gpu_stubs
    printf '%s=%q\n' TORCH_PYTHON "$VENV/bin/python" \
      TORCH_LIBRARIES "$STUBS:$(packages)/nvidia/cu13/lib"
    ;;
  python-backend)
    environment peers "$PEERS/requirements.txt"
    setup_python_backend
    printf '%s=%q\n' PYTHON_BACKEND_DIR "$PYTHON_BACKENDS" PYTHON_BACKEND_PACKAGES "$(packages)"
    ;;
esac

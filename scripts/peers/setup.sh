#!/usr/bin/env bash
# Fetch and build one of the programs that scripts/bench.sh compares with, and
# print shell assignments that say where it is.
#
#   scripts/peers/setup.sh jax         JAX in an environment of its own:
#                                      JAX_PYTHON
#   scripts/peers/setup.sh llama.cpp   llama.cpp for this processor, and the
#                                      checkpoint in its format, float32:
#                                      LLAMA_BENCH, LLAMA_GGUF
#
# Everything is pinned by version and SHA-256 and lands in the cache folder of
# scripts/setup.sh, about 2 GB. Needs what that needs, Python 3.11 and a C++
# compiler. Running it again does only what is missing.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

PEERS=$SCRIPTS/peers
REQUIREMENTS=$PEERS/requirements.txt
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

setup_python() {
  [[ -e $VENV/.complete ]] && return
  say "Python environment in $VENV"
  rm -rf "$VENV"
  "$BASE_PYTHON" -m venv "$VENV"
  "$VENV/bin/python" -m pip install --require-hashes --no-deps --only-binary :all: -r "$REQUIREMENTS" |
    sed -un 's/^Collecting \([^ ]*\).*/  \1/p' >&2 ||
    die "could not install the pinned packages (pip's message is above)"
  touch "$VENV/.complete"
}

# build_llama FOLDER: of the unpacked archive.
build_llama() {
  local PATH=$VENV/bin:$PATH
  cmake -S "$1/vendor/llama.cpp" -B "$1/build" -G Ninja "${LLAMA_OPTIONS[@]}" &&
    cmake --build "$1/build" --target llama-bench
}

setup_llama() {
  [[ -x $LLAMA_HOME/llama-bench ]] && return
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
  mv "$partial/build/bin/llama-bench" "$LLAMA_HOME/"
  rm -rf "$partial"
}

setup_gguf() {
  [[ -f $GGUF ]] && return
  say "writing the checkpoint as $GGUF"
  mkdir -p "$(dirname "$GGUF")"
  "$VENV/bin/python" "$PEERS/llama_gguf.py" "$TLALOC_SMOLLM2" "$GGUF.partial" >&2
  mv "$GGUF.partial" "$GGUF"
}

[[ $# -eq 1 ]] || die "name one peer; see --help"
case $1 in
  -h | --help)
    usage
    exit
    ;;
  jax | llama.cpp) ;;
  *) die "unknown peer '$1'; see --help" ;;
esac

load_environment
BASE_PYTHON=$(find_python)
VENV=$CACHE/peers-python-$("$BASE_PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-$(fingerprint "$REQUIREMENTS")
# Code is generated for the processor at hand.
LLAMA_HOME=$CACHE/llama.cpp-${LLAMA[1]}-$({
  printf '%s ' "${LLAMA[@]}" "${LLAMA_OPTIONS[@]}"
  grep -m 2 -E '^(model name|flags)' /proc/cpuinfo
} | sha256sum | cut -c1-8)
GGUF=$CACHE/gguf-$(fingerprint "$PEERS/llama_gguf.py" <(realpath "$TLALOC_SMOLLM2"))/model-f32.gguf

exec {lock}>"$CACHE/.peers.lock"
flock "$lock"
setup_python
if [[ $1 == jax ]]; then
  printf '%s=%q\n' JAX_PYTHON "$VENV/bin/python"
else
  setup_llama
  setup_gguf
  printf '%s=%q\n' LLAMA_BENCH "$LLAMA_HOME/llama-bench" LLAMA_GGUF "$GGUF"
fi

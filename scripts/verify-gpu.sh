#!/usr/bin/env bash
# Check the CUDA path on a machine with an NVIDIA GPU, and print a table.
#
#   scripts/verify-gpu.sh
#
# Rows: D (device), T (tensor mode in CUDA shared memory), W and P (sequences); the
# checks Q of the reference sequence pass or fail without a row. A row tells what it found, the control that must fail, and the verdict. Fails when
# a row fails or a control passes. Without a GPU it says so and exits with 77.
#
#   TLALOC_CUDA_PLUGIN   the PJRT plugin for CUDA; without it the pinned one is fetched
#   TLALOC_TRITONSERVER  the tritonserver binary; without it the pinned one is fetched
#
# The plugin wants CUDA 13 libraries (cuBLAS, cuDNN, cuFFT, cuSOLVER, cuSPARSE, NCCL,
# NVRTC, nvJitLink, CUPTI) and ptxas on the machine; this script does not fetch them.
#
# This script has not been run on a GPU, and its time there is not known.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

NO_GPU=77

case ${1-} in
  -h | --help)
    usage
    exit
    ;;
  '') ;;
  *) die "unknown argument '$1'; see --help" ;;
esac

if ! nvidia-smi -L >&2 2>/dev/null; then
  say "SKIPPED: no NVIDIA GPU on this machine (nvidia-smi lists none); D1-D8, T12-T15, Q, W and P were not run"
  exit "$NO_GPU"
fi

load_environment
if [[ -z ${TLALOC_CUDA_PLUGIN:-} ]]; then
  home=$CACHE/cuda-plugin
  TLALOC_CUDA_PLUGIN=$home/plugin/jax_plugins/xla_cuda13/xla_cuda_plugin.so
  [[ -f $TLALOC_CUDA_PLUGIN ]] || "$SCRIPTS/setup.sh" --cuda-plugin "$home"
fi
export TLALOC_PJRT_PLUGIN_PATH=$TLALOC_CUDA_PLUGIN
cd "$ROOT"
build_for_tests
"$TLALOC_PYTHON" -m pytest --quiet tests/test_gpu.py \
  tests/test_reference_sequence.py tests/test_window_models.py

#!/usr/bin/env bash
# Regenerates src/bindings.rs from Triton's headers, or checks that it is up to date.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: triton/sys/generate.sh [--check] INCLUDE

Writes triton/sys/src/bindings.rs from INCLUDE/triton/core/tritonbackend.h. With --check the file is
left alone and the exit status says whether it equals what would be written.

The committed bindings come from TRITONBACKEND API 1.19 (release 24.10). A backend built with them
runs on every server of API 1.19 and later 1.x: newer headers shut out older servers.
Triton's containers have the headers in /opt/tritonserver/include; they also come with the source of
the crate tritonserver-rs 0.4.1, in core/include.

Needed while generating only: bindgen (cargo install bindgen-cli --version 0.72.1), libclang (from
the distribution, or `pip install libclang` with LIBCLANG_PATH set to its clang/native folder), gcc
(for its stddef.h) and rustfmt.
TEXT
}

check=false
include=
for argument in "$@"; do
  case "$argument" in
    --help | -h) usage; exit 0 ;;
    --check) check=true ;;
    -*) usage >&2; exit 2 ;;
    *) include=$argument ;;
  esac
done
header="$include/triton/core/tritonbackend.h"
[[ -f "$header" ]] || { usage >&2; exit 2; }

bindings="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/src/bindings.rs"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# What a backend defines itself is left out, and so is the part of TRITONSERVER_* that only programs
# which embed a server call. The headers parse as C++ only.
bindgen "$header" \
  --no-doc-comments --no-layout-tests --no-derive-debug --no-prepend-enum-name --use-core \
  --allowlist-function 'TRITONBACKEND_.*' \
  --allowlist-function 'TRITONSERVER_(Error|Log|Message|BufferAttributes|Metric(Family|Args)?)[A-Z].*' \
  --allowlist-function 'TRITONSERVER_(ParameterNew|ParameterDelete|ServerUnloadModel)' \
  --allowlist-type 'TRITONSERVER_(DataType|MemoryType|ParameterType|InstanceGroupKind|LogLevel|MetricKind)' \
  --allowlist-type 'TRITONSERVER_(Error_Code|RequestFlag|RequestReleaseFlag|ResponseCompleteFlag)' \
  --allowlist-var 'TRITONBACKEND_.*' \
  --blocklist-function 'TRITONBACKEND_(Initialize|Finalize|GetBackendAttribute)' \
  --blocklist-function 'TRITONBACKEND_Model(Instance)?(Initialize|Finalize|Execute|Ready)' \
  --blocklist-function 'TRITONBACKEND_Model(Batcher|Batch).*' \
  --rust-edition 2024 --rust-target 1.85 \
  -- -x c++ -I "$include" -isystem "$(gcc -print-file-name=include)" >"$work/bindings.rs"
rustfmt --edition 2024 --config max_width=100,use_small_heuristics=Max "$work/bindings.rs"

if $check; then
  diff -u "$bindings" "$work/bindings.rs" && echo "$bindings is up to date"
else
  cp "$work/bindings.rs" "$bindings"
  echo "wrote $bindings"
fi

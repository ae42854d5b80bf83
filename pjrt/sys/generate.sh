#!/usr/bin/env bash
# Regenerates src/bindings.rs from the PJRT C API header, or checks that it is up to date.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: pjrt/sys/generate.sh [--check] HEADER

Writes pjrt/sys/src/bindings.rs from HEADER (pjrt_c_api.h). With --check the file is left alone and
the exit status says whether it equals what would be written.

The committed bindings come from C API 0.81: that header works with every later 0.x plugin, because
plugins accept the struct sizes of older callers but reject smaller ones than they were built for.
Get it with

  pip download --no-deps xla-cpu-pjrt==0.0.1 && unzip xla_cpu_pjrt-0.0.1-*.whl

where it is xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h.

Needed while generating only: bindgen (cargo install bindgen-cli --version 0.72.1), libclang (from
the distribution, or `pip install libclang` with LIBCLANG_PATH set to its clang/native folder), gcc
(for its stddef.h) and rustfmt.
TEXT
}

check=false
header=
for argument in "$@"; do
  case "$argument" in
    --help | -h) usage; exit 0 ;;
    --check) check=true ;;
    -*) usage >&2; exit 2 ;;
    *) header=$argument ;;
  esac
done
[[ -f "$header" ]] || { usage >&2; exit 2; }

bindings="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/src/bindings.rs"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

bindgen "$header" \
  --no-doc-comments --no-layout-tests --no-derive-debug --no-prepend-enum-name --use-core \
  --allowlist-type 'PJRT_.*' --allowlist-var 'PJRT_.*' \
  --rust-edition 2024 --rust-target 1.85 \
  -- -isystem "$(gcc -print-file-name=include)" >"$work/raw.rs"

# The header's *_STRUCT_SIZE enumerators become usize constants, and one `versioned!` list ties each
# of them to its struct.
sed -E -e '/^pub type _bindgen_ty_[0-9]+ =/d' \
  -e 's/^(pub const PJRT_\w+_STRUCT_SIZE): _bindgen_ty_[0-9]+/\1: usize/' \
  "$work/raw.rs" >"$work/types.rs"
{
  cat "$work/types.rs"
  echo 'versioned! {'
  # Not PJRT_Api: it is the plugin's table, never a caller's struct.
  awk '/^pub struct PJRT_/ { name = $3; next }
    /^    pub struct_size:/ && name != "PJRT_Api" && name != "" { print name " = " name "_STRUCT_SIZE," }
    { name = "" }' "$work/types.rs"
  echo '}'
} >"$work/bindings.rs"
rustfmt --edition 2024 --config max_width=100,use_small_heuristics=Max "$work/bindings.rs"

if $check; then
  diff -u "$bindings" "$work/bindings.rs" && echo "$bindings is up to date"
else
  cp "$work/bindings.rs" "$bindings"
  echo "wrote $bindings"
fi

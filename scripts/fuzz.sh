#!/usr/bin/env bash
# Search for inputs that make a reader of files and requests fail.
#
#   scripts/fuzz.sh [--seconds N | --smoke] [TARGET ...]
#
#   --seconds N   how long each target is searched (300)
#   --smoke       a minute for all targets together
#
# Without TARGETs all of them, those of fuzz/fuzz_targets. Starts from the examples of this
# repository, from fuzz/regressions and from what earlier runs found, which is kept in the cache
# folder. An input that fails is left in fuzz/artifacts: put it into fuzz/regressions/TARGET under a
# name that says what is wrong with it, and `cargo test -p tlaloc-fuzz-targets` runs it for ever.
#
# Needs cargo-fuzz (cargo install cargo-fuzz --locked); any toolchain will do. The backend's requests
# run on the PJRT plugin that scripts/setup.sh fetches.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds=300 smoke='' targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --smoke) smoke=yes ;;
    --seconds)
      seconds=$(option_value "$@")
      shift
      ;;
    -*) die "unknown argument '$1'; see --help" ;;
    *)
      [[ -e $ROOT/fuzz/fuzz_targets/$1.rs ]] || die "there is no target '$1' in fuzz/fuzz_targets"
      targets+=("$1")
      ;;
  esac
  shift
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds is '$seconds', it should be a positive number"
cargo fuzz --version >/dev/null 2>&1 ||
  die "cargo-fuzz is missing; run: cargo install cargo-fuzz --locked"
if [[ ${#targets[@]} == 0 ]]; then
  for file in "$ROOT"/fuzz/fuzz_targets/*.rs; do
    targets+=("$(basename "$file" .rs)")
  done
fi
seed=0
if [[ -n $smoke ]]; then
  seconds=$(((60 + ${#targets[@]} - 1) / ${#targets[@]}))
  # The same search every time: what comes next to a change is for the long runs to find.
  seed=1
fi

load_environment
cd "$ROOT"
corpus=$CACHE/fuzz
cargo run --quiet --locked -p tlaloc-fuzz-targets --example seeds -- "$corpus/seeds"
# Our code has no unsafe blocks where these targets go, so coverage alone is asked for: that works on
# a stable toolchain, and searches faster. scripts/sanitizers.sh runs the rooms with unsafe code.
options=(--sanitizer none --target-dir "$TARGET/fuzz")
# Built with checks of overflow and of our own assertions.
cargo fuzz build "${options[@]}" >&2

failed=()
for target in "${targets[@]}"; do
  say "$target, $seconds s"
  mkdir -p "$corpus/$target" "$ROOT/fuzz/regressions/$target"
  if ! cargo fuzz run "${options[@]}" "$target" "$corpus/$target" "$corpus/seeds/$target" \
    "$ROOT/fuzz/regressions/$target" -- -max_total_time="$seconds" -timeout=25 \
    -seed="$seed" -rss_limit_mb=4096 -print_final_stats=1 2>"$corpus/$target.log"; then
    failed+=("$target")
    tail -n 30 "$corpus/$target.log" >&2
  fi
  say "$target: $(sed -n 's/^stat::number_of_executed_units: */executions: /p' "$corpus/$target.log")"
done
[[ ${#failed[@]} == 0 ]] ||
  die "failed: ${failed[*]}; the inputs are in fuzz/artifacts, the logs in $corpus"
say "nothing failed"

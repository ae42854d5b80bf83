#!/usr/bin/env bash
# Measure what a decode step and a prefill cost: in a bare loop, through a real
# server, and beside other programs that compute the same model.
#
#   scripts/bench.sh [--rounds N] [--peers] [--quick]
#   scripts/bench.sh --generation [--quick]
#   scripts/bench.sh --report [--quick]
#
#   --rounds N   how often each contestant is measured, in turns (7)
#   --peers      measure jitted JAX, PyTorch and llama.cpp, too; the first time,
#                they are fetched and built (scripts/peers/setup.sh)
#   --quick      two short rounds, to see that everything runs
#   --report     everything, side by side with all peers, Triton's own Python
#                backend among them: ladders of batches, contexts and prompts,
#                load time, the host's part and memory. Writes report.md, plots
#                and measurements.jsonl to target/bench. About 25 minutes, and
#                20 more the first time; with --quick 4
#   --generation measure generation mode instead: 64 clients that stream 128
#                tokens each against the replay of the same calls, and what
#                prompt lookup gives on a copying task; about 5 minutes, and 2
#                more the first time
#
# SmolLM2-135M-Instruct in float32, but for --report at a context of 512; then what tensor mode
# costs above the bare execution of 4 Mi values, and what batching saves. The
# machine should have nothing else to do. Prints Markdown; docs/performance.md says how to read it.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Chunks of two sizes: a prompt's last part takes the small one where it fits.
CROWD_OPTIONS=(--contexts '256,512,1024,2048' --batches '1,4,16' --prefill-batches 1 --prefill-chunk '64,256'
  --num-blocks 2049)
COPYING_OPTIONS=(--contexts 512 --batches 1 --prefill-chunk 256 --verify-chunk 8)
# 18 entries, as scripts/demo.sh has them.
LOAD_OPTIONS=(--contexts '128,512,2048' --batches '1,2,4' --prefill-batches '1,2,4' --prefill-chunk 512)
EXPORT_OPTIONS=(--contexts '128,512' --batches '1,2,4' --prefill-batches '1,2,4' --prefill-chunk 512)

# peer NAME: sets the variables that say where it is; false where it cannot be had.
peer() {
  local assignments log status=0
  log=$(mktemp)
  { assignments=$("$SCRIPTS/peers/setup.sh" "$1") || status=$?; } 2> >(tee "$log" >&2)
  wait $!
  if [[ $status == 0 ]]; then
    eval "$assignments"
  else
    say "$1 is not measured; why is above"
    missing+=("$1 ($(tail -n 1 "$log"))")
  fi
  rm -f "$log"
  return "$status"
}

# Adds to `contestants` the peers that can be had, all as programs of their own.
find_peers() {
  if peer jax; then
    contestants+=(--jax "$JAX_PYTHON" "$SCRIPTS/peers/jax_llama.py" "$TLALOC_SMOLLM2")
  fi
  if peer torch; then
    contestants+=(--torch "$TORCH_PYTHON" "$TORCH_LIBRARIES" "$SCRIPTS/peers/torch_llama.py"
      "$TLALOC_SMOLLM2" "$(nproc)")
  fi
  if peer llama.cpp; then
    contestants+=(--llama "$LLAMA_BENCH" "$LLAMA_BATCHED_BENCH" "$LLAMA_GGUF" "$(nproc)")
  fi
}

version_of_plugin() {
  basename "$(dirname "$(dirname "$TLALOC_PJRT_PLUGIN_PATH")")"
}

facts() {
  local commit
  commit=$(git -C "$ROOT" describe --always --dirty 2>/dev/null || echo unknown)
  cat <<FACTS
* $(date -u +%F), commit $commit
* $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(awk '/^MemTotal/ { print int($2 / 1048576 + 0.5) }' /proc/meminfo) GiB, Linux $(uname -r)
* plugin: $(version_of_plugin) ($(sha256sum <"$TLALOC_PJRT_PLUGIN_PATH" | cut -c1-8)); server: $(basename "${TLALOC_TRITONSERVER%/pytriton/*}"); $(rustc --version)
* $effort; load before the run: $(cut -d ' ' -f 1 /proc/loadavg)
FACTS
}

# Runs on every way out. The driver ends what it has started.
clean_up() {
  local status=$?
  trap - EXIT
  if [[ -n $driver ]]; then
    kill "$driver" 2>/dev/null || true
    wait "$driver" 2>/dev/null || true
  fi
  rm -rf "$work"
  exit "$status"
}

rounds=7 steps=30 prefills=3 peers='' generation='' clients=64 longest=1500 report='' quick=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --peers) peers=yes ;;
    --generation) generation=yes ;;
    --report) report=yes ;;
    --quick) rounds=2 steps=8 prefills=1 clients=6 longest=300 quick=(--quick) ;;
    --rounds)
      rounds=$(option_value "$@")
      shift
      ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
  shift
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "--rounds is '$rounds', it should be a positive number"

load_environment
contestants=() missing=()
[[ -z $peers$report ]] || find_peers

say "building"
build_release
TLALOC_BACKEND_DIR=$(install_backend "$TARGET/release/libtriton_tlaloc.so")
export TLALOC_BACKEND_DIR TLALOC_COMPILE_CACHE_DIR=$CACHE/programs

work=$(mktemp -d "$CACHE/bench.XXXXXX")
driver=''
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# measure WHAT OPTIONS...: runs a driver in the background, because a signal waits for what runs in
# the foreground.
measure() {
  PYTHONPATH=$ROOT/bench:$SCRIPTS "$TLALOC_PYTHON" -m "$@" &
  driver=$!
  if ! wait "$driver"; then
    tail -n 20 "$work"/*.log >&2 || true
    die "a measurement failed; its words, and the end of the server's log, are above"
  fi
  driver=''
}

# What --generation measures.
measure_generation() {
  local header effort="one round of $clients clients, $((rounds < 3 ? 1 : 3)) of the copying task"
  say "exporting"
  "$TARGET/release/tlaloc-export" "$TLALOC_SMOLLM2" --out "$work/crowd" "${CROWD_OPTIONS[@]}" >&2
  "$TARGET/release/tlaloc-export" "$TLALOC_SMOLLM2" --out "$work/copying" "${COPYING_OPTIONS[@]}" >&2
  # model NAME ARTIFACT OPTIONS...
  model() {
    "$TARGET/release/config-gen" "$work/$2" --repository "$work/repository" --name "$1" \
      --mode generate --tokenizer "$TLALOC_SMOLLM2" "${@:3}" >&2
  }
  model crowd crowd --max-prefill-tokens-per-step 256
  model plain copying
  model lookup copying --speculation prompt_lookup
  header=$(facts)
  say "measuring"
  measure generation "$work/repository" --artifact "$work/crowd" --copying "$work/copying" \
    --serve "$SCRIPTS/serve.sh" --bench "$TARGET/release/tlaloc-bench" \
    --plugin "$TLALOC_PJRT_PLUGIN_PATH" --cache "$CACHE/programs" --log "$work/server.log" \
    --clients "$clients" --longest "$longest" --rounds "$((rounds < 3 ? 1 : 3))" >"$work/generation.md"
  printf '%s\n\n' "$header"
  cat "$work/generation.md"
}

if [[ -n $generation ]]; then
  measure_generation
  exit
fi

# What --report measures.
measure_report() {
  local options header effort="a report${quick[*]:+ (--quick)}" out=$TARGET/bench
  local host_work=(cargo test --release --locked --workspace --test host_work)
  [[ -n ${quick[*]} ]] || (cd "$ROOT" && "${host_work[@]}" --no-run >&2)
  options=$(PYTHONPATH=$ROOT/bench:$SCRIPTS "$TLALOC_PYTHON" -m report "${quick[@]}" exports)
  say "exporting"
  mapfile -t options <<<"$options"
  "$TARGET/release/tlaloc-export" "$TLALOC_SMOLLM2" --out "$work/artifact" "${options[@]}" >&2
  "$TARGET/release/tlaloc-export" "$TLALOC_SMOLLM2" --out "$work/loaded" "${LOAD_OPTIONS[@]}" >&2
  "$TARGET/release/config-gen" "$work/artifact" --repository "$work/repository" --name bench >&2
  "$TARGET/release/config-gen" "$work/loaded" --repository "$work/loads" --name loaded >&2
  if peer python-backend; then
    mkdir "$work/backends"
    ln -s "$TLALOC_BACKEND_DIR/tlaloc" "$PYTHON_BACKEND_DIR/python" "$work/backends/"
    contestants+=(--python-backend "$SCRIPTS/serve.sh" "$SCRIPTS/peers/python_backend"
      "$work/python-backend.log" "$work/backends" "$PYTHON_BACKEND_PACKAGES")
  fi
  header=$(facts)
  say "measuring"
  mkdir -p "$out"
  measure report "${quick[@]}" measure "$out/measurements.jsonl" \
    --fixture "$ROOT/tests/fixtures/smollm2.json" \
    --load "$SCRIPTS/serve.sh" "$work/loads" loaded "$work/loads.log" \
    --bench "$TARGET/release/tlaloc-bench" --artifact "$work/artifact" \
    --plugin "$TLALOC_PJRT_PLUGIN_PATH" --cache "$CACHE/programs" \
    --serve "$SCRIPTS/serve.sh" "$work/repository" "$work/server.log" "${contestants[@]}"
  if [[ -n ${quick[*]} ]]; then
    echo "left out" >"$work/host-work.txt"
  else
    say "counting the host's instructions"
    (cd "$ROOT" && "${host_work[@]}" -- --nocapture) >"$work/host-work.txt"
  fi
  "$TARGET/release/tlaloc-bench" compare "$out/measurements.jsonl" >"$work/goals.md"
  printf '%s\n' "$header" >"$work/facts.md"
  measure report "${quick[@]}" write "$out/measurements.jsonl" --into "$out" \
    --facts "$work/facts.md" --goals "$work/goals.md" --loaded "$work/loaded" \
    --host-work "$work/host-work.txt" "${missing[@]/#/--missing=}"
  cat "$out/report.md"
  say "the report and its plots are in $out"
}

if [[ -n $report ]]; then
  measure_report
  exit
fi
effort="$rounds rounds of $steps decode steps and $prefills prefills"
say "exporting"
"$TARGET/release/tlaloc-export" "$TLALOC_SMOLLM2" --out "$work/artifact" "${EXPORT_OPTIONS[@]}" >&2
# The model's weights are hard links and compiled programs are shared: server and
# bare loop run the same code on the same memory.
"$TARGET/release/config-gen" "$work/artifact" --repository "$work/repository" --name bench >&2

header=$(facts)
say "measuring"
measure rounds "$work/measurements.jsonl" \
  --rounds "$rounds" --steps "$steps" --prefills "$prefills" \
  --bench "$TARGET/release/tlaloc-bench" --artifact "$work/artifact" \
  --plugin "$TLALOC_PJRT_PLUGIN_PATH" --cache "$CACHE/programs" \
  --serve "$SCRIPTS/serve.sh" "$work/repository" "$work/server.log" "${contestants[@]}"
measure tensors "$work/tensors" --serve "$SCRIPTS/serve.sh" --bench "$TARGET/release/tlaloc-bench" \
  --rounds "$((rounds < 3 ? rounds : 3))" --log "$work/tensors.log" >"$work/tensors.md"
printf '%s\n\n' "$header"
"$TARGET/release/tlaloc-bench" compare "$work/measurements.jsonl"
printf '\n'
cat "$work/tensors.md"

#!/usr/bin/env bash
# From a checkpoint to an answer: set up, build, export, serve, ask.
#
#   scripts/demo.sh [--question TEXT] [--max-tokens N]
#                   [--checkpoint DIR | --hf-id ORG/NAME] [--keep]
#
# Without a checkpoint it is SmolLM2-135M-Instruct. --hf-id looks the
# checkpoint up in the local Hugging Face cache. --keep leaves the server
# running and says how to chat with it and how to stop it.
#
# The exported artifact is kept in the cache folder of scripts/setup.sh until
# the checkpoint or the exporter changes.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

EXPORT_OPTIONS=(--contexts '128,512,2048' --batches '1,2,4' --prefill-batches '1,2,4' --prefill-chunk 512)

# hugging_face_snapshot ORG/NAME: its folder in the local cache.
hugging_face_snapshot() {
  local hub=${HF_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}
  local repository=$hub/models--${1//\//--} revision
  [[ -f $repository/refs/main ]] ||
    die "$1 is not in the Hugging Face cache $hub; fetch it with: hf download $1"
  revision=$(<"$repository/refs/main")
  printf '%s\n' "$repository/snapshots/$revision"
}

# export_artifact CHECKPOINT NAME: the artifact's folder, exported unless it is at hand.
export_artifact() {
  local checkpoint=$1 name=$2 folder=$CACHE/artifacts key artifact
  key=$({
    sha256sum <"$TARGET/release/tlaloc-export"
    echo "${EXPORT_OPTIONS[@]}"
    realpath "$checkpoint"
    # Size and time stand for the contents: reading a large checkpoint takes long.
    find -L "$checkpoint" -maxdepth 1 -type f -printf '%f %s %T@\n' | sort
  } | sha256sum | cut -c1-16)
  artifact=$folder/$name-$key
  mkdir -p "$folder"
  exec {lock}>"$folder/.lock"
  flock "$lock"
  if [[ ! -d $artifact ]]; then
    say "exporting $checkpoint"
    rm -rf "$folder/$name"-* "$folder"/.partial
    "$TARGET/release/tlaloc-export" "$checkpoint" --out "$folder/.partial" \
      "${EXPORT_OPTIONS[@]}" >&2
    mv -T "$folder/.partial" "$artifact"
  fi
  exec {lock}>&-
  printf '%s\n' "$artifact"
}

# http_ok PORT PATH: whether the server on loopback answers 200.
http_ok() {
  local answer
  exec {connection}<>"/dev/tcp/127.0.0.1/$1" || return
  printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&"$connection"
  read -r answer <&"$connection" || answer=''
  exec {connection}>&-
  [[ $answer == *' 200 '* ]]
} 2>/dev/null

wait_until_ready() {
  local deadline=$((SECONDS + 600))
  until http_ok "$http_port" "/v2/models/$name/ready"; do
    if ! kill -0 "$server" 2>/dev/null || ((SECONDS > deadline)); then
      tail -n 20 "$work/server.log" >&2
      die "the server did not become ready; the end of its log is above"
    fi
    sleep 0.1
  done
}

# Runs on every way out.
clean_up() {
  local status=$?
  trap - EXIT
  if [[ -n $server ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
  exit "$status"
}

question='What is the capital of France? Answer in one sentence.'
max_tokens=256 checkpoint='' hf_id='' keep=''
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --keep)
      keep=yes
      shift
      continue
      ;;
    --question) question=$(option_value "$@") ;;
    --max-tokens) max_tokens=$(option_value "$@") ;;
    --checkpoint) checkpoint=$(option_value "$@") ;;
    --hf-id) hf_id=$(option_value "$@") ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
  shift 2
done
[[ $max_tokens =~ ^[1-9][0-9]*$ ]] || die "--max-tokens is '$max_tokens', it should be a positive number"
[[ -z $checkpoint || -z $hf_id ]] || die "--checkpoint and --hf-id exclude each other"

if [[ -n $hf_id ]]; then
  checkpoint=$(hugging_face_snapshot "$hf_id")
fi
[[ -z $checkpoint || -d $checkpoint ]] || die "the checkpoint $checkpoint is not a folder"
load_environment
checkpoint=${checkpoint:-$TLALOC_SMOLLM2}
# Triton's model names take letters, digits and _.-
name=$(basename "${hf_id:-$(realpath "$checkpoint")}" | tr '[:upper:]' '[:lower:]' | tr -c 'a-z0-9_.\n-' '_')

say "building"
build_release
backends=$(install_backend "$TARGET/release/libtriton_tlaloc.so")
artifact=$(export_artifact "$checkpoint" "$name")

# Beside the artifact, so that the model's weights can be hard links.
work=$(mktemp -d "$CACHE/demo.XXXXXX")
server=''
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"$TARGET/release/config-gen" "$artifact" --repository "$work/repository" --name "$name" >&2

say "starting the server; a first start compiles for a minute (log: $work/server.log)"
read -r http_port grpc_port metrics_port < <(PYTHONPATH=$SCRIPTS "$TLALOC_PYTHON" -c \
  'from tlaloc_client.ports import free_ports; print(*free_ports(3))')
# In a session of its own: a Ctrl-C here must not end it before the sequence ends.
TLALOC_BACKEND_DIR=$backends setsid "$SCRIPTS/serve.sh" --repository "$work/repository" \
  --http-port "$http_port" --grpc-port "$grpc_port" --metrics-port "$metrics_port" \
  -- --exit-timeout-secs 5 >"$work/server.log" 2>&1 &
server=$!
wait_until_ready

say "asking: $question"
chat=("$TLALOC_PYTHON" "$SCRIPTS/chat.py" --url "127.0.0.1:$grpc_port" --model "$name" --checkpoint "$checkpoint")
"${chat[@]}" --question "$question" --max-tokens "$max_tokens"

if [[ -n $keep ]]; then
  trap - EXIT
  say "the server keeps running, its log is $work/server.log"
  say "chat with it:  ${chat[*]@Q} --interactive"
  say "stop it:       kill $server && rm -r $work"
fi

#!/usr/bin/env bash
# Serve a model repository with tritonserver and this backend, on loopback.
#
#   scripts/serve.sh --repository DIR [--http-port N] [--grpc-port N]
#                    [--metrics-port N] [--docker IMAGE] [-- ARGS]
#
# The ports default to Triton's 8000, 8001 and 8002. ARGS go to tritonserver
# as they are. The server runs in the foreground in place of this script: the
# process id stays, Ctrl-C and SIGTERM end it. The backend is built first,
# unless TLALOC_BACKEND_DIR names a folder holding tlaloc/libtriton_tlaloc.so.
# Compiled programs are kept in the cache folder of scripts/setup.sh, or in
# TLALOC_COMPILE_CACHE_DIR; set that empty to compile at every load. The ports
# open when all models are loaded, which takes a while where they must be compiled.
#
# In the released package the backend is there already, and the server and the
# plugin are those of TLALOC_TRITONSERVER (or on the PATH) and TLALOC_PJRT_PLUGIN_PATH.
#
# With --docker the server of an image made from the Dockerfile runs instead,
# with all of the machine's GPUs where there are any.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

repository='' http_port=8000 grpc_port=8001 metrics_port=8002 image=''
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --repository) repository=$(option_value "$@") ;;
    --http-port) http_port=$(option_value "$@") ;;
    --grpc-port) grpc_port=$(option_value "$@") ;;
    --metrics-port) metrics_port=$(option_value "$@") ;;
    --docker) image=$(option_value "$@") ;;
    --)
      shift
      break
      ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
  shift 2
done
[[ -n $repository ]] || die "--repository DIR is missing; see --help"
[[ -d $repository ]] || die "the model repository $repository is not a folder"

# in_container ARGS: in place of this script, as the server would be.
in_container() {
  command -v docker >/dev/null || die "docker is missing; install it, or leave --docker out"
  local options=(
    --rm --init --ipc host --user "$(id -u):$(id -g)"
    --publish "127.0.0.1:$http_port:8000"
    --publish "127.0.0.1:$grpc_port:8001"
    --publish "127.0.0.1:$metrics_port:8002"
    --volume "$(realpath "$repository"):/models:ro"
  )
  [[ ! -e /dev/nvidiactl ]] || options+=(--gpus all)
  local programs=${TLALOC_COMPILE_CACHE_DIR-$CACHE/programs}
  if [[ -n $programs ]]; then
    mkdir -p "$programs"
    options+=(--volume "$(realpath "$programs"):/programs" --env TLALOC_COMPILE_CACHE_DIR=/programs)
  fi
  exec docker run "${options[@]}" "$image" \
    tritonserver --model-repository /models --exit-timeout-secs 5 "$@"
}
[[ -z $image ]] || in_container "$@"

load_environment
backends=${TLALOC_BACKEND_DIR:-$(build_backend)}
[[ -f $backends/tlaloc/libtriton_tlaloc.so ]] ||
  die "$backends holds no tlaloc/libtriton_tlaloc.so; correct or unset TLALOC_BACKEND_DIR"

export TLALOC_COMPILE_CACHE_DIR=${TLALOC_COMPILE_CACHE_DIR-$CACHE/programs}
exec "$TLALOC_TRITONSERVER" \
  --model-repository "$repository" \
  --backend-directory "$backends" \
  --http-address 127.0.0.1 --http-port "$http_port" \
  --grpc-address 127.0.0.1 --grpc-port "$grpc_port" \
  --metrics-address 127.0.0.1 --metrics-port "$metrics_port" \
  --exit-timeout-secs 5 \
  "$@"

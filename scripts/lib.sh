# shellcheck shell=bash
# What the scripts share. Source it after `set -euo pipefail`.
# shellcheck disable=SC2034 # the variables are for the scripts

# Let `set -e` hold inside $(...), too.
shopt -s inherit_errexit

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$SCRIPTS")
# The one folder outside the tree that the scripts write to.
CACHE=${TLALOC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tlaloc-triton}
# Where cargo puts what it builds; a relative CARGO_TARGET_DIR counts from the tree.
TARGET=$(cd "$ROOT" && realpath -m "${CARGO_TARGET_DIR:-target}")

# Standard output is for results; everything said on the way goes to standard error.
say() {
  printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
}

die() {
  say "$@"
  exit 1
}

# Prints the calling script's own help: the comment block below its first line.
usage() {
  sed -n '2,/^[^#]/{ /^#/!q; s/^# \{0,1\}//; p; }' "$0"
}

# option_value OPTION [VALUE]: fails when the command line ends after OPTION.
option_value() {
  [[ $# -ge 2 ]] || die "$1 needs a value; see --help"
  printf '%s' "$2"
}

# load_environment [--with-gemma3]: sets up and exports TLALOC_TRITONSERVER and
# the other variables of `setup.sh --env`. Only tests want Gemma.
load_environment() {
  if [[ ! -e $SCRIPTS/setup.sh ]]; then
    find_runtime
    return
  fi
  local assignments
  [[ ${1-} == --with-gemma3 ]] || local -x TLALOC_GEMMA3=${TLALOC_GEMMA3-}
  assignments=$("$SCRIPTS/setup.sh" --env)
  set -a
  eval "$assignments"
  set +a
}

# For the released package, which sets nothing up: the server and plugin that are there.
find_runtime() {
  local container=/opt/tritonserver/bin/tritonserver
  TLALOC_TRITONSERVER=${TLALOC_TRITONSERVER:-$(command -v tritonserver || echo "$container")}
  [[ -x $TLALOC_TRITONSERVER ]] ||
    die "no tritonserver on the PATH or at $container; set TLALOC_TRITONSERVER to it"
  [[ -n ${TLALOC_PJRT_PLUGIN_PATH:-} ]] || die "set TLALOC_PJRT_PLUGIN_PATH to a PJRT plugin"
  [[ -f $TLALOC_PJRT_PLUGIN_PATH ]] ||
    die "the PJRT plugin $TLALOC_PJRT_PLUGIN_PATH does not exist; correct TLALOC_PJRT_PLUGIN_PATH"
  export TLALOC_TRITONSERVER TLALOC_PJRT_PLUGIN_PATH
}

# Builds everything for release. Always everything: a part of the workspace may want
# fewer features of a dependency, and would have it compiled anew.
build_release() {
  (cd "$ROOT" && cargo build --release --locked >&2)
}

# Builds the backend and prints the folder to give to --backend-directory.
build_backend() {
  # The released package comes with it.
  if [[ -d $ROOT/backends ]]; then
    printf '%s\n' "$ROOT/backends"
    return
  fi
  build_release
  install_backend "$TARGET/release/libtriton_tlaloc.so"
}

# install_backend LIBRARY: lays it out as tritonserver wants to find it. The
# rename leaves a server that has the old library mapped undisturbed.
install_backend() {
  local folder=$TARGET/backends/tlaloc
  mkdir -p "$folder"
  cp "$1" "$folder/.libtriton_tlaloc.so.$$"
  mv -f "$folder/.libtriton_tlaloc.so.$$" "$folder/libtriton_tlaloc.so"
  printf '%s\n' "$TARGET/backends"
}

# Builds what the end-to-end tests run, and exports where it is. What the environment
# names already is left as it is.
build_for_tests() {
  if [[ -z ${TLALOC_BACKEND_DIR-} || -z ${TLALOC_BIN_DIR-} ]]; then
    say "release build"
    build_release
    TLALOC_BACKEND_DIR=$(install_backend "$TARGET/release/libtriton_tlaloc.so")
    TLALOC_BIN_DIR=$TARGET/release
  fi
  export TLALOC_BACKEND_DIR TLALOC_BIN_DIR TLALOC_CACHE=$CACHE
}

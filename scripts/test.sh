#!/usr/bin/env bash
# Set up and run every test.
#
#   scripts/test.sh                        the workspace's tests, the end-to-end tests, and
#                                          scripts/verify.sh in its short form
#   scripts/test.sh --e2e [PYTEST ARGS]    only the end-to-end tests, against a release build
#
# Needs what scripts/setup.sh needs; that runs first. Each runner prints its own summary.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

only_e2e=''
case ${1-} in
  -h | --help)
    usage
    exit
    ;;
  --e2e)
    only_e2e=yes
    shift
    ;;
  '') ;;
  *) die "unknown argument '$1'; see --help" ;;
esac

load_environment --with-gemma3
cd "$ROOT"
if [[ -z $only_e2e ]]; then
  say "tests of the workspace, documentation examples included"
  cargo test --workspace --locked
fi
build_for_tests
say "end-to-end tests"
if [[ -n $only_e2e ]]; then
  "$TLALOC_PYTHON" -m pytest tests "$@"
else
  "$TLALOC_PYTHON" -m pytest tests -m 'not row'
  "$SCRIPTS/verify.sh"
fi

#!/usr/bin/env bash
# Soak a server: 32 clients with random starts, deaths, bad requests and streams that are closed in their
# middle, while another model is loaded again and again.
#
#   scripts/soak.sh [--minutes N] [--seed N]
#
#   --minutes N   how long (30)
#   --seed N      of the clients' choices (0)
#
# Prints what was found: ids that are not another implementation's, pages and ring pages that are not
# free at the end, how much resident memory grew. Fails on a wrong id, a page that is lost, or 1 MiB of
# growth a minute.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1-} in
  -h | --help)
    usage
    exit
    ;;
esac

load_environment
cd "$ROOT"
build_for_tests
PYTHONPATH=$ROOT/tests:$SCRIPTS exec "$TLALOC_PYTHON" -m harness.soak "$@"

#!/usr/bin/env bash
# Check what is promised, on a real server and real models, and print a table.
#
#   scripts/verify.sh [--all]
#
#   --all   every check at its full length, 30 minutes on two cores;
#           without it a short form of those that are long
#
# A row of the table is one check: what it found, the control that must fail
# (the same check on something wrong) and the verdict. Fails when a row fails or
# a control passes. Rows that want what the machine lacks are skipped by name.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

arguments=(-m row --every-row)
case ${1-} in
  -h | --help)
    usage
    exit
    ;;
  --all) arguments+=(--all) ;;
  '') ;;
  *) die "unknown argument '$1'; see --help" ;;
esac
[[ $# -le 1 ]] || die "unknown argument '$2'; see --help"

load_environment --with-gemma3
cd "$ROOT"
build_for_tests
"$TLALOC_PYTHON" -m pytest tests --quiet "${arguments[@]}"

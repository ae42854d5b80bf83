#!/usr/bin/env bash
# Print what other number formats of weights and KV pools cost and save: Markdown
# tables of perplexity, likeliest tokens, greedy ids and bytes against float32.
#
#   scripts/number-formats.sh [TOKENS]
#
#   TOKENS   how much of the text SmolLM2 reads (2000)
#
# Tiny models and SmolLM2-135M-Instruct on a real server, in four windows side by side: about
# 20 minutes.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1-} in
  -h | --help)
    usage
    exit
    ;;
esac
[[ $# -le 1 && ${1-2000} =~ ^[1-9][0-9]*$ ]] || die "the argument is a number of tokens; see --help"

load_environment --with-gemma3
cd "$ROOT"
build_for_tests
PYTHONPATH=$ROOT/tests:$SCRIPTS "$TLALOC_PYTHON" -m harness.formats "$@"

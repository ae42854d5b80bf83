#!/usr/bin/env bash
# Run the rooms that have unsafe code, and those that have none, under what watches memory.
#
#   scripts/sanitizers.sh [address] [thread] [miri]
#
#   address   AddressSanitizer: the tests of triton/ with the mock host, and of pjrt/ with the real
#             plugin behind our calls
#   thread    ThreadSanitizer: the tests of triton/ with the mock host. The real plugin is not built
#             for it: its threads synchronise unseen, and all of it would be reported
#   miri      the interpreter: the pure rooms artifact/ and engine/, with few random cases. It calls no
#             C code, so triton/ and pjrt/ are not for it
#
# Without a name all three. Needs the nightly toolchain with rust-src (the standard library is built
# anew, or ThreadSanitizer does not see its locks) and miri:
#   rustup toolchain install nightly --component rust-src --component miri

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

checks=()
for argument in "$@"; do
  case $argument in
    -h | --help)
      usage
      exit
      ;;
    address | thread | miri) checks+=("$argument") ;;
    *) die "unknown argument '$argument'; see --help" ;;
  esac
done
[[ ${#checks[@]} -gt 0 ]] || checks=(address thread miri)

load_environment
cd "$ROOT"
host=$(rustc -vV | sed -n 's/^host: //p')

# The payload of a panic that was caught is never dropped, which might panic in its turn.
leaks=$(mktemp)
trap 'rm -f "$leaks"' EXIT
printf 'leak:std::panicking\n' >"$leaks"

# sanitized KIND PACKAGES AND OPTIONS...
sanitized() {
  local kind=$1
  shift
  # Documentation examples are built by rustdoc, with flags of its own.
  RUSTFLAGS="-Zsanitizer=$kind" RUSTDOCFLAGS="-Zsanitizer=$kind" cargo +nightly test -Zbuild-std --locked --target "$host" \
    --target-dir "$TARGET/sanitizers/$kind" "$@"
}

for check in "${checks[@]}"; do
  say "$check"
  case $check in
    address)
      LSAN_OPTIONS=suppressions=$leaks sanitized address -p triton-backend -p triton-mock-host
      # The plugin keeps what it has allocated until the process ends, and one test asks it for more
      # than there is. Another looks at resident memory, which the sanitizer keeps. pjrt-fault, loaded
      # as a library, would not find the sanitizer in the program.
      ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 sanitized address -p tlaloc-pjrt -- \
        --skip a_client_is_shared_logged_and_destroyed_with_its_last_use
      ;;
    thread)
      sanitized thread -p triton-backend -p triton-mock-host
      ;;
    miri)
      PROPTEST_CASES=4 TLALOC_SIM_SCHEDULES=3 MIRIFLAGS=-Zmiri-disable-isolation \
        cargo +nightly miri test --locked --target-dir "$TARGET/sanitizers/miri" \
        -p tlaloc-artifact -p tlaloc-engine
      ;;
  esac
done
say "nothing was found"
